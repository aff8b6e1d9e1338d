"""Named cases that run twice, eagerly and jitted, and must not differ in anything that Python code can see.

A case is a generator function of one argument, `jit`. It builds its world (tensors, Modules, lists, whatever the
function reads), makes the function with `jit`, and is the script: it calls the function, changes the world, calls
again, and yields whatever should be compared. To add one, put it in a file `tests/soundness/cases_<area>.py`:

    @case
    def an_attribute_replaced(jit):
        config = types.SimpleNamespace(scale=2.0)
        f = jit(lambda x: x * config.scale)
        for config.scale in (2.0, 3.0, -0.0):
            f(torch.ones(2))
        yield config

and run `EAGERJIT_UPDATE_TABLES=1 pytest tests/soundness/test_cases.py`, which also writes docs/soundness.md.

What is compared needs little writing: every call of a jitted function is logged with its result (values, dtype, sizes,
strides, requires_grad), with what it shares memory or identity with, with its arguments as they are afterwards (and
their gradients), and with its exception, which goes on to the script: `attempt(f, x)` swallows it. Output, warnings and
the random states of Python, NumPy and the library are compared by themselves. Everything yielded is, too.

The outcome is found out, and must be the one that the case declares:

    right           compiled, never run eagerly, and the same
    fell back       the same, run eagerly after one warning that names a line of the case
    refused         an error that names a line of the case

`@case(versions=2)` also limits how many versions are compiled; `@case(outcome=FELL_BACK)` expects another outcome.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import eagerjit as torch
from eagerjit.jit import JitFunction, JitWarning

RIGHT, FELL_BACK, REFUSED = "right", "fell back", "refused"
OUTCOMES = {RIGHT: "right", FELL_BACK: "fell back with a warning", REFUSED: "refused at the user's line"}
DIFFERENT = "silently different"
FOLDER = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Case:
    """A script, and what is expected to come of it."""

    name: str
    area: str
    script: Callable[..., Any]
    outcome: str
    versions: int | None
    file: str


@dataclasses.dataclass
class Outcome:
    """What came of a case: its class, versions compiled, calls made, and for a reader why it is not another."""

    kind: str
    versions: int = 0
    calls: int = 0
    reason: str = ""


CASES: dict[str, Case] = {}


def case(script: Any = None, *, outcome: str = RIGHT, versions: int | None = None) -> Any:
    """Register a script under its name, in the area named by its file."""
    if script is None:
        return lambda script: case(script, outcome=outcome, versions=versions)
    area = script.__module__.rpartition(".")[2].removeprefix("cases_").replace("_", " ")
    name = script.__name__.replace("_", " ")
    if name in CASES:
        raise ValueError(f"two cases are called {name!r}")
    file = Path(script.__code__.co_filename).name
    CASES[name] = Case(name, area, script, outcome, versions, file)
    return script


def all_cases() -> dict[str, Case]:
    """Every case of the folder's files, by name."""
    for path in sorted(FOLDER.glob("cases_*.py")):
        importlib.import_module(f"{__package__}.{path.stem}")
    return CASES


