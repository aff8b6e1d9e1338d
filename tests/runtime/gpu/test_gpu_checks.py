"""What kernels' checks find is raised once, where the host waits, and names the call; until then the host runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from machines import Machine

import eagerjit as ej
from eagerjit.runtime.gpu.checks import Checks

pytestmark = pytest.mark.usefixtures("tensors")


def rows() -> tuple[Any, Any, Any]:
    """A table of ten rows, rows that there are, and rows that there are not."""
    table = ej.arange(20, dtype=ej.float32, device="cuda").reshape(10, 2)
    return table, ej.tensor([1, 9], device="cuda"), ej.tensor([1, 10], device="cuda")


def eager(table: Any, index: Any) -> Any:
    return table[index]


COMPILED = ej.jit(eager, fullgraph=True)


@pytest.mark.parametrize("call", [eager, COMPILED], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "wait",
    [
        lambda result: result.cpu(),
        lambda result: result.sum().item(),
        lambda result: result.tolist(),
        lambda result: ej.cuda.synchronize(),
        lambda result: ej.cuda.current_stream().synchronize(),
        lambda result: ej.cuda.current_stream().record_event().synchronize(),
    ],
    ids=["cpu", "item", "tolist", "synchronize", "stream", "event"],
)
def test_it_is_raised_where_the_host_waits(call: Any, wait: Callable[[Any], Any]) -> None:
    table, good, bad = rows()
    call(table, good)
    for _ in range(2):
        result = call(table, bad)
        with pytest.raises(IndexError, match="index") as raised:
            wait(result)
        assert any("test_gpu_checks.py" in note for note in raised.value.__notes__)
        ej.cuda.synchronize()  # nothing is raised twice
        assert call(table, good).tolist() == [[2, 3], [18, 19]]


def test_calls_that_check_do_not_wait(target: Machine) -> None:
    table, good, _ = rows()
    eager(table, good)
    COMPILED(table, good)
    if target.library is None:
        pytest.skip("only a fake device notes its calls")
    before = len(target.library.calls)
    for _ in range(3):
        eager(table, good)
        COMPILED(table, good)
    new = {call[0] for call in target.library.calls[before:]}
    assert new <= {"cuLaunchKernel", "cuStreamIsCapturing"}, new


def test_every_failed_call_is_raised_once_and_in_order() -> None:
    table, _, bad = rows()
    raised: list[str] = []

    def repeat(call: Callable[[], object]) -> None:
        """Until it does not say what an earlier call did, as any call may."""
        for _ in range(4):
            try:
                call()
                return
            except IndexError as error:
                raised.append(str(error))
        raise AssertionError(f"raised again and again: {raised}")

    eager(table, bad)
    repeat(lambda: eager(table[:7], bad))
    repeat(ej.cuda.synchronize)
    assert [message.rpartition(" ")[2] for message in raised] == ["10", "7"]


def test_words_are_used_again(target: Machine) -> None:
    target.device.checks = Checks(target.device, part=3)
    table, good, bad = rows()
    results = []
    for step in range(20):
        with ej.cuda.stream(ej.cuda.current_stream() if step % 2 else ej.cuda.Stream()):
            ej.cuda.current_stream().wait_stream(ej.cuda.default_stream())
            results.append(eager(table, good))
    ej.cuda.synchronize()
    assert all(result.tolist() == [[2, 3], [18, 19]] for result in results)
    queued = raised = 0
    for step in range(40):
        try:
            if step < 20:
                eager(table, bad)
                queued += 1
            else:
                ej.cuda.synchronize()
        except IndexError:
            raised += 1
    assert raised == queued > 0


def test_writes_are_kept_within_the_tensor() -> None:
    table, _, bad = rows()
    table[bad] = -1.0
    with pytest.raises(IndexError):
        ej.cuda.synchronize()
    assert table.tolist()[2:] == [[2.0 * i, 2.0 * i + 1] for i in range(2, 10)]


def test_a_graph_s_replays_report_too() -> None:
    table, good, bad = rows()
    call = ej.jit(eager, cuda_graphs=True)
    index = good.clone()
    for _ in range(4):
        assert call(table, index).tolist() == [[2, 3], [18, 19]]
    index.copy_(bad)
    for _ in range(2):
        call(table, index)
        with pytest.raises(IndexError):
            ej.cuda.synchronize()
    index.copy_(good)
    assert call(table, index).tolist() == [[2, 3], [18, 19]]


def jittered(a: Any) -> Any:
    """A Cholesky factor, of a matrix that is made positive-definite where it is not."""
    try:
        return ej.linalg.cholesky(a)
    except ej.linalg.LinAlgError:
        return ej.linalg.cholesky(a + 4.0 * ej.eye(3, device="cuda"))


@pytest.mark.parametrize("kind", ["eager", "compiled", "graphs"])
def test_a_call_raises_errors_of_linear_algebra_itself(kind: str) -> None:
    call = jittered if kind == "eager" else ej.jit(jittered, cuda_graphs=kind == "graphs")
    good, bad = 9.0 * ej.eye(3, device="cuda"), -3.0 * ej.eye(3, device="cuda")
    for _ in range(3):
        assert call(good).diagonal().tolist() == [3.0] * 3
        assert call(bad).diagonal().tolist() == [1.0] * 3
    ej.cuda.synchronize()  # nothing is left to be raised


def test_a_capture_does_not_wait_for_what_a_matrix_lacks() -> None:
    a = 9.0 * ej.eye(3, device="cuda")
    ej.linalg.cholesky(a)
    graph = ej.cuda.CUDAGraph()
    with ej.cuda.graph(graph):
        out = ej.linalg.cholesky(a)
    graph.replay()
    assert out.diagonal().tolist() == [3.0] * 3
    a.neg_()
    graph.replay()
    with pytest.raises(ej.linalg.LinAlgError, match="not positive-definite"):
        ej.cuda.synchronize()


HEARD: list[int] = []


def counted(table: Any, index: Any) -> Any:
    HEARD.append(1)
    return table[index]


def selected(table: Any, index: Any) -> Any:
    """The host waits for a size amid its work."""
    HEARD.append(1)
    found = table[index]
    return found[found > 2.5]


@pytest.mark.parametrize("native", [True, False], ids=["native", "Python"])
@pytest.mark.parametrize("function", [counted, selected])
def test_a_call_that_is_repeated_plainly_keeps_errors_of_earlier_ones(
    function: Callable[..., Any], native: bool, target: Machine
) -> None:
    """Its own error the plain call raises again; of an earlier one it knows nothing."""
    table, good, bad = rows()
    call = ej.jit(function, fullgraph=True)
    for _ in range(3):
        call(table, good)
    for _ in range(2):
        eager(table, bad)
        target.device.driver.cuCtxSynchronize()
        HEARD.clear()
        with pytest.raises(IndexError, match="index"):
            call(table, good) if native else call(table, index=good)
        assert not HEARD
        ej.cuda.synchronize()
        assert call(table, good).flatten().tolist()[-3:] == [3, 18, 19] and HEARD == [1]


def test_a_call_that_is_captured_keeps_errors_of_earlier_ones(target: Machine) -> None:
    """They say nothing of whether it can be."""
    base, good, bad = ej.zeros(5, device="cuda"), ej.tensor([1, 4], device="cuda"), ej.tensor([1, 5], device="cuda")

    def add(base: Any, index: Any) -> Any:
        return base.scatter_add(0, index, ej.ones(2, device="cuda"))

    call = ej.jit(add, cuda_graphs=True)
    call(base, good)
    add(base, bad)
    target.device.driver.cuCtxSynchronize()
    with pytest.raises(RuntimeError, match="out of range"):
        call(base, good)
    ej.cuda.synchronize()
    assert call(base, good).tolist() == [0, 1, 0, 0, 1]
