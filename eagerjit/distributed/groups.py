"""Groups of processes: who is in them, and a thread that does what they are asked in order."""

from __future__ import annotations

import datetime
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.distributed.errors import DistBackendError
from eagerjit.distributed.links import Links, Mailbox
from eagerjit.distributed.stores import PrefixStore, Store, seconds_of

default_pg_timeout = datetime.timedelta(minutes=30)
UNINITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


class Work:
    """Something that a group has been asked to do."""

    def __init__(self, source: int = -1) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None
        self._source = source

    def _run(self, do: Callable[[], Any]) -> None:
        try:
            self._result = do()
        except Exception as error:
            self._error = error
        finally:
            self._done.set()

    def wait(self, timeout: Any = None) -> bool:
        """Wait until it is done; True. Raises what went wrong, or DistBackendError if it is not done in time."""
        seconds = None if timeout is None or not seconds_of(timeout) else seconds_of(timeout)
        if not self._done.wait(seconds):
            raise DistBackendError(f"Timed out waiting {round((seconds or 0) * 1000)}ms for an operation")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether it is done, or went wrong."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether it is done and nothing went wrong."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """What went wrong."""
        return self._error

    def source_rank(self) -> int:
        """Whose message was received."""
        return self._result if self._source < 0 and isinstance(self._result, int) else self._source

    def result(self) -> Any:
        """The tensors that it was about."""
        self.wait()
        return self._result

    def get_future(self) -> Any:
        """A `torch.futures.Future` of the tensors."""
        from eagerjit.futures import Future

        future: Any = Future()

        def tell() -> None:
            self._done.wait()
            if self._error is None:
                future.set_result(self._result)
            else:
                future.set_exception(self._error)

        threading.Thread(target=tell, daemon=True).start()
        return future


class ProcessGroup:
    """Processes that exchange tensors. `ranks` are their numbers among all; a store introduces them to each other."""

    def __init__(self, ranks: Sequence[int], rank: int, store: Store | None, timeout: Any, backend: str, name: str):
        self.ranks, self.backend, self.group_name = list(ranks), backend, name
        self.bound_device_id = None
        self.group_desc = name
        self._rank = self.ranks.index(rank)
        self._seconds = seconds_of(timeout)
        self.store = store
        self._links = self._meet("links")
        self._mailbox: Mailbox | None = None
        self._direct = self._meet("messages")
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None

    def _meet(self, purpose: str) -> Links:
        if self.store is None:
            return Links(Store(), 0, 1, self._seconds)
        return Links(PrefixStore(f"{self.group_name}/{purpose}", self.store), self._rank, self.size(), self._seconds)

    def rank(self) -> int:
        """This process's number in the group."""
        return self._rank

    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend."""
        return self.backend

    @property
    def mailbox(self) -> Mailbox:
        """What processes send each other one by one."""
        with self._opening:  # not the lock that a thread holds while it waits for other processes
            if self._mailbox is None:
                self._mailbox = Mailbox(self._direct)
            return self._mailbox

    def ask(self, do: Callable[[Links], Any], aside: bool) -> Work | None:
        """Have something done after all that was asked before; `aside`: return at once, with what can be waited for."""
        work = Work()

        def task() -> None:
            work._run(lambda: do(self._links))

        with self._lock:
            if aside and self._thread is None:
                self._thread = threading.Thread(target=self._serve, daemon=True, name="eagerjit group")
                self._thread.start()
            if self._thread is not None:
                self._waiting.put(task)
            else:  # no other thread has anything to do: this one need not wait for it
                task()
        if aside:
            return work
        work.wait()
        return None

    def _serve(self) -> None:
        while (task := self._waiting.get()) is not None:
            task()

    def close(self) -> None:
        """End it; a store that nobody else has goes too, and with it the port."""
        self._waiting.put(None)
        self.store = None
        self._links.close()
        self._direct.close()


class GroupMember:
    """The default group, and what a process gets for a group that it is not in."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = object()


group = GroupMember


def world() -> ProcessGroup:
    """The default group. Raises ValueError where there is none."""
    if group.WORLD is None:
        raise ValueError(UNINITIALIZED)
    return group.WORLD


def resolved(given: Any) -> ProcessGroup | None:
    """A group, the default one for None; None for one that this process is not in."""
    default = world()
    if given is None:
        return default
    return None if given is GroupMember.NON_GROUP_MEMBER else given


def place_in(members: ProcessGroup, rank: int | None, group_rank: int | None, what: str, default: int | None) -> int:
    """A process's number in a group, from that among all or that in the group."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{what} and {what}")
    if group_rank is not None:
        if not 0 <= group_rank < members.size():
            raise ValueError(f"group_{what} {group_rank} is no rank of a group of {members.size()}")
        return group_rank
    rank = default if rank is None else rank
    if rank is None:
        raise ValueError(f"Must specify {what} or group_{what}")
    if rank not in members.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {members.group_name}")
    return members.ranks.index(rank)
