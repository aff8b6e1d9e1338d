"""What user code reads although no instruction names it: methods of its classes, attributes in patterns, operands."""

from __future__ import annotations

import contextlib
import dis
import operator
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from eagerjit.effects.handled_errors import note_context, note_handled
from eagerjit.effects.journal import Journal
from eagerjit.guards.comparing import MUTABLE, has_own_attributes, has_state, is_library_name, is_plain
from eagerjit.recording.arrays import LARGE
from eagerjit.recording.numbers import SymbolicInt, TracedFloat, plain
from eagerjit.recording.tensor_attributes import note_read
from eagerjit.recording.traced_ranges import TracedList
from eagerjit.recording.traced_texts import TracedText, tied_text
from eagerjit.recording.varying import Varying
from eagerjit.runtime import frames
from eagerjit.runtime.own_attributes import own_attributes
from eagerjit.tensors.tensor import Parameter, Tensor
from eagerjit.watching import lookup, texts
from eagerjit.watching.bytecode import looks_up_names
from eagerjit.watching.containers import CONTAINERS
from eagerjit.watching.identities import note_compared, note_equality, note_identity, note_written
from eagerjit.watching.observation import source, user_line
from eagerjit.watching.slots import ABSENT, look

_PRECALL = 4 if sys.version_info < (3, 12) else 0  # bytes from where a call is watched to where it is made
_AFTER_NAMES = {dis.opmap[n] for n in ("LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS") if n in dis.opmap}
"""Instructions that find the names of a class on the stack."""

_OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul,
}  # fmt: skip
_FEWEST, _MOST = -5, 256
"""Between which integers there is one object for each in CPython."""

_TEXT = ("__format__", "__str__", "__repr__")
_ASKED = {
    "callable": ("__call__",), "len": ("__len__",), "bool": ("__bool__", "__len__"), "reversed": ("__reversed__",),
    "int": ("__int__", "__index__"), "float": ("__float__",), "complex": ("__complex__", "__float__"),
    "round": ("__round__",), "abs": ("__abs__",), "format": _TEXT, "str": _TEXT[1:], "repr": _TEXT[2:],
    **dict.fromkeys("sum min max any all sorted list tuple set enumerate iter".split(), ("__iter__",)),
}  # fmt: skip
"""Special methods that functions of Python's look for first."""

_MATCHED = 1 << 5 | 1 << 6
"""The flags of classes that patterns take for sequences and for mappings."""

_SIMPLE = frozenset((int, float, str, bool, bytes, type(None), type, list, tuple, dict, set, FunctionType, Tensor))


def note_attribute(journal: Journal, owner: Any, name: str, use: tuple[tuple[str, ...], str] = ((), "read")) -> None:
    """An attribute of an object from outside is about to be read; `use` is what `chain_from` says of it."""
    if type(owner) is TracedText:
        return
    if name == "__context__":
        note_context(journal, owner, user_line())
    note_read(journal, owner, name)
    journal.note_read(owner, name)
    journal.objects_read[id(owner), name] = owner
    journal.uses.setdefault((id(owner), name), {})[use] = None
    descriptor, parts = lookup.computed_by_library(owner, name)
    for part in parts:
        note_attribute(journal, descriptor, part)
    if isinstance(owner, (type, ModuleType)) or name in own_attributes(owner):
        return
    for base in type(owner).__mro__:  # a method or property is its class's, unless the object gets one of its own
        if name in vars(base):
            note_inherited(journal, type(owner), base, name)
            journal.inherited[id(owner), name] = owner
            return


def note_presence(journal: Journal, owner: Any, name: str) -> None:
    """Code asks whether an object has an attribute: of one that lies in it, calls look for no more than that."""
    plain = not isinstance(owner, (type, ModuleType, Tensor)) and name in own_attributes(owner)
    if not plain or lookup.is_computed(owner, name) or journal.memoized.recording is not None:
        return note_attribute(journal, owner, name)
    if journal.is_outside(owner) and (id(owner), name) not in journal.written:
        journal.load(owner, name, "attribute")


def note_inherited(journal: Journal, kind: type, base: type, name: str) -> None:
    """Something that `base` holds was found for `kind`, where another class may come to hold it."""
    first = next(b for b in kind.__mro__ if name in vars(b))
    holder = kind if first is base and has_own_attributes(base) else base
    journal.classes_read[id(holder), name] = holder


def note_order(journal: Journal, kind: type) -> None:
    """Code asks which class comes after another: `__bases__` of a class may be assigned."""
    if has_own_attributes(kind):
        journal.classes_read[id(kind), "__mro__"] = kind


