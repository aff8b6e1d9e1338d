"""Messages of errors say which operation refuses what, where Python's own would not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.nn import functional as F

MESSAGES: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "stack(): 'NoneType' object is not iterable": (TypeError, lambda: torch.stack(None)),
    "clamp(): unsupported operand: str": (TypeError, lambda: torch.clamp_max(torch.ones(3), "a")),
    "addmv(): unsupported operand type(s) for *: 'Tensor' and 'NoneType'": (
        TypeError,
        lambda: torch.addmv(torch.ones(3), torch.ones(3, 3), torch.ones(3), beta=None),
    ),
    "isclose(): '>=' not supported between instances of 'str' and 'int'": (
        TypeError,
        lambda: torch.allclose(torch.ones(3), torch.ones(3), rtol="a"),
    ),
    "expand(): sizes must be ints, not str": (TypeError, lambda: torch.ones(3).expand("a")),
    "zeros(): sizes must be ints, not str": (TypeError, lambda: torch.zeros("a")),
    "randn(): sizes must be ints, not str": (TypeError, lambda: torch.randn("a")),
    "empty(): argument 'requires_grad' must be bool, not NoneType": (
        TypeError,
        lambda: torch.empty(3, requires_grad=None),
    ),
    "tensor(): argument 'requires_grad' must be bool, not int": (TypeError, lambda: torch.tensor(3, requires_grad=2)),
    "cat(): expected Tensor as element 1 in argument 0, but got int": (
        TypeError,
        lambda: torch.cat([torch.ones(3), 1]),
    ),
    "local_response_norm(): argument 'beta' (position 4) must be float, not str": (
        TypeError,
        lambda: F.local_response_norm(torch.ones(1, 1, 3), 2, beta="a"),
    ),
    "fft() got an unexpected keyword argument 'length'": (TypeError, lambda: torch.fft.fft(torch.ones(3), length=1)),
    "fft() missing 1 required positional argument: 'input'": (TypeError, lambda: torch.fft.fft()),
    "float() got an unexpected keyword argument 'dtype'": (TypeError, lambda: torch.ones(3).float(dtype=1)),
    "cholesky_inverse(): tuple index out of range, where the shapes are 'input' []": (
        IndexError,
        lambda: torch.cholesky_inverse(torch.tensor(1.0)),
    ),
    "ctc_loss(): not enough values to unpack (expected 3, got 0), where the shapes are 'log_probs' [], "
    "'targets' [3], 'input_lengths' [3], 'target_lengths' [3]": (
        ValueError,
        lambda: F.ctc_loss(torch.tensor(1.0), torch.ones(3), torch.ones(3), torch.ones(3)),
    ),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_message(message: str) -> None:
    kind, call = MESSAGES[message]
    for called in (call, torch.jit(call)):
        with pytest.raises(kind) as error:
            called()
        assert str(error.value) == message


def test_messages_of_the_users_code_stay_as_they_are() -> None:
    class Sizes:
        def __iter__(self) -> Any:
            raise TypeError("mine")

    class Size:
        def __index__(self) -> int:
            raise TypeError("mine too")

    def beyond_the_end(*tensors: Any) -> Any:
        return tensors[2]

    x = torch.ones(2, 2)
    with pytest.raises(IndexError, match=r"^tuple index out of range$"):
        F.triplet_margin_with_distance_loss(x, x, x, distance_function=beyond_the_end)
    with pytest.raises(TypeError, match=r"^mine$"):
        torch.stack(Sizes())
    with pytest.raises(TypeError, match=r"^mine too$"):
        torch.ones(Size())


@torch.jit
def factor(matrix: Any) -> Any:
    return torch.linalg.cholesky(matrix)


def test_errors_of_library_calls_in_compiled_functions_name_the_line() -> None:
    factor(torch.eye(3))
    with pytest.raises(torch.linalg.LinAlgError) as error:
        factor(-torch.eye(3))
    line = factor.__wrapped__.__code__.co_firstlineno + 2
    assert error.value.__notes__ == [f"Compiled from {__file__}:{line}."]
    with pytest.raises(torch.linalg.LinAlgError) as plain:
        torch.linalg.cholesky(-torch.eye(3))
    assert str(plain.value) == str(error.value) and not hasattr(plain.value, "__notes__")
