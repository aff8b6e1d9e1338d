"""Attaches operators and methods to Tensor, from the ops."""

from __future__ import annotations

import weakref
from typing import Any

from eagerjit.autograd import api
from eagerjit.autograd.node import AFTER_ALL_HOOKS
from eagerjit.calling.public import by_any_name, public
from eagerjit.namespace import late
from eagerjit.ops import (
    activation,
    arithmetic,
    assignment,
    composite,
    counted,
    elementary,
    gathering,
    index,
    linear,
    normalization,
    pieces,
    pointwise,
    reduce,
    spreads,
    subscript,
    views,
)
from eagerjit.ops.alpha import only, plus
from eagerjit.ops.inplace import INPLACE, add_scaled_, inplace
from eagerjit.ops.pointwise import POINTWISE, is_operand
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.entry import install_method
from eagerjit.runtime.remembered import Remembered
from eagerjit.state import state
from eagerjit.tensors import conversion as c
from eagerjit.tensors import copying, moving, places
from eagerjit.tensors.hooks import Handle, add_hook, leaf_hooks, node_hooks
from eagerjit.tensors.mistakes import only_tensors
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.placement import index_beside
from eagerjit.tensors.tensor import Tensor

BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
"""Operators that have a reflected and an in-place form."""

SHIFTS = {
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "ilshift": "bitwise_left_shift_",
    "irshift": "bitwise_right_shift_", "rlshift": "reflected_left_shift", "rrshift": "reflected_right_shift",
}  # fmt: skip

OLD_NAMES = {
    "__div__": "__truediv__", "__rdiv__": "__rtruediv__", "__idiv__": "__itruediv__", "__long__": "__int__",
    "__nonzero__": "__bool__",
}  # fmt: skip
"""What PyTorch still calls as Python 2 did."""

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

OPS = {
    **{name: op.call for name, op in POINTWISE.items() if name not in ("add", "sub", "div", "where", "cast")},
    "clamp": arithmetic.clamp.call, "clip": arithmetic.clamp.call, "square": arithmetic.square.call,
    "masked_fill": arithmetic.masked_fill.call, "addcmul": arithmetic.addcmul.call, "addcdiv": arithmetic.addcdiv.call,
    "lerp": arithmetic.lerp.call, "isclose": arithmetic.isclose.call,
    "sum": reduce.sum_.call, "mean": reduce.mean.call, "prod": reduce.prod.call, "amax": reduce.amax.call,
    "amin": reduce.amin.call, "all": reduce.all_.call, "any": reduce.any_.call, "argmax": reduce.argmax.call,
    "argmin": reduce.argmin.call, "logsumexp": reduce.logsumexp.call,
    "matmul": linear.matmul.call, "addmm": linear.addmm.call,
    **{name: op.call for name, op in elementary.ELEMENTARY.items() if name != "prelu"},
    "take_rows": index.take_rows.call, "add_rows": index.add_rows.call, "put_rows": index.put_rows.call,
    "gather": gathering.gather.call, "scatter_add": index.scatter_add.call, "replace_slice": index.slice_scatter.call,
    "relu": activation.relu.call, "tril": index.tril.call, "triu": index.triu.call, "clone": moving.clone.call,
}  # fmt: skip
"""Methods that are ops themselves."""

ALIASES = {
    "absolute": "abs", "negative": "neg", "multiply": "mul", "arctan2": "atan2",
    "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "sgn": "sign",
    "fix": "trunc", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
}  # fmt: skip
for _alias, _name in ALIASES.items():
    OPS[_alias] = OPS[_name]


def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """self where the condition holds, else other."""
    return pointwise.where.call(condition, self, other)