def attempt(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, or its exception as a value."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return error


# -- one run -----------------------------------------------------------------------------------------------------------


class Run:
    """One run of a script: what it saw, and the jitted functions it made."""

    def __init__(self, jitted: bool):
        self.jitted = jitted
        self.log: list[Any] = []
        self.functions: list[JitFunction] = []
        self.warnings: list[str] = []
        self.error: Exception | None = None
        self.inside = False

    def jit(self, function: Any = None, **options: Any) -> Any:
        """What the script takes for `eagerjit.jit`."""
        if function is None:
            return lambda function: self.jit(function, **options)
        if isinstance(function, (classmethod, staticmethod)):
            return type(function)(self.jit(function.__func__, **options))
        made = torch.jit(function, **options) if self.jitted else function
        if self.jitted:
            self.functions.append(getattr(made, "_compiled", made))
        return made if isinstance(function, torch.nn.Module) else Logged(self, made)

    def __call__(self, script: Callable[..., Any]) -> Run:
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                for value in script(self.jit):
                    self.log.append(("yield", _copy(value)))
            except Exception as error:
                self.error = error
                self.log.append(("raised", _copy(error)))
        for w in caught:
            if issubclass(w.category, JitWarning):
                self.warnings.append(str(w.message))
            else:
                self.log.append(("warning", w.category.__name__, str(w.message), Path(w.filename).name, w.lineno))
        self.log.append(("output", output.getvalue()))
        self.log.append(("random", random.random(), np.random.random(), torch.rand(2).tolist()))
        return self


class Logged:
    """A function whose outermost calls are logged: results, arguments afterwards, shared memory, exceptions."""

    def __init__(self, run: Run, function: Callable[..., Any]):
        self.run, self.function = run, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outermost, self.run.inside = not self.run.inside, True
        if not outermost:
            return self.function(*args, **kwargs)
        try:
            result = self.function(*args, **kwargs)
        except Exception as error:
            self.run.log.append(("raised", _copy(error), _copy([args, kwargs])))
            raise
        finally:
            self.run.inside = False
        self.run.log.append(("call", _copy([result, args, kwargs])))
        return result

    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None else Logged(self.run, self.function.__get__(instance, owner))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


def run(script: Case) -> tuple[Outcome, Run, Run]:
    """The outcome of a case, and the two runs that show it."""
    eager, jitted = Run(False)(script.script), Run(True)(script.script)
    return _outcome(script, eager, jitted), eager, jitted


def _outcome(script: Case, eager: Run, jitted: Run) -> Outcome:
    infos = [f.cache_info() for f in jitted.functions]
    outcome = Outcome(DIFFERENT, sum(i.compiles for i in infos), sum(e[0] == "call" for e in jitted.log))
    line = re.compile(rf"{re.escape(script.file)}:\d+")
    if isinstance(jitted.error, RuntimeError) and eager.error is None and line.search(str(jitted.error)):
        return dataclasses.replace(outcome, kind=REFUSED, reason=str(jitted.error))
    difference = first_difference(eager.log, jitted.log)
    if difference is not None:
        return dataclasses.replace(outcome, reason=difference)
    if jitted.warnings:
        named = all(line.search(w) for w in jitted.warnings) and len(jitted.warnings) <= len(jitted.functions)
        kind = FELL_BACK if named else "warnings that are not one per function, each naming a line"
        return dataclasses.replace(outcome, kind=kind, reason="; ".join(jitted.warnings))
    if not outcome.versions or any(i.eager_calls for i in infos):
        return dataclasses.replace(outcome, kind="ran eagerly without a warning")
    return dataclasses.replace(outcome, kind=RIGHT)


def first_difference(eager: list[Any], jitted: list[Any]) -> str | None:
    """Where two logs part, or None."""
    for number, (a, b) in enumerate(zip(eager, jitted, strict=False)):
        if a != b:
            return f"entry {number}: eagerly {a!r}, jitted {b!r}"
    return None if len(eager) == len(jitted) else f"{len(eager)} entries eagerly, {len(jitted)} jitted"


# -- comparable copies -------------------------------------------------------------------------------------------------


def _copy(value: Any) -> Any:
    return _Copier().copy(value)


class _Copier:
    """Turns objects into nested tuples that are equal exactly if Python code could not tell the objects apart.

    Objects are numbered as they are met, and tensors also by the memory that they lie in, so that which ones are the
    same or share memory is part of the copy.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.memory: dict[int, tuple[int, int]] = {}
        self.alive: list[Any] = []

    def copy(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str, bytes, type):
            return kind.__name__, value
        if kind in (float, complex):
            return kind.__name__, repr(value)
        if id(value) in self.numbers:
            return "again", self.numbers[id(value)]
        self.numbers[id(value)] = len(self.numbers)
        self.alive.append(value)
        return (kind.__name__, *self._parts(value))

    def _parts(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, torch.Tensor):
            with torch._C.DisableTorchFunctionSubclass():
                return *self._tensor(value), *((name, self.copy(v)) for name, v in vars(value).items())
        if isinstance(value, (np.ndarray, np.generic)):
            return str(value.dtype), value.shape, bits_of(np.asarray(value))
        if isinstance(value, dict):
            return tuple((self.copy(k), self.copy(v)) for k, v in value.items())
        if isinstance(value, (list, tuple)):
            return tuple(map(self.copy, value))
        if isinstance(value, (set, frozenset)):
            return tuple(sorted(map(repr, map(self.copy, value))))
        if isinstance(value, BaseException):  # compiled code adds the line to what a kernel's check says
            return tuple(re.sub(r" \(\S+\.py:\d+\)", "", a) if isinstance(a, str) else self.copy(a) for a in value.args)
        if isinstance(value, torch.dtype):
            return (str(value),)
        if callable(value) and not hasattr(value, "__dict__"):
            return (getattr(value, "__name__", ""),)
        slots = [n for c in type(value).__mro__ for n in getattr(c, "__slots__", ()) if hasattr(value, n)]
        state = {n: getattr(value, n) for n in slots} | getattr(value, "__dict__", {})
        return tuple((k, self.copy(v)) for k, v in state.items() if not k.startswith("__"))

    def _tensor(self, value: Any) -> tuple[Any, ...]:
        plain = value.detach()
        array = plain.numpy()
        owner = array
        while hasattr(owner.base, "base"):  # arrays, and what NumPy puts between views by strides
            owner = owner.base
        self.alive.append(owner)
        address = array.ctypes.data
        where, first = self.memory.setdefault(id(owner), (len(self.memory), address)) if array.size else (None, address)
        grad = self.copy(value.grad) if value.is_leaf else None
        return (
            str(value.dtype), tuple(value.shape), tuple(value.stride()), value.requires_grad, value.is_leaf,
            where, address - first, bits_of(array), grad,
        )  # fmt: skip


def bits_of(array: np.ndarray[Any, Any]) -> bytes:
    """Every bit but the sign and payload of NaN: where two of them meet, the processor's instruction picks one."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype)
    if array.dtype.kind in "fV" and array.dtype.names is None and array.size:
        array = np.where(array != array, array.dtype.type(np.nan), array)
    return array.tobytes()


# -- the table ---------------------------------------------------------------------------------------------------------


def table() -> str:
    """docs/soundness.md: every case with its outcome."""
    cases = list(all_cases().values())
    counts = {o: sum(c.outcome == o for c in cases) for o in OUTCOMES}
    out = [
        "# Soundness cases",
        "",
        "Written by `EAGERJIT_UPDATE_TABLES=1 pytest tests/soundness/test_cases.py`. Each case is a script of calls",
        "with state changing in between, run eagerly and jitted: results, gradients, tensors written, Python side",
        "effects, output and exceptions are the same bit for bit in every one of them (which of two NaNs an operation",
        "passes on is the processor's).",
        "",
        "| outcome | cases | share |",
        "|---|---|---|",
        *(f"| {OUTCOMES[o]} | {n} | {100 * n / len(cases):.1f}% |" for o, n in counts.items()),
        f"| {DIFFERENT} | 0 | 0% |",
    ]
    for area in dict.fromkeys(c.area for c in cases):
        out += ["", f"## {area.capitalize()}", "", "| case | outcome |", "|---|---|"]
        out += [f"| {c.name} | {OUTCOMES[c.outcome]} |" for c in cases if c.area == area]
    return "\n".join(out) + "\n"
