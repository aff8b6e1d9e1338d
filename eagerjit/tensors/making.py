"""The options that functions which make tensors have in common: dtype, layout, pinned memory, `out=`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from eagerjit.compiler.shapes import inverse
from eagerjit.devices import CPU, Device
from eagerjit.recording.channels_last import FORMATS, last_order
from eagerjit.recording.memory_order import Order, in_order, laid_out, order_of_array, result_order
from eagerjit.runtime import dtypes
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.parameters import parameters
from eagerjit.state import Defaults, note_leaf, state, swap_device
from eagerjit.tensors.limits import check_format, keeps_order
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.placement import device_of, moved, wanted
from eagerjit.tensors.tensor import Tensor, new_tensor


class layout:
    """How the elements of a tensor lie in memory."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return (layout_named, (self.name,))


def layout_named(name: str) -> layout:
    """A layout by its name."""
    return LAYOUTS[name]


strided, jagged = layout("strided"), layout("jagged")
sparse_coo, sparse_csr, sparse_csc = layout("sparse_coo"), layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
SPARSE = (sparse_coo, sparse_csr, sparse_csc)
LAYOUTS = {made.name: made for made in (strided, jagged, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)}

PYTHON_TYPES = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool_, complex: dtypes.complex128}
"""The dtypes that Python's number types stand for."""


