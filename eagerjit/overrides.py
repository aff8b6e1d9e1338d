"""Whether objects take over functions they are passed to: none does, beyond what NumPy's protocols offer."""

from __future__ import annotations

from typing import Any

from eagerjit.tensor import Tensor


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a Tensor, or has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Any) -> bool:
    """Whether an argument has `__torch_function__`."""
    return any(not isinstance(a, Tensor) and hasattr(a, "__torch_function__") for a in relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """The same of one argument."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*args: Any) -> bool:
    """The same of several arguments."""
    return has_torch_function(args)


def handle_torch_function(public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the first argument that has `__torch_function__` compute the call."""
    for argument in relevant_args:
        if has_torch_function((argument,)):
            types = tuple({type(a) for a in relevant_args if has_torch_function((a,))})
            result = argument.__torch_function__(public_api, types, args, kwargs)
            if result is not NotImplemented:
                return result
    raise TypeError(f"no implementation found for {public_api.__name__} on types that implement __torch_function__")


class TorchFunctionMode:
    """What sees every call of a function of the library in PyTorch. Raises NotImplementedError where it is entered."""

    def __enter__(self) -> Any:
        raise NotImplementedError("eagerjit has no dispatch that a TorchFunctionMode could take part in")

    def __exit__(self, *exc: object) -> None:
        """It was never entered."""


BaseTorchFunctionMode = TorchFunctionMode
