"""Between tensors and the rest of Python: numbers, lists, arrays, other dtypes; and what a tensor says about itself."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from eagerjit.compiler import layout
from eagerjit.compiler.ir import Node
from eagerjit.compiler.shapes import contiguous_strides
from eagerjit.devices import CPU, Device
from eagerjit.ops import views
from eagerjit.ops.counted import measured
from eagerjit.ops.index import concrete, own_array
from eagerjit.ops.strided import give_memory, memory_of, share_whole
from eagerjit.recording.arrays import TracedArray
from eagerjit.recording.channels_last import FORMATS
from eagerjit.recording.memory_order import laid_out, refuse_single
from eagerjit.recording.numbers import TracedFloat, wrap
from eagerjit.runtime import dtypes, making, mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.meta_array import MetaArray
from eagerjit.runtime.remembered import Remembered
from eagerjit.state import state
from eagerjit.tensors import creation
from eagerjit.tensors.limits import check_format
from eagerjit.tensors.making import strided
from eagerjit.tensors.mistakes import only_tensor
from eagerjit.tensors.placement import array_at, device_of, host_array, wanted
from eagerjit.tensors.tensor import Parameter, Tensor, is_asked, new_tensor

# -- to numbers and arrays --------------------------------------------------------------------------------------------


def _asked(tracer: Any, input: Tensor, reason: str, likely: Any = None) -> Any:
    """A number that Python code acts on: this call's, and a condition of the compiled call."""
    node = tracer.value(input.reshape(()).clone())
    value = tracer.ask(node, reason, likely=likely)
    return float(value) if input.dtype.is_floating_point else value


LISTED = 64
"""Elements up to which a trace makes each number of a list one of the call's own."""


_NO_NUMBERS = (dtypes.uint64, dtypes.complex64, dtypes.complex128, dtypes.NAMED["complex32"])
"""Dtypes whose elements are no numbers of compiled calls: those are signed and real."""


def item(input: Tensor) -> Any:
    """The one element as a Python number. RuntimeError for tensors of more or fewer elements, and on meta.

    On a device it waits for what computes the element; compiled calls make what it says a condition or a size.
    """
    tracer = state.tracer
    if tracer is not None and input.numel() == 1 and input.dtype not in _NO_NUMBERS:
        if input.dtype.is_floating_point:
            return TracedFloat(tracer.value(input.reshape(()).to(dtypes.float64, copy=True)), None)
        if input.dtype is not dtypes.bool_:
            return measured(input, "a tensor's value was asked for with item()", negative=True)
        return _asked(tracer, input, "a tensor's value was asked for with item()")
    if tracer is None:
        array = input._data
        if type(array) is not np.ndarray:
            if type(array) is MetaArray and array.size == 1:
                raise RuntimeError("Tensor.item() cannot be called on meta tensors")
            array = host_array(array) if array.size == 1 else array
        if array.size == 1 and array.dtype.kind in "fib":
            return array.item()
    array = own_array(input, "a tensor's value was asked for with item()")
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    value = host_array(array).reshape(()).item()
    return float(value) if input.dtype.is_floating_point else value


def scalar(input: Tensor) -> Any:
    """The one element, for int() and float()."""
    if input.numel() != 1:
        shape = list(input.shape)
        raise ValueError(f"only one element tensors can be converted to Python scalars, not one of shape {shape}")
    return item(input)


def real_scalar(input: Tensor) -> Any:
    """The one element, for int() and float(), which take complex numbers without imaginary part."""
    value = scalar(input)
    if type(value) is not complex:
        return value
    if value.imag:
        raise RuntimeError("value cannot be converted to a real number without overflow")
    return value.real


def tolist(input: Tensor) -> Any:
    """Nested lists of Python numbers, one level for each dimension; the number itself without dimensions."""
    if state.tracer is not None and input.numel() <= LISTED:
        return [tolist(part) for part in input.unbind()] if input.ndim else item(input)
    array = concrete(input, "a tensor's values were asked for with tolist()")
    return (array.astype(np.float32) if array.dtype == dtypes.bfloat16.numpy else array).tolist()


def numpy(input: Tensor, *, force: bool = False) -> np.ndarray:
    """An ndarray over the same memory.

    Raises RuntimeError for a tensor that requires grad where gradients are recorded, and TypeError for one on a device,
    unless `force`: then it is the values.
    """
    if input._requires_grad and mode.grad_mode() and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if not force and (place := device_of(input)) is not CPU:
        raise TypeError(
            f"can't convert {place} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first."
        )
    if getattr(state.tracer, "host", None) is not None:
        return TracedArray(input.detach(), shown=True)  # type: ignore[return-value]
    return concrete(input, "a tensor was turned into an ndarray").view()