def dtype_argument(name: str, dtype: Any) -> DType | None:
    """A dtype, given as such or as a Python type. Raises TypeError for anything else."""
    if dtype is None or isinstance(dtype, DType):
        return dtype
    found = PYTHON_TYPES.get(dtype) if isinstance(dtype, type) else None
    if found is None:
        raise TypeError(f"{name}(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    return found


def check_layout(name: str, wanted: Any, refusal: type[Exception]) -> None:
    """Refuse layouts that tensors here do not have."""
    if wanted is None or wanted is strided:
        return
    if not isinstance(wanted, layout):
        raise TypeError(f"{name}(): argument 'layout' must be torch.layout, not {type(wanted).__name__}")
    raise refusal(f"{name}(): the tensors that it makes are strided, not of layout {wanted}")


def makes(function: Callable[..., Tensor], refusal: type[Exception] = NotImplementedError) -> Callable[..., Tensor]:
    """The function as users call it, with the options that all functions which make tensors take.

    Layouts that it does not make are refused by a `refusal`.
    """
    name = function.__name__
    taken = parameters(function)
    like = name.endswith("_like")
    has_out = not (like or name.endswith(("_window", "_indices", "_strided")) or name == "scalar_tensor")
    sized = taken.more and not taken.names
    formatted = like or name == "empty"

    @functools.wraps(function)
    def make(*args: Any, **options: Any) -> Tensor:
        if like and not (args and isinstance(args[0], Tensor)):
            args, options = (_pattern(name, args, options), *args[1:]), options
        if sized and "size" in options and not args:
            args = (_size(name, options.pop("size")),)
        if "memory_format" in options and formatted:
            return _in_format(make, args, options)
        if like and (order := _order_of(args[0])) is not None:
            return _in_order(make, order, (args[0].detach().permute(order), *args[1:]), options)
        if not options and state.device is None and not (like and DeviceArray.exist):
            return function(*args)
        if "layout" in options:
            wanted_layout = options.pop("layout")
            if name in ("zeros", "empty") and wanted_layout in SPARSE:
                return _sparse(args, options, wanted_layout)
            check_layout(name, wanted_layout, refusal)
        pinned = options.pop("pin_memory", False)
        place = _place(options, args[0] if like else None)
        out = options.pop("out", None) if has_out else None
        if "out" in options:
            raise TypeError(f"{name}() got an unexpected keyword argument 'out'")
        if "dtype" in options:
            options["dtype"] = dtype_argument(name, options["dtype"])
        if out is not None:
            _take_dtype(name, out, options, "dtype" in (*taken.names, *taken.keywords))
        if place is None and state.device is None:
            made = function(*args, **options)
        else:
            made = _made_at(place, function, args, options)
        made = made.pin_memory() if pinned else made
        if out is not None and name in _RANGES and made.numel() == out.numel():
            made = made.reshape(out.shape)
        return made if out is None else write_out(name, made, out, filled=True)

    return make


def _in_format(make: Callable[..., Tensor], args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    """What is made in a memory format, of sizes or like a tensor."""
    memory_format = options.pop("memory_format")
    name, like = make.__name__, isinstance(args[0], Tensor) if args else False
    if like:
        shape = tuple(args[0].shape)
    else:
        first = options["size"] if not args else args[0]
        shape = tuple(first) if isinstance(first, (tuple, list)) else args
    check_format(name, memory_format, len(shape))
    if keeps_order(memory_format):
        if memory_format is not None and not like:
            raise RuntimeError("unsupported memory format Preserve")
        return make(*args, **options)
    if memory_format.name in FORMATS:
        order = last_order(len(shape))
        sizes = tuple([shape[d] for d in order])
        turned = (args[0].new_empty(sizes), *args[1:]) if like else (sizes,)
        return _in_order(make, order, turned, options)
    return make(args[0].new_empty(shape), *args[1:], **options) if like else make(*args, **options)


def _order_of(pattern: Tensor) -> Order | None:
    """The order in memory of what is made like a tensor; None for row-major order."""
    tracer = state.tracer
    if tracer is not None:
        return result_order([laid_out(tracer, pattern)])
    return order_of_array(pattern._data)


def _in_order(
    make: Callable[..., Tensor], order: Order, turned: tuple[Any, ...], options: dict[str, Any]
) -> Tensor:
    """What is made of arguments whose dimensions are in an order of memory, with these back in their own."""
    requires_grad, tracer = options.pop("requires_grad", False), state.tracer
    made = make(*turned, **options)
    if tracer is None:
        found = new_tensor(made._data.transpose(inverse(order)))
    else:
        found = tracer.wrap(in_order(tracer, tracer.value(made), order))
    return note_leaf(found).requires_grad_(requires_grad) if requires_grad else found


def _sparse(args: Any, options: dict[str, Any], wanted_layout: layout) -> Tensor:
    """A tensor of a sparse layout without values."""
    from eagerjit.sparse.construction import zeros_of_layout

    sizes = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    made = zeros_of_layout(sizes, wanted_layout, options.get("dtype") or Defaults.dtype, options.get("device"))
    return made.requires_grad_(bool(options.get("requires_grad", False)))


def _size(name: str, size: Any) -> Any:
    """Sizes given by name, which have to be a sequence."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"{name}(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    return size


def _pattern(name: str, args: Any, options: dict[str, Any]) -> Tensor:
    """What a tensor is made like, given by name; taken out of the options. Raises TypeError if there is none."""
    if not args and "input" not in options:
        raise TypeError(f'{name}() missing 1 required positional arguments: "input"')
    found = args[0] if args else options.pop("input")
    if not isinstance(found, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(found).__name__}")
    return found


def _place(options: dict[str, Any], pattern: Tensor | None) -> Device | None:
    """The device that a tensor is to be made on, None for the host: asked for, the pattern's, or the default."""
    device = options.pop("device", None)
    if state.tracer is not None and state.tracer.values_only:
        return None
    if device is None and pattern is not None:
        here = device_of(pattern)
        return None if here is CPU else here
    if device is None and isinstance(options.get("out"), Tensor):
        device = device_of(options["out"])
    return wanted(device)


_RANGES = ("arange", "linspace", "logspace", "range")
"""What fills `out` in the shape that it has, if that has as many elements."""

_THERE = frozenset(
    """empty full zeros ones empty_like full_like zeros_like ones_like scalar_tensor rand randn randint rand_like
    randn_like randint_like randperm empty_strided empty_permuted""".split()
)
"""What makes tensors on a device itself, by asking `state.device`; others are made on the host and moved."""


def _made_at(place: Device | None, function: Callable[..., Tensor], args: Any, options: dict[str, Any]) -> Tensor:
    """Make a tensor on a device, or whatever the default is, on the host."""
    requires_grad = options.pop("requires_grad", False)
    before = swap_device(place if function.__name__ in _THERE else None)
    try:
        made = moved(function(*args, **options), place)
    finally:
        swap_device(before)
    return note_leaf(made).requires_grad_() if requires_grad else made


def _take_dtype(name: str, out: Any, options: dict[str, Any], asked: bool) -> None:
    """Make the result in the dtype of the tensor that it goes to."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    dtype = options.get("dtype")
    if dtype is not None and dtype is not out.dtype:
        raise RuntimeError(f"dtype {dtype} does not match dtype of out parameter ({out.dtype})")
    if asked:
        options["dtype"] = out.dtype
