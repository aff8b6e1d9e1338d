"""The plain walk backwards, which native code does (`runtime/native/walk.py`): what Python tells it and does for it.

It is that of the engine, node for node and bit for bit, without what few walks meet: recording, hooks of nodes,
gradients of compiled calls' gradients that have a history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.autograd.accumulation import add_to_grad, leaf_hooked
from eagerjit.autograd.node import GradNode, arguments_read, filled, used_up
from eagerjit.autograd.placed import Placed
from eagerjit.autograd.release import lighten
from eagerjit.autograd.stale import check_versions
from eagerjit.autograd.walk_graph import key_of
from eagerjit.runtime import walking
from eagerjit.runtime.native.agreed import KIND_OP, KIND_OTHER, KIND_STRANGE
from eagerjit.runtime.walking import OpFacts
from eagerjit.state import set_casting, state
from eagerjit.tensors.placement import beside
from eagerjit.tensors.tensor import Tensor

DECLINED = NotImplemented


def walk(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor],
    targets: Sequence[Tensor] | None,
    retain_graph: bool,
    create_graph: bool,
) -> Any:
    """What `engine.run` gives, in the modes of a walk; DECLINED, before anything is done, where it is not plain."""
    if not walking.ready():
        return DECLINED
    wanted = None if targets is None else list(targets)
    shared = set(map(id, grads))
    return _WALKER.walk((list(roots), list(grads), wanted, bool(retain_graph), bool(create_graph), shared, Placed()))


def _kind_of(kind: type) -> int:
    """What native code makes of operations of a class: those that stand for others say of themselves what these do."""
    from eagerjit.calling.dispatch import Op

    found = KIND_OP if issubclass(kind, Op) else KIND_OTHER
    if getattr(kind, "partial", False):
        found = getattr(kind, "walked_as", KIND_STRANGE)
    elif hasattr(kind, "__getattr__"):
        found = KIND_STRANGE
    _kinds[kind] = found
    return found


def _learn_facts(op: Any) -> OpFacts:
    """Tell native code what a walk has to know of an operation."""
    from eagerjit.calling.dispatch import Op

    fused = type(op).backward is Op.backward and op.fused_rules
    read = () if op.linear else arguments_read(op.rules)
    op.facts = OpFacts(getattr(op, "parts", 0), fused, op.saved_by, read)
    return op.facts


def _gradients(node: GradNode, incoming: Any, needs: Any, create_graph: bool, shared: set[int]) -> Sequence[Any]:
    """Gradients for a node's inputs."""
    results: Sequence[Any] = node.op.backward(node, incoming, needs, create_graph)
    if create_graph and (formal := getattr(node.op, "formal", None)) is not None:
        results = formal.noted(node, results)
        shared.update(map(id, results))  # they may be what came in
    return results


def _through_call(
    node: GradNode, incoming: Any, needs: tuple[bool, ...], known: list[Any], create_graph: bool
) -> Any:
    """Gradients for the inputs of a compiled call, or of the gradient of one, added to those known."""
    node.op.check(node, incoming, needs)
    return _without_casting(node.op.backward_onto, node, incoming, needs, known, create_graph)


def _through_both(
    gradient: GradNode, call: GradNode, incoming: Any, of_call: Any, needs: tuple[bool, ...], known: list[Any]
) -> Any:
    """Gradients for the inputs of a compiled call, from those of its gradient and of the call."""
    return _without_casting(gradient.op.backward_with_call, incoming, of_call, needs, known)


def _without_casting(function: Any, *arguments: Any) -> Any:
    """What a function gives while nothing is converted: gradients have the dtypes of what was."""
    casting = state.casting
    if casting is None:
        return function(*arguments)
    set_casting(None)
    try:
        return function(*arguments)
    finally:
        set_casting(casting)


def _check(node: GradNode, needs: tuple[bool, ...]) -> None:
    check_versions(node, [needed or None for needed in needs])


def _raise_used_up(node: GradNode) -> None:
    raise used_up(node)


_kinds: dict[type, int] = {}
_WALKER = walking.Walker(
    kinds=_kinds,
    kind_of=_kind_of,
    facts_name="facts",
    learn=_learn_facts,
    learn_gradient=lambda op, needs: op.learn_gradient(needs),
    saves=lambda op: getattr(op, "saved_by", None) != (),
    gradients=_gradients,
    check=_check,
    fill=filled,
    beside=beside,
    to_leaf=add_to_grad,
    hooked=leaf_hooked,
    lighten=lighten,
    used_up=_raise_used_up,
    is_whole=lambda op: not op.inner,
    through_call=_through_call,
    through_both=_through_both,
    release_call=lambda node, gone: node.op.release(node, gone),
    add_part=lambda placed, node, base, total, grad: placed.add(key_of(base), node, total, grad),
    begin_parts=lambda placed, node, base, total, grad: placed.begin(key_of(base), node, total, grad),
)
