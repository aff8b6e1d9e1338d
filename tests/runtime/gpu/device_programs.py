"""Ops and public names on tensors of a device, eagerly and with gradients, against the same on the CPU."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from device_table import agree
from machines import compile_for, machine
from op_samples import comparable, leaves, rebuilt, samples

import eagerjit as ej
from eagerjit.cuda import execution
from eagerjit.tensors.placement import host_array
from eagerjit.tensors.tensor import Tensor

sys.path.append(str(Path(__file__).resolve().parents[2] / "oracle"))


@contextlib.contextmanager
def devices(kind: str) -> Iterator[None]:
    """Within the context tensors can lie on a device, that of a machine."""
    with machine(kind) as target:
        before, execution.compile = execution.compile, compile_for(target)
        try:
            yield
            target.finish()
        finally:
            execution.compile = before


def op_problems(kind: str, name: str) -> list[str]:
    """What is wrong with an op's samples and their gradients on a device."""
    found = []
    with devices(kind):
        for number, sample in enumerate(samples(name)):
            call, tensors = comparable(name), leaves(sample.arguments)

            def run(place: str, call: Any = call, sample: Any = sample, tensors: Any = tensors) -> Any:
                given = [t.detach().clone().to(place) for t in tensors]
                wanted = [
                    t.requires_grad_()
                    for i, t in enumerate(given)
                    if t.dtype is ej.float64 and i not in sample.constants and not name.endswith("_")
                ]
                return call(*rebuilt(sample.arguments, iter(given))), given, wanted

            found += [f"{name}, sample {number}: {problem}" for problem in differences(run)]
    return found


def name_problems(kind: str, name: str, most: int = 2) -> list[str]:
    """What is wrong with a name that programs use, in the first variations of its catalog."""
    from catalog.entries import ENTRIES
    from catalog.running import SEED, Call

    found = []
    with devices(kind):
        for number, variation in enumerate(ENTRIES[name].variations[:most]):
            if variation.random:
                continue
            sample = next(iter(variation.samples(False)))

            def run(place: str, variation: Any = variation, sample: Any = sample) -> Any:
                call = Call(name, variation, ej, sample.dtype)
                call.reset()
                if call.module is not None:
                    call.module.to(place)
                given = [t.detach().to(place).requires_grad_(t.requires_grad) for t in sample.tensors(ej)]
                ej.manual_seed(SEED)
                with ej.device(place):  # what the call makes by itself lies there too
                    return call.function(*given), given + call.state(), [t for t in given if t.requires_grad]

            found += [f"{name}, variation {number}: {problem}" for problem in differences(run, name in ANYWHERE)]
    return found


ANYWHERE = frozenset(
    "torch.from_numpy torch.utils.data.DataLoader Tensor|Module.to Tensor|Module.cpu Tensor|Module.cuda "
    "Tensor.type torch.FloatTensor torch.LongTensor".split()
)
"""Names that give tensors where they are asked to, whatever the default is."""
ARRAYS = "can't convert"
"""How the error of a name begins that gives an array, which device memory cannot be."""


def differences(run: Callable[[str], tuple[Any, Any, Any]], anywhere: bool = False) -> Iterator[str]:
    """What is otherwise on the device than on the CPU: results, what was written, gradients, and where they lie."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected, here, sources = run("cpu")
        except Exception:
            return  # what is wrong on the CPU too is not asked of a device
        try:
            found, there, targets = run("cuda")
            yield from compared("results", tensors_of(found), tensors_of(expected), anywhere)
            yield from compared("arguments", there, here, anywhere)
            if targets:
                yield from _gradients_compared((found, targets), (expected, sources), anywhere)
        except Exception as error:
            if not str(error).startswith(ARRAYS):
                yield f"{type(error).__name__}: {error}"[:300]


def _gradients_compared(there: tuple[Any, Any], here: tuple[Any, Any], anywhere: bool) -> Iterator[str]:
    """What differs between gradients, or between the errors that ask for ones that there are not."""
    try:
        expected = gradients(*here)
    except RuntimeError as error:
        try:
            gradients(*there)
            yield f"gradients without {error}"
        except RuntimeError as other:
            if str(other) != str(error):
                yield f"gradients: {other}, not {error}"
        return
    yield from compared("gradients", gradients(*there), expected, anywhere)


def gradients(results: Any, targets: Sequence[Any]) -> list[Any]:
    """Those of the sum of all results."""
    roots = [r for r in tensors_of(results) if r.requires_grad]
    if not roots:
        return []
    sums = [r.sum() for r in roots]
    found = ej.autograd.grad(sums, list(targets), [ej.ones_like(s) for s in sums], allow_unused=True)
    return [g for g in found if g is not None]


def tensors_of(results: Any) -> list[Any]:
    """The tensors among results, those in sequences too."""
    if isinstance(results, Tensor):
        return [results]
    return [t for part in results for t in tensors_of(part)] if isinstance(results, (tuple, list)) else []


def compared(what: str, found: Sequence[Any], expected: Sequence[Any], anywhere: bool) -> Iterator[str]:
    """What differs between tensors of the device and of the CPU."""
    if len(found) != len(expected):
        yield f"{len(found)} {what} instead of {len(expected)}"
        return
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        if not a.is_cuda and not anywhere:
            yield f"{what} {number} lie on the CPU"
        if not agree(host_array(a.detach().contiguous()._data), host_array(b.detach().contiguous()._data)):
            yield f"{what} {number} are others"