def note_entered(journal: Journal, context: Any) -> None:
    """A context is about to be entered: those of the library read how they were made."""
    module = type(context).__module__
    journal.catches |= not is_library_name(module) or module == "contextlib"
    if module.startswith("eagerjit") and not (has_state(context) or has_own_attributes(context)):
        settings = {n: v for n, v in own_attributes(context).items() if not isinstance(v, MUTABLE)}
        journal.entered.setdefault(id(context), (context, settings))


def note_lacking(journal: Journal, kind: type, names: tuple[str, ...]) -> None:
    """The user's classes that do not have a special method, and may get it."""
    for base in kind.__mro__:
        if has_own_attributes(base) and not hasattr(base, "_jit_state"):
            journal.lacked |= {(id(base), name): base for name in names if name not in vars(base)}


def note_methods_asked(journal: Journal, function: Any, kind: type) -> None:
    """Python's functions call special methods, which a class may get; `callable` asks for one that it may lose, too."""
    note_lacking(journal, kind, _ASKED.get(function.__name__, ()))
    base = next((b for b in kind.__mro__ if "__call__" in vars(b)), None) if function is callable else None
    if base is not None:
        note_inherited(journal, kind, base, "__call__")


class Implicit:
    """The part of an observer that notes these reads."""

    journal: Journal
    stored: set[str]
    varying: Varying
    methods: dict[type, dict[CodeType, tuple[type, str]]]
    closures: dict[CodeType, list[dict[str, Any]]]
    _formatting: set[FrameType]
    change_in_place: Callable[[FrameType, str], None]
    calls: Any

    def _note_cells(self, frame: FrameType) -> None:
        """Remember the cells that code runs with."""
        code = frame.f_code
        if not code.co_freevars:
            return
        known = self.closures.setdefault(code, [])
        cells = {name: frames.cell(frame, name) for name in code.co_freevars}
        if not any(all(other[n] is c for n, c in cells.items()) for other in known):
            known.append(cells)

    def note_error(self, frame: FrameType, kind: type, changed: int) -> None:
        """Refuse errors that calls may not raise: of a change that was about to be made at an offset, of texts."""
        if changed >= 0 and 0 <= frame.f_lasti - changed <= _PRECALL:
            self.journal.refuse("it catches an error of what it changes", source(frame))
        if kind is TypeError and self.journal.tracer.formatted and self.journal.catches:
            self.journal.refuse("it catches an error that a text or range may have caused", source(frame))

    def _note_method(self, frame: FrameType) -> None:
        """A function begins that a class of its first argument may hold: a special method, or what `super()` finds."""
        code = frame.f_code
        if not code.co_argcount:
            return
        owner = next((value for name, value in frames.variables(frame) if name == code.co_varnames[0]), None)
        for kind in (owner, type(owner)) if isinstance(owner, type) else (type(owner),):
            found = self._methods(kind).get(code)
            if found is not None:
                note_inherited(self.journal, kind, *found)

    def _methods(self, kind: type) -> dict[CodeType, tuple[type, str]]:
        """The code of the methods that a class and its bases hold: where, and under which name."""
        if kind not in self.methods:
            held = self.methods[kind] = {}
            for base in kind.__mro__ if has_own_attributes(kind) else ():
                for name, value in vars(base).items():
                    function = getattr(value, "__func__", value)
                    if isinstance(function, FunctionType):
                        held.setdefault(function.__code__, (base, name))
        return self.methods[kind]

    def _note_super(self, found: Any, name: str) -> None:
        """`super()` of a class finds a name in the first class after it that has it."""
        kind, instance = found.__thisclass__, found.__self__
        of_class = isinstance(instance, type) and issubclass(instance, kind)
        owner = instance if of_class else type(instance)
        note_order(self.journal, owner)
        order = owner.__mro__
        for base in order[order.index(kind) + 1 :]:
            self.journal.note_read(base, name)
            self.journal.objects_read[id(base), name] = base
            if name in vars(base):
                return

    def load_super_attribute(self, frame: FrameType, name: str) -> None:
        found, kind, instance = frames.stack(frame, 3)
        if found is super:
            self._note_super(super(kind, instance), name)

    def make_missing(self, container: defaultdict[Any, Any]) -> None:
        """A dictionary is about to make an item that it does not have."""
        self.journal.save_contents(container)
        if self.journal.is_outside(container):
            note_attribute(self.journal, container, "default_factory")

    def look_up(self, owner: Any, name: str) -> None:
        """The library reads an attribute, to call what it holds."""
        note_attribute(self.journal, owner, name)

    def raise_again(self, frame: FrameType, _: None) -> None:
        """A `raise` alone raises the error that is being handled."""
        note_handled(self.journal, source(frame))

    def match_container(self, frame: FrameType, _: None) -> None:
        """A pattern of a sequence or mapping asks for a flag, which `register` of an abstract class sets."""
        (value,) = frames.stack(frame, 1)
        kind = type(value)
        if has_own_attributes(kind):
            flags = kind.__flags__ & _MATCHED
            self.journal.checks.append(lambda: kind.__flags__ & _MATCHED == flags)
            self.calls.note_class_asked(type, (value,))

    def match_class(self, frame: FrameType, count: int) -> None:
        """A pattern reads attributes of what it is compared with."""
        subject, kind, names = frames.stack(frame, 3)
        self.calls.note_class_asked(isinstance, (subject, kind))
        if not isinstance(subject, kind):
            return
        if count:
            note_attribute(self.journal, kind, "__match_args__")
        for name in (*getattr(kind, "__match_args__", ())[:count], *names):
            note_attribute(self.journal, subject, name)
            if not isinstance(subject, Tensor):
                self._make_input(subject, name)

    def _note_got(self, function: Any, args: tuple[Any, ...]) -> None:
        """What `getattr` is about to read."""
        named = function is getattr and len(args) > 1 and isinstance(args[1], str)
        if named and not isinstance(args[0], Tensor) and not is_plain(args[0]):
            self._make_input(args[0], tied_text(args[1]))

    def _make_input(self, owner: Any, name: str) -> None:
        """Make what an attribute holds an input, if other calls find it changed; it is read from there."""
        kept = look(owner, name, "attribute") if self._is_input(owner, name) else ABSENT
        if kept is not ABSENT and not isinstance(kept, np.ndarray):
            self.journal.input(owner, name, kept, "attribute")

    def _is_input(self, owner: Any, name: str) -> bool:
        """Whether an attribute holds what other calls find changed."""
        if not lookup.is_data(owner, name):
            return False
        return name in self.stored or self.varying.is_input(owner, name, lookup.kept(owner, name))

    def operate(self, frame: FrameType, operand: tuple[int, tuple[str, ...]]) -> None:
        """An operator gets operands: Python's own classes read what they hold, the user's may lack its methods."""
        count, names = operand
        if count == 2:
            self._note_all(frames.stack(frame, count))
            note_equality(self.journal, frames.stack(frame, count) if names else (), source(frame))
        for value in frames.stack(frame, count):
            for part in value if type(value) in (list, tuple) else (value,):
                if type(part) not in _SIMPLE:
                    self.journal.look_behind(part)
                    self.note_lacking(type(part), names)

    def compare_identities(self, frame: FrameType, _: None) -> None:
        operands = self._as_one_number(frame)
        self.journal.tell_apart(operands, source(frame))
        note_compared(self.journal, operands, source(frame))
        self.calls.compare(*operands)

    def _as_one_number(self, frame: FrameType) -> list[Any]:
        """The operands of `is`; for numbers of the call that are equal, one in the place of both if Python has one."""
        first, second = operands = frames.stack(frame, 2)
        stand_in = any(type(x) in (SymbolicInt, TracedFloat) for x in operands)
        if not stand_in or first is second or first.__class__ is not second.__class__ or not first == second:
            return operands
        if first.__class__ is not int or not _FEWEST <= first <= _MOST:
            self.journal.refuse("it asks whether equal numbers are one object", source(frame))
        frames.replace(frame, 0, first)
        return [first, first]

    def compute(self, frame: FrameType, symbol: str) -> None:
        """An operator computes what is neither true nor false of its operands."""
        self.operate(frame, (2, ()))
        self._rehearse(symbol, frames.stack(frame, 2))

    def compute_in_place(self, frame: FrameType, operand: tuple[str, str]) -> None:
        symbol, method = operand
        self._rehearse(symbol, frames.stack(frame, 2))
        self.change_in_place(frame, method)

    def _rehearse(self, symbol: str, operands: list[Any]) -> None:
        """Have NumPy compute its own numbers and arrays first where it is seen to warn."""
        own = [type(x).__module__ == "numpy" for x in operands]
        known = all(numpys or type(x) in (bool, int, float, complex) for numpys, x in zip(own, operands, strict=True))
        if known and any(own) and symbol in _OPERATORS:
            if sum(getattr(x, "nbytes", 0) for x in operands) <= LARGE:
                with contextlib.suppress(TypeError, ValueError, OverflowError):  # the operator raises it in a moment
                    self.journal.making(_OPERATORS[symbol], *operands)

    def _note_all(self, values: Iterable[Any]) -> None:
        """All that lies in values which are containers is about to be read."""
        for value in values:
            for part in (value, *value) if type(value) in (list, tuple) else (value,):
                if isinstance(part, CONTAINERS):
                    self.journal.note_read(part, None)

    def read_all(self, frame: FrameType, depth: int) -> None:
        """All that a value holds is about to be read, which lies so deep on the stack."""
        self._note_all(frames.stack(frame, depth + 1)[:1])

    def ask_truth(self, frame: FrameType, operand: tuple[int, tuple[str, ...]]) -> None:
        """The truth of a value is asked, and nothing else of it."""
        size = self.journal.windows.histories.size(frames.stack(frame, 1)[0])
        if size is not None:
            return frames.replace(frame, 0, size)
        self.operate(frame, operand)

    # -- texts --------------------------------------------------------------------------------------------------------

    def format_value(self, frame: FrameType, operand: tuple[int, bool, bool]) -> None:
        depth, as_repr, converts = operand
        value = frames.stack(frame, depth + 1)[0]
        self._note_all([value])
        self.note_lacking(type(value), _TEXT)
        note_written(self.journal, [value], source(frame), as_repr)
        if converts:
            return
        self.tie_texts(frame, range(depth))  # the specification
        if texts.is_of_call(value):
            frames.replace(frame, depth, texts.Marked(value))
            self._formatting.add(frame)

    def build_text(self, frame: FrameType, count: int) -> None:
        """A text is made of others: of those with numbers of the call, marks."""
        for depth, value in enumerate(reversed(frames.stack(frame, count))):
            if type(value) is TracedText:
                frames.replace(frame, depth, texts.with_mark(value))
                self._formatting.add(frame)

    def fill_in(self, frame: FrameType, operand: tuple[int, tuple[str, ...]]) -> None:
        """An operator `%` that may fill in a text."""
        self.compute(frame, "%")
        template, values = frames.stack(frame, 2)
        told = values if type(values) is tuple else (values,)
        note_written(self.journal, told, source(frame), texts.writes_repr(template))
        if type(template) is str and texts.fills_in(values):
            frames.replace(frame, 1, texts.Template(template))

    def tell_text(self, frame: FrameType, _: None) -> None:
        """A special method returns a text, which C code that has called it needs itself."""
        (value,) = frames.stack(frame, 1)
        caller = frame.f_back
        if type(value) is TracedText and (caller is None or caller.f_globals is not vars(texts)):
            frames.replace(frame, 0, str(value))

    def tell_number(self, frame: FrameType, _: None) -> None:
        """A number on top of the stack goes to code that needs it itself, or to where Python keeps it."""
        (value,) = frames.stack(frame, 1)
        if type(value) in (SymbolicInt, TracedFloat):
            frames.replace(frame, 0, plain(value))

    def tie_texts(self, frame: FrameType, depths: Sequence[int]) -> None:
        """Values that lie so deep on the stack are about to be hashed, or say how to format: texts as in this call."""
        for depth in depths:
            value = frames.stack(frame, depth + 1)[0]
            note_identity(self.journal, [value], source(frame))
            self.tie_text(frame, depth)

    def tie_text(self, frame: FrameType, depth: int) -> None:
        """A value that lies so deep on the stack is about to be compared."""
        value = frames.stack(frame, depth + 1)[0]
        if type(value) is TracedText:
            frames.replace(frame, depth, str(value))

    def _with_key(self, frame: FrameType) -> Any:
        """A container and a key, on top of the stack."""
        container, key = frames.stack(frame, 2)
        if type(key) is not TracedList:
            self.tie_texts(frame, (0,))
        elif type(container) not in (Tensor, Parameter):
            frames.replace(frame, 0, key.tied())
        return frames.stack(frame, 2)

    def note_lacking(self, kind: type, names: tuple[str, ...]) -> None:
        note_lacking(self.journal, kind, names)

    def is_local_name(self, frame: FrameType, name: str) -> bool:
        """Whether a name in the body of a class, or in what is evaluated for it later, is one of its own."""
        if frame.f_code.co_code[frame.f_lasti] in _AFTER_NAMES:
            return name in frames.stack(frame, 1)[0]
        return looks_up_names(frame.f_code) and name in frames.names(frame)

    def _after_formatting(self, frame: FrameType) -> None:
        """A text has been made: what marked its numbers is taken out."""
        self._formatting.discard(frame)
        frames.replace(frame, 0, texts.without_marks(frames.stack(frame, 1)[0]))
