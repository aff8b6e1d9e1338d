"""Devices of processes in a grid, which has one place where there is one process."""

from __future__ import annotations

from typing import Any

from eagerjit import distributed
from eagerjit.distributed.groups import ProcessGroup, world
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import tensor
from eagerjit.tensors.tensor import Tensor

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of the process of a group of one, in any number of dimensions, which may have names.

    Raises RuntimeError for a grid of more, NotImplementedError in a group of several. Without a group one is made.
    """

    def __init__(self, device_type: str, mesh: Any, *, mesh_dim_names: tuple[str, ...] | None = None, **ignored: Any):
        self.device_type = device_type
        self.mesh = mesh.to(dtypes.int32) if isinstance(mesh, Tensor) else tensor(mesh, dtype=dtypes.int32)
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        if self.mesh_dim_names and len(self.mesh_dim_names) != self.ndim:
            raise RuntimeError(f"{len(self.mesh_dim_names)} names for a mesh of {self.ndim} dimensions")
        if self.mesh.numel() != 1:
            raise RuntimeError(f"a mesh of {self.mesh.numel()} ranks: eagerjit makes meshes of one process alone")
        if not distributed.is_initialized():
            distributed.init_process_group()
        self._group = world()
        if self._group.size() != 1:
            raise NotImplementedError("eagerjit makes meshes in groups of one process alone")

    @classmethod
    def from_group(
        cls, group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None
    ) -> DeviceMesh:
        """The grid of a group, or of a list of groups, one for each dimension."""
        sizes = [1] * len(group) if isinstance(group, (list, tuple)) else [1]
        return _of_sizes(cls, device_type, sizes, mesh_dim_names)

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return int(self.mesh.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are along each dimension: 1."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """1."""
        return 1

    def get_rank(self) -> int:
        """0."""
        return 0

    def _dim(self, mesh_dim: int | str | None) -> None:
        """Raises RuntimeError or KeyError for what names no dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"mesh_dim has to name one of the {self.ndim} dimensions of the mesh")
        if isinstance(mesh_dim, str):
            self[mesh_dim]
        elif mesh_dim is not None and not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"a mesh of {self.ndim} dimensions has no dimension {mesh_dim}")

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """0."""
        self._dim(mesh_dim)
        return 0

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of this process along a dimension."""
        self._dim(mesh_dim)
        return self._group

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of all dimensions."""
        return [self._group] * self.ndim

    def get_coordinate(self) -> tuple[int, ...]:
        """The place of this process: zeros."""
        return (0,) * self.ndim

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        unknown = [name for name in names if name not in (self.mesh_dim_names or ())]
        if unknown:
            raise KeyError(f"the mesh has dimensions {self.mesh_dim_names}, and none of the names {unknown}")
        return _of_sizes(DeviceMesh, self.device_type, [1] * len(names), names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.shape, self.mesh_dim_names

    def __repr__(self) -> str:
        if self.mesh_dim_names is None:
            return f"DeviceMesh({self.shape}, {self.device_type!r})"
        return f"DeviceMesh(({', '.join(f'{name}=1' for name in self.mesh_dim_names)}), {self.device_type!r})"

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def _of_sizes(cls: type[DeviceMesh], device_type: str, sizes: Any, names: tuple[str, ...] | None) -> DeviceMesh:
    count = 1
    for size in sizes:
        count *= size
    return cls(device_type, tensor(list(range(count))).reshape(list(sizes)), mesh_dim_names=names)


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None, **ignored: Any
) -> DeviceMesh:
    """A grid of these sizes, which all have to be 1. Raises RuntimeError for others."""
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(f"{len(mesh_dim_names)} names for a mesh of {len(mesh_shape)} dimensions")
    return _of_sizes(DeviceMesh, device_type, mesh_shape, mesh_dim_names)
