"""What a process may use of its machine: less than there is where its affinity or a control group says so.

Containers and job schedulers set limits by control groups, which the counts of processors and of memory do not show:
threads beyond such a limit make each other wait for its next period.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

_ROOT = "/sys/fs/cgroup"
_OWN = "/proc/self/cgroup"
"""Lines that say which group of which controllers a process is in."""


def processors() -> int:
    """Processors that this process may run on, at most as many as its control groups give it the time of."""
    counts = [len(os.sched_getaffinity(0))]
    for folder in _groups("cpu"):
        quota = _words(f"{folder}/cpu.max") or _words(f"{folder}/cpu.cfs_quota_us", f"{folder}/cpu.cfs_period_us")
        if len(quota) == 2 and quota[0].isdigit():  # "max" or -1 where there is none
            counts.append(-(-int(quota[0]) // int(quota[1])))
    return max(1, min(counts))


def memory() -> int:
    """Bytes of memory that this process may have: the machine's, or what its control groups leave it."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for folder in _groups("memory"):
        limits = _words(f"{folder}/memory.max", f"{folder}/memory.limit_in_bytes")
        sizes += [int(limit) for limit in limits if limit.isdigit()]
    return min(sizes)


def _groups(controller: str) -> Iterator[str]:
    """The folders of the control groups that this process is in, innermost first: limits of all of them hold.

    A container sees its own group as the outermost, while its path may be that of the machine.
    """
    for line in _lines(_OWN):
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = f"{_ROOT}/{controller}" if controllers else _ROOT  # version 1 has a tree for each controller
        names = path.strip("/").split("/")
        for count in range(len(names), -1, -1):
            yield "/".join([root, *names[:count]])


def _words(*paths: str) -> list[str]:
    return [word for path in paths for line in _lines(path) for word in line.split()]


def _lines(path: str) -> list[str]:
    """Lines of a file; none where it cannot be read."""
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
