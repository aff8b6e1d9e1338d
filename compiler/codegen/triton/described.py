"""Tensors whose blocks a GPU loads by itself, from compute capability 9.0 on: no thread has an address.

A descriptor has the dimensions of the batch that a tensor has memory for, then the two of a matrix, last the one along
which its elements are neighbours: of a matrix that lies turned blocks are loaded so, and turned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from eagerjit.compiler.codegen.triton.mapping import known
from eagerjit.compiler.codegen.triton.operations import HALVES
from eagerjit.compiler.codegen.triton.tiles import Tile
from eagerjit.compiler.loops import Attention, Product
from eagerjit.runtime.gpu import descriptors
from eagerjit.runtime.gpu.descriptors import ITEMSIZES, Descriptor, maps

FIRST = 90
"""The first architecture that has it."""
TURNED = ("LEFT_TURNED", "RIGHT_TURNED")
"""Constants: whether a factor's neighbours in memory are those along its first dimension."""
MATRICES = ("q", "k", "v", "g")
"""Of attention those that are loaded in blocks."""


def wanted(architecture: int) -> bool:
    """Whether kernels for an architecture are to load blocks so where they can."""
    return architecture >= FIRST and maps.wanted


def block_load(param: str, outer: Sequence[str], places: Sequence[str], block: Sequence[str], turned: bool) -> str:
    """The text of a block at these places, of 32 bits each; `turned`: of a matrix that lies so."""
    order = -1 if turned else 1
    at = ", ".join(f"tl.cast({place}, tl.int32)" for place in (*outer, *places[::order]))
    shaped = f".reshape({', '.join(block[::order])})" if outer else ""
    return f"{param}.load([{at}]){shaped}{'.T' * turned}"


def factor_loads(product: Product, batch: Sequence[str]) -> Iterator[str]:
    """Lines that load `a` and `b` at rows `down`, columns `across` and `done` of the summed extent."""
    sides = ("a", product.left, ("down", "done"), ("ROWS", "DEPTH")), (
        "b", product.right, ("done", "across"), ("DEPTH", "COLUMNS"),
    )  # fmt: skip
    for side, (name, param, places, block) in enumerate(sides):
        outer = [place for place, (_, *steps) in zip(batch, product.batch, strict=True) if steps[side] != 0]
        for turned, head in ((True, f"if {TURNED[side]}:"), (False, "else:")):
            yield head
            yield f"    {name} = {block_load(param, outer, places, block, turned)}"


def of_factors(
    product: Product, dtype: str, sizes: Mapping[str, int], tile: Tile, tf32: bool
) -> tuple[Descriptor, ...]:
    """Those of both factors of these sizes and addresses; none where one cannot be described.

    Tensor cores take 32-bit factors only with the elements of a sum side by side.
    """
    m, n, k = (known(x, sizes) for x in product.sizes)
    along = known(product.steps[0][1], sizes), known(product.steps[1][0], sizes)
    if dtype not in HALVES and not (tf32 and along == (1, 1)):
        return ()
    sides = (product.left, (m, k), (tile.rows, tile.depth)), (product.right, (k, n), (tile.depth, tile.columns))
    found = []
    for side, (param, extents, block) in enumerate(sides):
        outer = [(extent, rest[side]) for extent, *rest in product.batch]
        found.append(_descriptor(param, dtype, outer, extents, product.steps[side], block, sizes))
    return _all(found)


def turned(product: Product, sizes: Mapping[str, int]) -> dict[str, int]:
    """The constants that say which factors lie turned."""
    pairs = zip(TURNED, product.steps, strict=False)
    return {name: int(known(steps[1], sizes) != 1) for name, steps in pairs}


def is_large(statement: Attention, sizes: Mapping[str, int]) -> bool:
    """Whether attention's matrices are of sizes that can be described, wherever they lie."""
    high, wide, dim, out = (known(x, sizes) for x in statement.sizes)
    heads = prod(known(extent, sizes) for extent in statement.batch)
    if statement.dtype not in HALVES:
        return False
    itemsize = ITEMSIZES[statement.dtype]
    least = itemsize * heads * min(high * dim, wide * dim, wide * out, high * out)
    return all(itemsize * extent % 16 == 0 for extent in (dim, out)) and least >= descriptors.LEAST_BYTES


def of_attention(
    statement: Attention, sizes: Mapping[str, int], rows: int, keys: int, features: Sequence[int]
) -> tuple[Descriptor, ...]:
    """Those of the matrices for blocks of so many rows and keys, and features of q and of v."""
    high, wide, dim, out = (known(x, sizes) for x in statement.sizes)
    shapes = {
        "q": ((high, dim), (rows, features[0])), "k": ((wide, dim), (keys, features[0])),
        "v": ((wide, out), (keys, features[1])), "g": ((high, out), (rows, features[1])),
    }  # fmt: skip
    found = []
    for name, param, steps in statement.memory:
        if name in MATRICES:
            outer = list(zip(statement.batch, steps[2:], strict=True))
            made = _descriptor(param, statement.dtype, outer, *shapes[name][:1], steps[:2], shapes[name][1], sizes)
            found.append(None if made is None or made.shape[-1] != shapes[name][0][1] else made)
    return _all(found)


def _all(found: Sequence[Descriptor | None]) -> tuple[Descriptor, ...]:
    return tuple(d for d in found if d is not None) if None not in found else ()


def _descriptor(
    param: str,
    dtype: str,
    outer: Sequence[tuple[int | str, int | str]],
    extents: tuple[int, int],
    steps: Sequence[int | str],
    block: tuple[int, int],
    sizes: Mapping[str, int],
) -> Descriptor | None:
    """That of a matrix in each place of a batch, of which `outer` has extents and steps."""
    if dtype not in ITEMSIZES or sizes.get(param, 1) % 16:
        return None
    found = tuple(known(step, sizes) for step in steps)
    order = 1 if found[1] == 1 else -1
    apart = [(known(extent, sizes), known(step, sizes)) for extent, step in outer if step != 0]
    made = Descriptor(
        param,
        dtype,
        (*(1 for _ in apart), *block[::order]),
        (*(extent for extent, _ in apart), *extents[::order]),
        (*(step for _, step in apart), *found[::order]),
    )
    return made if made.possible else None
