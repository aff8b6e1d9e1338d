"""Tiles of matrix products: a model of what a product costs on a GPU, by its sizes, the factors' format and the GPU.

A program's step multiplies rows x depth by depth x columns. It takes as long as the longest of: the multiplications,
the bytes that come from the L2 cache, and the wait for memory, shortened by the steps that are loaded ahead and the
programs that share a multiprocessor. Where a result has too few tiles to go round, several programs share a tile, each
with a part of the sum; the last one adds the parts in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

DEFAULT = 90
"""The architecture that is meant where none is named."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What an architecture has, per multiprocessor but for their number: multiplications and bytes in a clock."""

    processors: int
    shared: int
    rates: dict[str, int]
    cached: int
    group: int
    """Rows that tensor cores need to be busy."""


AMPERE = Gpu(108, 166912, {"16": 1024, "tf32": 512, "f32": 64, "f64": 64}, 40, 16)
ADA = Gpu(84, 101376, {"16": 512, "tf32": 256, "f32": 128, "f64": 2}, 40, 16)
HOPPER = Gpu(132, 232448, {"16": 2048, "tf32": 1024, "f32": 128, "f64": 64}, 40, 64)
SIDES = (16, 32, 64, 128, 256)
DEPTHS = {"16": 64, "tf32": 32, "f32": 32, "f64": 16}
LARGEST = {"16": 128 * 256, "tf32": 128 * 128, "f32": 128 * 64, "f64": 64 * 32}
"""Elements of a tile, whose sums are in registers."""
WAIT, START, ARRIVAL = 1000, 1500, 2500
"""Clocks until memory answers, to begin and end a program, and for programs to wait for each other."""
ADDRESSED = 128 * 128
"""Elements of a tile whose factors are gathered."""
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
REGISTERS, THREADS = 65536, 2048
"""What a multiprocessor has; a thread needs some 48 registers besides its results."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How a product is computed: `split` programs per tile, `group` rows of tiles done together, `stages` ahead."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    split: int = 1
    group: int = 8


def gpu(architecture: int) -> Gpu:
    """What is known of an architecture; newer ones are taken for Hopper."""
    return HOPPER if architecture >= 90 else AMPERE if architecture == 80 else ADA


def kind_of(dtype: str, tf32: bool) -> str:
    """What multiplies factors of a format."""
    return "16" if dtype in ("f16", "bf16") else "tf32" if dtype == "f32" and tf32 else dtype


@lru_cache(maxsize=4096)
def choose(
    m: int, n: int, k: int, batch: int, dtype: str, tf32: bool = False, architecture: int = DEFAULT,
    addressed: bool = False,
) -> Tile:  # fmt: skip
    """The tile that the model finds cheapest; `addressed`: programs compute the address of every factor as well."""
    kind, device = kind_of(dtype, tf32), gpu(architecture)
    found = _candidates(m, n, k, batch, kind, device)
    if addressed:
        found = (tile for tile in found if tile.rows * tile.columns <= ADDRESSED)
    return min(found, key=lambda tile: cost(tile, m, n, k, batch, kind, device))


def ranked(m: int, n: int, k: int, batch: int, dtype: str, tf32: bool, architecture: int, count: int) -> list[Tile]:
    """The cheapest tiles, the best one first."""
    kind, device = kind_of(dtype, tf32), gpu(architecture)
    found = sorted(_candidates(m, n, k, batch, kind, device), key=lambda tile: cost(tile, m, n, k, batch, kind, device))
    return found[:count]


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below a number."""
    return 1 << max(number - 1, 0).bit_length()


def _candidates(m: int, n: int, k: int, batch: int, kind: str, device: Gpu) -> Iterator[Tile]:
    itemsize = {"16": 2, "f64": 8}.get(kind, 4)
    depth = max(16, min(DEPTHS[kind], power_of_two(k)))
    for rows in SIDES:
        for columns in SIDES:
            too_large = rows > max(16, power_of_two(m)) or columns > max(16, power_of_two(n))
            if too_large or rows * columns > LARGEST[kind]:
                continue
            warps = 8 if rows * columns >= 128 * 128 else 4
            step = (rows + columns) * depth * itemsize
            tiles = -(-m // rows) * -(-n // columns) * batch
            for stages in (3, 4) if kind in ("16", "tf32") else (2, 3):
                if step * stages > device.shared:
                    continue
                for split in SPLITS:
                    if split == 1 or (k >= split * 4 * depth and tiles * split <= 4 * device.processors):
                        yield Tile(rows, columns, depth, warps, stages, split)


def room(tile: Tile, dtype: str, tf32: bool, architecture: int = DEFAULT) -> tuple[int, int]:
    """Programs that a multiprocessor has room for, and bytes of shared memory that one of them would leave."""
    kind, device = kind_of(dtype, tf32), gpu(architecture)
    return _fitting(tile, kind, device), device.shared - _blocks(tile, kind)


def _blocks(tile: Tile, kind: str) -> int:
    """Bytes of blocks that a program has in shared memory."""
    return (tile.rows + tile.columns) * tile.depth * {"16": 2, "f64": 8}.get(kind, 4) * tile.stages


def _fitting(tile: Tile, kind: str, device: Gpu) -> int:
    threads = 32 * tile.warps
    registers = REGISTERS // (tile.rows * tile.columns + 48 * threads)
    return max(1, min(device.shared // _blocks(tile, kind), registers, THREADS // threads))


def cost(tile: Tile, m: int, n: int, k: int, batch: int, kind: str, device: Gpu) -> float:
    """Clocks that a product takes."""
    itemsize = {"16": 2, "f64": 8}.get(kind, 4)
    programs = -(-m // tile.rows) * -(-n // tile.columns) * batch * tile.split
    steps = -(-k // (tile.split * tile.depth))
    step = (tile.rows + tile.columns) * tile.depth * itemsize
    area = tile.rows * tile.columns
    own = -(-programs // device.processors)
    threads = 32 * tile.warps
    together = min(own, _fitting(tile, kind, device))
    rate: float = device.rates[kind]
    if kind in ("16", "tf32"):
        rate *= (1.0 if tile.rows >= device.group else 0.5) * min(1.0, (64 + tile.columns) / 192)
    else:  # a thread's square of results says how often it uses what it reads from shared memory
        rate *= min(1.0, (area / threads) ** 0.5 / 8)
    parts = (area * tile.depth / rate, step / device.cached, WAIT / ((tile.stages - 1) * together))
    one = sum(part**4 for part in parts) ** 0.25  # they overlap, but not wholly
    clocks = own * steps * one + -(-own // together) * (START + area * 4 / device.cached)
    if tile.split > 1:
        clocks += ARRIVAL + own * area * 4 / device.cached + area * 4 * tile.split / device.cached
    return clocks
