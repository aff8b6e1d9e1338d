"""The autograd engine: walks the tape backwards. Rules are ops, so under a trace the walk is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.autograd.node import GradNode, positions_read
from eagerjit.runtime import mode
from eagerjit.state import state
from eagerjit.tensor import Tensor

Key = tuple[int, int]
_SEQUENCES = (tuple, list)


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
    inputs, sequence = node.inputs, node.sequence
    if inputs is None:
        raise RuntimeError(
            f"Trying to backward through the graph a second time: the values saved by {node.op.name} have been freed. "
            "Specify retain_graph=True if you need to backward through the graph a second time."
        )
    out: list[Any] = []
    for x in inputs:
        if isinstance(x, Tensor):
            if x._requires_grad:
                made_by = x._node
                out.append(x if made_by is None or made_by.sequence < sequence else edge(x, node))
            else:
                out.append(None)
        elif type(x) in _SEQUENCES and any(isinstance(e, Tensor) for e in x):
            out.append([edge(e, node) if e._requires_grad else None for e in x])
        else:
            out.append(None)
    return out


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
    ordered = len(stack) == 1
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found[node] = edges = _edges(node)
        before = len(stack)
        for e in edges:
            if e is None:
                continue
            for t in e if type(e) is list else (e,):
                if t is not None and t._node is not None:
                    stack.append(t._node)
        ordered = ordered and before == 0 and len(stack) < 2
    return found if ordered else dict(sorted(found.items(), key=_sequence, reverse=True))


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
    walk = _Walk(wanted, create_graph, {id(g) for g in grads})
    before = mode.set_grad_mode(create_graph)
    tracer = state.tracer
    source = tracer.source if tracer is not None else None
    try:
        for root, grad in zip(roots, grads, strict=True):
            walk.deposit(root, grad)
        for node, edges in nodes.items():
            if tracer is not None:
                tracer.source = node.source
            walk.visit(node, edges)
        if wanted is None:
            for leaf in walk.leaves.values():
                _accumulate(leaf, walk.buffers[id(leaf), -1], walk.shared, create_graph)
        else:
            walk.capture_rest(roots, nodes)
    finally:
        mode.set_grad_mode(before)
        if tracer is not None:
            tracer.source = source
    if not retain_graph:
        for node in nodes:
            node.inputs = node.output = None
    return [] if targets is None else [walk.captured.get(_key(t)) for t in targets]


class _Walk:
    """The gradients under way during one walk over the tape."""

    __slots__ = ("buffers", "captured", "create_graph", "leaves", "shared", "wanted")

    def __init__(self, wanted: set[Key] | None, create_graph: bool, shared: set[int]):
        self.wanted, self.create_graph, self.shared = wanted, create_graph, shared
        self.buffers: dict[Key, Tensor] = {}
        self.leaves: dict[int, Tensor] = {}
        self.captured: dict[Key, Tensor] = {}

    def deposit(self, tensor: Tensor, grad: Tensor) -> None:
        """Add a gradient to what has reached a tensor so far."""
        node = tensor._node
        if node is None:
            self.leaves[id(tensor)] = tensor
            key = (id(tensor), -1)
        else:
            key = (id(node), tensor._index)
        known = self.buffers.get(key)
        self.buffers[key] = grad if known is None else known + grad

    def visit(self, node: GradNode, edges: list[Any]) -> None:
        """Turn the gradients of a node's results into those of its inputs."""
        incoming = self._incoming(node)
        if incoming is None:
            return
        _check_versions(node, edges)
        needs = tuple([e is not None for e in edges])
        for target, grad in zip(edges, node.op.backward(node, incoming, needs, self.create_graph), strict=True):
            if target is None or grad is None:
                continue
            for t, g in zip(target, grad, strict=True) if type(target) is list else ((target, grad),):
                if t is None or g is None:
                    continue
                if any([g is i for i in incoming]):
                    self.shared.add(id(g))
                self.deposit(t, g)

    def _incoming(self, node: GradNode) -> tuple[Tensor, ...] | None:
        """The gradients that reached a node's results, zeros for those that none reached; None if none did at all."""
        count = 1 if type(node.output) is not tuple else len(node.output)
        received = [self.buffers.pop((id(node), i), None) for i in range(count)]
        if all([g is None for g in received]):
            return None
        if node.hooks is not None:
            received = [_hooked(node, i, g) for i, g in enumerate(received)]
        if self.wanted is not None:
            for i, g in enumerate(received):
                if (id(node), i) in self.wanted and g is not None:
                    self.captured[id(node), i] = g
        if count == 1:
            return (received[0],)  # type: ignore[return-value]
        outputs = node.outputs()
        return tuple(g if g is not None else o.detach().new_zeros(o.shape) for g, o in zip(received, outputs, strict=True))

    def capture_rest(self, roots: Sequence[Tensor], nodes: dict[GradNode, list[Any]]) -> None:
        """Gradients of targets that are leaves, or roots with nothing behind them that is wanted."""
        assert self.wanted is not None
        for key, g in self.buffers.items():
            if key in self.wanted:
                leaf = self.leaves.get(key[0])
                self.captured.setdefault(key, g if leaf is None else _leaf_hooked(leaf, g))


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
