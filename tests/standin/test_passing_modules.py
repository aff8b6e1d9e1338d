"""Modules of torch that programs import in passing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import eagerjit

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import torch
import torch.compiler
import torch._dynamo as dynamo
import torch._inductor.config
import torch.distributed.nn
from torch import torch as itself
from torch._subclasses.fake_tensor import is_fake
from torch.autograd.function import FunctionCtx
from torch.autograd.graph import save_on_cpu
from torch.autograd.grad_mode import no_grad
from torch._tensor_str import PRINT_OPTS, _add_suffixes, _tensor_str
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributions.utils import _standard_normal, lazy_property
from torch.functional import einsum
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.hub import HASH_REGEX, load_state_dict_from_url
from torch.jit import ScriptFunction, ScriptModule
from torch.nn.common_types import _size_2_t
from torch.nn.modules.pooling import FractionalMaxPool2d
from torch.nn.utils import prune
from torch.optim.rmsprop import RMSprop
from torch.signal.windows import hann
from torch.utils.benchmark import Compare, Timer
from torch.utils.checkpoint import get_device_states, set_device_states
from torch.utils.hooks import RemovableHandle
from torch.utils.model_zoo import load_state_dict_from_url


def why(call):
    try:
        call()
    except (OSError, NotImplementedError) as error:
        return str(error)


torch._C._log_api_usage_once("a program")
assert torch.__name__ == torch.Tensor.__module__ == "torch" and torch.tensordot.__name__ == "tensordot"
assert not torch.onnx.is_in_onnx_export() and not isinstance(torch.ones(1), (DTensor, torch.distributed.tensor.Shard))
assert torch.distributed.device_mesh.DeviceMesh.__name__ == "DeviceMesh"
assert _add_suffixes(_tensor_str(torch.tensor([1, 2]), 2), ["a"], 2) == "[1, 2], a)" and PRINT_OPTS.edgeitems == 3
assert torch.ops.aten.add.Tensor(torch.ones(1), 1) == 2 and torch.ops.aten.add is torch.ops.aten.add
assert all("eagerjit" in why(call) for call in (
    lambda: torch.ops.load_library("x.so"), lambda: torch.ops.aten.unheard_of(1), lambda: init_device_mesh("cpu", (1,)),
))
assert itself is torch and not is_fake(torch.ones(1)) and get_proxy_mode() is None
assert not isinstance(3, (torch.SymInt, torch.SymFloat, torch.SymBool))
assert not isinstance(torch.nn.ReLU(), (ScriptFunction, ScriptModule))
assert not torch._C._are_functorch_transforms_active() and get_device_states(torch.ones(1)) == ([], [])
assert torch.func.vmap(lambda x: x * torch._C._are_functorch_transforms_active())(torch.ones(2)).sum() == 2
assert HASH_REGEX.search("net-5c106cde.pth").group(1) == "5c106cde"
set_device_states([], [])
dynamo.config.suppress_errors = True
torch._inductor.config.coordinate_descent_tuning = True


@torch.compiler.disable
def plain(x):
    return x + 1


@torch.compile
def f(x):
    return plain(x) * 2


assert f(torch.ones(2)).tolist() == [4.0, 4.0]
assert torch.compiler.disable(f)(torch.ones(2)).tolist() == [4.0, 4.0]
assert not torch.compiler.is_compiling()
assert einsum("i,i->", torch.ones(2), torch.ones(2)) == 2
assert type(torch.ones(2, 2).max(0)) is torch.return_types.max
assert not (torch.mps.is_available() or torch.xpu.is_available() or torch.mtia.is_available())
assert isinstance(torch.nn.Linear(1, 1).register_forward_hook(print), RemovableHandle)
assert "eagerjit" in torch.__config__.show()
assert torch.jit.isinstance([1], list[int])
with save_on_cpu(), no_grad():
    pass
timed = Timer("x + 1", globals={"x": torch.ones(3)}, label="add", sub_label="3", description="small")
found = timed.timeit(10)
assert found.number_per_run == 10 and found.mean > 0 and "add" in repr(found)
assert timed.blocked_autorange(min_run_time=0.001).median > 0
assert "[add]" in str(Compare([found, found]))
try:
    load_state_dict_from_url("https://localhost/none.pth")
except FileNotFoundError as error:
    assert "none.pth" in str(error)
else:
    raise AssertionError
"""


def test_program_runs(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "eagerjit", "run", str(script)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_layers_below_keep_their_names() -> None:
    assert eagerjit.compiler.disable is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = eagerjit.compiler.no_such_name
