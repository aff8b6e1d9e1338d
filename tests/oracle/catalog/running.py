"""Runs one sample with both libraries, and once more compiled."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from oracle import DTYPES, TOLERANCE, draw, dtype_name, same

import eagerjit as ej
from catalog.sample import Sample, Variation
from eagerjit.watching.observation import TraceBreak

SEED = 1234
for module in "fx testing distributions utils._pytree utils.data multiprocessing".split():
    importlib.import_module(f"torch.{module}")


@dataclass
class Outcome:
    """What a call did: its results or its error, and what it left in tensors."""

    results: Any = None
    error: BaseException | None = None
    backward_error: BaseException | None = None
    leaves: list[Any] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)
    shared: list[bool] = field(default_factory=list)


def named(name: str, library: Any) -> Any:
    """The function that a name stands for in a library; None for what is not a function, such as a property."""
    owner, _, last = name.rpartition(".")
    if owner in OWNERS:
        found = getattr(OWNERS[owner](library), last)
    elif owner.startswith("torch"):
        found = library
        for part in name.split(".")[1:]:
            found = getattr(found, part)
    else:
        return None
    return found if callable(found) else None


OWNERS: dict[str, Callable[[Any], Any]] = {
    "Tensor": lambda t: t.Tensor,
    "Tensor|Module": lambda t: t.Tensor,
    "Module": lambda t: t.nn.Module,
    "Module|Function": lambda t: t.autograd.Function,
    "Module|Optimizer": lambda t: t.nn.Module,
    "Optimizer/Scheduler": lambda t: t.optim.Optimizer,
}
"""What names of methods belong to."""


class Call:
    """A variation as a function of its tensors alone, with the module in it, whose numbers every run sets anew."""

    def __init__(self, name: str, variation: Variation, library: Any, dtype: str):
        self.library, self.variation, self.module = library, variation, None
        function, called = variation.function, named(name, library)
        if variation.module is not None:
            called = self.module = variation.module(library)
            if dtype in TOLERANCE:
                self.module.to(getattr(library, dtype))
        self.function: Callable[..., Any] = lambda *tensors: function(library, called, *tensors)

    def state(self) -> list[Any]:
        """The module's parameters and buffers."""
        return [] if self.module is None else [*self.module.parameters(), *self.module.buffers()]

    def reset(self) -> None:
        """Give parameters and buffers values that depend on their names only; an optimizer forgets its steps."""
        if self.module is None:
            return
        named_tensors = [*self.module.named_parameters(), *self.module.named_buffers()]
        with self.library.no_grad():
            for name, tensor in named_tensors:
                if tensor.is_floating_point():
                    low = 0.5 if "running_var" in name else -1
                    values = draw(tuple(tensor.shape), "float64", low, 1, sum(map(ord, name)))
                    tensor.copy_(self.library.tensor(values))
                else:
                    tensor.zero_()
                tensor.grad = None
            optimizer = getattr(self.module, "optimizer", None)
            for state in optimizer.state.values() if optimizer is not None else ():
                for tensor in tensors_of(list(state.values())):
                    tensor.zero_()


def tensors_of(results: Any) -> list[Any]:
    """The tensors among results, those in sequences too."""
    if isinstance(results, (ej.Tensor, torch.Tensor)):
        return [results]
    return [t for part in results for t in tensors_of(part)] if isinstance(results, (tuple, list)) else []


def shares(result: Any, tensor: Any) -> bool:
    """Whether two tensors lie in the same memory."""
    if not result.numel() or not tensor.numel():
        return False
    if isinstance(result, torch.Tensor):
        return result.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
    return np.may_share_memory(result._data, tensor._data)


def seed(library: Any) -> None:
    """Begin the CPU's random numbers anew; PyTorch's `manual_seed` also notes a stack trace for each kind of device."""
    (torch.default_generator if library is torch else library).manual_seed(SEED)


