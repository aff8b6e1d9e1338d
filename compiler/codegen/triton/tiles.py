"""Tiles of matrix products: a model of what a product costs on a GPU, by its sizes, the factors' format and the GPU.

A program's step multiplies rows x depth by depth x columns. It takes as long as the longest of: the multiplications,
the bytes that come from the L2 cache, and the wait for memory, shortened by the steps that are loaded ahead and the
programs that share a multiprocessor. Programs come in rounds, of which the last one has fewer to share it, so that it
matters how evenly tiles go round. Where a result has too few of them, several programs share a tile, each with a part
of the sum; the last one adds the parts in their order.

Hopper's numbers for 16-bit factors and TF32 were fitted to measurements on an H100, so that they stand for all that
happens in such a program; the others are estimates.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import inf

from eagerjit.runtime.records import record, replace

DEFAULT = 90
"""The architecture that is meant where none is named."""


@record(frozen=True)
class Gpu:
    """What an architecture has, per multiprocessor but for their number: multiplications and bytes in a clock."""

    processors: int
    shared: int
    rates: dict[str, int]
    cached: int
    group: int
    """Rows that tensor cores need to be busy."""
    shares: dict[int, float]
    """How much of their rate tensor cores reach with so many columns."""
    wait: int = 1000
    """Clocks until memory answers."""
    kept: int = 40
    """Bytes of parts of sums, which are stored and read again."""
    arrival: int = 2500
    """Clocks for programs to wait for each other, and for what clears their counters before."""
    many: int = 128 * 128
    """Elements of a tile from which it has 8 warps, since 4 have too few registers; TF32 has no larger one."""
    turned: float = inf
    """Bytes of a right TF32 factor whose neighbours in memory are along its rows, not its columns as tensor cores take
    it: 6 on an H100. Sizes do not tell which factors lie so; twice as many are the middle, and favour tall tiles."""


SHARES = {16: 0.42, 32: 0.5, 64: 0.67, 128: 1.0, 256: 1.0}
AMPERE = Gpu(108, 166912, {"16": 1024, "tf32": 512, "f32": 64, "f64": 64}, 40, 16, SHARES)
ADA = Gpu(84, 101376, {"16": 512, "tf32": 256, "f32": 128, "f64": 2}, 40, 16, SHARES)
UNMEASURED = Gpu(132, 232448, {"16": 2048, "tf32": 1024, "f32": 128, "f64": 64}, 40, 64, SHARES)
"""Hopper for what was not measured: other formats, and factors that are gathered."""
HOPPER = replace(
    UNMEASURED, cached=100, shares={16: 0.25, 32: 0.4, 64: 0.57, 128: 0.73, 256: 0.84},
    wait=1200, kept=10, arrival=12000, many=128 * 256, turned=12,
)  # fmt: skip
SIDES = (16, 32, 64, 128, 256)
DEPTHS = {"16": 64, "tf32": 32, "f32": 32, "f64": 16}
LARGEST = {"16": 128 * 256, "f32": 128 * 64, "f64": 64 * 32}
"""Elements of a tile, whose sums are in registers; of TF32 it depends on the GPU."""
START = 1500
"""Clocks to begin and end a program."""
ADDRESSED = 128 * 128
"""Elements of a tile whose factors are gathered."""
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
REGISTERS, THREADS = 65536, 2048
"""What a multiprocessor has; a thread needs some 48 registers besides its results."""


@record(frozen=True)
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


def _modelled(kind: str, architecture: int, addressed: bool = False) -> Gpu:
    """The numbers for products of a kind."""
    device = gpu(architecture)
    return UNMEASURED if device is HOPPER and (addressed or kind not in ("16", "tf32")) else device


def kind_of(dtype: str, tf32: bool) -> str:
    """What multiplies factors of a format."""
    return "16" if dtype in ("f16", "bf16") else "tf32" if dtype == "f32" and tf32 else dtype


@lru_cache(maxsize=4096)
def choose(
    m: int, n: int, k: int, batch: int, dtype: str, tf32: bool = False, architecture: int = DEFAULT,
    addressed: bool = False,
) -> Tile:  # fmt: skip
    """The tile that the model finds cheapest; `addressed`: programs compute the address of every factor as well."""
    kind = kind_of(dtype, tf32)
    device = _modelled(kind, architecture, addressed)
    found = _candidates(m, n, k, batch, kind, device)
    if addressed:
        found = (tile for tile in found if tile.rows * tile.columns <= ADDRESSED)
    return min(found, key=lambda tile: cost(tile, m, n, k, batch, kind, device))


def ranked(m: int, n: int, k: int, batch: int, dtype: str, tf32: bool, architecture: int, count: int) -> list[Tile]:
    """The cheapest tiles, the best one first."""
    kind = kind_of(dtype, tf32)
    device = _modelled(kind, architecture)
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
            if too_large or rows * columns > LARGEST.get(kind, device.many):
                continue
            warps = 8 if rows * columns >= device.many else 4
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
        rate *= (1.0 if tile.rows >= device.group else 0.5) * device.shares[tile.columns]
    else:  # a thread's square of results says how often it uses what it reads from shared memory
        rate *= min(1.0, (area / threads) ** 0.5 / 8)
    parts = [area * tile.depth / rate, step / device.cached]
    if kind == "tf32":
        parts.append(tile.columns * tile.depth * itemsize / device.turned)
    clocks = 0.0
    for rounds, sharing in ((own // together, together), (1, own % together)):
        if sharing:
            waited = device.wait / ((tile.stages - 1) * sharing)
            one = sum(part**4 for part in (*parts, waited)) ** 0.25  # they overlap, but not wholly
            clocks += rounds * (sharing * steps * one + START + area * 4 / device.cached)
    if tile.split > 1:
        clocks += device.arrival + (own + tile.split) * area * 4 / device.kept
    return clocks
