"""Samples of every name that public PyTorch programs use: what the generic test compares with PyTorch, name by name."""
