"""Names that programs touch in passing: devices, types by old names, switches, accelerators; against PyTorch."""

from __future__ import annotations

import gzip
import json
import operator
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import without_cuda
from oracle import result

import eagerjit as ej

LIBRARIES = (ej, torch)


def _cpu_streams(t: Any) -> Any:
    """Which stream is the current one, and what is asked of streams and events."""
    first, stream, event, found = t.cpu.current_stream(), t.cpu.Stream(), t.cpu.Event(), []
    with t.cpu.stream(stream):
        found.append(t.cpu.current_stream() is stream)
        with t.cpu.StreamContext(None):
            found.append(t.cpu.current_stream("cpu") is stream)
    found += [t.cpu.current_stream() is first, event.query(), event.record(), event.wait(), event.synchronize()]
    found += [stream.record_event(), stream.wait_event(event), stream.wait_stream(first), t.cpu.is_initialized()]
    return found


def _leaf_and_result(t: Any) -> tuple[Any, Any]:
    leaf = t.ones(2, requires_grad=True)
    return leaf, leaf * 2


def _hooks_listed(tensor: Any, kept: bool) -> list[bool]:
    """Whether a hook lies in the tensor's table, alone, and leaves it with its handle."""
    if kept:
        tensor.retain_grad()
    found = [tensor._backward_hooks is None]
    handle = tensor.register_hook(abs)
    found += [tensor._backward_hooks[handle.id] is abs, len(tensor._backward_hooks) == 1]
    handle.remove()
    return [*found, not tensor._backward_hooks]


