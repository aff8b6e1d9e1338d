"""The host processor: LLVM text becomes object code, object code becomes callable addresses.

The only file that imports `llvmlite.binding`, when something is compiled: programs that have run before on a machine do
without LLVM where this library links objects itself (`images.py`). Elsewhere LLVM links them.

Compiling costs about 1.7 ms per module whatever it holds, plus some 15 µs per vector instruction: several kernels
are best compiled as one text. Loading an object costs about 0.2 ms, and more the more objects LLVM holds beside it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from eagerjit.runtime import busy, images
from eagerjit.runtime.interrupts import surely
from eagerjit.runtime.once import innermost, lock, once
from eagerjit.runtime.processor import Processor, processor

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
_unloaded: list[Any] = []  # code that nobody needs any more: whoever takes the lock next gives it back


@functools.partial(once, lock=innermost)
def _binding() -> Any:
    """llvmlite.binding with the native target set up."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def _asked() -> Processor:
    binding = _binding()
    features = sorted(name for name, present in binding.get_host_cpu_features().items() if present)
    version = ".".join(map(str, binding.llvm_version_info))
    return Processor(version, binding.get_default_triple(), binding.get_host_cpu_name(), tuple(features))


@functools.partial(once, lock=innermost)
def _host() -> Processor:
    return processor(_asked)


def cpu_name() -> str:
    """LLVM's name of the host processor, such as "znver5"."""
    return _host().name


@functools.cache
def features() -> frozenset[str]:
    """Instruction set extensions the processor and the operating system support, in LLVM's names."""
    return frozenset(_host().features)


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
    """All that code depends on besides what it computes: versions, processor, features, how wide vectors are."""
    host, bits = _host(), vector_width_bits()
    return f"llvm={host.llvm} {host.triple} cpu={host.name} {','.join(host.features)}{_tuning()} vectors={bits}"


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


@contextlib.contextmanager
def _optimized(llvm_text: str, passes: str) -> Iterator[Any]:
    """Parses and optimises; raises RuntimeError with LLVM's message where the text is malformed.

    All that LLVM makes is given back at the end, the context last, and not when Python's objects go: who looks at all
    objects that are young, as a recording in another thread does, may hold them until a collection of garbage, which
    keeps no order, and a module must not outlive its context.
    """
    binding = _binding()
    with contextlib.ExitStack() as made:
        context = made.enter_context(binding.create_context())
        module = made.enter_context(binding.parse_assembly(llvm_text, context=context))
        module.triple = binding.get_default_triple()
        module.data_layout = _data_layout()
        options = made.enter_context(binding.create_pipeline_tuning_options(speed_level=2))
        builder = made.enter_context(binding.create_pass_builder(_target_machine(), options))
        made.enter_context(_pass_manager(builder, passes)).run(module, builder)
        yield module


def _pass_manager(builder: Any, passes: str) -> Any:
    if passes == "full":
        return builder.getModulePassManager()
    manager = _binding().create_new_module_pass_manager()
    for name in PASSES[passes]:
        getattr(manager, f"add_{name}_pass")()
    return manager


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
        with _optimized(llvm_text, passes) as module:
            return bytes(machine.emit_object(module))


def compile_texts(llvm_texts: Iterable[str], passes: str = "light") -> list[bytes]:
    """Object code of each LLVM text. One that is ready does not wait for the next: threads emit them side by side."""
    busy.begin()
    try:
        with lock, contextlib.ExitStack() as made:
            modules = (made.enter_context(_optimized(text, passes)) for text in llvm_texts)
            emissions = [made.enter_context(_emission(module)) for module in modules]
            return [result() for result in emissions]
    finally:
        busy.end()


@contextlib.contextmanager
def _emission(module: Any) -> Iterator[Callable[[], bytes]]:
    """Emits a module's object code in a thread of its own; yields what waits for the code."""
    library, message, buffers = _unlocked(), ctypes.c_char_p(), list[int | None]()

    def work() -> None:
        buffers.append(library.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, ctypes.byref(message)))

    def result() -> bytes:
        wait()
        if not buffers[0]:
            raise RuntimeError((message.value or b"LLVM emits no code").decode())
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffers[0]), library.LLVMPY_GetBufferSize(buffers[0]))

    with _new_target_machine() as machine:
        wait = _begun(work)
        try:
            yield result
        finally:
            surely(wait)
            for buffer in filter(None, buffers):
                library.LLVMPY_DisposeMemoryBuffer(ctypes.c_void_p(buffer))


