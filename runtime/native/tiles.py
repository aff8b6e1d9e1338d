"""How large the tiles are that `multiply_tile` computes in registers, and whether there are others for short floats."""

from __future__ import annotations

import platform

from eagerjit.runtime import cpu

LANES = cpu.vector_width_bits() // 32
TILE_VECTORS = 3  # of a tile's row, at most
TILE_ROWS = 8 if LANES == 16 or platform.machine() in ("aarch64", "arm64") else 4
"""Rows times vectors accumulators, a row's vectors and one more fit the registers there are: 32 or 16."""

HAS_TILES = LANES == 16 and "amx-bf16" in cpu.features()
"""Whether the processor multiplies pairs of bfloat16 numbers in tiles of its own."""

HAS_PAIRS = HAS_TILES or (LANES == 16 and "avx512bf16" in cpu.features())
"""Whether it multiplies them at all: in vectors where it has no tiles, as AMD's do."""