def _hooks_cleared(leaf: Any, made: Any) -> Any:
    leaf.register_hook(lambda g: g * 3)
    made.register_hook(lambda g: g * 5)
    leaf._backward_hooks.clear()
    made.sum().backward()
    return leaf.grad


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "_assert": lambda t: t._assert(True, "x"),
    "_assert fails": lambda t: t._assert(False, "x"),
    "_assert_async": lambda t: t._assert_async(t.tensor(1)),
    "_assert_async fails": lambda t: t._assert_async(t.tensor(0), "x"),
    "_assert_async of several": lambda t: t._assert_async(t.ones(2)),
    "to_dense": lambda t: (t.ones(2).to_dense(), t.ones(2).to_dense(t.float64)),
    "dtypes of names": lambda t: (t.quint8, t.qint32, t.complex32, t.chalf, t.int4, t.bits8, t.quint8.itemsize),
    "dtype of parts": lambda t: (t.complex64.to_real(), t.float64.to_complex(), t.float32.to_real()),
    "dtype of no parts": lambda t: t.int64.to_complex(),
    "sign of quantized": lambda t: t.quint8.is_signed,
    "finfo of quantized": lambda t: t.finfo(t.qint8),
    "promoted quantized": lambda t: t.promote_types(t.quint8, t.float32),
    "default quantized": lambda t: t.set_default_dtype(t.quint8),
    "zeros of quantized": lambda t: t.zeros(2, dtype=t.quint8),
    "pickled quantized": lambda t: pickle.loads(pickle.dumps(t.quint8)) is t.quint8,
    "beyond 64 bits": lambda t: t.ones(2) * 2**64,
    "beyond 64 bits, negative": lambda t: t.ones(2) + -(2**64),
    "compared beyond 64 bits": lambda t: t.ones(2) < 2**64,
    "of 64 bits": lambda t: t.ones(2) * 2**63,
    "device": lambda t: t.device("cpu"),
    "device number": lambda t: t.device("cuda:1"),
    "device index": lambda t: t.device("cuda", 1),
    "device names": lambda t: t.device(type="cuda", index=2),
    "device parts": lambda t: (t.device("cuda:3").type, t.device("cuda:3").index, t.device("cpu").index),
    "device text": lambda t: [str(t.device(d)) for d in ("cpu", "cpu:0", "cuda:1", "mps", "meta")],
    "device copy": lambda t: t.device(t.device("cuda:1")),
    "device equal": lambda t: [t.device("cpu") == d for d in (t.device("cpu"), t.device("cpu:0"), "cpu", None)],
    "device hash": lambda t: len({t.device("cpu"), t.device("cpu"), t.device("cuda")}),
    "device pickle": lambda t: pickle.loads(pickle.dumps(t.device("cuda:1"))),
    "device unknown": lambda t: t.device("gpu"),
    "device empty": lambda t: t.device(""),
    "device negative": lambda t: t.device("cuda:-1"),
    "device zeros": lambda t: t.device("cuda:01"),
    "device negative index": lambda t: t.device("cpu", -1),
    "device both": lambda t: t.device("cuda:0", 1),
    "device float": lambda t: t.device(1.5),
    "device int": lambda t: t.device(0),
    "device none": lambda t: t.device(None),
    "zeros on cuda": lambda t: t.zeros(2, device="cuda"),
    "zeros on mps": lambda t: t.zeros(2, device="mps"),
    "zeros on xpu": lambda t: t.zeros(2, device="xpu"),
    "zeros on cpu 1": lambda t: t.zeros(2, device="cpu:1").device,
    "randn on a device": lambda t: t.randn(2, device=t.device("cpu")).shape,
    "to cuda": lambda t: t.ones(2).to("cuda"),
    "to device": lambda t: t.ones(2).to(t.device("cpu")),
    "cuda()": lambda t: t.ones(2).cuda(),
    "module cuda": lambda t: t.nn.Linear(1, 1).cuda(),
    "module to cuda": lambda t: t.nn.Linear(1, 1).to("cuda:0"),
    "kinds": lambda t: [
        getattr(t.ones(2), f"is_{k}")
        for k in "cpu cuda meta mkldnn mps nested quantized sparse sparse_csr vulkan xla xpu".split()
    ],
    "get_device": lambda t: (t.ones(2).get_device(), t.get_device(t.ones(2))),
    "pinned": lambda t: t.ones(2).is_pinned(),
    "shared": lambda t: (t.ones(2).is_shared(), t.ones(2).share_memory_().is_shared()),
    "share": lambda t: t.arange(3).share_memory_().add_(1),
    "same size": lambda t: (t.ones(2).is_same_size(t.zeros(2)), t.is_same_size(t.ones(2), t.ones(3))),
    "set to": lambda t: (lambda x: (x.is_set_to(x.view(3)), x.is_set_to(x[:2])))(t.ones(3)),
    "signed": lambda t: [t.is_signed(t.ones(1).to(d)) for d in (t.float32, t.uint8, t.int8, t.bool)],
    "nonzero": lambda t: (t.is_nonzero(t.ones(1)), t.tensor(0).is_nonzero()),
    "nonzero of two": lambda t: t.is_nonzero(t.ones(2)),
    "retains": lambda t: (lambda x, y: (y.retains_grad, y.retain_grad(), y.retains_grad, x.retains_grad))(
        *(lambda x: (x, x * 2))(t.ones(1, requires_grad=True))
    ),
    "no hooks": lambda t: [(x._backward_hooks, x._post_accumulate_grad_hooks) for x in _leaf_and_result(t)],
    "hooks": lambda t: [_hooks_listed(x, kept) for kept in (False, True) for x in _leaf_and_result(t)],
    "hooks cleared": lambda t: _hooks_cleared(*_leaf_and_result(t)),
    "hooks of updated": lambda t: (lambda x: [
        x.register_post_accumulate_grad_hook(id).id in x._post_accumulate_grad_hooks, x._backward_hooks,
    ])(t.ones(2, requires_grad=True)),
    "subclass": lambda t: type(t.ones(1).as_subclass(t.nn.Parameter)).__name__,
    "subclass of other": lambda t: t.ones(1).as_subclass(int),
    "new sizes": lambda t: t.ones(2, dtype=t.int32).new(2, 3).fill_(1),
    "new data": lambda t: t.ones(2).new([1, 2]),
    "new none": lambda t: t.ones(2).new(),
    "FloatTensor sizes": lambda t: t.FloatTensor(2, 3).zero_(),
    "FloatTensor data": lambda t: t.FloatTensor([1, 2]),
    "FloatTensor array": lambda t: t.FloatTensor(np.arange(3)),
    "FloatTensor none": lambda t: t.FloatTensor(),
    "FloatTensor size": lambda t: t.FloatTensor(t.Size([2, 2])).shape,
    "FloatTensor tensor": lambda t: t.FloatTensor(t.ones(2)),
    "FloatTensor double": lambda t: t.FloatTensor(t.ones(2).double()),
    "FloatTensor number": lambda t: t.FloatTensor(2.5),
    "LongTensor floats": lambda t: t.LongTensor([1.5, 2]),
    "others": lambda t: [
        getattr(t, f"{k}Tensor")([[1, 0]]) for k in "Double Half BFloat16 Int Short Char Byte Bool".split()
    ],
    "instances": lambda t: [
        isinstance(x, k) for k in (t.FloatTensor, t.LongTensor, t.Tensor) for x in (t.ones(1), t.tensor(1), 1.0)
    ],
    "types": lambda t: (t.FloatTensor, str(t.LongTensor), t.FloatTensor.dtype, t.cuda.FloatTensor),
    "cuda type": lambda t: t.cuda.FloatTensor(2),
    "type": lambda t: [t.ones(1).to(d).type() for d in (t.float32, t.bool, t.bfloat16, t.uint8, t.int64)],
    "type of a type": lambda t: t.ones(2).type(t.LongTensor),
    "type of a name": lambda t: t.ones(2).type("torch.DoubleTensor"),
    "type of a dtype": lambda t: t.ones(2).type(t.int32),
    "type unknown": lambda t: t.ones(2).type("foo"),
    "Variable": lambda t: t.autograd.Variable(t.ones(2), requires_grad=True),
    "Variable module": lambda t: t.autograd.variable.Variable is t.autograd.Variable,
    "Variables": lambda t: [isinstance(x, t.autograd.Variable) for x in (t.ones(1), 1)],
    "Size": lambda t: t.Size([2, 3]),
    "Size sum": lambda t: [operator.add(t.Size([2, 3]), (1,)), operator.add((1,), t.Size([2]))],
    "Size slice": lambda t: [t.Size([2, 3, 4])[1:], t.Size([2, 3])[-1], t.ones(2, 3).shape[:1]],
    "Size product": lambda t: [t.Size([2, 3]) * 2, 2 * t.Size([1])],
    "Size methods": lambda t: [t.Size([2, 3]).numel(), t.Size([2, 2]).count(2), t.Size([2, 3]).index(3)],
    "Size equal": lambda t: [t.Size([2]) == (2,), t.Size([2]) == [2], hash(t.Size([2])) == hash((2,)), t.Size() == ()],
    "Size plus list": lambda t: operator.add(t.Size([2]), [1]),
    "Size of floats": lambda t: t.Size([2.0]),
    "Size of a number": lambda t: t.Size(3),
    "cuda answers": lambda t: [
        t.cuda.is_available(), t.cuda.device_count(), t.cuda.is_initialized(), t.cuda.is_bf16_supported(),
        t.cuda.memory_allocated(), t.cuda.max_memory_allocated(), t.cuda.manual_seed(1), t.cuda.manual_seed_all(1),
        t.cuda.empty_cache(),
    ],
    "cuda current": lambda t: t.cuda.current_device(),
    "cuda synchronize": lambda t: t.cuda.synchronize(),
    "cuda name": lambda t: t.cuda.get_device_name(0),
    "cuda properties": lambda t: t.cuda.get_device_properties(0),
    "cuda stream": lambda t: t.cuda.Stream(),
    "cuda event": lambda t: t.cuda.Event(),
    "accelerator": lambda t: [
        t.accelerator.is_available(), t.accelerator.device_count(), t.accelerator.current_accelerator(),
    ],
    "accelerator index": lambda t: t.accelerator.current_device_index(),
    "accelerator set": lambda t: t.accelerator.set_device_index(0),
    "accelerator synchronize": lambda t: t.accelerator.synchronize(),
    **{
        f"accelerator {name}": lambda t, name=name: getattr(t.accelerator, name)()
        for name in (
            "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "max_memory_allocated",
            "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
            "reset_accumulated_memory_stats", "reset_peak_memory_stats",
        )
    },
    "cpu": lambda t: [t.cpu.is_available(), t.cpu.device_count(), t.cpu.current_device(), t.cpu.synchronize()],
    "cpu streams": _cpu_streams,
    "cudnn": lambda t: [
        t.backends.cudnn.is_available(), t.backends.cudnn.version(), t.backends.cudnn.enabled,
        t.backends.cudnn.benchmark, t.backends.cudnn.deterministic, t.backends.cudnn.allow_tf32,
    ],
    "backends": lambda t: [
        t.backends.cuda.is_built(), t.backends.cuda.matmul.allow_tf32, t.backends.mps.is_available(),
        t.backends.mps.is_built(), t.backends.cuda.flash_sdp_enabled(), t.backends.mkldnn.enabled,
    ],
    "precision": lambda t: (
        t.get_float32_matmul_precision(), t.set_float32_matmul_precision("high"), t.get_float32_matmul_precision(),
        t.set_float32_matmul_precision("highest"),
    ),
    "precision unknown": lambda t: t.set_float32_matmul_precision("low"),
    "deterministic": lambda t: (
        t.are_deterministic_algorithms_enabled(), t.use_deterministic_algorithms(True, warn_only=True),
        t.are_deterministic_algorithms_enabled(), t.is_deterministic_algorithms_warn_only_enabled(),
        t.get_deterministic_debug_mode(), t.set_deterministic_debug_mode("error"), t.get_deterministic_debug_mode(),
        t.set_deterministic_debug_mode(0), t.are_deterministic_algorithms_enabled(),
    ),
    "debug mode unknown": lambda t: t.set_deterministic_debug_mode("loud"),
    "default device": lambda t: (t.set_default_device("cpu"), t.get_default_device(), t.set_default_device(None)),
    "default type": lambda t: (
        t.set_default_tensor_type("torch.DoubleTensor"), t.ones(1).dtype, t.set_default_tensor_type(t.FloatTensor),
        t.ones(1).dtype,
    ),
    "default type of integers": lambda t: t.set_default_tensor_type(t.LongTensor),
    "warn always": lambda t: t.is_warn_always_enabled(),
    "threads": lambda t: t.set_num_threads(0),
    "storages": lambda t: t.is_storage(t.ones(1)),
    "typename": lambda t: [t.typename(t.ones(1)), t.typename(1), t.typename(int), t.typename("a")],
    "device module": lambda t: t.get_device_module("cuda").is_available(),
    "dtype": lambda t: [t.float32, str(t.bfloat16), t.float64.itemsize, t.int8.is_signed, t.float16.is_floating_point],
    "default dtype": lambda t: (t.set_default_dtype(t.float64), t.tensor(1.0), t.set_default_dtype(t.float32)),
    "default dtype of integers": lambda t: t.set_default_dtype(t.int32),
    "distributed": lambda t: [t.distributed.is_initialized()],
    "distributed rank": lambda t: t.distributed.get_rank(),
    "distributed size": lambda t: t.distributed.get_world_size(),
    "distributed backend": lambda t: [t.distributed.get_default_backend_for_device(d) for d in ("cpu", "cuda")],
    "DataParallel": lambda t: [n for n, _ in t.nn.DataParallel(t.nn.Linear(1, 1)).named_parameters()],
    "overrides": lambda t: [t.overrides.is_tensor_like(x) for x in (t.ones(1), 1)],
    "seed text": lambda t: t.manual_seed("a"),
    "seed too large": lambda t: t.manual_seed(2**64),
    "seed too small": lambda t: t.manual_seed(-(2**63) - 1),
    "seed negative": lambda t: t.manual_seed(-1).initial_seed(),
    "seed": lambda t: (t.manual_seed(2**63), t.initial_seed())[1],
    "generator": lambda t: [t.Generator().device, t.Generator().manual_seed(5).initial_seed()],
    "generator on a device": lambda t: t.Generator("cuda"),
}  # fmt: skip