def _begun(work: Callable[[], None]) -> Callable[[], None]:
    """Do something in a thread of its own; the function waits for it."""
    thread = threading.Thread(target=work, name="eagerjit-llvm")
    try:
        thread.start()
    except RuntimeError:  # a process that exits, or may have no more, starts none
        work()
        return lambda: None
    return thread.join


@once
def _unlocked() -> Any:
    """LLVM's functions without the lock by which llvmlite calls one at a time: modules of different contexts share
    nothing."""
    library = ctypes.CDLL(None, handle=_binding().ffi.lib._handle)
    library.LLVMPY_TargetMachineEmitToMemory.restype = ctypes.c_void_p
    for name in ("Start", "Size"):
        function = getattr(library, f"LLVMPY_GetBuffer{name}")
        function.argtypes, function.restype = (ctypes.c_void_p,), ctypes.c_size_t
    return library


def assembly(llvm_text: str, passes: str = "light") -> str:
    """The assembly that `compile_text` would encode."""
    with lock, _optimized(llvm_text, passes) as module:
        return str(_target_machine().emit_assembly(module))


_AT_A_LINKER = 256
"""Objects that one linker loads: it looks for each among all that it holds."""


@functools.lru_cache(maxsize=1)
def _linker(number: int) -> Any:
    binding = _binding()
    return binding.create_lljit_compiler(_new_target_machine(), use_jit_link=True, suppress_errors=True)


class LoadedObject:
    """Machine code in memory; its addresses are valid as long as this object lives."""

    __slots__ = ("__weakref__", "_addresses", "_give_back")

    def __init__(self, addresses: dict[str, int], give_back: Callable[[], None]):
        self._addresses, self._give_back = addresses, give_back

    def __del__(self, unloaded: list[Any] = _unloaded) -> None:
        unloaded.append(self._give_back)

    def address(self, name: str) -> int:
        """The address of what the object defines or was given; KeyError if that is none such."""
        return self._addresses[name]


class _LinkedByLLVM(LoadedObject):
    """Objects that LLVM has linked, which finds an address when it is asked for."""

    __slots__ = ("_linker", "_name", "_trackers")

    def __init__(self, linker: Any, name: str, tracker: Any, addresses: dict[str, int]):
        self._linker, self._name, self._trackers = linker, name, [tracker]
        super().__init__(addresses, functools.partial(_give_back_to_llvm, self._trackers, linker))

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


def _give_back() -> None:
    while _unloaded:
        _unloaded.pop()()


def linked(*objects: bytes) -> list[bytes]:
    """What stands for objects and loads sooner: one image, or the objects themselves where none can be linked."""
    return [images.link(*objects)] if images.SUPPORTED else [*objects]


def load_object(
    *data: bytes, symbols: Mapping[str, int] | None = None, exported: Sequence[str] = ()
) -> LoadedObject:
    """Loads objects or what they were `linked` to. What they lack comes from `symbols` (of which they define none),
    then from this process (libc, libm, CPython). What is `exported` they have to define."""
    if not images.SUPPORTED:
        return _linked_by_llvm(data, symbols or {}, exported)
    ready = [one for one in data if one.startswith(images.MARK)]
    if len(ready) < len(data):
        ready.append(images.link(*(one for one in data if not one.startswith(images.MARK))))
    with lock:
        _give_back()
        loaded = images.load(ready, symbols or {})
    addresses = dict(symbols or {})
    addresses |= {name: image.base + place for image in loaded for name, place in image.symbols.items()}
    made = LoadedObject(addresses, functools.partial(images.unload, loaded))
    if missing := [name for name in exported if name not in addresses]:
        raise RuntimeError(f"machine code does not define {', '.join(missing)}")
    return made


def _give_back_to_llvm(trackers: list[Any], linker: Any) -> None:
    trackers.clear()


def _linked_by_llvm(data: Sequence[bytes], symbols: Mapping[str, int], exported: Sequence[str]) -> LoadedObject:
    binding = _binding()
    with lock:
        _give_back()
        number = next(_names)
        name, linker = f"object{number}", _linker(number // _AT_A_LINKER)
        builder = binding.JITLibraryBuilder()
        for one in data:
            builder.add_object_img(one)
        builder.add_current_process()
        for symbol, address in symbols.items():
            builder.import_symbol(symbol, address)
        for symbol in exported:
            builder.export_symbol(symbol)
        tracker = builder.link(linker, name)
        return _LinkedByLLVM(linker, name, tracker, {symbol: tracker[symbol] for symbol in exported})


def callable_at(address: int, result: Any, *arguments: Any) -> Any:
    """A ctypes function over machine code, called with the GIL released; the caller keeps the object alive."""
    return ctypes.CFUNCTYPE(result, *arguments)(address)