def to_array(input: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's view of a tensor."""
    array = numpy(input) if state.tracer is None else concrete(input, "NumPy was given a tensor")
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def truth(input: Tensor) -> bool:
    """bool() of a tensor with one element."""
    tracer = state.tracer
    if tracer is not None and input.numel() == 1:
        return bool(_asked(tracer, input != 0, "a tensor's value decided a branch"))
    array = own_array(input, "a tensor's value decided a branch")
    if array.size == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if array.size > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(item(input))


def passes(check: Tensor) -> bool:
    """bool() of a 0-d tensor of bools, which is true in all calls but wrong ones."""
    tracer = state.tracer if type(check) is Tensor else None
    return bool(check if tracer is None else _asked(tracer, check, "a tensor's value decided a branch", True))


def as_index(input: Tensor) -> int:
    """The one integer as an index."""
    if input.dtype.is_floating_point or input.numel() != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(input))


def length(input: Tensor) -> Any:
    """The size of the first dimension."""
    if input.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return int(input.shape[0])


def iterate(input: Tensor) -> Any:
    """The slices along the first dimension."""
    if input.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(input.unbind(0))


def contains(input: Tensor, element: Any) -> bool:
    """Whether an element equals the number."""
    if not isinstance(element, (Tensor, Number)):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
    return bool((input == element).any())


def formatted(input: Tensor, specification: str) -> str:
    """A 0-d tensor formats as its number."""
    plain = input.ndim == 0 and type(input) is Tensor and not input.is_meta
    if not plain and specification:
        raise TypeError(f"unsupported format string passed to {type(input).__name__}.__format__")
    return format(item(input), specification) if plain else format(shown(input), specification)


def shown(input: Tensor) -> str:
    """The tensor's text."""
    from eagerjit.tensors.printing import format_tensor

    return format_tensor(input)


# -- what it is -------------------------------------------------------------------------------------------------------


@Remembered
def is_contiguous(input: Tensor, *, memory_format: Any = None) -> bool:
    """Whether elements lie in row-major order, or with channels last, without gaps."""
    if memory_format is not None:
        rank = FORMATS.get(getattr(memory_format, "name", ""))
        if rank is not None:
            return input.ndim == rank and is_contiguous(input.movedim(1, -1))
        check_format("is_contiguous", memory_format, input.ndim)
    if state.tracer is not None:
        return _is_contiguous_node(laid_out(state.tracer, input))
    return input._data.flags.c_contiguous


def _is_contiguous_node(node: Node) -> bool:
    """The same in a trace; where algebra cannot tell, the sizes and strides of this call decide and are guarded."""
    if layout.is_contiguous(node):
        return True
    shape = [wrap(d) for d in node.type.shape]
    if any(d == 0 for d in shape):
        return True
    if "leaf" in node.attributes:
        return False
    actual = [wrap(s) for s in layout.layout(node).strides]
    expected = contiguous_strides(node.type.shape)
    return all(d == 1 or a == wrap(e) for d, a, e in zip(shape, actual, expected, strict=True))


