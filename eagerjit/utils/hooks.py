"""What registering a hook returns."""

from eagerjit.tensors.hooks import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
