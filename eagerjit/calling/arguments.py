"""What the arguments of an op are to its Programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.runtime.binding import is_tensor
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.tensors.tensor import Tensor


def constant(value: Any) -> tuple[type, Any]:
    """What a Program knows a constant by: equal numbers may be others, as 1 and 1.0, or 0.0 and -0.0."""
    return (float, value.hex()) if type(value) is float else (type(value), value)


def settled(argument: Any) -> Any:
    """An argument that nobody changes later: a plain tuple for a list or tuple, Python's numbers for NumPy's."""
    if isinstance(argument, (list, tuple)):
        return tuple([x.item() if isinstance(x, np.generic) else x for x in argument])
    return argument.item() if isinstance(argument, np.generic) else argument


def refusal(name: str, arguments: tuple[Any, ...]) -> Exception:
    """What an op raises that cannot run the Program compiled for these very arguments."""
    for one in (x for a in arguments for x in (a if type(a) is tuple else (a,))):
        if isinstance(one, Tensor) and not is_tensor(one):
            kind = type(one).__name__
            return NotImplementedError(f"{name}(): a {kind} is given; of the subclasses of Tensor ops take Parameter's")
    return RuntimeError(f"{name}: the program compiled for this call refuses it")


def class_of(tensor: Tensor) -> Any:
    """What a Program knows a tensor by: dtype, which sizes are 0 or 1, whether its elements lie in order, and where."""
    array = tensor._data
    if isinstance(array, DeviceArray):
        sizes = tuple([d if d < 2 else 2 for d in array.shape])
        return array.dtype.num, sizes, array.flags.c_contiguous, array.memory.device.index
    if type(array) is not np.ndarray:
        kind = "a traced" if type(array) is Node else "an invalid"
        raise RuntimeError(f"{kind} tensor was used outside its trace")
    return array.dtype.num, tuple([d if d < 2 else 2 for d in array.shape]), array.flags.c_contiguous
