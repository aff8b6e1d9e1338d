"""PyTorch's own database of operators, run on both libraries: samples are converted, results and gradients compared."""

from __future__ import annotations

import functools
import operator
import re
import sys
import types
import unittest
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

import eagerjit as ej

sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))  # type: ignore[arg-type]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations as database
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core

# Importing it has forbidden flags to all. What `torch.backends` is, is not the module that its functions look at.
torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True

database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

# For each sample it looks for a TestCase on the stack, and reads the source of every frame: there is none.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

DTYPES = "float32 complex128 bool uint8 int64 float16 bfloat16 complex64 int32 int8 int16 uint16 uint32 uint64".split()
TOLERANCE = {"float16": 5e-3, "bfloat16": 4e-2, "float32": 1e-4, "float64": 1e-7, "complex64": 1e-4, "complex128": 1e-7}
DRAWN = re.compile("bernoulli|multinomial|dropout|rand|normal(?!ize)|uniform|empty|rrelu|cauchy|exponential|geometric")
"""What the names of operators contain whose values are anything, or drawn: their dtypes and shapes are compared.

So are those of what two seeds give two values of.
"""


class Unknown(Exception):
    """What the other library has not: a dtype, a layout, a function."""


def operators() -> dict[str, Any]:
    """Every operator of the database by its name and variant."""
    return {o.formatted_name: o for o in database.op_db if not o.name.startswith("jiterator")}


# -- from PyTorch to here ----------------------------------------------------------------------------------------------


