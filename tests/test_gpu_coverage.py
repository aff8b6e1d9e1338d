"""Which ops kernels compute for GPUs: all but a few, each of which says why the host does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from op_samples import ELSEWHERE

sys.path.append(str(Path(__file__).resolve().parent.parent))

import eagerjit as torch
from benchmarks import gpu_coverage
from eagerjit.calling.dispatch import OPS
from eagerjit.nn import functional as F
from eagerjit.ops.host import HostOp


def test_ops_lower_to_kernels_or_say_why_not():
    names = gpu_coverage.names()
    host = {name: calls for name in names if (calls := gpu_coverage.lowered(name))}
    assert not {name: calls for name, calls in host.items() if not OPS[name].on_host}
    kernels = len(names) - len(host)
    assert kernels >= 0.98 * len(OPS), f"{kernels} of {len(OPS)} ops are kernels on a GPU"


def test_what_numpy_computes_says_why():
    assert all(op.on_host for op in OPS.values() if isinstance(op, HostOp))
    assert all(ELSEWHERE.values())


HALVED = """softmax log_softmax layer_norm rms_norm group_norm batch_norm known_norm cross_entropy nll_loss gelu sum
mean var logsumexp norm prod cumsum matmul linear addmm convolution attention_weights flash_attention flash_gradients
embedding sort adam_step sgd_step lstm_step dropout interpolate""".split()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALVED)
def test_kernels_for_floats_of_16_bits(name: str, dtype: str) -> None:
    outcome = gpu_coverage.checked(name, dtype)
    assert outcome.samples and not outcome.problems and not outcome.calls


def _autocast(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        return F.softmax(F.linear(x, w), -1), F.layer_norm(F.linear(x, w), (3,))


MIXED = {
    "layer_norm": (lambda x, w: F.layer_norm(x, (4,), w, w + 1.0), "half", "wide"),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w, w + 1.0), "half", "wide"),
    "batch_norm": (lambda x, w: F.batch_norm(x, w, w + 1.0, w, w + 2.0), "half", "wide"),
    "type promotion": (lambda x, w: (x * w, x + w.double(), (x > 0.5) * w, x.long() + w), "half", "wide"),
    "autocast": (_autocast, "wide", "weights"),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MIXED)
def test_kernels_for_mixed_dtypes(name: str, dtype: torch.dtype) -> None:
    call, *kinds = MIXED[name]
    x = torch.arange(24.0).reshape(6, 4).remainder(5.0) / 4.0
    given = {"half": x.to(dtype), "wide": x[0] if kinds[0] == "half" else x, "weights": x[:3] - 0.5}
    outcome = gpu_coverage.Outcome(name)
    gpu_coverage.compare(outcome, call, [given[kind] for kind in kinds])
    assert outcome.same + outcome.close == 1 and not outcome.problems and not outcome.calls


def test_kernels_for_which_there_is_no_time_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_coverage, "_DONE", {})
    outcome = gpu_coverage.checked("relu")
    gpu_coverage.compiled(outcome, until=0.0)
    assert outcome.left_out and not outcome.kernels and not outcome.failures
    gpu_coverage.report([outcome], True, {})
    shown = capsys.readouterr().out
    assert f"0 of them compile for sm_80 and sm_90 (0 kernels, {len(outcome.left_out)} more found no time)" in shown
