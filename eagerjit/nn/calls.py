"""Calling a Module: plainly, between its hooks, or compiled after `compile()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.effects.cautions import caution
from eagerjit.nn.global_hooks import hooks_of
from eagerjit.nn.taps import Taps
from eagerjit.state import Defaults, state
from eagerjit.tensors.hooks import Handle, add_hook
from eagerjit.tensors.mistakes import not_tensors

_SHARED = Defaults.module_hooks
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class Calls:
    """What a Module's calls go through; `_call_impl` is the plain call."""

    forward: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if "_compiled_call_impl" in own:
            return own["_compiled_call_impl"](*args, **kwargs)
        if own["_forward_pre_hooks"] or own["_forward_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]:
            return self._hooked(args, kwargs)
        if _SHARED:
            return self._hooked(args, kwargs)
        try:
            return self.forward(*args, **kwargs) if kwargs else self.forward(*args)
        except AttributeError:
            not_tensors(type(self).forward, type(self).__name__, args, kwargs)
            raise

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """From here on calls of this module are compiled; arguments are those of `eagerjit.compile`."""
        from eagerjit.compiling import compile

        self.__dict__["_compiled_call_impl"] = compile(self._call_impl, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles are not compiled: what was compiled belongs to this module's own parameters."""
        journal = getattr(state.tracer, "journal", None)
        if journal is not None:
            journal.whole.add(id(self))
        return {name: value for name, value in self.__dict__.items() if name != "_compiled_call_impl"}

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if _SHARED or any(own[name] for name in HOOKS):
            return self._hooked(args, kwargs)
        return self.forward(*args, **kwargs)

    def _hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        own = self.__dict__
        for shared in hooks_of("forward_pre"):
            args, kwargs = self._before(shared.hook, False, args, kwargs)
        for key, hook in list(own["_forward_pre_hooks"].items()):
            args, kwargs = self._before(hook, key in own["_hooks_with_kwargs"], args, kwargs)
        taps = Taps(self)
        if taps.called:
            args = taps.enter(args)
        waiting = self._waiting()
        result = None
        try:
            result = self.forward(*args, **kwargs)
            while waiting:
                result = self._after(*waiting.pop(0)[:2], args, kwargs, result)
        except Exception:
            for hook, with_kwargs, always in waiting:
                try:
                    result = self._after(hook, with_kwargs, args, kwargs, result) if always else result
                except Exception as error:  # that of forward says more
                    caution(
                        "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                        f"another error was raised in forward: {error}"
                    )
            raise
        return taps.leave(result) if taps.called else result

    def _after(self, hook: Any, with_kwargs: bool, args: Any, kwargs: Any, result: Any) -> Any:
        changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
        return result if changed is None else changed

    def _waiting(self) -> list[tuple[Callable[..., Any], bool, bool]]:
        """The hooks to be called after forward, whether with its named arguments, and whether also when it raises."""
        own = self.__dict__
        with_kwargs, always = own["_hooks_with_kwargs"], own["_hooks_always_called"]
        shared = [(h.hook, h.with_kwargs, h.always) for h in hooks_of("forward")]
        return shared + [(hook, key in with_kwargs, key in always) for key, hook in own["_forward_hooks"].items()]

    def _before(
        self, hook: Callable[..., Any], with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as a hook leaves them."""
        if not with_kwargs:
            changed = hook(self, args)
            if changed is None:
                return args, kwargs
            return changed if isinstance(changed, tuple) else (changed,), kwargs
        changed = hook(self, args, kwargs)
        if changed is None:
            return args, kwargs
        if isinstance(changed, tuple) and len(changed) == 2:
            return changed
        raise RuntimeError(
            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
        )

    # -- adding hooks -------------------------------------------------------------------------------------------------

    def _add_hook(
        self, table: str, hook: Callable[..., Any], prepend: bool, with_kwargs: bool = False, always: bool = False
    ) -> Handle:
        own = self.__dict__
        hooks = own[table]
        handle = add_hook(hooks, hook)
        if prepend:
            others = {k: h for k, h in hooks.items() if k != handle.id}
            added = hooks[handle.id]
            hooks.clear()
            hooks.update({handle.id: added, **others})
        if with_kwargs:
            own["_hooks_with_kwargs"].add(handle.id)
        if always:
            own["_hooks_always_called"].add(handle.id)
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Calls hook(module, args) before forward; what it returns takes the place of the arguments.

        With `with_kwargs` it is hook(module, args, kwargs) and returns (args, kwargs). `prepend` puts it first.
        """
        return self._add_hook("_forward_pre_hooks", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> Handle:
        """Calls hook(module, args, result) after forward; what it returns takes the place of the result.

        With `with_kwargs` it is hook(module, args, kwargs, result). `always_call`: also when forward raises.
        """
        return self._add_hook("_forward_hooks", hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Calls hook(module, grad_output) in backward; what it returns takes the place of grad_output."""
        return self._add_hook("_backward_pre_hooks", hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Calls hook(module, grad_input, grad_output) in backward; what it returns takes the place of grad_input."""
        return self._add_hook("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> Handle:
        """The older name of `register_full_backward_hook`."""
        return self.register_full_backward_hook(hook)