def round_(input: Tensor, decimals: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Nearest integers, halves to even; or that many decimals."""
    scale, rounding = 10.0**decimals, POINTWISE["round"].call
    if decimals and input.dtype in (dtypes.float16, dtypes.bfloat16):
        rounded = (rounding(input.float() * scale) / scale).to(input.dtype)
    else:
        rounded = rounding(input) if decimals == 0 else rounding(input * scale) / scale
    return rounded if out is None else write_out("round", rounded, out)


FUNCTIONS: dict[str, Any] = {
    "add": pointwise.add, "sub": pointwise.sub, "subtract": pointwise.sub, "div": pointwise.div,
    "divide": pointwise.div, "true_divide": pointwise.div, "round": round_,
    **{name: getattr(views, name) for name in (
        "reshape", "detach", "permute", "transpose", "t", "expand_as", "squeeze",
        "unsqueeze", "flatten", "unflatten", "narrow", "select", "view_as",
    )},
    "split": pieces.split, "chunk": pieces.chunk, "unbind": pieces.unbind,
    "swapaxes": views.transpose, "swapdims": views.transpose,
    **{name: getattr(arithmetic, name) for name in ("clamp_min", "clamp_max", "allclose", "equal", "nan_to_num")},
    **{name: getattr(composite, name) for name in (
        "tile", "repeat_interleave", "flip", "roll", "mv", "diag", "trace",
    )},
    **elementary.FUNCTIONS,
    "max": reduce.max_, "min": reduce.min_, "var": spreads.var, "std": spreads.std, "norm": reduce.norm,
    "mm": linear.mm, "bmm": linear.bmm, "dot": linear.dot,
    "index_select": index.index_select, "nonzero": counted.nonzero, "nonzero_static": counted.nonzero_static,
    "numel": c.numel, "softmax": normalization.softmax, "log_softmax": normalization.log_softmax,
}  # fmt: skip
"""What is both a method and a function of the namespace."""

for _name in "dot mv trace diag clamp_min clamp_max".split():
    FUNCTIONS[_name] = public(FUNCTIONS[_name])
FUNCTIONS["repeat_interleave"] = by_any_name(composite.repeat_interleave)

METHODS: dict[str, Any] = {
    **moving.CONVERTERS, **c.NEW,
    "item": c.item, "tolist": c.tolist, "numpy": c.numpy, "to": moving.to, "cpu": moving.cpu, "cuda": moving.cuda,
    "contiguous": moving.contiguous, "type": moving.type_,
    "is_contiguous": c.is_contiguous, "stride": c.stride, "size": c.size, "nelement": c.numel,
    "storage_offset": c.storage_offset, "data_ptr": c.data_ptr,
    "view": views.view, "expand": views.expand, "slice": views.slice_dim, "where": where_method,
    "repeat": composite.repeat, "sum_to_size": composite.sum_to_size,
}  # fmt: skip
"""What is a method only."""

SPECIAL = {
    "__array__": c.to_array, "__bool__": c.truth, "__index__": c.as_index, "__len__": c.length, "__iter__": c.iterate,
    "__contains__": c.contains, "__format__": c.formatted, "__repr__": c.shown, "__deepcopy__": copying.deepcopy,
    "__copy__": copying.shallow_copy,
    "__reduce_ex__": c.reduce_ex, "__getitem__": subscript.get_item, "__setitem__": assignment.set_item,
    "__delitem__": assignment.delete_item,
    **{f"__{name}__": late.LateMethod("eagerjit.ops.numeric", function) for name, function in SHIFTS.items()},
    "__float__": lambda self: float(c.real_scalar(self)), "__int__": lambda self: int(c.real_scalar(self)),
    "__complex__": lambda self: complex(c.scalar(self)),
    "__pos__": late.LateMethod("eagerjit.ops.shaping", "positive"),
    "__reversed__": lambda self: composite.flip(self, (0,) if self.ndim else ()),
    "__array_priority__": 1000, "__neg__": OPS["neg"], "__abs__": OPS["abs"],
    "__invert__": pointwise.invert,
}  # fmt: skip


def method(function: Any) -> Any:
    """Mark a function of this module as a Tensor method."""
    METHODS[function.__name__] = function
    return function


@method
@Remembered
def dim(self: Tensor) -> int:
    """The number of dimensions."""
    return self.ndim


METHODS["ndimension"] = dim


@method
def element_size(self: Tensor) -> int:
    """Bytes per element."""
    return self.dtype.itemsize


@method
def is_floating_point(self: Tensor) -> bool:
    """Whether elements are real numbers."""
    return self.dtype.is_floating_point


@method
def is_complex(self: Tensor) -> bool:
    """Whether elements are complex numbers."""
    return self.dtype.is_complex


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in other's dtype, where other lies."""
    views.check_other("type_as", other)
    return moving.to(self, other)


@method
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor with other's shape."""
    views.check_other("reshape_as", other)
    return views.reshape(self, other.shape)


@method
def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Adds the gradients of this tensor to the `.grad` of the leaves it depends on."""
    api.backward(self, gradient, retain_graph, create_graph, inputs)


_HOOKED = "a hook is given to a tensor from outside"


@method
def register_hook(self: Tensor, hook: Any) -> Handle:
    """Calls hook(gradient) whenever the gradient of this tensor is computed; a tensor it returns takes its place."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    self._refuse_in_trace(_HOOKED)
    if self._node is None:
        return add_hook(leaf_hooks(self, "grad"), hook)
    return add_hook(node_hooks(self), hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Any) -> Handle:
    """Calls hook(tensor) after this leaf's `.grad` was updated."""
    self._refuse_in_trace(_HOOKED)
    if self._node is not None or not self._requires_grad:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(leaf_hooks(self, "post"), hook)


@method
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of a tensor that is not a leaf in `.grad`."""
    if not self._requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    self._refuse_in_trace("a tensor from outside is told to keep its gradient")
    if self._node is None or (self._hooks or {}).get("retained"):
        return
    reference = weakref.ref(self)

    def keep(gradient: Tensor) -> None:
        tensor = reference()
        if tensor is not None:
            known = tensor.grad
            tensor.grad = gradient.detach().clone() if known is None else known + gradient

    leaf_hooks(self, "retained")[0] = keep
    hooks = node_hooks(self)
    hooks[Handle(hooks, AFTER_ALL_HOOKS).id] = keep  # what is kept is what all hooks have made of it, later ones too
    mode.bump_epoch()


@method
def detach_(self: Tensor) -> Tensor:
    """Drop the tensor's history in place."""
    if state.tracer is not None:
        state.tracer.guard_detached(self)
    if self._view is not None and self._view.tracked:
        raise RuntimeError("Can't detach views in-place. Use detach() instead")
    self._node, self._index, self._requires_grad = None, 0, False
    return self


@method
def zero_(self: Tensor) -> Tensor:
    """Set all elements to 0, in place."""
    return _fill(self, 0)


_fill = INPLACE["fill_"].method()


@method
def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """Write values at the positions that the index tensors name, in place; or add them."""
    only_tensors(indices)
    keys = [index_beside(subscript.only_indices(index, of_parts=False), self) for index in indices]
    assignment.check_keys(self, keys)
    assignment.check_values(self, keys, values, accumulate)
    base, keys = assignment.with_places(self, keys)
    filled = keys + [None] * (base.ndim - len(keys))
    written = None if accumulate else values
    assignment.index_put(base, subscript.integer_indices(filled, base.shape, written), values, accumulate)
    return self


def _scaled(name: str, sign: int = 1) -> Any:
    write, scaled_write = INPLACE[name].method(), add_scaled_.method()

    def function(self: Tensor, other: Any, *scaled: Any, alpha: Any = 1) -> Tensor:
        if scaled:
            other, alpha = only(scaled), other
        return plus(write, scaled_write, self, other, alpha, sign)

    function.__name__, function.__doc__ = name, write.__doc__
    return function


Tensor._increase = INPLACE["add_"].method()  # type: ignore[attr-defined]  # what the engine adds gradients with: add_ without alpha


def _divided(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """In-place version of `div`."""
    return WRITES[f"{pointwise.quotient(rounding_mode)}_"](self, other)


def _augmented(name: str) -> Any:
    write = WRITES[name]

    def function(self: Tensor, other: Any) -> Any:
        return write(self, other) if is_operand(other) else NotImplemented

    return function


for _op in (
    arithmetic.square, arithmetic.clamp, arithmetic.masked_fill, arithmetic.addcmul, arithmetic.addcdiv,
    arithmetic.lerp, activation.relu,
):  # fmt: skip
    if f"{_op.name}_" not in INPLACE:
        inplace(_op)

WRITES = {name: op.method() for name, op in INPLACE.items()}


def _rounded(self: Tensor, *, decimals: int = 0) -> Tensor:
    """In-place version of `round`."""
    return WRITES["round_"](self) if decimals == 0 else self.copy_(round_(self, decimals))


METHODS.update(WRITES)
METHODS.update({f"{alias}_": WRITES[f"{name}_"] for alias, name in ALIASES.items() if f"{name}_" in WRITES})
METHODS.update(round_=_rounded, add_=_scaled("add_"), sub_=_scaled("sub_", -1), div_=_divided, clip_=WRITES["clamp_"])


def install() -> None:
    """Attach everything."""
    for name, op_call in OPS.items():
        install_method(Tensor, name, op_call)
    of_places = places.FUNCTIONS, places.METHODS, places.PROPERTIES
    for table in (late.methods(), FUNCTIONS, METHODS, SPECIAL, c.PROPERTIES, *of_places):
        for name, value in table.items():
            setattr(Tensor, name, value)
    for name, op in BINARY.items():
        install_method(Tensor, f"__{name}__", POINTWISE[op].operator())
        install_method(Tensor, f"__r{name}__", POINTWISE[op].operator(reflected=True))
        setattr(Tensor, f"__i{name}__", _augmented(f"{op}_"))
    for name in COMPARISONS:
        install_method(Tensor, f"__{name}__", POINTWISE[name].operator())
    install_method(Tensor, "__matmul__", linear.matmul.operator())
    install_method(Tensor, "__rmatmul__", linear.matmul.operator(reflected=True))
    for name, present in OLD_NAMES.items():
        setattr(Tensor, name, vars(Tensor)[present])


install()