OF_THE_BUILD = {
    "device int", "zeros on cuda", "to cuda", "cuda()", "module cuda", "module to cuda", "cuda type", "cuda current",
    "cuda synchronize", "cuda name", "cuda properties", "cuda stream", "cuda event", "accelerator", "cudnn",
    "backends", "generator on a device",
}  # fmt: skip
"""What PyTorch answers otherwise where it is built with CUDA."""


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.filterwarnings("ignore")
def test_answers(name: str) -> None:
    if name in OF_THE_BUILD:
        assert without_cuda.answer(ANSWERS[name], ej) == without_cuda.expected(f"passing {name}", ANSWERS[name])
        return
    found, expected = (result(ANSWERS[name], library) for library in LIBRARIES)
    assert found == expected


def test_switches_can_be_set() -> None:
    cudnn = ej.backends.cudnn
    cudnn.benchmark = True
    with cudnn.flags(enabled=False, deterministic=True):
        assert (cudnn.enabled, cudnn.deterministic, cudnn.benchmark) == (False, True, True)
    assert (cudnn.enabled, cudnn.deterministic) == (True, False)
    cudnn.benchmark = False
    ej.backends.cuda.matmul.allow_tf32 = True
    ej.backends.cuda.enable_flash_sdp(False)
    assert not ej.backends.cuda.flash_sdp_enabled()
    ej.backends.cuda.enable_flash_sdp(True)
    ej.backends.cuda.matmul.allow_tf32 = False
    assert ej.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")


