"""The autograd engine: walks the tape backwards. Rules are ops, so under a trace the walk is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.autograd.node import GradNode, positions_read
from eagerjit.runtime import mode
from eagerjit.state import state
from eagerjit.tensor import Tensor

Key = tuple[int, int]


def edge(tensor: Tensor, node: GradNode) -> Tensor | None:
    """The tensor as it was when `node` read it, if a gradient flows to it: later in-place writes changed its history."""
    while tensor._node is not None and tensor._node.sequence > node.sequence:
        before = tensor._node.replaced
        if before is None:
            return None
        tensor = before
    return tensor if tensor._requires_grad else None


def _edges(node: GradNode) -> list[Any]:
    """Per input the tensor that a gradient flows to, None, or a list of these."""
    if node.inputs is None:
        raise RuntimeError(
            f"Trying to backward through the graph a second time: the values saved by {node.op.name} have been freed. "
            "Specify retain_graph=True if you need to backward through the graph a second time."
        )
    return [_edge_of(x, node) for x in node.inputs]


def _edge_of(x: Any, node: GradNode) -> Any:
    if isinstance(x, Tensor):
        return edge(x, node) if x._requires_grad else None
    if type(x) in (tuple, list) and any(isinstance(e, Tensor) for e in x):
        return [edge(e, node) if e._requires_grad else None for e in x]
    return None


def _flat(edges: list[Any]) -> list[Tensor]:
    out: list[Tensor] = []
    for e in edges:
        if isinstance(e, list):
            out += [x for x in e if x is not None]
        elif e is not None:
            out.append(e)
    return out


def _collect(roots: Sequence[Tensor]) -> dict[GradNode, list[Any]]:
    """Every node that the roots depend on, with its edges, last executed first."""
    found: dict[GradNode, list[Any]] = {}
    stack = [t._node for t in roots if t._node is not None]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found[node] = edges = _edges(node)
        stack += [t._node for t in _flat(edges) if t._node is not None and t._node not in found]
    return dict(sorted(found.items(), key=_sequence, reverse=True))


def _sequence(item: tuple[GradNode, list[Any]]) -> int:
    return item[0].sequence


def _key(tensor: Tensor) -> Key:
    return (id(tensor), -1) if tensor._node is None else (id(tensor._node), tensor._index)


def _relevant(nodes: dict[GradNode, list[Any]], targets: set[Key]) -> dict[GradNode, list[Any]]:
    """Edges that lead to a target, for the nodes that have any."""
    kept: dict[GradNode, list[Any]] = {}
    leading: set[int] = set()

    def leads(tensor: Tensor | None) -> bool:
        if tensor is None:
            return False
        return _key(tensor) in targets or (tensor._node is not None and id(tensor._node) in leading)

    for node, edges in reversed(nodes.items()):
        useful = [[x if leads(x) else None for x in e] if isinstance(e, list) else (e if leads(e) else None) for e in edges]
        if _flat(useful):
            leading.add(id(node))
            kept[node] = useful
    return dict(reversed(kept.items()))


def run(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor],
    targets: Sequence[Tensor] | None,
    retain_graph: bool,
    create_graph: bool,
) -> list[Tensor | None]:
    """Propagate gradients of the roots: into `.grad` of the leaves, or, given targets, back as a list."""
    nodes = _collect(roots)
    wanted = None if targets is None else {_key(t) for t in targets}
    if wanted is not None:
        nodes = _relevant(nodes, wanted)
    buffers: dict[Key, Tensor] = {}
    leaves: dict[int, Tensor] = {}
    shared: set[int] = {id(g) for g in grads}
    captured: dict[Key, Tensor] = {}
    before = mode.set_grad_mode(create_graph)
    tracer = state.tracer
    source = tracer.source if tracer is not None else None
    try:
        for root, grad in zip(roots, grads, strict=True):
            _deposit(buffers, leaves, root, grad)
        for node, edges in nodes.items():
            received = [buffers.pop((id(node), i), None) for i in range(node.n_outputs)]
            if all(g is None for g in received):
                continue
            if node.hooks is not None:
                received = [_hooked(node, i, g) for i, g in enumerate(received)]
            if wanted is not None:
                for i, g in enumerate(received):
                    if (id(node), i) in wanted and g is not None:
                        captured[id(node), i] = g
            if tracer is not None:
                tracer.source = node.source
            incoming = _materialized(node, received)
            _check_versions(node, edges)
            needs = tuple(bool(e) if isinstance(e, list) else e is not None for e in edges)
            results = node.op.backward(node, incoming, needs, create_graph)
            for target, grad in zip(edges, results, strict=True):
                for t, g in zip(target, grad, strict=True) if isinstance(target, list) else ((target, grad),):
                    if t is None or g is None:
                        continue
                    if any(g is i for i in incoming):
                        shared.add(id(g))
                    _deposit(buffers, leaves, t, g)
        if wanted is None:
            for leaf in leaves.values():
                _accumulate(leaf, buffers[id(leaf), -1], shared, create_graph)
        else:
            captured.update((key, _leaf_hooked(leaves[key[0]], g)) for key, g in buffers.items() if key in wanted)
            for root, g in zip(roots, grads, strict=True):
                if root._node is not None and root._node not in nodes and _key(root) in wanted:
                    captured.setdefault(_key(root), g)
    finally:
        mode.set_grad_mode(before)
        if tracer is not None:
            tracer.source = source
    if not retain_graph:
        for node in nodes:
            node.inputs = node.output = None
    return [] if targets is None else [captured.get(_key(t)) for t in targets]


def _deposit(buffers: dict[Key, Tensor], leaves: dict[int, Tensor], tensor: Tensor, grad: Tensor) -> None:
    if tensor._node is None:
        leaves[id(tensor)] = tensor
    key = _key(tensor)
    known = buffers.get(key)
    buffers[key] = grad if known is None else known + grad


def _materialized(node: GradNode, received: list[Tensor | None]) -> tuple[Tensor, ...]:
    """Zeros for the results that no gradient reached."""
    if len(received) == 1:
        return (received[0],)  # type: ignore[return-value]
    outputs = node.outputs()
    return tuple(g if g is not None else o.detach().new_zeros(o.shape) for g, o in zip(received, outputs, strict=True))


def _hooked(node: GradNode, index: int, grad: Tensor | None) -> Tensor | None:
    if grad is None or node.hooks is None:
        return grad
    for hook in list(node.hooks.get(index, {}).values()):
        result = hook(grad)
        grad = grad if result is None else result
    return grad


def _leaf_hooked(leaf: Tensor, grad: Tensor) -> Tensor:
    for hook in list((leaf._hooks or {}).get("grad", {}).values()):
        result = hook(grad)
        grad = grad if result is None else result
    return grad


def _accumulate(leaf: Tensor, grad: Tensor, shared: set[int], create_graph: bool) -> None:
    """Add to a leaf's `.grad`; a first gradient gets memory of its own."""
    grad = _leaf_hooked(leaf, grad)
    known = leaf.grad
    if known is not None:
        if create_graph:
            leaf.grad = known + grad
        else:
            known.add_(grad)
    elif create_graph:
        leaf.grad = grad
    else:
        if id(grad) in shared or _borrowed(grad):
            grad = grad.clone()
        shared.add(id(grad))
        leaf.grad = grad if grad._node is None else grad.detach()
    for hook in list((leaf._hooks or {}).get("post", {}).values()):
        hook(leaf)


