"""Paths of modules that programs import from, and the names there; what they compute is PyTorch's."""

from __future__ import annotations

import gc
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.attention.bias
import torch.utils.weak

import eagerjit as ej
import eagerjit.nn.attention.bias
import eagerjit.utils.weak
from eagerjit.distributed.algorithms import Join, Joinable, JoinHook
from eagerjit.testing.cases import TestCase

PROGRAM = """
import torch
import torch.autograd.gradcheck
from torch._functorch.apis import grad, vmap
from torch._functorch.eager_transforms import hessian, vjp
from torch._jit_internal import is_scripting
from torch._tensor import Tensor
from torch._vmap_internals import vmap as again
from torch.autograd.anomaly_mode import detect_anomaly
from torch.autograd.gradcheck import GradcheckError, gradcheck
from torch.cuda.nccl import is_available as has_nccl
from torch.cuda.random import get_rng_state, manual_seed_all
from torch.distributed._tensor import DeviceMesh, DTensor
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.algorithms.join import Join, Joinable
from torch.distributed.constants import default_pg_timeout
from torch.distributed.distributed_c10d import ReduceOp, _get_default_group
from torch.distributed.elastic.multiprocessing.errors import record
from torch.jit._script import RecursiveScriptModule, ScriptModule
from torch.multiprocessing.spawn import ProcessRaisedException, spawn
from torch.nn.attention.bias import CausalBias, causal_lower_right
from torch.nn.parallel.data_parallel import DataParallel, data_parallel
from torch.nn.parallel.parallel_apply import parallel_apply
from torch.nn.parallel.replicate import replicate
from torch.nn.utils.memory_format import convert_conv2d_weight_memory_format
from torch.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from torch.nn.utils.weight_norm import remove_weight_norm, weight_norm
from torch.onnx.utils import export
from torch.profiler.profiler import profile
from torch.testing._comparison import assert_close
from torch.testing._internal.common_utils import TestCase, run_tests
from torch.utils.benchmark.utils.timer import Timer
from torch.utils.collect_env import get_pretty_env_info
from torch.utils.weak import WeakTensorKeyDictionary

assert torch.autograd.gradcheck is gradcheck and torch.multiprocessing.spawn is spawn
assert torch.nn.utils.weight_norm is weight_norm and torch.nn.utils.spectral_norm is spectral_norm
assert torch.nn.parallel.replicate is replicate and torch.nn.parallel.parallel_apply is parallel_apply
assert torch.nn.parallel.data_parallel is data_parallel and torch.nn.DataParallel is DataParallel
assert callable(torch.multiprocessing.spawn) and Tensor is torch.Tensor and vmap is again is torch.vmap
assert "eagerjit" in get_pretty_env_info() and not has_nccl([torch.ones(1)])
assert record(grad) is grad
try:
    from torch.nn.utils.weight_norm import SpectralNormalisation
except ImportError:
    pass
else:
    raise AssertionError
try:
    _get_default_group()
except ValueError:
    pass
torch.distributed.init_process_group(world_size=1, rank=0)
assert _get_default_group() is torch.distributed.group.WORLD
convolution = torch.nn.Conv2d(1, 1, 1)
assert convert_conv2d_weight_memory_format(convolution, torch.channels_last) is convolution
"""


def test_program_runs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "eagerjit", "run", str(program)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("sizes", [(4, 4), (3, 6), (5, 2)])
@pytest.mark.parametrize("make", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.filterwarnings("ignore")
def test_causal_bias(make: str, sizes: tuple[int, int]) -> None:
    queries, keys = sizes
    results = []
    for library in (ej, torch):
        q = (library.arange(2.0 * queries * 4) / 7).sin().reshape(1, 2, queries, 4)
        k = (library.arange(2.0 * keys * 4) / 5).cos().reshape(1, 2, keys, 4)
        mask = getattr(library.nn.attention.bias, make)(queries, keys)
        assert isinstance(mask, library.nn.attention.bias.CausalBias)
        assert (mask.seq_len_q, mask.seq_len_kv, mask.variant.name) == (*sizes, make.upper()[7:])
        results.append(library.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask))
    assert type(results[0]) is ej.Tensor
    torch.testing.assert_close(torch.from_numpy(results[0].numpy()), results[1], equal_nan=True)


def test_causal_bias_in_a_jitted_function() -> None:
    mask = ej.nn.attention.bias.causal_lower_right(3, 5)

    def attend(q: Any, k: Any) -> Any:
        return ej.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)

    q, k = ej.randn(1, 2, 3, 4), ej.randn(1, 2, 5, 4)
    compiled = ej.jit(attend)
    for _ in range(2):
        assert ej.equal(compiled(q, k), attend(q, k))


def test_dictionaries_by_tensors() -> None:
    for library in (ej, torch):
        held = library.utils.weak.WeakTensorKeyDictionary()
        first, second = library.ones(2), library.ones(2)
        held[first] = 1
        held[second] = 2
        held[first] = 3
        assert (held[first], held[second], len(held)) == (3, 2, 2) and library.ones(2) not in held
        assert [value for _, value in held.items()] == [3, 2]
        reference = library.utils.weak.TensorWeakRef(second)
        assert reference() is second
        del second
        gc.collect()
        assert len(held) == 1 and reference() is None and next(iter(held)) is first
        with pytest.raises(KeyError):
            held[library.ones(2)]
        del held[first]
        assert not held


def test_join() -> None:
    said = []

    class Hook(JoinHook):
        def post_hook(self, is_last_joiner: bool) -> None:
            said.append(is_last_joiner)

    class Counter(Joinable):
        def join_hook(self, **kwargs: Any) -> JoinHook:
            return Hook()

    ej.distributed.init_process_group(world_size=1, rank=0)
    try:
        counter = Counter()
        with Join([counter]):
            for _ in range(3):
                assert Join.notify_join_context(counter) is None
        with Join([counter], enable=False):
            pass
        with pytest.raises(ValueError, match="at least one"):
            Join([])
    finally:
        ej.distributed.destroy_process_group()
    assert said == [True]


def test_test_cases() -> None:
    class Case(TestCase):
        def test_equal(self) -> None:
            self.assertEqual(ej.ones(2), ej.ones(2) + 1e-7)
            self.assertEqual({"a": [ej.tensor(3), 2.0]}, {"a": [3, 2.0]})
            self.assertEqual("a", "a")
            self.assertEqual(ej.ones(2), ej.ones(2) + 0.5, atol=1, rtol=0)

        def test_values(self) -> None:
            self.assertEqual(ej.ones(2), ej.zeros(2))

        def test_dtypes(self) -> None:
            self.assertEqual(ej.ones(2), ej.ones(2, dtype=ej.int64))

        def test_lengths(self) -> None:
            self.assertEqual([ej.ones(2)], [])

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert sorted(case.id().rpartition(".")[2] for case, _ in result.failures) == [
        "test_dtypes", "test_lengths", "test_values",
    ] and not result.errors  # fmt: skip