@pytest.mark.parametrize("library", LIBRARIES, ids=["eagerjit", "torch"])
def test_random_state(library: Any) -> None:
    generator = library.Generator().manual_seed(3)
    state = generator.get_state()
    first = library.rand(3, generator=generator).tolist()
    generator.set_state(state)
    assert library.rand(3, generator=generator).tolist() == first
    copied = library.Generator()
    copied.set_state(state)
    assert library.rand(3, generator=copied).tolist() == first
    cloned = generator.clone_state()
    assert library.rand(3, generator=cloned).tolist() == library.rand(3, generator=generator).tolist()
    library.manual_seed(1)
    before = library.get_rng_state()
    inside = []
    for _ in range(2):
        with library.random.fork_rng():
            inside.append(library.rand(2).tolist())
    assert inside[0] == inside[1] and library.equal(library.get_rng_state(), before)
    with library.random.fork_rng(enabled=False):
        library.rand(2)
    assert not library.equal(library.get_rng_state(), before)
    library.random.set_rng_state(before)
    assert library.rand(2).tolist() == inside[0]
    assert library.seed() == library.initial_seed() == library.random.initial_seed()


def test_a_group_of_one_process() -> None:
    dist = ej.distributed
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        x = ej.arange(3.0)
        assert dist.is_initialized() and (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
        assert dist.all_reduce(x, op=dist.ReduceOp.SUM) is None and dist.broadcast(x, 0, async_op=True).wait()
        gathered = [ej.zeros(3)]
        dist.all_gather(gathered, x)
        assert gathered[0].tolist() == x.tolist() == [0, 1, 2]
        dist.barrier()
        model = ej.nn.parallel.DistributedDataParallel(ej.nn.Linear(3, 1))
        with model.no_sync():
            assert model(x).shape == (1,) and list(model.state_dict()) == ["module.weight", "module.bias"]
        with pytest.raises(NotImplementedError, match="has no mixed_precision"):
            ej.nn.parallel.DistributedDataParallel(ej.nn.Linear(3, 1), mixed_precision=object())
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group("gloo", rank=0, world_size=1)
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized() and not dist.is_available()
    with pytest.raises(ValueError, match="environment variable MASTER_ADDR expected, but not set"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    with pytest.raises(AttributeError, match=r"no torch\.distributed\.pipelining"):
        _ = dist.pipelining
    with pytest.raises(ValueError, match="init_process_group"):
        ej.nn.parallel.DistributedDataParallel(ej.nn.Linear(3, 1))


SPAWNED = """
import sys
import torch.multiprocessing as mp


def work(index, text):
    if text == "fail" and index == 1:
        raise ValueError("on purpose")
    if text == "exit" and index == 1:
        sys.exit(3)
    print(f"{index} {text}\\n", end="", flush=True)  # one write, whole between those of the other process


if __name__ == "__main__":
    mp.spawn(work, args=("fine",), nprocs=2)
    for how in ("fail", "exit"):
        try:
            mp.spawn(work, args=(how,), nprocs=2)
        except mp.ProcessRaisedException as error:
            print("raised", error.error_index, "ValueError: on purpose" in str(error))
        except mp.ProcessExitedException as error:
            print("exited", error.error_index, error.exit_code)
    queue = mp.Queue()
    mp.set_sharing_strategy("file_system")
"""


def test_processes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SPAWNED)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    call = [sys.executable, "-m", "eagerjit", "run", "program.py"]
    found = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert sorted(lines[:2]) == ["0 fine", "1 fine"] and lines[-1].endswith("exited 1 3"), found.stdout
    assert "raised 1 True" in lines, found.stdout


def test_shared_memory_is_seen_by_forked_processes() -> None:
    x = ej.zeros(3).share_memory_()
    process = ej.multiprocessing.get_context("fork").Process(target=lambda: x.add_(1))
    process.start()
    process.join()
    assert x.tolist() == [1, 1, 1]


def test_profiler() -> None:
    with ej.profiler.profile(activities=[ej.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            with ej.profiler.record_function("outer"):
                ej.autograd.profiler.record_function("inner")(lambda: ej.ones(10).sum())()
    averages = {a.key: a for a in profiler.key_averages()}
    outer, inner = averages["outer"], averages["inner"]
    assert outer.count == inner.count == 3 and outer.cpu_time_total > inner.cpu_time_total > 0
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total)
    table = profiler.key_averages().table(sort_by="cpu_time_total", row_limit=1)
    assert "outer" in table and "inner" not in table
    with ej.profiler.record_function("outside"):
        pass
    assert len(profiler.events()) == 6 + 6 and averages["aten::ones"].count == averages["aten::sum"].count == 3


PROFILED: dict[str, Callable[[Any, Any], Any]] = {
    "methods": lambda t, x: x.relu().sum().backward(),
    "operators": lambda t, x: [x @ x, x + 1, 1 - x, x / 2, x // 2, ~(x > 1), -x, x**2, x % 2],
    "reflected operators": lambda t, x: [2 / x, 2**x, 7 // x, 5 % x, +x],
    "bits": lambda t, x: [f(t.arange(3)) for f in (
        lambda i: 2 << i, lambda i: i >> 1, lambda i: 2 >> i, lambda i: 1 & i, lambda i: 1 ^ i, lambda i: 1 | i,
    )],
    "questions": lambda t, x: (x.dim(), len(x), x.numel(), x.size(), x.is_contiguous(), x.stride(), list(x)),
    "items": lambda t, x: x.detach().clone().__setitem__(0, 1.0),
    "in place": lambda t, x: x.detach().clone().mul_(2).add_(1),
    "functions": lambda t, x: t.nn.functional.linear(t.cat([x, x]), x),
    "attributes": lambda t, x: (x.shape, x.dtype, x.requires_grad),
    "a layer": lambda t, x: t.nn.Linear(3, 2)(x),
}


@pytest.mark.parametrize("name", PROFILED)
def test_profiled_operators(name: str) -> None:
    """Each one that the program calls is among PyTorch's, as often or more often: it lists those inside, too."""
    found = []
    for t in LIBRARIES:
        x = t.ones(3, 3, requires_grad=True)
        with t.profiler.profile(activities=[t.profiler.ProfilerActivity.CPU]) as profiler:
            PROFILED[name](t, x)
        found.append({a.key: a.count for a in profiler.key_averages() if a.key.startswith("aten::")})
    ours, theirs = found
    assert bool(ours) == (name != "attributes")
    assert all(count <= theirs.get(key, 0) for key, count in ours.items()), (ours, theirs)


def test_profiled_calls_stay_compiled(tmp_path: Path) -> None:
    jitted = ej.jit(lambda x: (x * 2).sum(), fullgraph=True)
    with ej.autograd.profiler.profile() as profiler:
        for _ in range(3):
            jitted(ej.ones(2))
    jitted(ej.ones(2))
    assert jitted.cache_info().compiles == 1 and jitted.cache_info().eager_calls == 0
    averages = {a.key: a.count for a in profiler.key_averages()}
    assert averages == {f"jit: {jitted.__qualname__}": 3, "aten::ones": 3}
    rows = profiler.table(sort_by="count").splitlines()
    assert "Self CPU %" in rows[1] and rows[-1].startswith("Self CPU time total:") and len(rows) == 7
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == 6
    with pytest.raises(AttributeError):
        profiler.key_averages().table(sort_by="colour")


def test_profiler_with_a_schedule(tmp_path: Path) -> None:
    cycles = []
    for options in ({}, {"repeat": 1, "skip_first": 2}, {"skip_first": 1, "skip_first_wait": 1}, {"active": 0}):
        given = {"wait": 1, "warmup": 1, "active": 2, **options}

        def names(t: Any, given: Any = given) -> list[str]:
            return [t.profiler.schedule(**given)(i).name for i in range(9)]

        assert result(names, ej) == result(names, torch)
    plan = ej.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with ej.profiler.profile(schedule=plan, on_trace_ready=lambda p: cycles.append(len(p.events()))) as profiler:
        for _ in range(6):
            with ej.profiler.record_function("work"):
                pass
            profiler.step()
    assert cycles == [2]
    with (
        ej.profiler.profile(on_trace_ready=ej.profiler.tensorboard_trace_handler(str(tmp_path))),
        ej.profiler.record_function("x"),
    ):
        pass
    (trace,) = tmp_path.iterdir()
    assert '"name": "x"' in trace.read_text()
    write = ej.profiler.tensorboard_trace_handler(str(tmp_path / "packed"), use_gzip=True)
    with ej.profiler.profile(on_trace_ready=write), ej.profiler.record_function("x"):
        pass
    (packed,) = (tmp_path / "packed").iterdir()
    assert b'"name": "x"' in gzip.decompress(packed.read_bytes())


@pytest.mark.parametrize("plan", [(1, 1, 2, 1), (0, 1, 1, 2), (1, 0, 1, 0), (0, 0, 3, 0)])
def test_when_a_profilers_cycles_end(plan: tuple[int, ...]) -> None:
    """What the last cycle recorded can be read after it, and its end is told when the next step has begun."""
    found = []
    for t in (ej, torch):
        ends: list[int] = []
        given = dict(zip(("wait", "warmup", "active", "repeat"), plan, strict=True))
        with t.profiler.profile(
            activities=[t.profiler.ProfilerActivity.CPU],
            schedule=t.profiler.schedule(**given),
            on_trace_ready=lambda p, ends=ends: ends.append(p.step_num),
        ) as profiler:
            for _ in range(5):
                with t.profiler.record_function("mine"):
                    t.ones(3)
                profiler.step()
        found.append((ends, sum(a.count for a in profiler.key_averages() if a.key == "mine")))
    assert found[0] == found[1]
