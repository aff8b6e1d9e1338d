"""Eager operators in front of loaded Programs: an `OpCall` looks its arguments up in a table (`native/entry.py`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Collection, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, ClassVar, NamedTuple

from eagerjit.runtime import dtypes, heap_types, layout, mode
from eagerjit.runtime.binding import bound, is_tensor
from eagerjit.runtime.directly_called import OfTensors
from eagerjit.runtime.execute import MISS, NativeExecutable
from eagerjit.runtime.keys import (
    NUMBER_KINDS,
    SINGLETONS,
    flat,
    hash_of,
    holds_tensors,
    is_option,
    keep_option,
    key_word,
    settled,
    value_word,
)
from eagerjit.runtime.native import context as c
from eagerjit.runtime.native.agreed import MAX_PARAMETERS
from eagerjit.runtime.native.library import native
from eagerjit.runtime.once import lock
from eagerjit.runtime.public_names import PubliclyNamed
from eagerjit.runtime.source import here

MAX_ENTRIES = 512
"""Entries of one operator; beyond, arguments that keep changing would fill its table without end."""

_FLOATING = frozenset(d.numpy for d in dtypes.HELD if d.is_differentiable)


class _Entry(NamedTuple):
    """An executable of an operator, which of the arguments are its leaves, and the others, kept for their identity."""

    executable: Any
    leaves: tuple[int, ...]
    fixed: tuple[Any, ...]


class OpCall(PubliclyNamed, OfTensors, heap_types.raw_base("OpCallBase", c.OPERATOR_FIELDS)):  # type: ignore[misc]
    """An eager operator: executables by their arguments; a call that none serves is `slow(*args, **kwargs)`.

    `parameters` names the arguments and `defaults` holds what stands for a missing one (`inspect.Parameter.empty`:
    required). Ints and floats for the parameters at the positions `numbers` are run-time inputs, as are the sizes over
    1 in tuples for those at `shapes`. Tensors are known by dtype, rank, layout and which extents are 0 or 1; lists and
    tuples of them element by element; sizes by which are 0 or 1; other lists and tuples of numbers, bools and None and
    all other ints and floats by their value; everything else by identity.

    With `record`, results that need a gradient get an autograd node whose `op` is the one given here and whose `inputs`
    are all arguments in order. `reflected` calls take two arguments in the other order, as `__radd__` does.

    Calls that write their first argument, `writes` of them PLAINLY, leave to `slow` what may not be written just so: a
    view of what is recorded, or of memory that is not in order; other writes are put on the tape with `op`, unless a
    gradient reads what is written over (`copying` gives a bit for each parameter whose gradient does). Those AS_FOUND
    leave to `slow` what needs a gradient.

    Where autocast is on, `slow` serves what `casts`. `siblings` are those that are served alike, this one too.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_filed",
        "_names",
        "_words",
        "copying",
        "defaults",
        "numbers",
        "op",
        "parameters",
        "shapes",
        "siblings",
        "slow",
    )
    native_slots: ClassVar = {c.OPERATOR_SLOW: "slow", c.OPERATOR_OP: "op"}
    _words: Any

    def __init__(
        self,
        name: str,
        slow: Callable[..., Any],
        op: object,
        parameters: Sequence[str],
        defaults: Sequence[object] = (),
        numbers: Collection[int] = (),
        record: bool = True,
        reflected: bool = False,
        shapes: Collection[int] = (),
        writes: int = 0,
        copying: Callable[[], int] | None = None,
        siblings: list[OpCall] | None = None,
        casts: bool = False,
    ):
        self.__name__ = name
        self.slow, self.op, self.parameters = slow, op, tuple(parameters)
        required: list[Any] = [Parameter.empty] * (len(self.parameters) - len(defaults))
        self.defaults = [*required, *defaults]
        self.numbers, self.shapes = frozenset(numbers), frozenset(shapes)
        self._records, self._reflected, self._writes = int(record), int(reflected), int(writes)
        self._casts = int(casts)
        self._filed: dict[tuple[int, ...], list[_Entry]] = {}
        self._names: Any = None
        self.copying, self.siblings = copying, [] if siblings is None else siblings
        self.siblings.append(self)

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"

    @property
    def __signature__(self) -> Signature:
        """What `help` shows: what a Python function in this one's place takes by name, else the parameters."""
        taken = signature(self.__dict__.get("__wrapped__", self.slow))
        if {p.kind for p in taken.parameters.values()} != {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
            return taken
        kind = Parameter.POSITIONAL_OR_KEYWORD
        pairs = zip(self.parameters, self.defaults, strict=True)
        return Signature([Parameter(name, kind, default=default) for name, default in pairs])

    def reflection(self) -> OpCall:
        """The same operator with its first two arguments in the other order."""
        records = bool(self._records)
        return OpCall(
            self.__name__, self.slow, self.op, self.parameters, self.defaults, self.numbers, records, True, self.shapes
        )

    def insert(self, arguments: Sequence[object], executable: Any) -> bool:
        """Serves calls with arguments like these, one per parameter, by `executable`; False where it can't.

        The executable's leaves are the Tensors and run-time numbers among them, in order.
        """
        arguments = tuple(map(settled, arguments))
        leaves = tuple(i for i, a in enumerate(arguments) if self._is_leaf(i, a))
        fixed = tuple(a for i, a in enumerate(arguments) if i not in leaves)
        if len(arguments) > MAX_PARAMETERS or not all(map(self._has_identity, fixed)):
            return False
        if len(flat(arguments, leaves)) != executable.n_arguments:
            return False
        with lock:
            if sum(map(len, self._filed.values())) >= MAX_ENTRIES:
                return False
            for argument in filter(is_option, fixed):
                keep_option(argument)  # type: ignore[arg-type]
            key = self._key(arguments)
            if key is None:
                return False
            self._filed.setdefault(key, []).append(_Entry(executable, leaves, fixed))
            self._publish()
        return True

    def serve_as(self, sibling: OpCall) -> None:
        """Serves what another call does."""
        with lock:
            self._filed = {key: [*found] for key, found in sibling._filed.items()}
            self._publish()

    def clear(self) -> None:
        """Forgets all executables."""
        with lock:
            forgotten, self._filed = self._filed, {}
            self._publish()
        forgotten.clear()

    def _is_leaf(self, position: int, argument: object) -> bool:
        if is_tensor(argument) or (type(argument) is tuple and holds_tensors(argument)):
            return True
        if position in self.shapes:
            return isinstance(argument, tuple)
        return position in self.numbers and type(argument) in NUMBER_KINDS

    def _is_left(self, arguments: tuple[object, ...]) -> bool:
        """Whether a write of the first of these arguments is left to `slow`."""
        if self._writes == c.PLAINLY and _is_view(arguments[0]):
            return True
        parts = (part for a in arguments for part in (a if type(a) is tuple else (a,)))
        return mode.grad_mode() and any(is_tensor(part) and part._requires_grad for part in parts)

    def _has_identity(self, argument: object) -> bool:
        """Whether native code knows an equal argument of a later call, or it is probably the same object."""
        if argument is None or isinstance(argument, (bool, str, dtypes.DType)) or type(argument) in SINGLETONS:
            return True
        if is_option(argument) or value_word(argument):
            return True
        return any(argument is default for default in self.defaults)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """All arguments in the order of the parameters, or None where names or counts do not fit."""
        if len(args) > len(self.parameters) or any(name not in self.parameters[len(args) :] for name in kwargs):
            return None
        full = [*args, *self.defaults[len(args) :]]
        for name, value in kwargs.items():
            full[self.parameters.index(name)] = value
        return None if any(a is Parameter.empty for a in full) else tuple(full)

    def _key(self, arguments: tuple[object, ...]) -> tuple[int, ...] | None:
        if not arguments or len(arguments) != len(self.parameters):
            return None
        words = tuple(key_word(a, i in self.numbers, i in self.shapes) for i, a in enumerate(arguments))
        return words if all(words) else None

    def _publish(self) -> None:
        """Tells native code the table; an executable that is not native keeps the operator in Python."""
        entries = [(key, entry) for key, found in self._filed.items() for entry in found]
        if not all(isinstance(entry.executable, NativeExecutable) for _, entry in entries):
            self._call_in_python()
            return
        if not self._is_native() and not entries:
            return
        stride = 2 + len(self.parameters)
        capacity = max(8, 1 << (2 * len(entries)).bit_length())
        table = (ctypes.c_int64 * (1 + capacity * stride))(capacity - 1)
        for key, entry in entries:
            at = hash_of(key) & (capacity - 1)
            while table[1 + at * stride]:
                at = (at + 1) & (capacity - 1)
            leaves = sum(1 << i for i in entry.leaves)
            table[1 + at * stride : 1 + (at + 1) * stride] = [id(entry.executable), leaves, *key]
        self._table = ctypes.addressof(table)
        self._words = table
        self._call_natively("operator_call")

    def _call_natively(self, function: str) -> None:
        if self._names is None:
            self._names = self._described()
        super()._call_natively(function)

    def _described(self) -> Any:
        """Tells native code the parameters; the table of their names and defaults."""
        pairs = zip(self.parameters, self.defaults, strict=True)
        words = [word for name, d in pairs for word in (id(name), 0 if d is Parameter.empty else id(d))]
        table = (ctypes.c_int64 * max(len(words), 1))(*words)
        self._count, self._parameters = len(self.parameters), ctypes.addressof(table)
        self._copies = self.copying() if self.copying else 0
        self._numbers, self._shapes = (sum(1 << i for i in marked) for marked in (self.numbers, self.shapes))
        return table

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._reflected and len(args) == 2 and not kwargs:
            args = args[::-1]
        left = mode.tracing() or (self._casts and mode.casting())
        full = None if left or not self._filed else self._bind(args, kwargs)
        full = None if full is None else tuple(map(settled, full))
        key = self._key(full) if full and not (self._writes and self._is_left(full)) else None
        if full is None or key is None:
            return self.slow(*args, **kwargs)
        for entry in self._filed.get(key, ()):
            leaves = flat(full, entry.leaves)
            result = MISS if len(leaves) != entry.executable.n_arguments else entry.executable.run(leaves)
            if result is MISS:
                continue
            if self._records and mode.grad_mode():
                record_node(self.op, full, result)
            return result
        return self.slow(*args, **kwargs)


def _is_view(thing: object) -> bool:
    """Whether something is no tensor whose memory is its own."""
    return not is_tensor(thing) or thing._view is not None  # type: ignore[attr-defined]


@functools.cache
def _record_inputs() -> Any:
    return native().function("record_inputs", ctypes.c_int64, *[ctypes.py_object] * 4, keep_gil=True)


def is_recorded_natively(op: object, inputs: tuple[Any, ...], result: Any, replaced: Any) -> bool:
    """Puts a call on the tape if native code can, as it does where no input needs a gradient."""
    return layout.loaded() and _record_inputs()(op, inputs, result, replaced) == 0


def record_node(op: object, inputs: tuple[Any, ...], result: Any) -> None:
    """Makes the results outputs of a new autograd node if an input needs a gradient and one of them can have one."""
    tensors = [x if is_tensor(x) else None for x in inputs]
    listed = [x for a in inputs if type(a) is tuple for x in a if is_tensor(x)]
    if not any(t is not None and t._requires_grad is True for t in (*tensors, *listed)):
        return
    results = result if type(result) is tuple else (result,)
    outputs = [(i, r) for i, r in enumerate(results) if is_tensor(r) and r._data.dtype in _FLOATING]
    if not outputs:
        return
    assert bound.node_type is not None
    for x in (*tensors, *listed):
        if x is not None and x._view is not None and bound.refresh is not None:
            bound.refresh(x)
    node: Any = object.__new__(bound.node_type)
    for slot in bound.node_slots:
        setattr(node, slot, None)
    node.code, node.offset = here() or (None, None)
    storages = [None if t is None else t._storage for t in tensors]
    node.op = op
    node.inputs = inputs
    node.output = tuple(r._data for r in results) if type(result) is tuple else result._data
    node.sequence = mode.next_sequence()
    if any(s is not None for s in storages):
        node.versions = tuple(0 if s is None else s.version for s in storages)
    for index, made in outputs:
        made._node, made._index, made._requires_grad = node, index, True


def install_method(owner: type, name: str, op_call: OpCall) -> None:
    """Makes `op_call` the method `name` of a class; calls through it make no bound method."""
    setattr(owner, name, op_call)
