"""The profiler under its older name."""

from eagerjit.profiler import profile, record_function

__all__ = ["profile", "record_function"]