@Remembered
def stride(input: Tensor, dim: int | None = None) -> Any:
    """Steps in elements, per dimension."""
    if state.tracer is not None:
        refuse_single(input.shape if dim is None else (input.shape[views.dimension(dim, input.ndim)],))
        steps = tuple(map(wrap, layout.layout(laid_out(state.tracer, input)).strides))
    elif input._data.size:
        steps = tuple(s // input._data.itemsize for s in input._data.strides)
    else:  # NumPy's are any
        steps = contiguous_strides(tuple(max(d, 1) for d in input._data.shape))
    return steps if dim is None else steps[views.dimension(dim, len(steps))]


@Remembered
def size(input: Tensor, dim: int | None = None) -> Any:
    """All sizes, or one."""
    shape = input.shape
    return shape if dim is None else shape[views.dimension(dim, len(shape))]


@Remembered
def numel(input: Tensor) -> Any:
    """The number of elements."""
    only_tensor("numel", input)
    return input.shape.numel()


def storage_offset(input: Tensor) -> int:
    """Elements before the first one in the memory that the tensor views."""
    return memory_of(input)[1]


def data_ptr(input: Tensor) -> int:
    """The address of the first element; on meta, where there is none, how far it is from the first of its storage."""
    array = own_array(input, "a tensor's address was asked for")
    return array.ctypes.data - (array.memory.address if type(array) is MetaArray and array.size else 0)


def _new(function: Any) -> Any:
    def method(self: Tensor, *args: Any, dtype: DType | None = None, **kwargs: Any) -> Tensor:
        if "device" not in kwargs and (state.device is not None or type(self._data) is not np.ndarray):
            kwargs["device"] = device_of(self)
        return function(*args, dtype=dtype or self.dtype, **kwargs)

    method.__name__ = f"new_{function.__name__}"
    method.__doc__ = f"`{function.__name__}` where this tensor lies, of its dtype unless one is named."
    return method


NEW = {f"new_{name}": _new(getattr(creation, name)) for name in ("full", "tensor", "empty", "zeros", "ones")}
for _name, _kind, _operator in (
    ("new_empty", making.EMPTY, None),
    ("new_zeros", making.ZEROS, creation.WITH_ZEROS),
    ("new_ones", making.ONES, creation.WITH_ONES),
):
    NEW[_name] = making.MakeCall(making.NEW + _kind, NEW[_name], _operator)


def get_data(self: Tensor) -> Tensor:
    """The same memory without history, and without in-place writes being noticed."""
    if state.tracer is not None:
        return state.tracer.silence(views.detach(self))
    made = new_tensor(self._data)
    share_whole(made, self)
    return made


def set_data(self: Tensor, value: Tensor) -> None:
    """Give the tensor other memory."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if state.tracer is not None:
        from eagerjit.recording.given_memory import give

        return give(state.tracer, self, value, views.detach, set_data)
    if isinstance(self._data, MetaArray) is not isinstance(value._data, MetaArray):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type: "
            f"one lies on {device_of(self)} and the other on {device_of(value)}."
        )
    if self._requires_grad and not value.dtype.is_differentiable:
        raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
    give_memory(self, value)


def reduce_ex(self: Tensor, protocol: Any) -> Any:
    """How pickle makes the tensor anew."""
    array = own_array(self, "a tensor was pickled")
    kind = type(self) if is_asked(type(self)) else Parameter if isinstance(self, Parameter) else Tensor
    if isinstance(array, MetaArray):
        return rebuild_on_meta, (kind, tuple(array.shape), self.stride(), self.dtype, self._requires_grad)
    array = host_array(array)
    place = device_of(self)
    given = () if place is CPU else (place,)
    made = rebuild, (kind, np.ascontiguousarray(array).reshape(array.shape), self._requires_grad, *given)
    return (*made, self.__dict__) if kind not in (Parameter, Tensor) and self.__dict__ else made


def rebuild(kind: type, array: np.ndarray, requires_grad: bool, place: Device = CPU) -> Tensor:
    """A tensor from its pickled parts."""
    own = array.view(dtypes.BY_NUMPY[array.dtype].numpy)  # pickled dtypes are objects of their own
    made = new_tensor(own if place == CPU else array_at(own, wanted(place)), kind)
    made._requires_grad = requires_grad
    return made


def rebuild_on_meta(kind: type, shape: Any, strides: Any, dtype: DType, requires_grad: bool) -> Tensor:
    """A tensor on meta from what it was pickled as."""
    from eagerjit.ops.made import empty_strided

    made = new_tensor(empty_strided(shape, strides, dtype=dtype, device="meta")._data, kind)
    made._requires_grad = requires_grad
    return made


def _part(self: Tensor, name: str) -> Tensor:
    if name == "real" and not self.dtype.is_complex:
        return self
    from eagerjit.ops import complexes

    return getattr(complexes, name)(self)


def _set_part(self: Tensor, name: str, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        raise TypeError(f"can't assign a {type(value).__name__} to the {name} part of a tensor")
    part = _part(self, name)
    part.copy_(value) if isinstance(value, Tensor) else part.fill_(value)


def _transposed(input: Tensor) -> Tensor:
    if input.ndim == 1:
        raise RuntimeError("tensor.H is only supported on matrices (2-D tensors). Got 1-D tensor.")
    return views.t(input)


def _swapped(self: Tensor, name: str) -> Tensor:
    if self.ndim == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
        )
    return views.transpose(self, -2, -1) if self.ndim else self


def identity(input: Tensor) -> int:
    """A number that no other tensor has as long as this one lives."""
    own_array(input, "it was asked which tensor one is")
    return id(input)


def constant_property(value: Any, doc: str) -> property:
    """A property that says the same of every tensor."""
    return property(lambda self: value, doc=doc)


PROPERTIES = {
    "data": property(get_data, set_data, doc="The same memory without history."),
    "device": property(device_of, doc="Where the tensor lives."),
    "layout": constant_property(strided, "How elements lie in memory."),
    "_cdata": property(identity, doc="A number by which packages know a tensor."),
    "itemsize": property(lambda self: self.dtype.itemsize, doc="Bytes per element."),
    "nbytes": property(lambda self: numel(self) * self.dtype.itemsize, doc="Bytes of all elements."),
    "T": property(views.reversed_dims, doc="Dimensions in reverse order."),
    "mT": property(lambda self: _swapped(self, "mT"), doc="The last two dimensions swapped."),
    "real": property(
        lambda self: _part(self, "real"),
        lambda self, value: _set_part(self, "real", value),
        doc="Real parts: a view; a real tensor itself. To assign is to copy to it.",
    ),
    "imag": property(
        lambda self: _part(self, "imag"),
        lambda self, value: _set_part(self, "imag", value),
        doc="Imaginary parts: a view. To assign is to copy to it.",
    ),
    "mH": property(lambda self: _swapped(self, "mH").conj(), doc="`mT`, conjugated."),
    "H": property(lambda self: _transposed(self).conj(), doc="The transpose of a matrix, conjugated."),
}
