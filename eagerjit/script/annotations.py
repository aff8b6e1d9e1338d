"""Names of `torch.jit.annotations`: types that programs annotate arguments with."""

from __future__ import annotations

import typing

List, Dict, Tuple = typing.List, typing.Dict, typing.Tuple  # noqa: UP006  # the names that there are
Optional, Union, Any = typing.Optional, typing.Union, typing.Any

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list
"""Of arguments that take a number for a list."""