def run(call: Call, function: Callable[..., Any], sample: Sample) -> Outcome:
    """Call, then differentiate a weighted sum of what can be."""
    library, done = call.library, Outcome()
    call.reset()
    tensors = sample.tensors(library)
    seed(library)
    try:
        done.results = function(*tensors)
    except Exception as error:
        done.error = error
        return done
    leaves = tensors + call.state()
    done.shared = [shares(r, t) for r in tensors_of(done.results) for t in tensors]
    done.leaves = [t.detach().clone() for t in leaves]
    roots = [r for r in tensors_of(done.results) if r.requires_grad]
    weights = [draw(tuple(r.shape), "float64", -1, 1, 7 + i) for i, r in enumerate(roots)]
    if roots:
        try:
            seeds = [library.tensor(w).to(r.dtype) for w, r in zip(weights, roots, strict=True)]
            library.autograd.backward(roots, seeds)
        except Exception as error:
            done.backward_error = error
        done.gradients = [t.grad for t in leaves]
    return done


def same_error(ours: BaseException | None, theirs: BaseException, what: str) -> None:
    """Assert that ours is of the class of theirs, as `except` sees it.

    Where PyTorch lacks a kernel for a dtype, its code chooses between RuntimeError and that class's child
    NotImplementedError by the macro that the kernel is written with: the parent is expected.
    """
    assert ours is not None, f"{what} is accepted where PyTorch raises {theirs!r}"
    expected = next(c for c in type(theirs).__mro__ if c.__module__ == "builtins")
    expected = RuntimeError if expected is NotImplementedError else expected
    assert isinstance(ours, expected), f"{what} raises {ours!r} where PyTorch raises {theirs!r}"


LACKING = re.compile(
    "not implemented for|expected scalar type|Integral inputs|not support|Input type|same dtype|mixed dtype|datatype"
)
"""What PyTorch says where it has no kernel for a dtype."""


def does_more(ours: Outcome, theirs: Outcome, sample: Sample) -> bool:
    """Whether a dtype that PyTorch has no kernel for is computed."""
    lacking = isinstance(theirs.error, RuntimeError) and LACKING.search(str(theirs.error)) is not None
    return lacking and ours.error is None and sample.dtype != "float32"


def compare(ours: Outcome, theirs: Outcome, variation: Variation) -> set[str]:
    """Assert that an eager call does what PyTorch's does; what was compared: "error", or "forward" and "gradient"."""
    if theirs.error is not None:
        same_error(ours.error, theirs.error, "the call")
        return {"error"}
    if ours.error is not None:
        raise ours.error
    if variation.random:
        _alike(ours.results, theirs.results)
        return {"forward"}
    same(plain(ours.results), plain(theirs.results), variation.tolerance)
    for a, b in zip(tensors_of(ours.results), tensors_of(theirs.results), strict=True):
        assert a.requires_grad == b.requires_grad, "what requires a gradient differs"
        if variation.strides and b.numel():
            assert _strides(a) == _strides(b), f"strides {_strides(a)} instead of {_strides(b)}"
    assert ours.shared == theirs.shared, f"which results share memory with which arguments: {ours.shared}"
    for index, (a, b) in enumerate(zip(ours.leaves, theirs.leaves, strict=True)):
        same(a, b, variation.tolerance, f"argument {index} after the call")
    if theirs.backward_error is not None:
        same_error(ours.backward_error, theirs.backward_error, "backward")
        return {"forward", "error"}
    if ours.backward_error is not None:
        raise ours.backward_error
    for index, (a, b) in enumerate(zip(ours.gradients, theirs.gradients, strict=True)):
        assert (a is None) == (b is None), f"gradient of argument {index}: {a} instead of {b}"
        if b is not None:
            same(a, b, variation.tolerance, f"gradient of argument {index}")
    return {"forward", "gradient"} if any(g is not None for g in theirs.gradients) else {"forward"}


def _strides(tensor: Any) -> list[int]:
    """Strides of the dimensions along which there is more than one element."""
    return [s for s, d in zip(tensor.stride(), tensor.shape, strict=True) if d > 1]


def plain(results: Any) -> Any:
    """Results with arrays as lists and floats as PyTorch's precision shows them."""
    if isinstance(results, np.ndarray):
        return str(results.dtype), results.shape, results.tolist()
    if isinstance(results, float):
        return float(f"{results:.4g}")
    return type(results)(map(plain, results)) if type(results) in (tuple, list) else results


