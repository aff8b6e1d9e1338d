"""What registering a hook returns."""

from eagerjit.methods import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
