"""`import torch` as eagerjit, for one program: a finder on `sys.meta_path`, and a folder that new processes search.

An installed torch is neither touched nor imported. `torch` and its submodules become eagerjit's own modules; names that
are missing raise an error that says so, and names the nearest one there is. This folder holds a package `torch` that
installs the finder, so that worker processes, which inherit `sys.path`, resolve the names in the same way.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from eagerjit.standin import trees
from eagerjit.tools.names import no_such_name

FOLDER = str(Path(__file__).parent)

_PLACES = {
    "torch._C._functorch": "eagerjit._functorch",
    **{f"torch._functorch.{name}": "eagerjit.func.functorch" for name in ("deprecated", "make_functional")},
    **{f"torch._functorch.{name}": "eagerjit.func" for name in ("apis", "eager_transforms", "functional_call")},
    "torch._functorch.vmap": "eagerjit.func.functorch_vmap",
    "torch._higher_order_ops.associative_scan": "eagerjit.control",
    "torch._higher_order_ops.cond": "eagerjit.control",
    "torch._higher_order_ops.map": "eagerjit.control",
    "torch._higher_order_ops.scan": "eagerjit.control",
    "torch._higher_order_ops.while_loop": "eagerjit.control",
    "torch._jit_internal": "eagerjit.script",
    "torch._tensor": "eagerjit.tensors.tensor",
    "torch._vmap_internals": "eagerjit.func",
    "torch.amp.autocast_mode": "eagerjit.amp.autocast",
    "torch.cpu.amp": "eagerjit.amp.cpu",
    "torch.cpu.amp.autocast_mode": "eagerjit.amp.cpu",
    "torch.cuda.amp": "eagerjit.amp.cuda",
    "torch.cuda.amp.autocast_mode": "eagerjit.amp.cuda",
    "torch.cuda.amp.grad_scaler": "eagerjit.amp.cuda",
    "torch.cuda.amp.common": "eagerjit.amp.common",
    "torch.cuda.random": "eagerjit.cuda.devices",
    "torch.nn.quantized": "eagerjit.ao.nn.quantized",
    "torch.nn.quantized.dynamic": "eagerjit.ao.nn.quantized.dynamic",
    "torch.quantization": "eagerjit.ao.quantization",
    "torch.autograd.anomaly_mode": "eagerjit.autograd.anomaly",
    "torch.autograd.variable": "eagerjit.autograd.variable",
    **dict.fromkeys(
        (f"torch.distributed.{name}" for name in (
        "_composable", "_composable.fsdp", "fsdp.fully_sharded_data_parallel",
    )), "eagerjit.distributed.fsdp"
    ),
    **dict.fromkeys((f"torch.distributed.{name}" for name in (
        "_tensor", "_tensor.experimental", "tensor._utils", "tensor.parallel", "tensor.placement_types",
    )), "eagerjit.distributed.tensor"),
    **dict.fromkeys((f"torch.distributed.elastic.{name}" for name in (
        "multiprocessing", "multiprocessing.errors",
    )), "eagerjit.distributed.elastic"),
    "torch.distributed.checkpoint.hf_storage": "eagerjit.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict": "eagerjit.distributed.checkpoint",
    "torch.distributed.constants": "eagerjit.distributed.groups",
    "torch.distributed.distributed_c10d": "eagerjit.distributed",
    "torch.distributed.launch": "eagerjit.distributed.run",
    "torch.distributed.nn.functional": "eagerjit.distributed.nn",
    "torch.jit._script": "eagerjit.script",
    "torch.jit._trace": "eagerjit.script",
    "torch.jit.annotations": "eagerjit.script.annotations",
    "torch.nn.parallel.distributed": "eagerjit.nn.distributed",
    "torch.nn.parallel.scatter_gather": "eagerjit.nn.parallel",
    "torch.nn.utils.clip_grad": "eagerjit.nn.utils",
    "torch.nn.utils.convert_parameters": "eagerjit.nn.utils",
    "torch.onnx.utils": "eagerjit.onnx",
    "torch.profiler.profiler": "eagerjit.profiler",
    "torch.testing._comparison": "eagerjit.testing",
    "torch.testing._internal": "eagerjit.testing.cases",
    "torch.testing._internal.common_utils": "eagerjit.testing.cases",
    **{f"torch.optim.{name}": "eagerjit.optim" for name in (
"_adafactor", "_muon", "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop",
        "rprop", "sgd", "sparse_adam",
    )},
    **{f"torch.onnx.symbolic_{name}": "eagerjit.onnx" for name in ("helper", *(f"opset{n}" for n in range(7, 21)))},
    "torch.fx._symbolic_trace": "eagerjit.fx.tracer",
    "torch.fx.graph_module": "eagerjit.fx.module",
    "torch.storage": "eagerjit.serialization.storages",
    "torch.torch_version": "eagerjit.version",
    **{f"torch.utils.benchmark.{name}": "eagerjit.utils.benchmark" for name in (
        "utils", "utils.common", "utils.compare", "utils.timer",
    )},
    **{f"torch.utils.data.{name}": "eagerjit.utils.data" for name in (
        "dataset", "dataloader", "sampler", "distributed", "_utils",
    )},
    **{f"torch.utils.data.datapipes.{name}": "eagerjit.utils.data.datapipes" for name in (
        "datapipe", "iter", "iter.combinatorics",
    )},
    "torch.utils.data._utils.collate": "eagerjit.utils.data.collate",
    "torch.utils.data._utils.pin_memory": "eagerjit.utils.data.pinning",
    "torch.utils.data._utils.worker": "eagerjit.utils.data.worker",
}  # fmt: skip
"""Modules of torch whose names lie elsewhere."""
_BESIDE = {"functorch": "eagerjit.func.functorch", "safetensors.torch": "eagerjit.serialization.safetensors"}
"""Modules that are not torch's, but made for it alone."""
_OF_A_FUNCTIONS_NAME = {
    "torch.autograd.gradcheck": "eagerjit.autograd.check",
    "torch.multiprocessing.spawn": "eagerjit.multiprocessing",
    **{f"torch.nn.parallel.{name}": "eagerjit.nn.parallel" for name in (
        "data_parallel", "parallel_apply", "replicate",
    )},
    "torch.nn.utils.spectral_norm": "eagerjit.nn.utils.norms",
    "torch.nn.utils.weight_norm": "eagerjit.nn.utils.norms",
}
"""Modules of torch that only import statements find: as attributes of their packages, functions have these names."""
_LOOKED_FOR = frozenset({"torch.nn.init"})
"""Modules that `import torch` has loaded in PyTorch, and in which programs replace functions if it has."""

