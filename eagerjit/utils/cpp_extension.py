"""Extensions in C++ and CUDA, as packages ask for them where they have code in Python too: none can be built."""

from __future__ import annotations

import shutil
from typing import Any, NoReturn

__all__ = [
    "CUDA_HOME", "CUDNN_HOME", "IS_HIP_EXTENSION", "ROCM_HOME", "BuildExtension", "CUDAExtension", "CppExtension",
    "SyclExtension", "include_paths", "is_ninja_available", "library_paths", "load", "load_inline",
    "verify_ninja_availability",
]  # fmt: skip

CUDA_HOME: str | None = None
CUDNN_HOME: str | None = None
ROCM_HOME: str | None = None
IS_HIP_EXTENSION = False


def is_ninja_available() -> bool:
    """Is the build system `ninja` installed?"""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """RuntimeError where the build system `ninja` is not installed."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def load(name: str, *arguments: Any, **options: Any) -> NoReturn:
    """RuntimeError, as of a build that fails: an extension is compiled against PyTorch's own headers."""
    raise RuntimeError(f"Error building extension '{name}': eagerjit has no headers of PyTorch to compile it with")


def load_inline(name: str, *arguments: Any, **options: Any) -> NoReturn:
    """RuntimeError, as `load`."""
    load(name)


def CppExtension(name: str, *arguments: Any, **options: Any) -> NoReturn:
    """RuntimeError, as `load`."""
    load(name)


def CUDAExtension(name: str, *arguments: Any, **options: Any) -> NoReturn:
    """RuntimeError, as `load`."""
    load(name)


def SyclExtension(name: str, *arguments: Any, **options: Any) -> NoReturn:
    """RuntimeError, as `load`."""
    load(name)


def include_paths(*arguments: Any, **options: Any) -> list[str]:
    """There are no headers: an empty list."""
    return []


def library_paths(*arguments: Any, **options: Any) -> list[str]:
    """There are no libraries to link with: an empty list."""
    return []


class BuildExtension:
    """RuntimeError when it is to build, as `load`."""

    def __init__(self, *arguments: Any, **options: Any):
        raise RuntimeError("BuildExtension: eagerjit has no headers of PyTorch to compile extensions with")

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """This class."""
        return cls
