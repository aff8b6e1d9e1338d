"""Names of PyTorch's insides that packages which extend it ask for, and memory that is a file's, against PyTorch's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import eagerjit
import eagerjit._C
import eagerjit._functorch

LIBRARIES = (torch, eagerjit)


def part(t: Any, name: str) -> ModuleType:
    return importlib.import_module(f"{t.__name__}.{name}")


def tried(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as problem:
        return type(problem)


def swapped_tensors(t: Any) -> Any:
    module, x = t.nn.BatchNorm1d(2), t.nn.Parameter(t.zeros(2))
    accessor = part(t, "nn.utils._named_member_accessor")
    swap, missing = accessor.swap_tensor, accessor._MISSING
    module.kept, module.number = t.ones(1), 3
    before = module.weight, module.running_mean, module.kept
    yield [swap(module, n, x) is b for n, b in zip(("weight", "running_mean", "kept"), before, strict=True)]
    yield module.weight is x, module._buffers["running_mean"] is x, module.kept is x
    yield swap(module, "bias", None) is None, module.bias, swap(module, "new", x, allow_missing=True) is missing
    yield module.new is x, swap(module, "weight", missing) is x, hasattr(module, "weight")
    yield swap(module, "new", missing) is x, hasattr(module, "new"), swap(module, "gone", missing, True) is missing
    for module_, name, value in (
        (3, "x", x), (module, "a.b", x), (module, "", x), (module, "absent", x), (module, "number", x),
        (module, "bias", 3),
    ):  # fmt: skip
        yield tried(lambda m=module_, n=name, v=value: swap(m, n, v))


def hooks_of_all_modules(t: Any) -> Any:
    module = part(t, "nn.modules.module")
    kinds = ("parameter_registration", "buffer_registration", "module_registration", "forward_pre", "forward")
    found = [getattr(module, f"_global_{kind}_hooks") for kind in kinds]
    yield list(map(len, found))
    hooks = [lambda *_: None, lambda *_: None]
    register = module.register_module_parameter_registration_hook, module.register_module_forward_hook
    handles = [add(hook) for add, hook in zip(register, hooks, strict=True)]
    yield list(map(len, found)), [*found[0].values()] == hooks[:1], [*found[4].values()] == hooks[1:]
    yield handles[0].id in found[0], handles[0].id in found[4], tried(lambda: found[4][handles[0].id])
    for handle in handles:
        handle.remove()
    yield list(map(len, found)), list(found[0])


def modes_and_memory(t: Any) -> Any:
    class Mode(t.overrides.TorchFunctionMode):  # type: ignore[misc,name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    yield t._C._is_torch_function_mode_enabled()
    with Mode():
        yield t._C._is_torch_function_mode_enabled()
    x = t.ones(4)
    others = (x, x[1:], x[:2].view(2, 1), x.clone(), t.ones(4))
    yield [t._C._is_alias_of(x, y) for y in others], t._C._is_alias_of(x[:1], x[2:])
    yield isinstance(x.untyped_storage(), t.StorageBase), isinstance(x.untyped_storage(), t._C.StorageBase)


def questions(t: Any) -> Any:
    class Wrapper(t.Tensor):  # type: ignore[misc,name-defined]
        def __tensor_flatten__(self) -> Any:
            return [], None

        @staticmethod
        def __tensor_unflatten__(*parts: Any) -> Any:
            return None

    ask = part(t, "utils._python_dispatch").is_traceable_wrapper_subclass
    yield ask(t.ones(1)), ask(3), ask(t.ones(1).as_subclass(Wrapper))
    yield part(t, "_utils")._get_device_module("cpu") is t.cpu, part(t, "_utils")._get_device_module("cuda") is t.cuda
    yield tried(lambda: part(t, "_utils")._get_device_module("nonsense"))
    yield part(t, "_utils")._get_available_device_type()
    yield part(t, "_guards").active_fake_mode(), part(t, "_guards").detect_fake_mode([t.ones(1)])
    yield part(t, "_functorch" if t is eagerjit else "_C._functorch").get_unwrapped is not None


def divergences(t: Any) -> Any:
    kl, normal = part(t, "distributions.kl"), t.distributions.Normal
    yield (normal, normal) in kl._KL_REGISTRY, (normal, t.distributions.Poisson) in kl._KL_REGISTRY

    class Mine(t.distributions.Distribution):  # type: ignore[misc,name-defined]
        pass

    kl.register_kl(Mine, normal)(lambda p, q: t.ones(()))
    yield (Mine, normal) in kl._KL_REGISTRY
    yield isinstance(t.nn.Parameter, part(t, "nn.parameter")._ParameterMeta)
    yield isinstance(t.ones(1), t._C._distributed_rpc.PyRRef)


@pytest.mark.parametrize("steps", [swapped_tensors, hooks_of_all_modules, modes_and_memory, questions, divergences])
def test_as_pytorch_does(steps: Any) -> None:
    theirs, ours = (list(steps(t)) for t in LIBRARIES)
    assert ours == theirs


def test_no_tensor_wraps_another() -> None:
    x = eagerjit.ones(2)
    assert eagerjit._functorch.get_unwrapped(x) is x


def tensors_of_files(t: Any, path: Path) -> Any:
    """What programs see of files that are tensors' memory: results, classes of errors and what is in the file."""
    name, file = str(path), path.read_bytes
    yield tried(lambda: t.from_file(name, size=3))
    made = t.from_file(name, shared=True, size=3)
    yield made.tolist(), made.dtype, len(file())
    made.fill_(2)
    yield file()
    yield t.from_file(name, False, 2).tolist(), tried(lambda: t.from_file(name, size=5))
    yield t.from_file(name, True, 5).tolist(), len(file()), made.tolist()
    private = t.from_file(name, size=3)
    private += 5
    yield private.tolist(), made.tolist(), file()
    for dtype in (t.int64, t.uint8, t.bool, t.float16, t.bfloat16, t.complex64):
        yield t.from_file(name, size=1, dtype=dtype).view(-1).tolist()
    yield t.from_file(name).tolist(), t.from_file(name, True, 0).tolist(), t.from_file(name, None, 2).tolist()
    needs = t.from_file(name, size=2, dtype=t.float64, requires_grad=True)
    yield needs.requires_grad, needs.is_leaf
    for wrong in ({"filename": 3}, {"size": -1}, {"size": 1.5}):
        yield tried(lambda wrong=wrong: t.from_file(**{"filename": name, **wrong}))
    yield tried(lambda: t.from_file(str(path / "absent"), shared=True, size=3))
    storage = t.FloatStorage.from_file(name, False, 2)
    yield storage.tolist(), t.UntypedStorage.from_file(name, True, 8).filename == name


def test_files_as_memory(tmp_path: Path) -> None:
    def seen(t: Any, path: Path) -> Any:
        return [(str(step).replace("eagerjit.", "torch.")) for step in tensors_of_files(t, path)]

    assert seen(eagerjit, tmp_path / "ours") == seen(torch, tmp_path / "theirs")


def test_compiled_functions_read_files_anew(tmp_path: Path) -> None:
    path = tmp_path / "numbers"

    @eagerjit.jit
    def total(x: Any) -> Any:
        return eagerjit.from_file(str(path), size=2).sum() + x

    with pytest.warns(UserWarning, match="it maps a file"):
        for first in (1.0, 2.0, 3.0):
            path.write_bytes(eagerjit.tensor([first, 1.0]).numpy().tobytes())
            assert float(total(eagerjit.zeros(()))) == first + 1


def test_a_file_that_is_too_short_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"12345678")
    for t in LIBRARIES:
        with pytest.raises(RuntimeError, match=r"size <8> is smaller than the required mapping size <12>"):
            t.from_file(str(tmp_path / "short"), size=3)
        with pytest.raises(RuntimeError, match=r"unable to open file <.*absent> in read-only mode: No such file"):
            t.from_file(str(tmp_path / "absent"), size=3)
