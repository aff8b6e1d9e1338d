"""What Modules and optimizers were like when a function was recorded: compared when something has changed."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from eagerjit.guards.comparing import contents, has_state
from eagerjit.guards.held import Held, held_by
from eagerjit.runtime import mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.own_attributes import dictionary_of, own_attributes
from eagerjit.runtime.records import record
from eagerjit.state import Defaults, state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching import lookup

_PLAIN = frozenset((Tensor, int, float, bool, str, type(None)))
"""Classes of which Modules keep instances among their attributes and buffers."""


@record
class Structure:
    """Modules and optimizers that a trace went through and defaults, as they were: checked when the epoch has moved."""

    owners: list[Any]
    states: list[Any]
    epoch: int
    dtype: DType
    casting: Any
    device: Any
    methods: int
    changing: Set[tuple[int, Any]]
    held: list[Held | None]
    alive: list[Any]
    """What is known by identity, which others may have when it is gone; not tensors, whose memory is not to be kept."""

    def holds(self) -> bool:
        """Whether they still are as they were."""
        settings = self.dtype is Defaults.dtype and self.casting == state.casting and self.device is state.device
        return settings and self.methods == Defaults.methods and all(
            (held is not None and held.holds()) or owner._jit_state(self.changing) == before
            for owner, before, held in zip(self.owners, self.states, self.held, strict=True)
        )

    def epochs_of(self, module: Any, name: str, value: Any) -> int:
        """How many epochs a Module starts that gets this value for an attribute; 0 where that matters here, or may."""
        own = module.__dict__
        if "_buffers" not in own or (type(value) not in _PLAIN and (has_state(value) or isinstance(value, Tensor))):
            return 0
        if name in own and (id(own), name) in self.changing:
            return int(own[name] is not value)
        buffers = own["_buffers"]
        if name in buffers and (id(buffers), name) in self.changing:
            return 2 * (buffers[name] is not value)  # the table's, and the module's
        return 0


def structure_of(owners: list[Any], changing: Set[tuple[int, Any]] = frozenset()) -> Structure:
    """The present structure of these objects; attributes in `changing`, (object, name), need not stay."""
    epoch = mode.epoch()
    unique = _outermost(list({id(o): o for o in owners if has_state(o)}.values()))
    tables = [(o, dictionary_of(o)) for o in unique]
    names = {id(o): [id(table)] for o, table in tables if table is not None}
    for owner in unique:
        for module in owner.modules() if hasattr(owner, "modules") else ():
            own = module.__dict__
            names[id(module)] = [id(own), *(id(own[t]) for t in ("_buffers", "_parameters", "_modules"))]
    changing = changing | {(place, key) for owner, key in changing for place in names.get(owner, ())}
    states = [o._jit_state(changing) for o in unique]
    held = [held_by(o, changing) for o in unique]
    settings = Defaults.dtype, state.casting, state.device, Defaults.methods
    return Structure(unique, states, epoch, *settings, changing, held, list(_known_by_identity(unique)))


def _outermost(owners: list[Any]) -> list[Any]:
    """The owners but Modules that lie in others, whose structure is part of theirs."""
    parts = (m for o in owners if hasattr(o, "named_modules") for _, m in o.named_modules() if m is not o)
    within = set(map(id, parts))
    return [o for o in owners if id(o) not in within]


def _known_by_identity(owners: list[Any]) -> Iterator[Any]:
    """The objects but tensors that Modules and optimizers hold, also in containers."""
    kept: list[Any] = []
    for owner in owners:
        for part in owner.modules() if hasattr(owner, "modules") else (owner,):
            contents(own_attributes(part), kept)
            kept += own_attributes(part).values()
        for group in lookup.kept(owner, "param_groups") or ():
            yield dict(group)
    yield from (x for x in kept if not isinstance(x, Tensor))
