"""PyTorch's place of the contexts that turn gradients on and off."""

from eagerjit.autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
