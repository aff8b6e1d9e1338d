"""Modules called with other parameters, under PyTorch's older name."""

from eagerjit.func.modules import functional_call
from eagerjit.func.modules import reparametrized as _reparametrize_module

__all__ = ["_reparametrize_module", "functional_call"]
