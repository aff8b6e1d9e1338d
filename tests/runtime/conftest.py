"""Classes that stand for the front layer's."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from program_tools import Node, Parameter, Storage, Tensor

from eagerjit.runtime import layout
from eagerjit.runtime.binding import bind, bound


@pytest.fixture
def classes() -> Iterator[None]:
    """Binds the classes of `program_tools` with native execution on, whatever the environment says.

    Afterwards what was bound before is bound again.
    """
    kinds = bound.tensor_types, bound.node_type, bound.storage_type
    before = *kinds, bound.written, bound.view_type, bound.shape_type, bound.device_type, bound.refresh
    chosen = os.environ.pop("EAGERJIT_NATIVE", None)
    bind((Tensor, Parameter), Node, Storage)
    layout.ready()
    yield
    if chosen is not None:
        os.environ["EAGERJIT_NATIVE"] = chosen
    if before[0]:
        bind(*before)
        layout.ready()