def _alike(ours: Any, theirs: Any) -> None:
    """Assert that results have the same types, and the same booleans, but for the numbers drawn."""
    found, expected = tensors_of(ours), tensors_of(theirs)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (dtype_name(a), tuple(a.shape), a.requires_grad) == (dtype_name(b), tuple(b.shape), b.requires_grad)
        if b.dtype is torch.bool:
            same(a, b)


def bits(value: Any) -> Any:
    """All that a result is: type, shape, strides and bytes of tensors."""
    if isinstance(value, ej.Tensor):
        array = value.detach().contiguous()._data
        return str(value.dtype), tuple(value.shape), _strides(value), value.requires_grad, array.tobytes()
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [bits(v) for v in value]
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return value if value == value else "nan"


def jitted_is_eager(call: Call, sample: Sample, eager: Outcome) -> None:
    """Assert that a compiled call has the bits of the eager one, gradients and errors included, twice."""
    jitted = ej.jit(call.function)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = run(call, jitted, sample)
        if eager.error is not None:
            assert type(found.error) is type(eager.error), f"compiled: {found.error!r} instead of {eager.error!r}"
            return
        if found.error is not None:
            raise found.error
        reasons = [str(w.message) for w in caught if issubclass(w.category, ej.jit.JitWarning)]
        allowed = call.variation.eager
        assert not reasons or (allowed and allowed in reasons[0]), reasons[0]
        assert type(found.backward_error) is type(eager.backward_error), f"compiled: {found.backward_error!r}"
        assert found.shared == eager.shared, f"compiled: {found.shared} share memory, eagerly {eager.shared}"
        for what in ("results", "leaves", "gradients"):
            a, b = bits(getattr(found, what)), bits(getattr(eager, what))
            assert a == b, f"compiled {what} differ: {getattr(found, what)} instead of {getattr(eager, what)}"


@dataclass
class Compared:
    """What of a name was compared with PyTorch, by kind of sample; and how many samples were compiled.

    `refused` are kinds of which PyTorch refuses a sample, and of which the class of the error was compared.
    """

    samples: int = 0
    forward: set[str] = field(default_factory=set)
    gradient: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    errors: int = 0
    dtypes: set[str] = field(default_factory=set)
    compiled: int = 0

    def add(self, sample: Sample, what: set[str]) -> None:
        """Note a sample."""
        self.samples += 1
        if "error" in what:
            self.errors += 1
            self.refused.add(sample.kind)
        if "forward" in what:
            self.forward.add(sample.kind)
            self.dtypes.add(sample.dtype)
        if "gradient" in what:
            self.gradient.add(sample.kind)


def failures(
    name: str, variations: Sequence[Variation], more: Sequence[str] = (), compared: Compared | None = None
) -> Iterator[str]:
    """What differs from PyTorch, or compiled from eager, sample by sample; `compared` is told what was.

    `more` are the dtypes that are known to be computed where PyTorch has no kernel for them.
    """
    compared = Compared() if compared is None else compared
    found_more = set()
    for number, variation in enumerate(variations):
        made: dict[tuple[Any, str], Call] = {}
        for sample in variation.samples(number == 0):
            for library in (torch, ej):
                if (library, sample.dtype) not in made:
                    made[library, sample.dtype] = Call(name, variation, library, sample.dtype)
            their_call, our_call = made[torch, sample.dtype], made[ej, sample.dtype]
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    theirs, ours = (
                        run(their_call, their_call.function, sample),
                        run(our_call, our_call.function, sample),
                    )
                if does_more(ours, theirs, sample):
                    found_more.add(sample.dtype)
                else:
                    compared.add(sample, compare(ours, theirs, variation))
                if sample.jitted(number == 0):
                    jitted_is_eager(our_call, sample, ours)
                    compared.compiled += 1
            except (Exception, TraceBreak) as error:
                yield f"{number} {sample}: {type(error).__name__} {str(error)[:400]}"
    if found_more != set(more):
        yield f"dtypes that PyTorch has no kernel for: {' '.join(d for d in DTYPES if d in found_more)}"
