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


def note_queued(error: BaseException, work: Queued) -> None:
    """Note whose an error is."""
    error._of_queued_work = work  # type: ignore[attr-defined]


def queued_before(error: BaseException | None, call: Queued) -> bool:
    """Whether an error within a call is that of other work: then it has to be raised, as it is told of only once.

    The error may be of a class of the user's, of which no code runs here.
    """
    work = None if error is None else vars(error).get("_of_queued_work")
    return type(work) is Queued and (work.thread != call.thread or work.moment < call.moment)
