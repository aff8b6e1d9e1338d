"""What the command line asks: which names exist, which a program uses, what differs from PyTorch."""
