"""`torch.testing._internal.common_utils`: test cases whose `assertEqual` compares tensors."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np

from eagerjit.tensors.creation import as_tensor
from eagerjit.tensors.tensor import Tensor
from eagerjit.testing import assert_close

__all__ = ["TestCase", "run_tests"]

_NUMBERS = (int, float, complex)


class TestCase(unittest.TestCase):
    """A test case that compares tensors, arrays and numbers by closeness, in lists, tuples and dictionaries too."""

    __test__ = False

    def __init_subclass__(cls) -> None:
        cls.__test__ = True
        super().__init_subclass__()

    def assertEqual(
        self, first: Any, second: Any, msg: Any = None, *, atol: float | None = None, rtol: float | None = None,
        equal_nan: bool = True, exact_dtype: bool = True, exact_device: bool = False, exact_stride: bool = False,
    ) -> None:  # fmt: skip
        """Fail where the two are not close, or not equal where they are no numbers."""
        options: dict[str, Any] = {"atol": atol, "rtol": rtol, "equal_nan": equal_nan, "exact_dtype": exact_dtype}
        if isinstance(first, dict) and isinstance(second, dict):
            super().assertEqual(first.keys(), second.keys(), msg)
            for key in first:
                self.assertEqual(first[key], second[key], msg, **options)
        elif isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
            super().assertEqual(len(first), len(second), msg)
            for one, other in zip(first, second, strict=True):
                self.assertEqual(one, other, msg, **options)
        elif _is_number(first) and _is_number(second):
            first, second = _alike(first, second)
            assert_close(
                first, second, atol=atol, rtol=rtol, equal_nan=equal_nan, check_dtype=exact_dtype,
                check_device=exact_device, check_stride=exact_stride, msg=msg,
            )  # fmt: skip
        else:
            super().assertEqual(first, second, msg)


def _is_number(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, np.generic, *_NUMBERS))


def _alike(first: Any, second: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors; a number is of the other's dtype."""
    if isinstance(first, _NUMBERS) and isinstance(second, Tensor):
        return as_tensor(first, dtype=second.dtype, device=second.device), second
    if isinstance(second, _NUMBERS) and isinstance(first, Tensor):
        return first, as_tensor(second, dtype=first.dtype, device=first.device)
    return as_tensor(first), as_tensor(second)


def run_tests() -> None:
    """Run the tests of the program."""
    unittest.main()
