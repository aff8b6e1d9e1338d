"""Calling a Module: plainly, or compiled after `compile()`."""

from __future__ import annotations

from typing import Any


class CompiledCalls:
    """What a Module's calls go through; `_call_impl` is the plain call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        compiled = self.__dict__.get("_compiled_call_impl")
        return self._call_impl(*args, **kwargs) if compiled is None else compiled(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """From here on calls of this module are compiled; arguments are those of `eagerjit.compile`."""
        from eagerjit.jit import compile

        self.__dict__["_compiled_call_impl"] = compile(self._call_impl, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles are not compiled: what was compiled belongs to this module's own parameters."""
        return {name: value for name, value in self.__dict__.items() if name != "_compiled_call_impl"}

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError
