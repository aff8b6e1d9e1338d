"""`torch.distributed.algorithms`: what is computed with the help of all processes, or around Modules of theirs."""

from eagerjit.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