_HOMES = {
    "torch.utils.data": {"DataLoader": "torch.utils.data.dataloader", "Dataset": "torch.utils.data.dataset"},
}
"""Modules that packages ask classes for, to see whether they are torch's."""


def module_for(name: str) -> ModuleType | None:
    """eagerjit's module for a module of torch, None where there is none."""
    place = "eagerjit" + name.removeprefix("torch")
    if name.startswith("torch.distributions."):
        from eagerjit.distributions import _HOMES

        place = _HOMES.get(name.rpartition(".")[2], place)
    for candidate in dict.fromkeys((_PLACES.get(name, place), place)):
        try:
            return importlib.import_module(candidate)
        except ModuleNotFoundError as error:
            if error.name is None or not (candidate + ".").startswith(error.name + "."):
                raise
    return None


class _Beside(ModuleType):
    """A module beside a function of its name. As it is among the loaded ones, importing it sets no attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_OF_A_FUNCTIONS_NAME[self.__name__]), name)


class _Loader(Loader):
    """Gives a module that exists already."""

    def __init__(self, module: ModuleType):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to run; the module keeps its own description."""
        module.__spec__ = self.spec


class Finder:
    """Finds torch and its submodules among eagerjit's."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """The module for a name of torch; ModuleNotFoundError for one that eagerjit lacks, None for other names."""
        if name in _BESIDE:
            return ModuleSpec(name, _Loader(importlib.import_module(_BESIDE[name])))
        if name == "optree":
            return trees.found(name, path)
        if name != "torch" and not name.startswith("torch."):
            return None
        module = module_for(name)
        if module is None:
            raise ModuleNotFoundError(f"eagerjit has no module {name}", name=name)
        _explain(module, name)
        return ModuleSpec(name, _Loader(module), is_package=True)


def _explain(module: ModuleType, name: str) -> None:
    """Let the module, and those in it, say of missing names that it is eagerjit which lacks them."""
    own: Callable[[str], Any] | None = module.__dict__.get("__getattr__")
    if getattr(own, "explains", False) or hasattr(type(module), "__getattr__"):
        return

    def missing(attribute: str) -> Any:
        if own is not None:
            try:
                found = own(attribute)
            except AttributeError:
                pass
            else:
                _explain_inner(module, name, attribute, found)
                return found
        found = None if attribute.startswith("__") else module_for(f"{name}.{attribute}")
        if found is None:
            raise no_such_name(module, name, attribute)
        return found

    missing.explains = True  # type: ignore[attr-defined]
    module.__getattr__ = missing  # type: ignore[method-assign]
    for attribute, value in list(vars(module).items()):
        _explain_inner(module, name, attribute, value)
    for kind, home in _HOMES.get(name, {}).items():
        getattr(module, kind).__module__ = home


def _explain_inner(module: ModuleType, name: str, attribute: str, value: Any) -> None:
    if isinstance(value, ModuleType) and value.__name__ == f"{_own_name(module)}.{attribute}":
        if f"{name}.{attribute}" in _LOOKED_FOR:
            sys.modules.setdefault(f"{name}.{attribute}", value)
        _explain(value, f"{name}.{attribute}")


def _own_name(module: ModuleType) -> str:
    return module.__spec__.name if module.__spec__ else module.__name__


def install() -> None:
    """Make `import torch` mean eagerjit from here on. Raises ImportError if torch itself has been imported."""
    import eagerjit

    present = sys.modules.get("torch")
    if present not in (None, eagerjit) and getattr(present, "__file__", None) != str(Path(FOLDER, "torch/__init__.py")):
        raise ImportError("torch has been imported already: eagerjit can stand in for it only before")
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    if FOLDER not in sys.path:
        sys.path.insert(min(1, len(sys.path)), FOLDER)
    _explain(eagerjit, "torch")
    if "optree" in sys.modules:
        trees.register(sys.modules["optree"])
    for name in _OF_A_FUNCTIONS_NAME:
        sys.modules.setdefault(name, _Beside(name))
    sys.modules["torch"] = eagerjit
    eagerjit.__name__ = eagerjit.Tensor.__module__ = "torch"  # by which packages know the library and its tensors
    eagerjit.torch = eagerjit  # type: ignore[attr-defined]  # as in `from torch import torch`
