"""DLPack under the name of its older home."""

from eagerjit.tensors.dlpack import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
