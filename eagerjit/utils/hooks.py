"""What registering a hook returns."""

from eagerjit.tensors.methods import Handle as RemovableHandle

__all__ = ["RemovableHandle"]
