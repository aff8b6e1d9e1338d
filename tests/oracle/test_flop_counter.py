"""Counts of operations, compared with PyTorch's: by operator and Module, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.flop_counter as theirs

import eagerjit as ej
import eagerjit.utils.flop_counter as ours


def counted(library: Any, program: Callable[[Any, Any], Any]) -> dict[str, dict[str, int]]:
    """What a program, given the library and a function that makes leaves of it, is counted to do."""
    mode = (ours if library is ej else theirs).FlopCounterMode(display=False)
    with mode:
        program(library, lambda *shape: library.ones(*shape, requires_grad=True))
    counts = mode.get_flop_counts()
    assert mode.get_total_flops() == sum(counts.get("Global", {}).values())
    return {name: {str(packet): n for packet, n in of.items()} for name, of in counts.items() if of}


def walked(result: Any) -> None:
    result.sum().backward()


class Network:
    """A Module of each library."""

    def __new__(cls, t: Any) -> Any:
        class Net(t.nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.first = t.nn.Conv2d(3, 4, 3)
                self.rest = t.nn.Sequential(t.nn.Flatten(), t.nn.Linear(64, 5), t.nn.ReLU(), t.nn.Linear(5, 2))

            def forward(self, x: Any) -> Any:
                return self.rest(self.first(x)) @ t.ones(2, 2)

        return Net()


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "mm": lambda t, r: walked(r(3, 4) @ r(4, 5)),
    "mm without gradients": lambda t, r: t.mm(t.ones(3, 4), t.ones(4, 5)),
    "mm, one gradient": lambda t, r: walked(t.ones(3, 4) @ r(4, 5)),
    "matrix times vector": lambda t, r: walked(r(3, 4) @ r(4)),
    "vector times matrix": lambda t, r: walked(r(4) @ r(4, 3)),
    "vector times matrices": lambda t, r: walked(r(4) @ r(2, 4, 3)),
    "inner product": lambda t, r: walked(t.dot(r(4), r(4))),
    "batch times matrix": lambda t, r: walked(r(2, 3, 4) @ r(4, 5)),
    "matrix times batch": lambda t, r: walked(r(3, 4) @ r(2, 4, 5)),
    "bmm": lambda t, r: walked(t.bmm(r(2, 3, 4), r(2, 4, 5))),
    "broadcast batches": lambda t, r: walked(r(6, 2, 3, 4) @ r(2, 4, 5)),
    "addmm": lambda t, r: walked(t.addmm(r(3, 5), r(3, 4), r(4, 5))),
    "addmv": lambda t, r: walked(t.addmv(r(3), r(3, 4), r(4))),
    "baddbmm": lambda t, r: walked(t.baddbmm(r(2, 3, 5), r(2, 3, 4), r(2, 4, 5))),
    "linear of a vector": lambda t, r: walked(t.nn.functional.linear(r(4), r(5, 4), r(5))),
    "linear of a batch": lambda t, r: walked(t.nn.functional.linear(r(2, 3, 4), r(5, 4), r(5))),
    "linear without bias": lambda t, r: walked(t.nn.functional.linear(r(2, 3, 4), r(5, 4))),
    "einsum": lambda t, r: walked(t.einsum("bij,bjk->bik", r(2, 3, 4), r(2, 4, 5))),
    "einsum of matrices": lambda t, r: walked(t.einsum("ij,jk->ik", r(3, 4), r(4, 5))),
    "outer": lambda t, r: walked(t.outer(r(3), r(4))),
    "conv1d in groups": lambda t, r: walked(t.nn.functional.conv1d(r(2, 4, 9), r(6, 2, 3), r(6), 2, 1, 1, 2)),
    "conv2d": lambda t, r: walked(t.nn.functional.conv2d(r(2, 4, 9, 8), r(6, 4, 3, 3))),
    "conv2d of one image": lambda t, r: walked(t.nn.functional.conv2d(r(4, 9, 8), r(6, 4, 3, 3))),
    "conv2d, its weight's": lambda t, r: walked(t.nn.functional.conv2d(t.ones(2, 4, 9, 8), r(6, 4, 3, 3))),
    "conv2d of points": lambda t, r: walked(t.nn.functional.conv2d(r(2, 4, 9, 8), r(6, 4, 1, 1))),
    "depthwise": lambda t, r: walked(t.nn.functional.conv2d(r(2, 4, 9, 8), r(4, 1, 3, 3), None, 1, 1, 1, 4)),
    "conv3d": lambda t, r: walked(t.nn.functional.conv3d(r(2, 4, 5, 6, 7), r(6, 4, 3, 3, 2))),
    "transposed": lambda t, r: walked(t.nn.functional.conv_transpose2d(r(2, 4, 9, 8), r(4, 3, 3, 3), None, 2, 1, 1, 2)),
    "attention with dropout": lambda t, r: walked(
        t.nn.functional.scaled_dot_product_attention(r(2, 3, 5, 8), r(2, 3, 7, 8), r(2, 3, 7, 6), dropout_p=0.5)
    ),
    "MultiheadAttention": lambda t, r: walked(t.nn.MultiheadAttention(8, 2)(r(3, 2, 8), r(3, 2, 8), r(3, 2, 8))[0]),
    "second gradient": lambda t, r: t.autograd.grad(
        t.autograd.grad((r(3, 4) @ (w := r(4, 5))).square().sum(), w, create_graph=True)[0].sum(), w
    ),
    "multi_dot": lambda t, r: walked(t.linalg.multi_dot([r(3, 4), r(4, 5), r(5, 6)])),
    "inverse": lambda t, r: walked(t.linalg.inv(t.eye(3, requires_grad=True))),
    "nothing counted": lambda t, r: walked(r(3, 4).softmax(-1)),
    "meta": lambda t, r: t.ones(3, 4, device="meta") @ t.ones(4, 5, device="meta"),
    "vmap": lambda t, r: t.vmap(t.mm)(t.ones(2, 3, 4), t.ones(2, 4, 5)),
    "jacrev": lambda t, r: t.func.jacrev(lambda w: (t.ones(3, 4) @ w).sum(0))(t.ones(4, 5)),
    "Modules": lambda t, r: walked(Network(t)(r(2, 3, 6, 6))),
    "one Module twice": lambda t, r: walked((m := t.nn.Linear(4, 4))(m(r(3, 4)).relu())),
    "Modules beside others": lambda t, r: walked(t.nn.Linear(4, 5)(r(3, 4)) @ r(5, 2)),
    "reentrant checkpoint": lambda t, r: walked(
        __import__(f"{t.__name__}.utils.checkpoint", fromlist="x").checkpoint(
            t.nn.Linear(4, 4), r(3, 4), use_reentrant=True
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts(name: str) -> None:
    assert counted(ej, PROGRAMS[name]) == counted(torch, PROGRAMS[name])


def test_attention_counts_as_pytorchs_kernels_for_gpus() -> None:
    def attended(t: Any, r: Any) -> None:
        walked(t.nn.functional.scaled_dot_product_attention(r(*q), r(*k), r(*v), enable_gqa=True))

    q, k, v = (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)
    forward, backward = theirs.sdpa_flop_count(q, k, v), theirs.sdpa_backward_flop_count((*q[:3], 6), q, k, v)
    name = "aten._scaled_dot_product_flash_attention"
    assert counted(ej, attended) == {"Global": {name: forward, f"{name}_backward": backward}}
    assert ours.sdpa_flop_count(q, k, v) == forward


def test_compiled_calls_are_counted_as_plain_ones() -> None:
    step = ej.jit(lambda x, w: ((x @ w).relu() @ w).sum())
    step(ej.ones(3, 4), ej.ones(4, 4))
    expected = counted(torch, lambda t, r: ((t.ones(3, 4) @ (w := r(4, 4))).relu() @ w).sum().backward())
    assert counted(ej, lambda t, r: step(t.ones(3, 4), r(4, 4)).backward()) == expected


def test_what_runs_outside_is_not_counted() -> None:
    x = ej.ones(3, 4, requires_grad=True)
    with ours.FlopCounterMode(display=False) as mode:
        found = x @ ej.ones(4, 5)
    found.sum().backward()
    assert mode.get_total_flops() == 120 and x.grad is not None
    with mode, ours.FlopCounterMode(display=False) as inner:
        ej.ones(2, 2) @ ej.ones(2, 2)
    assert mode.get_total_flops() == inner.get_total_flops() == 16


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    with ours.FlopCounterMode(depth=1):
        walked(ej.nn.Sequential(ej.nn.Linear(40, 50))(ej.ones(3, 40)))
    assert capsys.readouterr().out.splitlines() == [
        "Module            FLOP  % Total",
        "-------------  -------  -------",
        "Sequential     24.000K  100.00%",
        " - aten.addmm  12.000K   50.00%",
        " - aten.mm     12.000K   50.00%",
    ]
    with ours.FlopCounterMode(display=False) as mode:
        ej.nn.Linear(4, 5)(ej.ones(3, 4)) @ ej.ones(5, 2)
    assert [line[:14].rstrip() for line in mode.get_table().splitlines()[2:]] == [
        "Global", " - aten.addmm", " - aten.mm", " Linear", "  - aten.addmm",
    ]  # fmt: skip
    assert ours.FlopCounterMode().get_table().splitlines()[2].split() == ["Global", "0", "0%"]


def test_formulas_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "flop_registry", dict(ours.flop_registry))

    @ej.library.custom_op("flops::product", mutates_args=())
    def product(x: ej.Tensor) -> ej.Tensor:
        return x @ x.T

    packet = ej.ops.flops.product
    with ours.FlopCounterMode(display=False) as mode:
        product(ej.ones(3, 4))
    assert mode.get_flop_counts() == {}
    ours.register_flop_formula(packet)(lambda x, out_shape=None: x[0] + out_shape[1])
    with pytest.raises(RuntimeError, match="duplicate registrations"):
        ours.register_flop_formula([packet])(lambda x: 0)
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        ours.register_flop_formula(product.__call__)(lambda x: 0)
    add, mm = ej.ops.aten.add, ej.ops.aten.mm
    mapping = {add: lambda a, b, *rest, out_shape: out_shape.numel(), mm: lambda a, b, out_shape: 1000}
    with ours.FlopCounterMode(display=False, custom_mapping=mapping) as mode:
        product(ej.ones(3, 4))
        ej.ones(3) + ej.ones(2, 3)
        ej.ones(2, 2) @ ej.ones(2, 2)
    assert mode.get_flop_counts() == {"Global": {packet: 6, add: 6, mm: 1000}}
