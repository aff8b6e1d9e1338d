"""Triton: from text to PTX and machine code for a given GPU, which need not be there."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from eagerjit.runtime import cache, syntax_trees
from eagerjit.runtime.gpu.cubin import parameters, resources
from eagerjit.runtime.gpu.descriptors import Box
from eagerjit.runtime.records import record

lock = threading.RLock()


@record(frozen=True)
class Binary:
    """What a kernel was compiled to: `shared` bytes of shared memory and `warps` per program belong to a launch.

    A thread has so many `registers`, and `spilled` bytes of values that found none. `parameters` are the bytes of each,
    those that the compiler added last. `boxes` say how it takes blocks of the tensors that it is given maps of.
    """

    name: str
    ttir: str
    ptx: str
    cubin: bytes
    shared: int
    warps: int
    registers: int
    spilled: int
    parameters: tuple[int, ...]
    boxes: tuple[Box, ...] = ()


def directory() -> Path:
    """Where Triton files lie."""
    return Path(cache.directory()) / "triton"


def written(text: str) -> Path:
    """The file of a text: Triton reads kernels from files, and so can the user."""
    path = directory() / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{threading.get_ident()}.new")
        new.write_text(text)
        new.replace(path)
    return path


@lru_cache(maxsize=1)
def _parses_alone() -> None:
    """Have Triton make a kernel's syntax tree while no other thread makes one: kernels are compiled by several."""
    from triton.runtime.jit import JITFunction

    parse = JITFunction.parse

    def parse_alone(function: Any) -> Any:
        with syntax_trees.alone():
            return parse(function)

    JITFunction.parse = parse_alone


@contextlib.contextmanager
def _interpreting(on: bool) -> Iterator[None]:
    """`triton.jit` makes functions for the interpreter, or for the compiler, within the block."""
    import triton

    before = triton.knobs.runtime.interpret
    triton.knobs.runtime.interpret = on
    try:
        yield
    finally:
        triton.knobs.runtime.interpret = before


@lru_cache(maxsize=4096)
def function(text: str, name: str, interpreted: bool) -> Any:
    """The Triton function of this name in a text."""
    path = written(text)
    module_name = f"eagerjit_triton_{path.stem}_{int(interpreted)}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with lock, _interpreting(interpreted):
        sys.modules[module_name] = module
        specification.loader.exec_module(module)
    return getattr(module, name)


def compile(
    text: str,
    name: str,
    signature: Mapping[str, str],
    constants: Mapping[str, int],
    architecture: int,
    warps: int = 4,
    aligned: Iterable[str] = (),
    contract: bool = False,
    stages: int = 3,
) -> Binary:
    """Compile for an NVIDIA GPU of compute capability `architecture` (80, 90, ...).

    signature   Triton's type of every parameter in order: *fp32, i32, fp64, constexpr, ...
    aligned     parameters that are multiples of 16: then accesses are wide
    contract    whether a product and a sum may be rounded once
    stages      steps of a loop over products that are under way at once
    """
    import triton
    from triton.backends.compiler import GPUTarget

    _parses_alone()
    names = list(signature)
    attributes = {(names.index(a),): [["tt.divisibility", 16]] for a in aligned}
    source = triton.compiler.ASTSource(function(text, name, False), dict(signature), dict(constants), attributes)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": contract}
    made = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options)
    asm = made.asm
    about = made.metadata
    if about.global_scratch_size or about.profile_scratch_size:
        raise RuntimeError(f"{name} was compiled to need scratch memory of its own, which no launch gives it")
    name, cubin = about.name, asm["cubin"]
    used = about.shared, about.num_warps, *resources(cubin), parameters(cubin, name)
    maps = getattr(about, "tensordesc_meta", None) or ()
    boxes = tuple(Box(tuple(box["block_size"]), box["swizzle"]) for box in maps)
    return Binary(name, str(asm["ttir"]), asm["ptx"], cubin, *used, boxes)
