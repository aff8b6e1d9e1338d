"""Modules of torch that programs import in passing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import eagerjit

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import sys
import torch
import torch.compiler
import torch._dynamo as dynamo
import torch._inductor.config
import torch.backends.nnpack
import torch.distributed.autograd
import torch.distributed.fsdp
import torch.distributed.nn
import torch.utils._triton
import torch.utils.deterministic
import functorch
from functorch import make_functional
from torch import DeviceObjType, TensorType
from torch._functorch.deprecated import vmap
from torch.ao.quantization import FakeQuantizeBase, ObserverBase
from torch.distributed._composable.fsdp import FSDPModule
from torch.distributed._tensor.experimental import implicit_replication
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributions.multivariate_normal import _precision_to_scale_tril
from torch.distributions.transforms import _clipped_sigmoid
from torch.jit import Error, TracerWarning, _get_trace_graph
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _collate_fn_t
from torch import torch as itself
from torch._subclasses.fake_tensor import is_fake
from torch.autograd.function import FunctionCtx
from torch import ScriptModule as AnotherName
from torch._C import DisableTorchFunctionSubclass, Graph, Value
from torch._C._functorch import is_batchedtensor
from torch._custom_ops import get_ctx
from torch._dynamo.eval_frame import OptimizedModule, is_dynamo_supported
from torch._dynamo.utils import is_compile_supported
from torch.ao.quantization import DeQuantStub, QuantStub
from torch.autograd.graph import save_on_cpu
from torch.autograd.profiler import EventList, emit_nvtx
from torch.distributed import rpc
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.futures import Future, collect_all
from torch.autograd.grad_mode import no_grad
from torch._tensor_str import PRINT_OPTS, _add_suffixes, _tensor_str
from torch.distributed._functional_collectives import wait_tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard
from torch.utils.cpp_extension import CUDA_HOME, load
from torch.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe
from torch.distributed.tensor import DTensor
from torch.distributions.utils import _standard_normal, lazy_property
from torch.functional import einsum
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.hub import HASH_REGEX, load_state_dict_from_url
from torch.jit import ScriptFunction, ScriptModule
from torch.jit.annotations import BroadcastingList2, List
from torch.nn.common_types import _size_2_t
from torch.nn.modules.module import _IncompatibleKeys
from torch.nn.modules.pooling import FractionalMaxPool2d
from torch.nn.parallel.scatter_gather import scatter
from torch.nn.parameter import UninitializedTensorMixin
from torch.nn.utils import prune
from torch.onnx import symbolic_opset11
from torch.onnx.symbolic_helper import parse_args
from torch.optim.rmsprop import RMSprop
from torch.serialization import DEFAULT_PROTOCOL
from torch.signal.windows import hann
from torch.storage import TypedStorage, UntypedStorage
from torch.utils.benchmark import Compare, Timer
from torch.utils.data._utils.collate import default_collate, np_str_obj_array_pattern
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.checkpoint import get_device_states, set_device_states
from torch.utils.hooks import RemovableHandle
from torch.utils.model_zoo import load_state_dict_from_url, tqdm


def why(call):
    try:
        call()
    except (OSError, NotImplementedError, RuntimeError) as error:
        return str(error)


torch._C._log_api_usage_once("a program")
assert torch.__name__ == torch.Tensor.__module__ == "torch" and torch.tensordot.__name__ == "tensordot"
assert not torch.onnx.is_in_onnx_export() and not isinstance(torch.ones(1), (DTensor, torch.distributed.tensor.Shard))
assert torch.distributed.device_mesh.DeviceMesh.__name__ == "DeviceMesh"
assert _add_suffixes(_tensor_str(torch.tensor([1, 2]), 2), ["a"], 2) == "[1, 2], a)" and PRINT_OPTS.edgeitems == 3
assert torch.ops.aten.add.Tensor(torch.ones(1), 1) == 2 and torch.ops.aten.add is torch.ops.aten.add
assert all("eagerjit" in why(call) for call in (
    lambda: torch.ops.load_library("x.so"), lambda: torch.ops.aten.unheard_of(1), lambda: init_device_mesh("cpu", (2,)),
    lambda: emit_nvtx().__enter__(), get_ctx,
))
with FlopCounterMode(display=False) as counter:
    torch.ones(2, 3) @ torch.ones(3, 4)
assert counter.get_flop_counts()["Global"][torch.ops.aten.mm] == counter.get_total_flops() == 48
assert itself is torch and not is_fake(torch.ones(1)) and get_proxy_mode() is None
assert not isinstance(3, (torch.SymInt, torch.SymFloat, torch.SymBool))
assert not isinstance(torch.nn.ReLU(), (ScriptFunction, ScriptModule))
assert not torch._C._are_functorch_transforms_active() and get_device_states(torch.ones(1)) == ([], [])
assert torch.func.vmap(lambda x: x * torch._C._are_functorch_transforms_active())(torch.ones(2)).sum() == 2
assert not rpc.is_available() and not torch.profiler.kineto_available() and is_dynamo_supported()
assert torch._dynamo.is_dynamo_supported is is_dynamo_supported
assert is_compile_supported("cpu") and not is_compile_supported("xpu") and not is_batchedtensor(torch.ones(1))
assert parse_args("v", "i")(scatter) is scatter and torch.jit._script_if_tracing(scatter) is scatter
assert torch.onnx.register_custom_op_symbolic("a::b", scatter, 11) is None and AnotherName is ScriptModule
assert isinstance(torch.nn.Linear(1, 1).load_state_dict({}, strict=False), _IncompatibleKeys)
assert isinstance(torch.nn.LazyLinear(1).weight, UninitializedTensorMixin) and torch.Future is Future
assert torch.nn.init is sys.modules["torch.nn.init"]
assert isinstance(torch.ones(1).untyped_storage(), UntypedStorage) and np_str_obj_array_pattern.search("<U3")
torch.distributed.init_process_group(rank=0, world_size=1)
parameters = [torch.ones(1, requires_grad=True)]
sharded = ZeroRedundancyOptimizer(parameters, torch.optim.SGD, lr=0.5, parameters_as_bucket_view=True)
assert isinstance(sharded, torch.optim.SGD) and sharded.param_groups[0]["lr"] == 0.5
alone = torch.distributed.group.WORLD
gathered, scattered, exchanged, reduced = [None], [None], [torch.zeros(2)], torch.zeros(2)
torch.distributed.gather_object("a", gathered)
torch.distributed.scatter_object_list(scattered, ["b"])
torch.distributed.all_to_all(exchanged, [torch.ones(2)])
torch.distributed.reduce_scatter(reduced, [torch.ones(2)])
assert gathered == ["a"] and scattered == ["b"] and exchanged[0].sum() == reduced.sum() == 2
assert torch.distributed.get_global_rank(alone, 0) == 0 and torch.distributed.get_process_group_ranks(alone) == [0]
torch.distributed.destroy_process_group()
assert not isinstance(torch.nn.ReLU(), (FSDPModule, torch.distributed.fsdp.FullyShardedDataParallel, ObserverBase))
assert not torch.distributed.autograd.is_available() and record(why) is why and not torch.backends.nnpack.is_available()
assert functorch.make_functional is make_functional and torch._functorch.deprecated.vmap is functorch.vmap is vmap
assert issubclass(TracerWarning, Warning) and issubclass(TensorType, torch._C.JitType) and Error.__mro__[1] is Exception
assert DeviceObjType and Graph and Value
assert why(lambda: FSDPModule()) and why(lambda: implicit_replication()) and why(lambda: _get_trace_graph(why))
assert _precision_to_scale_tril(torch.eye(2) * 4)[0, 0] == 0.5 and 0 < _clipped_sigmoid(torch.tensor(-200.0)) < 1
assert pin_memory({"a": [1, "b"]}) == {"a": [1, "b"]} and torch.utils.deterministic.fill_uninitialized_memory
assert _StridedShard(0, split_factor=2) != _StridedShard(0, split_factor=1) and CUDA_HOME is None
assert why(lambda: load("one", [])) and why(compute_local_shape_and_global_offset) and why(HuggingFaceStorageReader)
assert sorted(ShufflerIterDataPipe(range(4))) == [0, 1, 2, 3]
assert HASH_REGEX.search("net-5c106cde.pth").group(1) == "5c106cde"
set_device_states([], [])
dynamo.config.suppress_errors = True
assert dynamo.mark_static(parameters[0]) is dynamo.mark_static_address(parameters[0], guard=True) is None
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
with save_on_cpu(), no_grad(), DisableTorchFunctionSubclass():
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

CLASSES = """
import torch
import torch.utils._device
from torch.amp.grad_scaler import OptState
from torch.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel
from torch.serialization import normalize_storage_type
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data._utils.worker import _generate_state
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

assert DataLoader.__module__ == "torch.utils.data.dataloader" and Dataset.__module__ == "torch.utils.data.dataset"
assert issubclass(IterableDataset, Dataset) and torch.distributed.fsdp.FullyShardedDataParallel
assert normalize_storage_type(torch.FloatStorage) is torch.FloatStorage and OptState.READY is not OptState.STEPPED
assert torch.utils._device.CURRENT_DEVICE is None
with torch.device("meta"):
    assert torch.utils._device.CURRENT_DEVICE == torch.device("meta")
assert torch.utils._device.set_device("meta")(torch.ones)(2).is_meta and not torch.ones(2).is_meta


def set_meta(self, value):
    self.meta = value


class Refuses(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


torch.Tensor.set_meta = set_meta
x = torch.ones(2).as_subclass(Refuses)
x.set_meta(3)
assert vars(x)["meta"] == 3
"""


@pytest.mark.parametrize("program", [PROGRAM, CLASSES], ids=["modules", "classes"])
def test_program_runs(tmp_path: Path, program: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "eagerjit", "run", str(script)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_layers_below_keep_their_names() -> None:
    assert eagerjit.compiler.disable is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = eagerjit.compiler.no_such_name
