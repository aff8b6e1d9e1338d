"""What processes of a group do in tests; every function is called in each of them."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import eagerjit as ej
import eagerjit.distributed as dist
from eagerjit import nn
from eagerjit.nn import functional as F
from eagerjit.nn.parallel import DistributedDataParallel

SIZES = (1, 7, 20_000)
DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "int8", "bool", "complex64")


def values(rank: int, count: int, dtype: str) -> Any:
    """The numbers of a process."""
    numbers = np.random.default_rng(rank).integers(-2, 3, count)
    return ej.tensor(numbers).to(getattr(ej, dtype))


def reductions(rank: int, size: int) -> dict[str, Any]:
    found = {}
    for dtype in DTYPES:
        operations = ["SUM", "PRODUCT"] if dtype == "complex64" else ["SUM", "PRODUCT", "MIN", "MAX"]
        for count in SIZES:
            for op in operations + ["BAND", "BOR", "BXOR"] * (dtype == "int64"):
                x = values(rank, count, dtype)
                assert dist.all_reduce(x, getattr(dist.ReduceOp, op)) is None
                found[f"{dtype} {count} {op}"] = x._data
    x = values(rank, 7, "float32")
    dist.all_reduce(x, dist.ReduceOp.AVG)
    found["average"] = x._data
    x = values(rank, 7, "float32")
    dist.reduce(x, 1)
    found["reduced"] = x._data
    x = ej.zeros(2, 2)
    dist.reduce_scatter_tensor(x, values(rank, 4 * size, "float32").reshape(2 * size, 2))
    found["scattered"] = x._data
    x = ej.zeros(3)
    dist.reduce_scatter(x, [values(rank + 10 * k, 3, "float32") for k in range(size)])
    found["scattered list"] = x._data
    return found


def layouts(rank: int, size: int) -> dict[str, Any]:
    """Memory in another order, without elements, without dimensions, and a leaf that requires gradients."""
    whole = ej.arange(12.0).reshape(3, 4) * (rank + 1)
    dist.all_reduce(whole.t())
    part = ej.ones(4, 4) * (rank + 1)
    dist.broadcast(part[::2, 1:3], 1)
    nothing, number = ej.zeros(0, 3), ej.tensor(rank + 1.0)
    dist.all_reduce(nothing)
    dist.all_reduce(number)
    leaf = nn.Parameter(ej.ones(2) * rank)
    version = leaf._version
    dist.all_reduce(leaf)
    return {
        "turned": whole._data, "part": part._data, "number": number.item(), "leaf": leaf.detach()._data,
        "counted": leaf._version > version,
    }  # fmt: skip


def copies(rank: int, size: int) -> dict[str, Any]:
    own, found = ej.arange(3) + 10 * rank, {}
    given = ej.tensor([rank] * 3)
    dist.broadcast(given, size - 1)
    found["broadcast"] = given._data
    outputs = [ej.zeros(3, dtype=ej.int64) for _ in range(size)]
    dist.all_gather(outputs, own)
    found["all_gather"] = np.stack([o._data for o in outputs])
    flat, stacked = ej.zeros(3 * size, dtype=ej.int64), ej.zeros(size, 3, dtype=ej.int64)
    dist.all_gather_into_tensor(flat, own)
    dist.all_gather_into_tensor(stacked, own)
    found["into"] = np.stack([flat._data.reshape(size, 3), stacked._data])
    gathered = [ej.zeros(3, dtype=ej.int64) for _ in range(size)] if rank == 1 else None
    dist.gather(own, gathered, dst=1)
    found["gather"] = None if gathered is None else np.stack([g._data for g in gathered])
    got = ej.zeros(2, dtype=ej.int64)
    dist.scatter(got, [ej.tensor([k, 7]) for k in range(size)] if rank == 0 else None)
    found["scatter"] = got._data
    outputs = [ej.zeros(2, dtype=ej.int64) for _ in range(size)]
    dist.all_to_all(outputs, [ej.tensor([rank, k]) for k in range(size)])
    found["all_to_all"] = np.stack([o._data for o in outputs])
    sent = [k + 1 for k in range(size)]
    received = ej.zeros(size * (rank + 1), 2, dtype=ej.int64)
    rows = ej.full((sum(sent), 2), rank)
    dist.all_to_all_single(received, rows, [rank + 1] * size, sent)
    found["all_to_all_single"] = received._data
    return found


def aside(rank: int, size: int) -> list[Any]:
    """Many at once, waited for in another order."""
    tensors = [ej.full((n,), float(rank)) for n in (5, 50_000, 1, 300)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    dist.all_reduce(last := ej.ones(2))
    for work in reversed(works):
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    done = dist.broadcast(ej.zeros(1), 0, async_op=True).get_future().wait()
    return [float(t.sum()) for t in (*tensors, last)] + [len(done)]


def messages(rank: int, size: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    right, left = (rank + 1) % size, (rank - 1) % size
    large = ej.full((300_000,), float(rank))
    other = ej.empty(300_000)
    operations = [dist.P2POp(dist.isend, large, right), dist.P2POp(dist.irecv, other, left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    found["ring"] = float(other.mean())
    if rank == 0:
        first, second = ej.zeros(2), ej.zeros(2)
        late = dist.irecv(second, 1, tag=2)
        assert dist.recv(first, 1, tag=1) == 1
        late.wait()
        found["tags"] = [first.tolist(), second.tolist()]
        anyone = ej.zeros(1)
        found["sources"] = sorted((dist.recv(anyone), anyone.item()) for _ in range(size - 1))
        objects: list[Any] = [None, None]
        found["objects from"] = dist.recv_object_list(objects, 1)
        found["objects"] = objects
    else:
        if rank == 1:
            dist.send(ej.ones(2) * 2, 0, tag=2)
            dist.send(ej.ones(2), 0, tag=1)
        dist.send(ej.tensor([rank * 1.0]), 0)
        if rank == 1:
            dist.send_object_list([{"a": 1}, "b"], 0)
    return found


def objects(rank: int, size: int) -> dict[str, Any]:
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "list": [0] * rank})
    gathered: list[Any] | None = [None] * size if rank == 0 else None
    dist.gather_object(("from", rank), gathered)
    given = ["a", ej.ones(2)] if rank == 1 else [None, None]
    dist.broadcast_object_list(given, 1)
    one: list[Any] = [None]
    dist.scatter_object_list(one, [f"for {k}" for k in range(size)] if rank == 0 else None)
    return {"all": everyone, "gathered": gathered, "given": [given[0], given[1].tolist()], "one": one}


def groups(rank: int, size: int) -> dict[str, Any]:
    first = dist.new_group([0, 1])
    halves = [dist.new_group([k]) for k in range(size)]
    own, everyone = dist.new_subgroups(1)
    x = ej.tensor([rank + 1.0])
    dist.all_reduce(x, group=first)
    alone = ej.tensor([rank + 1.0])
    dist.all_reduce(alone, group=halves[rank])
    found = {
        "reduced": x.item(), "alone": alone.item(), "rank": dist.get_rank(first), "size": dist.get_world_size(first),
        "ranks": dist.get_process_group_ranks(first) if rank < 2 else [], "subgroups": len(everyone),
        "own": dist.get_process_group_ranks(own),
    }  # fmt: skip
    if rank < 2:
        found["to global"] = dist.get_global_rank(first, rank)
        y = ej.tensor([rank])
        dist.broadcast(y, group=first, group_src=1)
        found["broadcast"] = y.item()
        dist.destroy_process_group(first)
    return found


def problems(rank: int, size: int) -> list[str]:
    """Wrong calls, each refused by the process that makes it before anybody is asked."""
    x = ej.ones(2)
    calls: list[Any] = [
        lambda: dist.init_process_group("gloo"), lambda: dist.all_reduce([1]), lambda: dist.broadcast(x, size),
        lambda: dist.all_gather([x], x), lambda: dist.all_gather([ej.ones(3)] * size, x), lambda: dist.send(x, rank),
        lambda: dist.all_reduce(x, dist.ReduceOp.BAND), lambda: dist.all_gather_into_tensor(ej.ones(3), x),
        lambda: dist.scatter(x, [x] if rank != 0 else None), lambda: dist.new_group([0, size]),
        lambda: dist.all_to_all_single(x, ej.ones(5), [1] * size), lambda: dist.batch_isend_irecv([]),
        lambda: dist.reduce(x), lambda: dist.gather_object(1, [None] if rank else None),
    ]  # fmt: skip
    found = []
    for call in calls:
        try:
            call()
            found.append("nothing")
        except Exception as error:
            found.append(type(error).__name__)
    return found


def lost(rank: int, size: int) -> str:
    """The others go on where one process is gone."""
    if rank == size - 1:
        dist.destroy_process_group()
        dist.init_process_group(world_size=1, rank=0, store=dist.HashStore())
        return "left"
    try:
        dist.all_reduce(ej.ones(100_000))
    except dist.DistBackendError as error:
        name = type(error).__name__
    dist.destroy_process_group()
    dist.init_process_group(world_size=1, rank=0, store=dist.HashStore())
    return name


def again(rank: int, size: int) -> float:
    """Another default group at the same port, once the process that serves there has left the first one."""
    dist.barrier()
    time.sleep(2.0 * (rank > 0))
    dist.destroy_process_group()
    dist.init_process_group("gloo", timeout=100)
    x = ej.ones(2)
    dist.all_reduce(x)
    return x.sum().item()


def late(rank: int, size: int) -> str:
    """A process that is waited for too long."""
    group = dist.new_group(timeout=0.5)
    if rank == 0:
        try:
            dist.all_reduce(ej.ones(2), group=group)
        except dist.DistBackendError as error:
            return str(error)
    return ""


# -- training ---------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """Layers, a norm over the batch, and, where asked, a layer that nothing uses."""

    def __init__(self, norm: Any = nn.BatchNorm1d, spare: bool = False):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 200), norm(200), nn.Linear(200, 3)
        if spare:
            self.spare = nn.Linear(2, 2)
        random = np.random.default_rng(0)
        with ej.no_grad():
            for p in self.parameters():
                p.copy_(ej.tensor(random.normal(size=tuple(p.shape)) * 0.2))

    def forward(self, x: Any) -> Any:
        return self.second(ej.tanh(self.norm(self.first(x))))


def batch() -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    return ej.tensor(random.normal(size=(24, 6))).float(), ej.tensor(random.integers(0, 3, 24))


def trained(net: Any, parts: Any, steps: int = 4, compiled: bool = False) -> list[np.ndarray]:
    """Parameters after steps on the parts of the batch, each a list of rows."""
    x, y = batch()
    optimizer = ej.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    run = ej.jit(step) if compiled else step
    for _ in range(steps):
        run(x[parts], y[parts])
    return [p.detach().numpy().copy() for p in net.parameters()]


def parallel(rank: int, size: int, kind: str) -> Any:
    rows = list(range(24))[rank::size]
    norm = nn.SyncBatchNorm if kind == "norm" else (lambda n: nn.LayerNorm(n))
    net = Net(norm, spare=kind in ("unused", "unfinished"))
    if rank:
        with ej.no_grad():
            for p in net.parameters():
                p.mul_(0.0)
    inner = ej.jit(net) if kind == "compiled" else net
    model = DistributedDataParallel(inner, bucket_cap_mb=0.001, find_unused_parameters=kind == "unused")
    if kind == "unfinished":
        model(batch()[0]).sum().backward()
        try:
            model(batch()[0])
        except RuntimeError as error:
            return str(error)
        return "nothing"
    if kind == "hook":
        def hook(state: list[int], bucket: Any) -> Any:
            state.append(bucket.index())
            bucket.buffer().div_(size)
            return dist.all_reduce(bucket.buffer(), async_op=True).get_future()

        state: list[int] = []
        model.register_comm_hook(state, hook)
    if kind == "no_sync":
        x, y = batch()
        with model.no_sync():
            F.cross_entropy(model(x[rows[:4]]), y[rows[:4]], reduction="sum").backward()
        apart = net.first.weight.grad.clone()
        F.cross_entropy(model(x[rows[4:]]), y[rows[4:]], reduction="sum").backward()
        return apart.numpy(), [p.grad.numpy() for p in net.parameters()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = trained(model, rows, compiled=kind == "step")
    assert ["processes exchanged tensors" in str(w.message) for w in caught] == [True] * (kind == "step")
    if kind == "hook":
        assert len(state) == 4 * (max(state) + 1) > 4
    if kind == "unused":
        assert net.spare.weight.grad is None
    if kind == "norm":
        found += [net.norm.running_mean.numpy(), net.norm.running_var.numpy()]
    return found


def differentiated(rank: int, size: int) -> dict[str, Any]:
    """Gradients of what processes exchange."""
    from eagerjit.distributed import nn as exchanged

    found = {}

    def gradient(name: str, call: Any, x: Any) -> None:
        x = x.requires_grad_()
        out = call(x)
        total = sum((o * o).sum() for o in (out if isinstance(out, tuple) else (out,)))
        total.backward()
        found[name] = [x.grad.tolist(), [o.tolist() for o in (out if isinstance(out, tuple) else (out,))]]

    own = ej.tensor([rank + 1.0, 2.0])
    gradient("all_reduce", exchanged.all_reduce, own.clone())
    gradient("all_gather", exchanged.all_gather, own.clone())
    gradient("broadcast", lambda x: exchanged.broadcast(x, 1), own.clone())
    gradient("reduce", lambda x: exchanged.reduce(x, 0), own.clone())
    rows = ej.arange(2.0 * size).reshape(size, 2) + rank
    gradient("reduce_scatter", lambda x: exchanged.reduce_scatter(ej.zeros(2), list(x)), rows.clone())
    gradient("scatter", lambda x: exchanged.scatter(list(x), 0), rows.clone())
    gradient("all_to_all_single", lambda x: exchanged.all_to_all_single(ej.zeros(size, 2), x), rows.clone())
    return found