class Converter:
    """Converts values of one call; a tensor that is met again is the same one."""

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}
        self.storages: dict[Any, Any] = {}

    def __call__(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self._tensor(x)
        if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
            return named(str(x).rpartition(".")[2])
        if isinstance(x, torch.device):
            return ej.device(str(x))
        if type(x) in (list, tuple, torch.Size):
            return (list if type(x) is list else tuple)(map(self, x))
        if type(x) is dict:
            return {k: self(v) for k, v in x.items()}
        if isinstance(x, types.FunctionType):
            return rebound(x)
        if type(x).__module__.startswith("torch"):
            raise Unknown(type(x).__name__)
        return x

    def _tensor(self, x: Any) -> Any:
        if id(x) not in self.made:
            if x.layout is not torch.strided or x.is_nested or x.is_quantized or x.device.type != "cpu":
                raise Unknown(str(x.layout))
            made = from_torch(x, self.storages)
            self.made[id(x)] = made.requires_grad_() if x.requires_grad else made
        return self.made[id(x)]


def from_torch(x: Any, storages: dict[Any, Any] | None = None) -> Any:
    """A tensor with the same elements, dtype and strides, over a storage that those converted before may share."""
    plain, dtype = x.detach().resolve_conj().resolve_neg(), named(str(x.dtype).rpartition(".")[2])
    storages, storage = {} if storages is None else storages, plain.untyped_storage()
    if not storage.nbytes():
        return made_empty(tuple(plain.shape), dtype)
    key = storage.data_ptr(), dtype
    if key not in storages:
        flat = torch.empty(0, dtype=plain.dtype).set_(storage, 0, (storage.nbytes() // plain.itemsize,)).clone()  # type: ignore[call-overload]
        halves = flat.dtype is torch.bfloat16
        storages[key] = ej.tensor(flat.view(torch.int16).numpy()).view(dtype) if halves else ej.tensor(flat.numpy())
    shown = tuple(plain.shape), tuple(plain.stride()), plain.storage_offset()
    return ej.as_strided(storages[key], *shown).detach()


def made_empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """A tensor of no elements."""
    try:
        return ej.empty(shape, dtype=dtype)
    except NotImplementedError as error:
        raise Unknown(str(dtype)) from error


def named(name: str) -> Any:
    """What the library has under a dotted name."""
    try:
        return functools.reduce(getattr, name.split("."), ej)
    except (AttributeError, NotImplementedError) as error:
        raise Unknown(name) from error


@functools.cache
def _names() -> dict[Any, str]:
    """The dotted names of PyTorch's functions, shortest last."""
    out: dict[Any, str] = {}
    for path in ("Tensor", "nn.functional", "special", "linalg", "fft", "signal.windows", "masked", ""):
        module = functools.reduce(getattr, filter(None, path.split(".")), torch)
        for name in dir(module):
            value = getattr(module, name)
            if callable(value) and type(value).__hash__ is not None:
                out[value] = f"{path}.{name}".lstrip(".")
    return out


def rebound(function: Any, depth: int = 0) -> Any:
    """A function of the database's with this library in place of PyTorch."""
    if not isinstance(function, types.FunctionType):
        return resolved(function)
    scope = dict(function.__globals__)
    modules = {torch: ej, torch.nn.functional: ej.nn.functional, torch.nn: ej.nn}
    for name in names_read(function.__code__):
        value = scope.get(name)
        if isinstance(value, types.ModuleType) and value in modules:
            scope[name] = modules[value]
        elif isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing") and depth < 2:
            scope[name] = rebound(value, depth + 1)
    cells = tuple(types.CellType(_rebound_cell(c.cell_contents)) for c in function.__closure__ or ())
    made = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def names_read(code: types.CodeType) -> set[str]:
    """The names that code and the functions in it read."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(names_read, inner))


def _rebound_cell(value: Any) -> Any:
    if isinstance(value, (torch.Tensor, torch.dtype)):
        return Converter()(value)
    try:
        return rebound(value) if callable(value) else value
    except Unknown:
        return value


def resolved(function: Any) -> Any:
    """What is called here as a function of PyTorch's is there."""
    if isinstance(function, functools.partial):
        return functools.partial(rebound(function.func), *map(Converter(), function.args), **function.keywords)
    if getattr(function, "__module__", "") == "_operator" or (
        isinstance(function, type(len)) and function in vars(operator).values()
    ):
        return function
    if type(function).__hash__ is not None and function in _names():
        return named(_names()[function])
    raise Unknown(str(function))


def function_of(op: Any) -> Callable[..., Any]:
    """What corresponds to an operator."""
    if isinstance(op.op, types.FunctionType) and op.op.__module__.startswith("torch.testing"):
        return rebound(op.op)
    if op.name.startswith("__"):
        return named(f"Tensor.{op.name}")
    if op.op in _names() and getattr(torch, op.name, None) != op.op:
        return named(_names()[op.op])
    return named(op.name)


# -- comparing ---------------------------------------------------------------------------------------------------------


def tensors(x: Any) -> list[Any]:
    """The tensors in a result, in order."""
    if isinstance(x, (torch.Tensor, ej.Tensor)):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return [t for part in parts for t in tensors(part)]


def array_of(x: Any) -> Any:
    """The elements of a tensor of either library."""
    plain = x.detach()
    if not str(plain.layout).endswith("strided"):
        plain = plain.to_dense()
    if isinstance(plain, torch.Tensor):
        plain = plain.resolve_conj().resolve_neg()
        wider = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
        return plain.to(wider.get(plain.dtype, plain.dtype)).numpy(force=True)
    return (plain.float() if plain.dtype is ej.bfloat16 else plain).numpy()


def is_same(found: Any, expected: Any, drawn: bool = False) -> bool:
    """Whether results agree in structure, dtypes, shapes and, but for what is drawn, values."""
    ours, theirs = tensors(found), tensors(expected)
    if len(ours) != len(theirs):
        return False
    if not theirs and not isinstance(expected, (list, tuple, dict)):
        plain = isinstance(expected, (float, complex)) and not drawn
        return bool(np.isclose(found, expected, 1e-4, 1e-6, True)) if plain else drawn or found == expected
    for a, b in zip(ours, theirs, strict=True):
        name = str(b.dtype).rpartition(".")[2]
        if str(a.dtype).rpartition(".")[2] != name or tuple(a.shape) != tuple(b.shape):
            return False
        limit = TOLERANCE.get(name, 0)
        with np.errstate(all="ignore"):
            if not drawn and not np.allclose(array_of(a), array_of(b), limit, limit, equal_nan=name in TOLERANCE):
                return False
    return True


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    """A result, or an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs), None
    except Exception as error:
        return None, error


class Comparison:
    """What differs of one operator, by kind."""

    def __init__(self, op: Any):
        self.op, self.found = op, dict[str, str]()
        self.drawn = DRAWN.search(op.formatted_name) is not None

    def run(self, samples: int) -> dict[str, str]:
        """Samples of a floating-point dtype with gradients, and one of another dtype."""
        try:
            self.function = function_of(self.op)
        except Unknown as error:
            return {"missing": str(error)}
        dtypes = {str(d).rpartition(".")[2]: d for d in self.op.dtypes}
        first = next((n for n in ("float64", "complex128", "float32") if n in dtypes), None)
        others = [n for n in DTYPES if n in dtypes and n != first]
        if first is not None:
            self._samples(dtypes[first], samples)
        if others:
            self._samples(dtypes[others[zlib.crc32(self.op.formatted_name.encode()) % len(others)]], 1)
        if self.op.error_inputs_func is not None:
            self._errors()
        return self.found

    def _samples(self, dtype: Any, count: int) -> None:
        grad = self.op.supports_autograd and dtype in (torch.float64, torch.complex128)
        torch.manual_seed(0)
        ej.manual_seed(0)
        chosen, error = outcome(lambda: few(self.op.sample_inputs("cpu", dtype, requires_grad=grad), count))
        for sample in chosen if error is None else ():
            try:
                self._call(sample, grad)
                self._variants(sample)
            except Unknown:
                continue

    def note(self, kind: str, what: Any) -> None:
        """Keep the first difference of a kind."""
        self.found.setdefault(kind, str(what)[:200])

    def _agree(self, kind: str, ours: Any, theirs: Any, drawn: bool = False) -> bool:
        """Whether two outcomes agree; notes it where they don't."""
        (found, error), (expected, wanted) = ours, theirs
        if isinstance(error, Unknown):
            return False
        if wanted is not None or error is not None:
            if wanted is None or error is None or not isinstance(error, type(wanted)):
                self.note(kind, f"{error!r} where PyTorch has {wanted!r}")
            return False
        if not is_same(found, expected, drawn):
            self.note(kind, "other values, dtypes or shapes")
            return False
        return True

    def _call(self, sample: Any, grad: bool) -> None:
        convert = Converter()
        given = convert([sample.input, list(sample.args), sample.kwargs])
        theirs = outcome(self.op.op, sample.input, *sample.args, **sample.kwargs)
        ours = outcome(self.function, given[0], *given[1], **given[2])
        torch.manual_seed(1)
        again = outcome(self.op.op, sample.input, *sample.args, **sample.kwargs)
        drawn = self.drawn or (again[1] is None and not is_same(again[0], theirs[0]))
        part = sample.output_process_fn_grad
        if not self._agree("result", ours, theirs, drawn=True):
            return
        self._layouts(ours[0], theirs[0], given[0], sample.input)
        if drawn:
            return
        parts = outcome(rebound(part), ours[0]), outcome(part, theirs[0])
        if not (is_same(ours[0], theirs[0]) or self._agree("result", *parts)) or not grad:
            return
        ours, theirs = parts
        pairs = [(a, b) for a, b in zip(tensors(ours[0]), tensors(theirs[0]), strict=True) if b.requires_grad]
        leaves = list(
            {id(t): t for t in tensors([sample.input, list(sample.args), sample.kwargs]) if t.requires_grad}.values()
        )
        if not pairs or not leaves:
            return
        if any(not a.requires_grad for a, _ in pairs):
            return self.note("gradient", "requires no gradient")
        seeds = [torch.randn(b.shape, dtype=torch.float64).to(b.dtype) for _, b in pairs]
        wanted = outcome(torch.autograd.grad, [b for _, b in pairs], leaves, seeds, allow_unused=True)
        got = outcome(
            ej.autograd.grad,
            [a for a, _ in pairs],
            [convert(t) for t in leaves],
            [from_torch(s) for s in seeds],
            allow_unused=True,
        )
        if wanted[1] is None and got[1] is None:  # nothing depends on a leaf: None, or zeros
            got = [array_of(x) if x is not None else np.zeros(()) for x in got[0]], None
            wanted = [array_of(x) if x is not None else np.zeros(()) for x in wanted[0]], None
            if not all(np.allclose(a, b, 1e-6, 1e-6, True) for a, b in zip(got[0], wanted[0], strict=True)):
                self.note("gradient", "other values")
        elif wanted[1] is None:
            self.note("gradient", repr(got[1]))

    def _layouts(self, found: Any, expected: Any, operand: Any, given: Any) -> None:
        """Views share memory and have PyTorch's strides; what is computed is row-major, or as PyTorch has it."""
        if not isinstance(given, torch.Tensor) or not given.numel():
            return
        for a, b in zip(tensors(found), tensors(expected), strict=True):
            if b.layout is not torch.strided or not b.numel():
                continue
            is_view = b.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
            if is_view != (a.untyped_storage().data_ptr() == operand.untyped_storage().data_ptr()):
                self.note("layout", f"PyTorch's result {'shares' if is_view else 'does not share'} memory")
            elif is_view and a.stride() != b.stride():
                self.note("layout", f"strides {a.stride()} where PyTorch has {b.stride()}")
            elif not is_view and not a.is_contiguous() and a.stride() != b.stride():
                self.note("layout", f"strides {a.stride()} for shape {tuple(a.shape)}")

    def _variants(self, sample: Any) -> None:
        """The operator with out=, as a method and in place."""
        if self.drawn or not isinstance(sample.input, torch.Tensor):
            return
        given = detached([sample.input, list(sample.args), sample.kwargs])
        plain, error = outcome(self.op.op, given[0], *given[1], **given[2])
        if error is not None or not isinstance(plain, torch.Tensor):
            return
        ours = Converter()(given)
        if self.op.supports_out:
            out = torch.empty(0, dtype=plain.dtype)
            own = Converter()(out)
            theirs = outcome(self.op.op, given[0], *given[1], **given[2], out=out)
            self._agree("out", outcome(self.function, ours[0], *ours[1], **ours[2], out=own), theirs)
        for kind, variant in (("method", self.op.method_variant), ("in place", self.op.inplace_variant)):
            name = getattr(variant, "__name__", "<lambda>")
            if name == "<lambda>" or not hasattr(torch.Tensor, name):
                continue
            left, own = given[0].clone(), ours[0].clone()
            theirs = outcome(variant, left, *given[1], **given[2])
            if not hasattr(ej.Tensor, name):
                self.note(kind, "missing")
            elif self._agree(kind, outcome(getattr(ej.Tensor, name), own, *ours[1], **ours[2]), theirs):
                if not is_same(own, left):
                    self.note(kind, "another operand afterwards")

    def _errors(self) -> None:
        """What the database knows to be refused."""
        inputs, error = outcome(lambda: list(self.op.error_inputs("cpu")))
        for bad in inputs if error is None else ():
            sample = bad.sample_input
            try:
                given = Converter()([sample.input, list(sample.args), sample.kwargs])
            except (Unknown, RuntimeError, ValueError):
                continue
            _, wanted = outcome(self.op.op, sample.input, *sample.args, **sample.kwargs)
            _, got = outcome(self.function, given[0], *given[1], **given[2])
            if wanted is not None and not isinstance(got, (type(wanted), Unknown)):
                self.note("error", f"{got!r} where PyTorch has {wanted!r}")


def detached(x: Any) -> Any:
    """The same without history."""
    if isinstance(x, torch.Tensor):
        return x.detach()
    if type(x) in (list, tuple):
        return type(x)(map(detached, x))
    return {k: detached(v) for k, v in x.items()} if type(x) is dict else x


def few(samples: Iterator[Any], count: int) -> Sequence[Any]:
    """Some of the first samples: those in the middle, which are seldom empty or of no dimension."""
    known = [sample for sample, _ in zip(samples, range(40), strict=False)]
    return known[len(known) // 2 :][:1] + known[: count - 1]
