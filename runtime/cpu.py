"""The host processor: LLVM text becomes object code, object code becomes callable addresses.

The only file that imports `llvmlite.binding`, on first use, so that importing eagerjit does not pay for LLVM.

Compiling costs about 1.7 ms per module whatever it holds, plus some 15 µs per vector instruction: several kernels
are best compiled as one text. Loading an object costs about 0.2 ms, and more the more objects LLVM holds beside it.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from eagerjit.runtime import busy
from eagerjit.runtime.once import innermost, lock, once

PASSES: dict[str, tuple[str, ...]] = {
    "quick": (),
    "none": (),
    "light": ("sroa", "instruction_combine", "simplify_cfg"),
    "inline": ("always_inliner", "sroa", "instruction_combine", "simplify_cfg"),
}
"""Optimisations before instruction selection. Explicitly vectorised text needs few: "light" adds 0.3 ms to a small
kernel, O2 (named "full") 2 ms, with the same machine code. "inline" also inlines functions marked `alwaysinline`; on
the native runtime it gives code as fast as O2's in a quarter of the time. "quick" also asks nothing of instruction
selection: code half as fast in a sixth of the time of "inline"."""

_names = itertools.count()
_unloaded: list[Any] = []  # code that nobody needs any more: whoever takes the lock next gives it back to LLVM


@functools.partial(once, lock=innermost)
def _binding() -> Any:
    """llvmlite.binding with the native target set up."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def cpu_name() -> str:
    """LLVM's name of the host processor, such as "znver5"."""
    return str(_binding().get_host_cpu_name())


@functools.cache
def features() -> frozenset[str]:
    """Instruction set extensions the processor and the operating system support, in LLVM's names."""
    return frozenset(name for name, present in _binding().get_host_cpu_features().items() if present)


@functools.cache
def vector_width_bits() -> int:
    """Bits of the widest vector registers; EAGERJIT_VECTOR_BITS lowers (never raises) it."""
    native = 512 if "avx512f" in features() else 256 if "avx2" in features() else 128
    wanted = os.environ.get("EAGERJIT_VECTOR_BITS", "")
    if not wanted:
        return native
    if wanted not in ("128", "256", "512"):
        raise ValueError(f"EAGERJIT_VECTOR_BITS must be 128, 256 or 512, not {wanted!r}")
    return min(native, int(wanted))


@functools.cache
def target_key() -> str:
    """All that object code depends on besides its text: versions, processor, features."""
    binding = _binding()
    llvm = ".".join(map(str, binding.llvm_version_info))
    return f"llvm={llvm} {binding.get_default_triple()} cpu={cpu_name()} {','.join(sorted(features()))}{_tuning()}"


def _tuning() -> str:
    """What LLVM is told beside the features: to Zen 1 to 4 a gather is dearer than its loads one by one."""
    slow = cpu_name() in ("znver1", "znver2", "znver3", "znver4")
    return ",+prefer-no-gather,+prefer-no-scatter" if slow else ""


def _new_target_machine(effort: int = 2) -> Any:
    """A target machine for the host. Without fast-math flags in the text LLVM fuses no multiply with an add."""
    binding = _binding()
    flags = binding.get_host_cpu_features().flatten() + _tuning()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu_name(), features=flags, opt=effort, reloc="pic", codemodel="default", jit=True
    )


@once
def _target_machine() -> Any:
    return _new_target_machine()


@once
def _quick_machine() -> Any:
    return _new_target_machine(effort=0)


@functools.cache
def _data_layout() -> str:
    return str(_target_machine().target_data)


def _optimized(llvm_text: str, passes: str) -> Any:
    """Parses and optimises; raises RuntimeError with LLVM's message where the text is malformed."""
    binding = _binding()
    module = binding.parse_assembly(llvm_text, context=binding.create_context())
    module.triple = binding.get_default_triple()
    module.data_layout = _data_layout()
    builder = binding.create_pass_builder(_target_machine(), binding.create_pipeline_tuning_options(speed_level=2))
    if passes == "full":
        builder.getModulePassManager().run(module, builder)
        return module
    manager = binding.create_new_module_pass_manager()
    for name in PASSES[passes]:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
    return module


def compile_text(llvm_text: str, passes: str = "light") -> bytes:
    """Object code of LLVM text. `passes` is "quick", "none", "light", "inline" or "full" (see PASSES)."""
    busy.begin()
    try:
        return compile_aside(llvm_text, passes)
    finally:
        busy.end()


def compile_aside(llvm_text: str, passes: str) -> bytes:
    """Object code of LLVM text that nobody waits for."""
    with lock:
        machine = _quick_machine() if passes == "quick" else _target_machine()
        return bytes(machine.emit_object(_optimized(llvm_text, passes)))


def assembly(llvm_text: str, passes: str = "light") -> str:
    """The assembly that `compile_text` would encode."""
    with lock:
        return str(_target_machine().emit_assembly(_optimized(llvm_text, passes)))


_AT_A_LINKER = 256
"""Objects that one linker loads: it looks for each among all that it holds."""


@functools.lru_cache(maxsize=1)
def _linker(number: int) -> Any:
    binding = _binding()
    return binding.create_lljit_compiler(_new_target_machine(), use_jit_link=True, suppress_errors=True)


class LoadedObject:
    """Machine code in memory; its addresses are valid as long as this object lives."""

    __slots__ = ("__weakref__", "_addresses", "_linker", "_name", "_trackers")

    def __init__(self, linker: Any, name: str, tracker: Any, addresses: dict[str, int]):
        self._linker, self._name = linker, name
        self._trackers = [tracker]
        self._addresses = addresses

    def __del__(self, unloaded: list[Any] = _unloaded) -> None:
        unloaded.append((self._trackers, self._linker))

    def address(self, name: str) -> int:
        """The address of a function or global variable the object defines; KeyError if it defines none such."""
        known = self._addresses.get(name)
        if known is not None:
            return known
        with lock:
            try:
                tracker = self._linker.lookup(self._name, name)
            except RuntimeError as error:
                raise KeyError(f"{name}: {str(error).strip()}") from None
            self._trackers.append(tracker)
            self._addresses[name] = tracker[name]
        return self._addresses[name]


def load_object(
    *data: bytes, symbols: Mapping[str, int] | None = None, exported: Sequence[str] = ()
) -> LoadedObject:
    """Links object code. What it lacks comes from `symbols` (of which it defines none), then from this process (libc,
    libm, CPython). The addresses of what is `exported` are found at once, those of all else when they are asked for."""
    binding = _binding()
    with lock:
        _unloaded.clear()
        number = next(_names)
        name, linker = f"object{number}", _linker(number // _AT_A_LINKER)
        builder = binding.JITLibraryBuilder()
        for one in data:
            builder.add_object_img(one)
        builder.add_current_process()
        for symbol, address in (symbols or {}).items():
            builder.import_symbol(symbol, address)
        for symbol in exported:
            builder.export_symbol(symbol)
        tracker = builder.link(linker, name)
        return LoadedObject(linker, name, tracker, {symbol: tracker[symbol] for symbol in exported})


def callable_at(address: int, result: Any, *arguments: Any) -> Any:
    """A ctypes function over machine code, called with the GIL released; the caller keeps the object alive."""
    return ctypes.CFUNCTYPE(result, *arguments)(address)
