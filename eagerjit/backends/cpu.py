"""The CPU."""


def get_cpu_capability() -> str:
    """The widest vectors in use: "AVX512", "AVX2" or "DEFAULT"."""
    from eagerjit.runtime import cpu

    return {512: "AVX512", 256: "AVX2"}.get(cpu.vector_width_bits(), "DEFAULT")
