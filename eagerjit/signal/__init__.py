"""Processing of signals: windows."""

from eagerjit.signal import windows

__all__ = ["windows"]
