"""PyTorch's own database of modules, built with both libraries: what they hold, compute, refuse, and compiled do."""

from __future__ import annotations

import copy
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from database import TOLERANCE, Converter, Unknown, _names, array_of, few, from_torch, named, outcome, resolved, tensors
from torch.nn.utils.rnn import PackedSequence
from torch.testing._internal import common_modules

import eagerjit as ej

FAST_PATH = {"activation_relu_or_gelu", "use_nested_tensor"}
"""Attributes that only tell PyTorch whether a layer can be computed by one of its fused kernels."""


def modules() -> dict[str, Any]:
    """Every module of the database by its name, but those of quantization."""
    return {info.name: info for info in common_modules.module_db if info.name.startswith("nn.")}


class ModuleConverter(Converter):
    """Converts what modules are made of and given, too."""

    def __call__(self, x: Any) -> Any:
        if isinstance(x, PackedSequence):
            return ej.nn.utils.rnn.PackedSequence(*map(self, x))
        if isinstance(x, torch.nn.LinearCrossEntropyOptions):
            return ej.nn.LinearCrossEntropyOptions(**vars(x))
        if isinstance(x, torch.nn.Module):
            if not hasattr(x, "made_of"):
                raise Unknown(type(x).__name__)
            made = getattr(ej.nn, type(x).__name__)(*map(self, x.made_of[0]), **self(x.made_of[1]))
            return loaded(made, x)
        if isinstance(x, types.FunctionType) and x in _names():
            return resolved(x)
        return super().__call__(x)


@contextmanager
def remembered(*kinds: type) -> Iterator[None]:
    """Modules of these kinds keep what they were made of: those that the database makes to make others of them."""
    plain = {kind: kind.__init__ for kind in kinds}

    def remembering(kind: type) -> Callable[..., None]:
        def make(self: Any, *args: Any, **kwargs: Any) -> None:
            plain[kind](self, *args, **kwargs)
            self.made_of = args, kwargs

        return make

    for kind in kinds:
        kind.__init__ = remembering(kind)  # type: ignore[misc]
    try:
        yield
    finally:
        for kind, function in plain.items():
            kind.__init__ = function  # type: ignore[misc]


def loaded(module: Any, theirs: Any) -> Any:
    """A module with the parameters and buffers of PyTorch's."""
    known = theirs.state_dict()
    kept = {k: v.detach().clone() for k, v in known.items() if not torch.nn.parameter.is_lazy(v)}
    if len(kept) == len(known):
        module.load_state_dict({k: from_torch(v) for k, v in kept.items()})
    return module


def described(module: Any) -> dict[str, Any]:
    """What a module shows of itself."""
    kinds = {k: (type(v).__name__.lstrip("_"), str(v.dtype).rpartition(".")[2]) for k, v in module.named_parameters()}
    sizes = {k: tuple(v.shape) for k, v in module.state_dict().items() if not type(v).__name__.startswith("Uninit")}
    names = sorted(k for k in vars(module) if not k.startswith("_") and k != "made_of")
    return {
        "repr": repr(module), "parameters": kinds, "sizes": sizes, "buffers": [k for k, _ in module.named_buffers()],
        "parts": [(k, type(m).__name__) for k, m in module.named_modules()], "attributes": names,
    }  # fmt: skip


def bits(values: Any) -> list[bytes]:
    """The bits of tensors; which NaN it is does not matter."""
    arrays = [array_of(t) for t in values if t is not None]
    return [np.where(np.isnan(a), np.nan, a).tobytes() if a.dtype.kind == "f" else a.tobytes() for a in arrays]


class Walk:
    """What a module gives, and gradients of it for inputs and parameters; again for those, where it can be."""

    def __init__(self, library: Any, module: Any, args: Any, kwargs: Any):
        given = module(*args, **kwargs)
        self.library, self.out = library, all_tensors(given)
        self.roots = [t for t in self.out if t.requires_grad]
        leaves = [*all_tensors([*args, kwargs]), *module.parameters()]
        self.leaves = list({id(t): t for t in leaves if t.requires_grad}.values())

    def gradients(self, seeds: list[Any], create_graph: bool) -> list[Any]:
        if not self.roots or not self.leaves:
            return []
        how = {"allow_unused": True, "create_graph": create_graph}
        return list(self.library.autograd.grad(self.roots, self.leaves, seeds, **how))

    def second(self, first: list[Any], chosen: list[int], seeds: list[Any], more: list[Any]) -> list[Any]:
        roots = [first[i] for i in chosen]
        return list(self.library.autograd.grad(roots, self.leaves + more, seeds, allow_unused=True))


