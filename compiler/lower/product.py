"""Matrix products and convolutions as kernels, for GPUs; what follows a product elementwise is part of its kernel."""

from __future__ import annotations

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.build import Blocking, Built, Parameters, blocks_of
from eagerjit.compiler.lower.emit import Amount, Argument, Pointer
from eagerjit.compiler.lower.libraries import RESULT, multiplications, operands, spatial
from eagerjit.compiler.ops.declare import TABLE
from eagerjit.compiler.shapes import Shape, contiguous_strides
from eagerjit.runtime.records import replace

HALVES = ("f16", "bf16")
BESIDE = 16
"""Operations on a result that a product of halves has time for."""


def product(name: str, node: Node, out: Argument) -> Built:
    """The kernel of a product."""
    known = Parameters()
    amount = known.amount
    left, right = node.inputs
    places = [layout(v) for v in (left, right)]
    factors = zip(places, (left, right), strict=True)
    pointers = [known.memory(Pointer(p.root, p.offset), v.dtype.short) for p, v in factors]
    result = known.memory(out, node.dtype.short)
    rank = len(node.type.shape)
    steps: list[Shape] = [*(p.strides for p in places), contiguous_strides(node.type.shape)]
    statement = loops.Product(
        result,
        pointers[0],
        pointers[1],
        (amount(node.type.shape[-2]), amount(node.type.shape[-1]), amount(left.type.shape[-1])),
        tuple((amount(s[-2]), amount(s[-1])) for s in steps),
        tuple((amount(node.type.shape[d]), *(amount(s[d]) for s in steps)) for d in range(rank - 2)),
        node.dtype.short,
    )
    batch = sizes.product(node.type.shape[:-2])
    return Built(known.kernel(name, statement), known.arguments, batch, multiplications(node), 0, (node.source,))


def convolution(name: str, node: Node, out: Argument) -> Built:
    """The kernel of a convolution or of one of its gradients."""
    known = Parameters()
    tensors = operands(node)
    for tensor in tensors:
        where = layout(tensor)
        known.memory(out if tensor is node else Pointer(where.root, where.offset), tensor.dtype.short)

    x, w, _ = tensors
    groups = node.attributes["groups"]
    counted = x.type.shape[0], w.type.shape[1], sizes.floordiv(w.type.shape[0], groups)
    counts = tuple(map(known.amount, counted))
    words = [known.amount(size) for size in spatial(node)]
    dims = tuple(tuple(words[i : i + 6]) for i in range(0, 18, 6))
    result = ("y", "x", "w")[RESULT[node.op]]
    last = "last" in node.attributes
    statement = loops.Convolution(result, "m0", "m1", "m2", counts, dims, node.dtype.short, last)
    return Built(known.kernel(name, statement), known.arguments, groups, multiplications(node), 0, (node.source,))


def with_following(first: Built, node: Node, second: Built, blocking: Blocking) -> Built | None:
    """One kernel for a product and the elementwise kernel that reads it in order, and writes nothing that it reads."""
    out = first.arguments[[p.name for p in first.kernel.params].index(_product(first).out)]
    if out not in second.arguments or second.temporaries or (node.inputs[0].dtype.short in HALVES and _is_dear(second)):
        return None
    rows, columns = sizes.product(node.type.shape[:-1]), node.type.shape[-1]
    loaded = second.kernel.params[second.arguments.index(out)].name
    if not _in_order(second, loaded, rows, columns, blocking):
        return None
    written = {s.param for s in loops.walk(second.kernel.body) if isinstance(s, loops.Store)}
    roots = {a.root for a in first.arguments if isinstance(a, Pointer)}
    for p, a in zip(second.kernel.params, second.arguments, strict=True):
        if p.name in written and (not isinstance(a, Pointer) or a.root in roots):
            return None
    factor = _product(first)
    renamed = {p.name: f"{p.name}_factor" for p in first.kernel.params}
    renamed[factor.out] = loaded
    params = tuple(replace(p, name=renamed[p.name]) for p in first.kernel.params if p.name != factor.out)
    statement = factor.renamed(renamed)
    params += tuple(p for p in second.kernel.params if p.name != loaded)
    kernel = loops.Kernel(second.kernel.name, params, (statement, *second.kernel.body))
    arguments = [a for a in (*first.arguments, *second.arguments) if a != out]
    sources = tuple(dict.fromkeys((*first.sources, *second.sources)))
    work = sizes.add(first.work, second.work)
    return Built(kernel, arguments, first.tasks, work, 0, sources, second.reasons)


def _is_dear(built: Built) -> bool:
    """Whether a kernel computes so much of an element that tensor cores would wait for it.

    On an H100 a product of 8192 x 8192 with bias and GELU took 1.54 ms in one kernel, in a later run 1.46 ms
    in two. A gradient needs what the product gave, which two kernels store in any case.
    """
    lets = [s for s in loops.walk(built.kernel.body) if isinstance(s, loops.Let)]
    return sum(TABLE[s.op].cost if s.op in TABLE else 1 for s in lets) > BESIDE


def is_product(built: Built) -> bool:
    """Whether a kernel is a product alone."""
    return isinstance(built.kernel.body[0], loops.Product) and len(built.kernel.body) == 1


def _product(built: Built) -> loops.Product:
    return next(s for s in built.kernel.body if isinstance(s, loops.Product))


def _in_order(built: Built, param: str, rows: sizes.Expr, columns: sizes.Expr, blocking: Blocking) -> bool:
    """Whether a kernel is one loop over elements, or over rows and columns, that reads memory element by element."""
    tasks = next((s for s in built.kernel.body if isinstance(s, loops.Loop)), None)
    if tasks is None or any(isinstance(s, loops.Check | loops.Init) for s in loops.walk(built.kernel.body)):
        return False
    inner = [s for s in tasks.body if isinstance(s, loops.Loop)]
    if len(inner) != 1 or inner[0].kind != "vector" or any(isinstance(s, loops.Loop) for s in inner[0].body):
        return False
    loads = [s.index for s in loops.walk(built.kernel.body) if isinstance(s, loops.Load) and s.param == param]
    stores = [s.param for s in loops.walk(built.kernel.body) if isinstance(s, loops.Store)]
    if not loads or param in stores or any(i != loads[0] for i in loads):
        return False
    pairs = zip(built.kernel.params, built.arguments, strict=True)
    sizes_of = {p.name: a.size for p, a in pairs if isinstance(a, Amount)}
    index = [(name, sizes_of.get(s, s) if isinstance(s, str) else s) for name, s in loads[0]]
    if index == [(inner[0].var, 1)]:
        return built.tasks == blocks_of(sizes.mul(rows, columns), blocking.flat)
    extent = sizes_of.get(inner[0].stop, inner[0].stop) if isinstance(inner[0].stop, str) else inner[0].stop
    return index == [(tasks.var, columns), (inner[0].var, 1)] and extent == columns and built.tasks == rows
