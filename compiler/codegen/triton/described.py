"""Factors of products whose blocks a GPU loads by itself, from compute capability 9.0 on: no thread has an address.

A descriptor has the dimensions of the batch that a factor has memory for, then the factor's two, last the one along
which its elements are neighbours: of a factor that lies turned blocks are loaded so, and turned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eagerjit.compiler.codegen.triton.tiles import Tile
from eagerjit.compiler.loops import Product
from eagerjit.runtime.gpu.descriptors import FORMATS, Descriptor

FIRST = 90
"""The first architecture that has it."""
TURNED = ("LEFT_TURNED", "RIGHT_TURNED")
"""Constants: whether a factor's neighbours in memory are those along its first dimension."""


def block_loads(product: Product, batch: Sequence[str]) -> list[str]:
    """Lines that load `a` and `b` at rows `down`, columns `across` and `done` of the summed extent, in 32 bits each."""
    lines = []
    sides = ("a", product.left, ("ROWS", "DEPTH"), ("down", "done")), (
        "b", product.right, ("DEPTH", "COLUMNS"), ("done", "across"),
    )  # fmt: skip
    for side, (name, param, block, places) in enumerate(sides):
        outer = [place for place, (_, *steps) in zip(batch, product.batch, strict=True) if steps[side] != 0]
        for turned, head in ((True, f"if {TURNED[side]}:"), (False, "else:")):
            order = -1 if turned else 1
            at = ", ".join(f"tl.cast({place}, tl.int32)" for place in (*outer, *places[::order]))
            text = f"{param}.load([{at}])"
            text += f".reshape({', '.join(block[::order])})" * bool(outer)
            lines += [head, f"    {name} = {text}{'.T' * turned}"]
    return lines


def descriptors(
    product: Product, dtype: str, sizes: Mapping[str, int], tile: Tile
) -> tuple[tuple[Descriptor, ...], dict[str, int]]:
    """Those of both factors of these sizes and addresses, and the constants; none where one cannot be described."""

    def known(x: int | str) -> int:
        return sizes[x] if isinstance(x, str) else x

    if dtype not in FORMATS:
        return (), {}
    m, n, k = map(known, product.sizes)
    sides = (product.left, (m, k), (tile.rows, tile.depth)), (product.right, (k, n), (tile.depth, tile.columns))
    found, constants = [], {}
    for side, (param, extents, block) in enumerate(sides):
        steps = tuple(map(known, product.steps[side]))
        turned = steps[1] != 1
        order = -1 if turned else 1
        outer = [(known(extent), known(rest[side])) for extent, *rest in product.batch if rest[side] != 0]
        made = Descriptor(
            param,
            dtype,
            (*(1 for _ in outer), *block[::order]),
            (*(extent for extent, _ in outer), *extents[::order]),
            (*(step for _, step in outer), *steps[::order]),
        )
        if sizes.get(param, 1) % 16 or not made.possible:
            return (), {}
        found.append(made)
        constants[TURNED[side]] = int(turned)
    return tuple(found), constants