def all_tensors(x: Any) -> list[Any]:
    """The tensors in what a module takes or gives, packed sequences among it."""
    if isinstance(x, (PackedSequence, ej.nn.utils.rnn.PackedSequence)):
        return [x.data]
    if isinstance(x, (list, tuple)):
        return [t for part in x for t in all_tensors(part)]
    return tensors(x)


def is_close(found: Any, expected: Any, limit: float) -> bool:
    """Whether tensors agree; none is as good as zeros."""
    a, b = (None if t is None else array_of(t) for t in (found, expected))
    if a is None or b is None:
        return not np.any(a) and not np.any(b)
    return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, limit, limit, equal_nan=True)


class ModuleComparison:
    """What differs of one module, by kind."""

    def __init__(self, info: Any):
        self.info, self.found = info, dict[str, str]()
        self.compared: Any = None

    def note(self, kind: str, what: Any) -> None:
        """Keep the first difference of a kind."""
        self.found.setdefault(kind, str(what)[:400])

    def run(self, dtypes: Any, samples: int) -> dict[str, str]:
        """Some samples in each dtype, while training and not, and all errors."""
        if not hasattr(ej.nn, self.info.module_cls.__name__):
            return {"missing": self.info.name}
        self._errors()
        for dtype in dtypes:
            for training in (True, False) if self.info.train_and_eval_differ else (True,):
                for sample in self._inputs(dtype, training)[:samples]:
                    try:
                        self._sample(sample, dtype, training)
                    except Unknown:
                        continue
        return self.found

    def _inputs(self, dtype: Any, training: bool) -> Any:
        torch.manual_seed(0)
        how = {"device": "cpu", "dtype": dtype, "requires_grad": True, "training": training}
        with remembered(torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoderLayer):
            every = list(self.info.module_inputs_func(self.info, **how))
        return few(iter(every), len(every))

    def _sample(self, sample: Any, dtype: Any, training: bool) -> None:
        convert, given = ModuleConverter(), sample.constructor_input
        args, kwargs = convert(list(given.args)), convert(dict(given.kwargs))
        theirs = self.info.module_cls(*given.args, **given.kwargs)
        ours = getattr(ej.nn, self.info.module_cls.__name__)(*args, **kwargs)
        self._compare_descriptions(ours, theirs)
        if sample.forward_input is None:
            return
        call = list(sample.forward_input.args), dict(sample.forward_input.kwargs)
        own = convert(call[0]), convert(call[1])
        theirs.to(dtype).train(training)
        ours.to(named(str(dtype).rpartition(".")[2])).train(training)
        if self.info.is_lazy:
            outcome(theirs, *call[0], **call[1])
            outcome(ours, *own[0], **own[1])
            self._compare_descriptions(ours, theirs)
        loaded(ours, theirs)
        compiled = copy.deepcopy(ours)
        torch.manual_seed(0)
        again, _ = outcome(copy.deepcopy(theirs), *call[0], **call[1])
        expected, wanted = outcome(Walk, torch, theirs, *call)
        ej.manual_seed(0)
        found, error = outcome(Walk, ej, ours, *own)
        if wanted is not None or error is not None:
            if wanted is None or not isinstance(error, type(wanted)):
                self.note("error", f"{error!r} where PyTorch has {wanted!r}")
            return
        drawn = bits(all_tensors(again)) != bits(expected.out)
        limit = TOLERANCE[str(dtype).rpartition(".")[2]]
        self._compare_results(ours, theirs, found, expected, drawn, limit)
        if not self.found:
            self._compare_gradients(found, expected, drawn, limit, dtype is torch.float64)
            self._compare_compiled(compiled, ours, found, own)

    def _compare_descriptions(self, ours: Any, theirs: Any) -> None:
        found, expected = described(ours), described(theirs)
        missing = [name for name in expected.pop("attributes") if name not in FAST_PATH and not hasattr(ours, name)]
        found.pop("attributes")
        for kind in expected:
            if found[kind] != expected[kind]:
                self.note(kind, f"{found[kind]} where PyTorch has {expected[kind]}")
        if missing:
            self.note("attributes", missing)

    def _compare_results(self, ours: Any, theirs: Any, found: Walk, expected: Walk, drawn: bool, limit: float) -> None:
        if len(found.out) != len(expected.out):
            return self.note("result", "another number of tensors")
        for a, b in zip(found.out, expected.out, strict=True):
            kinds = [(str(t.dtype).rpartition(".")[2], tuple(t.shape), t.requires_grad) for t in (a, b)]
            if kinds[0] != kinds[1]:
                self.note("result", f"{kinds[0]} where PyTorch has {kinds[1]}")
            elif not drawn and not is_close(a, b, limit):
                self.note("result", "other values")
        if len(found.leaves) != len(expected.leaves):
            self.note("result", "another number of leaves")
        for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
            if not is_close(a, b, limit):
                self.note("buffers", name)

    def _compare_gradients(self, found: Walk, expected: Walk, drawn: bool, limit: float, twice: bool) -> None:
        twice = twice and self.info.supports_gradgrad
        seeds = [torch.randn(t.shape, dtype=torch.float64).to(t.dtype).requires_grad_(twice) for t in expected.roots]
        own = [from_torch(s).requires_grad_(twice) for s in seeds]
        theirs, wanted = outcome(expected.gradients, seeds, twice)
        first, error = outcome(found.gradients, own, twice)
        if error is not None or wanted is not None:
            if wanted is None:
                self.note("gradient", repr(error))
            return
        if not drawn and not all(is_close(a, b, limit) for a, b in zip(first, theirs, strict=True)):
            self.note("gradient", "other values")
        self.compared = own, twice, first
        of = [i for i, (a, b) in enumerate(zip(first, theirs, strict=True)) if is_differentiable(a, b)]
        if not twice or not of:
            return
        more = [torch.randn_like(theirs[i]).detach() for i in of]
        theirs, wanted = outcome(expected.second, theirs, of, more, seeds)
        again, error = outcome(found.second, first, of, [from_torch(m) for m in more], own)
        if error is not None and wanted is None:
            self.note("second gradient", repr(error))
        elif error is None and wanted is None and not drawn:
            if not all(is_close(a, b, limit * 10) for a, b in zip(again, theirs, strict=True)):
                self.note("second gradient", "other values")

    def _compare_compiled(self, module: Any, plain: Any, expected: Walk, own: Any) -> None:
        """A compiled module is the plain one, bit for bit."""
        ej.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = Walk(ej, ej.jit(module), *own)
        if bits(found.out) != bits(expected.out) or bits(module.buffers()) != bits(plain.buffers()):
            self.note("compiled", "other bits")
        if self.compared is None:
            return
        seeds, twice, first = self.compared
        if bits(found.gradients(seeds, twice)) != bits(first):
            self.note("compiled", "other bits of gradients")

    def _errors(self) -> None:
        """What the database knows to be refused."""
        if self.info.module_error_inputs_func is None:
            return
        how = {"device": "cpu", "dtype": torch.float32, "requires_grad": False, "training": True}
        for bad in self.info.module_error_inputs_func(self.info, **how):
            convert, made, call = ModuleConverter(), bad.module_error_input.constructor_input, None
            theirs, wanted = outcome(self.info.module_cls, *made.args, **made.kwargs)
            kind = getattr(ej.nn, self.info.module_cls.__name__)
            ours, error = outcome(kind, *convert(list(made.args)), **convert(dict(made.kwargs)))
            call = bad.module_error_input.forward_input
            if wanted is None and error is None and call is not None:
                own = convert(list(call.args)), convert(dict(call.kwargs))
                _, wanted = outcome(theirs, *call.args, **call.kwargs)
                _, error = outcome(ours, *own[0], **own[1])
            if wanted is not None and not isinstance(error, type(wanted)):
                self.note("error", f"{error!r} where PyTorch has {wanted!r}")


def is_differentiable(*gradients: Any) -> bool:
    """Whether all gradients have gradients in turn."""
    return all(g is not None and g.requires_grad for g in gradients)
