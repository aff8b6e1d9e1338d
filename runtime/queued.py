"""Whose an error is: a device runs behind the host, so that a call may be told what an earlier one did."""

from __future__ import annotations

import itertools
import threading

_moments = itertools.count()


class Queued:
    """Which thread queued work, and when; what goes wrong with it is raised where the host next hears of it."""

    __slots__ = ("moment", "thread")

    def __init__(self) -> None:
        self.moment, self.thread = next(_moments), threading.get_ident()


def queued_before(error: BaseException | None, call: Queued) -> bool:
    """Whether an error within a call is that of other work: then it has to be raised, as it is told of only once."""
    work: Queued | None = getattr(error, "queued", None)
    return work is not None and (work.thread != call.thread or work.moment < call.moment)
