"""Object code for AArch64, which LLVM makes on any machine."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as binding

TRIPLE = "aarch64-unknown-linux-gnu"


@cache
def _machine() -> Any:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(TRIPLE)
    return target.create_target_machine(opt=2, reloc="pic", codemodel="default", jit=True)


def object_for_arm(text: str) -> bytes:
    """What LLVM text becomes, its functions marked `alwaysinline` inlined."""
    machine = _machine()
    with binding.parse_assembly(text) as module:
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        with binding.create_pipeline_tuning_options(speed_level=2) as options:
            builder = binding.create_pass_builder(machine, options)
            passes = binding.create_new_module_pass_manager()
            passes.add_always_inliner_pass()
            passes.run(module, builder)
            return bytes(machine.emit_object(module))
