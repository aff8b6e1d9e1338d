"""Meshes of devices in a group of one process, against PyTorch's with gloo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed

import eagerjit as ej


@pytest.fixture(autouse=True)
def groups() -> Iterator[None]:
    for library in (ej, torch):
        store = library.distributed.HashStore()
        library.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    for library in (ej, torch):
        library.distributed.destroy_process_group()


def outcome(case: Callable[..., Any], *given: Any) -> Any:
    """What a case gives, or the class of its error."""
    try:
        return case(*given)
    except Exception as error:
        return type(error).__name__


MESHES: dict[str, Callable[[Any], Any]] = {
    "one dimension": lambda d: (lambda m: [m.ndim, tuple(m.shape), m.size(), m.get_coordinate(), m.get_local_rank()])(
        d.init_device_mesh("cpu", (1,))
    ),
    "two dimensions": lambda d: (
        lambda m: [m.ndim, m.size(0), m.get_local_rank("b"), m.get_rank(), m["a"].mesh_dim_names, m.device_type,
                   m["a"] == m["a"], m.mesh.tolist(), m["b", "a"].ndim if d is ej.distributed else 2,
                   len(m.get_all_groups()), m.get_group("a").size()]
    )(d.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))),
    "made": lambda d: tuple(d.DeviceMesh("cpu", [[0]]).shape),
    "of a group": lambda d: tuple(d.DeviceMesh.from_group(d.group.WORLD, "cpu").shape),
    "of two": lambda d: d.init_device_mesh("cpu", (2,)),
    "made of two": lambda d: d.DeviceMesh("cpu", [0, 1]),
    "too many names": lambda d: d.init_device_mesh("cpu", (1,), mesh_dim_names=("a", "b")),
    "unknown name": lambda d: d.init_device_mesh("cpu", (1,), mesh_dim_names=("a",))["b"],
    "no dimension": lambda d: d.init_device_mesh("cpu", (1, 1)).get_group(),
}  # fmt: skip


@pytest.mark.parametrize("name", MESHES)
def test_meshes(name: str) -> None:
    assert outcome(MESHES[name], ej.distributed) == outcome(MESHES[name], torch.distributed)
