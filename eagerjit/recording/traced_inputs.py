"""Inputs of a call being traced: tensors, numbers, and the objects that they are found in or compared with."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.shapes import contiguous_strides, strides_of_permuted
from eagerjit.compiler.signature import (
    Binding,
    FloatLeaf,
    IntLeaf,
    Load,
    ObjectGuard,
    SameGuard,
    TensorLeaf,
    WriteGuard,
)
from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.traced_numbers import Numbers
from eagerjit.recording.traced_places import Places
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor, is_asked
from eagerjit.watching.observation import TraceBreak, refuse_evaluated, refuse_subclass, user_line
from eagerjit.watching.slots import GradientOf


class Inputs(Places, Numbers):
    """The leaves of a recorded call, by number: its arguments, then what else the function reads."""

    evaluated = False
    """Whether NumPy evaluates the recording, instead of its being compiled."""

    row_major = False
    """Whether this records part of an op whose results are row-major, wherever its arguments lie."""

    outlives_call = True
    """Whether what is recorded serves other calls, which find other tensors outside."""

    gradients_found: dict[int, GradientOf]
    needs_grad = False
    """Whether calls depend on which tensors require gradients."""

    asks_classes = False
    """Whether tensors of classes that are asked before operations may be met."""

    records: Set[type] = frozenset()
    """The classes of objects among the arguments that are taken apart into their attributes or fields."""

    journal: Any = None
    """What the recorded code does to objects; None where an operation is recorded alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Node] = []
        self.bindings: list[Binding] = []
        self.objects: list[Any] = []
        self.n_leaves = 0
        self.flags: dict[int, tuple[Tensor, bool]] = {}
        self.leaves_made: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self.leaf_of: dict[int, int] = {}
        self.writable: set[int] = set()
        self.constants: set[int] = set()
        """Leaves that are the same tensor in every call."""
        self._guarded: set[tuple[int, str]] = set()
        self.broken: TraceBreak | None = None
        """What ends the recording once the function has: it caught an error that other calls may not meet."""
        self.kinds_asked: dict[int, type] = {}  # classes that are asked before operations, by leaf
        self._values: dict[int, tuple[Tensor, Node, int]] = {}
        self._arguments: dict[int, Node] = {}
        self.turned: set[Node] = set()  # results of elementwise work in the order of its operands

    def value(self, tensor: Tensor) -> Node:
        """The node that holds a tensor's present value."""
        raise NotImplementedError

    def writes_to(self, tensor: Tensor) -> int:
        """How often the memory of a tensor was written in this trace."""
        raise NotImplementedError

    def new_leaf(self) -> int:
        """The number of one more leaf."""
        self.n_leaves += 1
        return self.n_leaves - 1

    def object(self, value: Any) -> int:
        """The index of a constant object."""
        for index, known in enumerate(self.objects):
            if known is value:
                return index
        self.objects.append(value)
        return len(self.objects) - 1

    def is_found(self, leaf: int) -> bool:
        """Whether each call may find another object there: an argument, or what lies in a slot."""
        return leaf < len(self.arguments or ()) or leaf in self.slots

    def found_at(self, tensor: Tensor) -> Any:
        """Where each call finds a tensor from outside; see `value_at`."""
        leaf = self.leaf_of[id(tensor)]
        return leaf if leaf < len(self.arguments or ()) else self.slots.get(leaf, tensor)

    def gradient_of(self, tensor: Tensor) -> GradientOf:
        """Where each call finds the gradient of a tensor from outside when it begins."""
        return self.gradients_found.setdefault(id(tensor), GradientOf(self.found_at(tensor)))

    def gradient_leaf(self, tensor: Tensor, gradient: Tensor, leaf: int) -> None:
        """Make the gradient of a tensor from outside an input."""
        self.slots[leaf], self.begun[leaf] = self.gradient_of(tensor), gradient
        if (known := self.leaf_of.get(id(gradient))) is not None:
            self.bindings.append(SameGuard(leaf, known, True))
            return
        self.tensor_leaf(gradient, leaf, symbolic=False)
        if self.journal is not None:
            self.journal.found.append((leaf, gradient))

    def shares(self, tensor: Tensor) -> bool:
        """Whether a tensor from outside may lie in memory of an argument."""
        others = [x._data for x in self.arguments or () if isinstance(x, Tensor) and x is not tensor]
        arrays = [array for array in others if type(array) is np.ndarray]
        return type(tensor._data) is np.ndarray and any(np.may_share_memory(tensor._data, array) for array in arrays)

    def tensor_leaf(self, tensor: Tensor, leaf: int, symbolic: bool) -> Node:
        """Make an outside tensor an input of the graph. Sizes 0 and 1 are always known: broadcasting needs them."""
        refuse_subclass(tensor)
        if is_asked(type(tensor)):
            self.kinds_asked[leaf] = type(tensor)
        array: np.ndarray = tensor._data
        if (dtype := dtypes.BY_NUMPY[array.dtype]) in dtypes.FLOAT8 and not self.evaluated:
            refuse_evaluated(dtype)
        shape = tuple(self.new_symbol("s", d) if symbolic and d > 1 else d for d in array.shape)
        strides: tuple[sizes.Expr, ...] | None = None
        if not array.flags.c_contiguous:
            steps = tuple(s // array.itemsize for s in array.strides)
            told = strides_of_permuted(array.shape, steps, shape) if symbolic else dict(enumerate(steps))
            strides = tuple(told.get(d, s if s in (0, 1) else self.new_symbol("t", s)) for d, s in enumerate(steps))
            self._refuse_contiguous(shape, strides)
        type_ = TensorType(dtype, shape)
        node = Node(elementwise.argument, (), {"leaf": leaf, "strides": strides}, type_, user_line())
        self.inputs.append(node)
        grad = int(tensor._requires_grad) if self.needs_grad else 2
        self.bindings.append(TensorLeaf(leaf, node, strides, grad, self.place_leaf(node, array)))
        self._arguments[id(tensor)] = node  # whose own writes are counted, not those of what it views
        self._values[id(tensor)] = (tensor, node, self.writes_to(tensor))
        self.leaf_of[id(tensor)] = leaf
        if self.is_found(leaf):
            self.guard_object(leaf, Op.TYPE_IS, type(tensor))
        return node

    def _refuse_contiguous(self, shape: tuple[sizes.Expr, ...], strides: tuple[sizes.Expr, ...]) -> None:
        """Note the stride that keeps memory from being contiguous: what is a view and what a copy depends on it."""
        for d, actual, expected in zip(shape, strides, contiguous_strides(shape), strict=True):
            if d != 1 and not sizes.equal(actual, expected):
                return

    def float_leaf(self, value: float, leaf: int) -> TracedFloat:
        """Make a Python float an input."""
        node = Node(elementwise.argument, (), {"leaf": leaf, "number": True}, TensorType(dtypes.float64, ()))
        self.inputs.append(node)
        self.bindings.append(FloatLeaf(leaf, node))
        self._floats[node] = (leaf, value)
        return TracedFloat(node, value)

    def number_leaf(self, value: Any, leaf: int) -> Any:
        """Make a number an input: Python's, of which a float of NumPy's has one."""
        if isinstance(value, int):
            return self.int_leaf(value, leaf)
        made = self.float_leaf(float(value), leaf)
        return TracedNumber(made, np.float64) if type(value) is np.float64 else made

    def int_leaf(self, value: int, leaf: int) -> Any:
        """Make a Python int an input."""
        symbol = self.new_symbol("n", value)
        self.bindings.append(IntLeaf(leaf, symbol))
        return SymbolicInt(symbol)

    def guard_object(self, leaf: int, op: Op, value: Any) -> None:
        """Require that a leaf is (or equals, or is an instance of) this object."""
        self.bindings.append(ObjectGuard(leaf, op, self.object(value)))

    def guard_writable(self, tensor: Tensor) -> None:
        """Require that an outside tensor may be written while gradients are recorded."""
        leaf = self.leaf_of[id(tensor)]
        if leaf not in self.writable:
            self.writable.add(leaf)
            self.bindings.append(WriteGuard(leaf))

    def guard_slot(self, tensor: Tensor, name: str, value: Any) -> None:
        """Require that a slot of an outside tensor holds this very object."""
        leaf = self.new_leaf()
        self.load(leaf, Op.LOAD_ATTRIBUTE, self.leaf_of[id(tensor)], self.object(name))
        self.guard_object(leaf, Op.IS, value)

    def guard_leaf(self, tensor: Tensor) -> None:
        """Require that an outside tensor is a leaf, as here. TraceBreak where it is none: the next one's is another."""
        if type(tensor._data) is Node or not self.outlives_call:
            return
        if tensor._node is not None:
            raise TraceBreak("the history of a tensor from outside was read", user_line())
        self.guard_own_slot(tensor, "_node", None)

    def guard_base(self, tensor: Tensor) -> None:
        """Require that an outside tensor that one is, or is a view of, is no view, as here. TraceBreak where it is."""
        while type(tensor._data) is Node and tensor._view is not None:
            tensor = tensor._view.base
        if type(tensor._data) is Node or not self.outlives_call:
            return
        if tensor._view is not None:
            raise TraceBreak("what a tensor from outside is a view of was asked", user_line())
        self.guard_own_slot(tensor, "_view", None)

    def guard_detached(self, tensor: Tensor) -> None:
        """Require that an outside tensor has no gradient and is no view, as here: to detach it in place is nothing."""
        if type(tensor._data) is Node or not self.outlives_call:
            return
        if tensor._requires_grad or tensor._view is not None:
            raise TraceBreak("a tensor from outside was detached in place", user_line())
        self.guard_own_slot(tensor, "_view", None)

    def guard_ends(self, tensors: Iterable[Tensor]) -> None:
        """Require that outside tensors at which a gradient ends are leaves, or are none, as here, and have no hooks.

        Of those that are the same in every call hooks are looked for elsewhere, see `guards.comparing.Hooks`.
        """
        for tensor in tensors:
            leaf = self.leaf_of.get(id(tensor))
            if type(tensor._data) is Node or leaf is None or leaf in self.constants:
                continue
            if tensor._hooks or (tensor._node is not None and tensor._node.hooks):
                raise TraceBreak("hooks of a tensor from outside see its gradient", user_line())
            self.guard_own_slot(tensor, "_hooks", tensor._hooks)
            if tensor._node is None:
                self.guard_own_slot(tensor, "_node", None)
                continue
            node, hooks = self.new_leaf(), self.new_leaf()
            self.load(node, Op.LOAD_ATTRIBUTE, leaf, self.object("_node"))
            self.load(hooks, Op.LOAD_ATTRIBUTE, node, self.object("hooks"))
            self.guard_object(hooks, Op.IS, tensor._node.hooks)

    def guard_own_slot(self, tensor: Tensor, name: str, value: Any) -> None:
        """Require once that a slot of an outside tensor holds this object, if other calls may find another tensor."""
        self.value(tensor)
        leaf = self.leaf_of[id(tensor)]
        if leaf not in self.constants and (leaf, name) not in self._guarded:
            self._guarded.add((leaf, name))
            self.guard_slot(tensor, name, value)

    def misfit(self, error: ValueError, inputs: Iterable[Node], attributes: Mapping[str, Any]) -> RuntimeError:
        """The plain call's error of operands that do not fit: it tells sizes, to which this ties the recording."""
        for size in itertools.chain(*(node.type.shape for node in inputs), attributes.get("shape", ())):
            sizes.pinned(size)
        return RuntimeError(str(error))

    def load(self, leaf: int, op: Op, *operands: int) -> None:
        """How a leaf beyond the arguments is found when the compiled function is called."""
        self.bindings.append(Load(leaf, op, operands))

    def item_option(self, options: Any, key: str, kind: str) -> Any:
        """An option of an optimizer's that is an "option" of one number or a "pair" of floats."""
        if kind == "pair":
            return self.item_pair(options, key)
        if type(options[key]) is not np.float64 or self.is_made(options) or (id(options), key) in self._items:
            return self.item_number(options, key)
        leaf = self._item_leaf(options, key)
        self.guard_object(leaf, Op.TYPE_IS, np.float64)
        made = TracedNumber(self.item_number(options.parts, key), np.float64)
        self._items[id(options), key] = made
        return made

    def is_made(self, value: Any) -> bool:
        """Whether the function has made an object in this call: the next call makes another one."""
        return self.journal is not None and self.journal.is_made(value)

    def item_pair(self, options: Any, key: str) -> tuple[Any, Any]:
        """An option of an optimizer's that is two floats, which lie in a table of their own."""
        names = f"{key}[0]", f"{key}[1]"
        if self.is_made(options):
            return options.parts[names[0]], options.parts[names[1]]
        return self.item_number(options.parts, names[0]), self.item_number(options.parts, names[1])

    def _item_leaf(self, container: dict[str, Any], key: str) -> int:
        """A leaf that compiled calls find in a dictionary."""
        holder, leaf = self.new_leaf(), self.new_leaf()
        self.load(holder, Op.LOAD_OBJECT, self.object(container))
        self.load(leaf, Op.LOAD_ITEM, holder, self.object(key))
        return leaf

    def item_number(self, container: dict[str, Any], key: str) -> Any:
        """A Python float in a dictionary as an input of the compiled function; other values as they are, guarded."""
        value = container[key]
        known = self._items.get((id(container), key))
        if known is not None:
            return known
        if self.is_made(container):
            return value
        leaf = self._item_leaf(container, key)
        if type(value) is float:
            value = self.float_leaf(value, leaf)
        else:
            self.guard_object(leaf, Op.EQUAL if type(value) in (int, str, tuple) else Op.IS, value)
        self._items[id(container), key] = value
        return value

    def set_requires_grad(self, tensor: Tensor, flag: bool) -> None:
        """Let a leaf require a gradient, or not, from here on; the compiled call does it to those from outside too."""
        if type(tensor._data) is Node:
            if id(tensor) not in self.leaf_of:
                self.leaves_made[id(tensor)] = weakref.ref(tensor), mode.next_sequence()
            return
        self.value(tensor)
        if not flag:
            self.guard_slot(tensor, "_node", None)
        self.flags.setdefault(id(tensor), (tensor, tensor._requires_grad))
        tensor._requires_grad = flag

    def leaf_made(self, key: int) -> float:
        """After which of the operations with a gradient the leaf of this id was made in the call; -1 for others."""
        found, sequence = self.leaves_made.get(key, (None, -1))
        return sequence if found is not None and found() is not None else -1
