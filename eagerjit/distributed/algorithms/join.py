"""`Join`: processes with fewer batches wait for the others; in a group of one there are none."""

from __future__ import annotations

from typing import Any

from eagerjit.distributed.groups import world

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process that has joined does while others go on, and when all have joined."""

    def main_hook(self) -> None:
        """What is done for every batch of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """What is done when all have joined."""


class Joinable:
    """What takes part: gives a hook, and says where and with whom it computes."""

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of what takes part."""
        raise NotImplementedError(f"{type(self).__name__} has no join_hook")

    @property
    def join_device(self) -> Any:
        """Where it computes."""
        raise NotImplementedError(f"{type(self).__name__} has no join_device")

    @property
    def join_process_group(self) -> Any:
        """With whom it computes."""
        raise NotImplementedError(f"{type(self).__name__} has no join_process_group")


class Join:
    """A context of a loop over batches, at whose end the one process has joined, as the last.

    Raises NotImplementedError in a group of several.
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ):
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        if world().size() != 1:
            raise NotImplementedError("eagerjit joins processes in groups of one alone")
        self._enabled = enable
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if not self._enabled or kind is not None:
            return
        for hook in self._hooks:
            hook.post_hook(True)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """None: there is nobody to tell that this process goes on."""
