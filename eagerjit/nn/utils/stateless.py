"""Modules called with other parameters, under PyTorch's older name."""

from eagerjit.func.modules import functional_call

__all__ = ["functional_call"]
