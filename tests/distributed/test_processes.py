"""Groups of several processes: what they exchange, as NumPy computes it of all processes' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import work
from processes import together

BOTH = pytest.mark.parametrize("size", [2, 3])


@BOTH
def test_reductions(size: int) -> None:
    found = together(work.reductions, size)
    combine = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum,
               "BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}  # fmt: skip
    for key in found[0]:
        dtype, count, op = [*key.split(), "", ""][:3]
        if op not in combine:
            continue
        parts = [work.values(rank, int(count), dtype)._data for rank in range(size)]
        expected = parts[0]
        for part in parts[1:]:
            expected = combine[op](expected, part)
        for answer in found:
            assert answer[key].dtype == expected.dtype and np.array_equal(answer[key], expected), key
    sevens = [work.values(rank, 7, "float32")._data for rank in range(size)]
    rows = sum(work.values(rank, 4 * size, "float32")._data.reshape(size, 2, 2) for rank in range(size))
    for rank, answer in enumerate(found):
        np.testing.assert_allclose(answer["average"], sum(sevens) / np.float32(size), rtol=1e-6)
        assert np.array_equal(answer["reduced"], sum(sevens) if rank == 1 else sevens[rank])
        assert np.array_equal(answer["scattered"], rows[rank])
        mine = sum(work.values(k + 10 * rank, 3, "float32")._data for k in range(size))
        assert np.array_equal(answer["scattered list"], mine)


def test_memory_of_all_kinds() -> None:
    for answer in together(work.layouts, 2):
        part = answer.pop("part")
        assert np.array_equal(part[::2, 1:3], np.full((2, 2), 2.0)) and part.sum() in (16 + 4, 32)
        assert np.array_equal(answer.pop("turned"), np.arange(12.0).reshape(3, 4) * 3)
        assert np.array_equal(answer.pop("leaf"), [1.0, 1.0])
        assert answer == {"number": 3.0, "counted": True}


@BOTH
def test_copies(size: int) -> None:
    found = together(work.copies, size)
    everyone = np.stack([np.arange(3) + 10 * k for k in range(size)])
    for rank, answer in enumerate(found):
        assert answer["broadcast"].tolist() == [size - 1] * 3
        assert np.array_equal(answer["all_gather"], everyone)
        assert np.array_equal(answer["into"], np.stack([everyone, everyone]))
        assert answer["gather"] is None if rank != 1 else np.array_equal(answer["gather"], everyone)
        assert answer["scatter"].tolist() == [rank, 7]
        assert answer["all_to_all"].tolist() == [[k, rank] for k in range(size)]
        assert answer["all_to_all_single"].tolist() == [[k, k] for k in range(size) for _ in range(rank + 1)]


def test_operations_that_are_waited_for_later() -> None:
    assert together(work.aside, 2) == [[5.0, 50_000.0, 1.0, 300.0, 4.0, 1]] * 2


def test_messages() -> None:
    found = together(work.messages, 3)
    assert [answer["ring"] for answer in found] == [2.0, 0.0, 1.0]
    assert found[0]["tags"] == [[1.0, 1.0], [2.0, 2.0]]
    assert found[0]["sources"] == [(1, 1.0), (2, 2.0)]
    assert (found[0]["objects from"], found[0]["objects"]) == (1, [{"a": 1}, "b"])


def test_objects() -> None:
    for rank, answer in enumerate(together(work.objects, 3)):
        assert answer["all"] == [{"rank": k, "list": [0] * k} for k in range(3)]
        assert answer["gathered"] == (None if rank else [("from", k) for k in range(3)])
        assert answer["given"] == ["a", [1.0, 1.0]] and answer["one"] == [f"for {rank}"]


def test_groups_of_some() -> None:
    found = together(work.groups, 3)
    assert [a["reduced"] for a in found] == [3.0, 3.0, 3.0] and [a["alone"] for a in found] == [1.0, 2.0, 3.0]
    assert [a["rank"] for a in found] == [0, 1, -1] and [a["size"] for a in found] == [2, 2, -1]
    assert [a["ranks"] for a in found] == [[0, 1], [0, 1], []] and [a["own"] for a in found] == [[0], [1], [2]]
    assert [a.get("to global") for a in found] == [0, 1, None] and [a.get("broadcast") for a in found] == [1, 1, None]


def test_wrong_calls_are_refused() -> None:
    expected = [
        "ValueError", "TypeError", "ValueError", "ValueError", "ValueError", "ValueError", "ValueError", "ValueError",
        "ValueError", "ValueError", "RuntimeError", "ValueError", "ValueError", "ValueError",
    ]  # fmt: skip
    assert together(work.problems, 2) == [expected, expected]


def test_a_process_that_is_gone_is_an_error_of_the_others() -> None:
    assert together(work.lost, 3) == ["DistBackendError", "DistBackendError", "left"]


def test_a_group_is_made_again() -> None:
    assert together(work.again, 2) == [4.0, 4.0]


def test_a_process_that_does_not_come_is_not_waited_for_for_ever() -> None:
    assert together(work.late, 2)[0] == "Timed out waiting 500ms for processes [1]"


@BOTH
def test_gradients_of_what_is_exchanged(size: int) -> None:
    found = together(work.differentiated, size)
    own = np.array([[k + 1.0, 2.0] for k in range(size)])
    rows = np.stack([np.arange(2.0 * size).reshape(size, 2) + k for k in range(size)])
    for rank, answer in enumerate(found):
        total = own.sum(0)
        assert answer["all_reduce"] == [(2 * size * total).tolist(), [total.tolist()]]
        assert answer["all_gather"] == [(2 * size * own[rank]).tolist(), own.tolist()]
        root = (2 * size * own[1]).tolist() if rank == 1 else [0.0, 0.0]
        assert answer["broadcast"] == [root, [own[1].tolist()]]
        assert answer["reduce"][0] == (2 * total).tolist()
        sums = rows.sum(0)
        assert answer["reduce_scatter"] == [(2 * sums).tolist(), [sums[rank].tolist()]]
        got = (2 * rows[0]).tolist() if rank == 0 else np.zeros((size, 2)).tolist()
        assert answer["scatter"] == [got, [rows[0][rank].tolist()]]
        assert answer["all_to_all_single"] == [(2 * rows[rank]).tolist(), [rows[:, rank].tolist()]]


# -- training ---------------------------------------------------------------------------------------------------------


def alone(norm: Any) -> tuple[list[np.ndarray], Any]:
    """What one process gets of the whole batch."""
    net = work.Net(norm)
    return work.trained(net, list(range(24))), net


@pytest.mark.parametrize("kind", ["plain", "compiled", "step", "hook", "unused", "norm"])
def test_processes_train_what_one_would(kind: str) -> None:
    expected, net = alone(work.nn.BatchNorm1d if kind == "norm" else work.nn.LayerNorm)
    if kind == "norm":
        expected += [net.norm.running_mean.numpy(), net.norm.running_var.numpy()]
    found = together(work.parallel, 2, kind)
    for a, b, e in zip(*found, expected + [None] * (len(found[0]) - len(expected)), strict=True):
        assert a.tobytes() == b.tobytes()
        if e is not None:
            np.testing.assert_allclose(a, e, rtol=2e-4, atol=2e-5)


def test_gradients_are_added_up_apart_first() -> None:
    (first, both), (second, again) = together(work.parallel, 2, "no_sync")
    x, y = work.batch()
    net = work.Net(work.nn.LayerNorm)
    work.F.cross_entropy(net(x), y, reduction="sum").backward()
    for a, b, p in zip(both, again, net.parameters(), strict=True):
        assert a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a, p.grad.numpy() / 2, rtol=1e-4, atol=1e-5)
    assert not np.allclose(first, second)


def test_a_pass_that_leaves_parameters_out_is_named() -> None:
    for rank, message in enumerate(together(work.parallel, 2, "unfinished")):
        assert message.startswith("Expected to have finished reduction in the prior iteration")
        assert message.endswith(f"for rank {rank}: spare.weight, spare.bias")