def accumulate(leaf: Tensor, grad: Tensor, create_graph: bool) -> None:
    """Add a gradient that was computed on its own to a tensor's `.grad`."""
    before = mode.set_grad_mode(create_graph)
    try:
        _accumulate(leaf, grad, {id(grad)}, create_graph)
    finally:
        mode.set_grad_mode(before)


def _borrowed(grad: Tensor) -> bool:
    """Whether a gradient's memory may be another tensor's, or strided."""
    if state.tracer is not None:
        return grad._view is not None or not grad.is_contiguous()
    return grad._data.base is not None or not grad._data.flags.c_contiguous


def _check_versions(node: GradNode, edges: list[Any]) -> None:
    """Refuse values that were overwritten after they were saved."""
    if node.overwritten is None and all(
        not isinstance(x, Tensor) or x._storage is None for x in node.inputs or ()
    ):
        return
    op = node.op
    read = None
    if op.rules is not None:
        used = [positions_read(rule) for rule, e in zip(op.rules, edges, strict=False) if rule and e is not None]
        read = frozenset().union(*used)
    if node.overwritten is not None and (read is None or 1 in read):
        raise RuntimeError(_overwritten(node, "the output", node.overwritten))
    for index, x in enumerate(node.inputs or ()):
        if not isinstance(x, Tensor) or x._storage is None:
            continue
        saved = node.versions[index] if node.versions is not None else 0
        if x._storage.version == saved:
            continue
        if read is not None and index + 2 not in read:
            continue
        shape = f"[{x.dtype} {list(x.shape)}]"
        where = f"{shape}, input {index}, is at version {x._storage.version}; expected version {saved};"
        raise RuntimeError(_overwritten(node, where, x._storage.source))


def _overwritten(node: GradNode, what: str, line: str) -> str:
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{what} of {node.op.name}{f' (recorded at {node.source})' if node.source else ''}, "
        f"was overwritten at {line or 'an unknown line'}. Clone it before the in-place operation."
    )
