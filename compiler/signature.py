"""What a trace says about its surroundings: where each leaf comes from, what it must be, and what the outputs are."""

from __future__ import annotations

from dataclasses import field

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import record


@record
class TensorLeaf:
    """A leaf that is a Tensor.

    `strides` is None for C-contiguous memory; `grad` is 0 (no), 1 (yes) or 2 (either); `device` is the number of the
    one that it lies on, -1 for the host, None for any place.
    """

    leaf: int
    node: Node
    strides: tuple[sizes.Expr, ...] | None
    grad: int = 2
    device: int | None = None


@record
class FloatLeaf:
    """A Python float that is an input of the graph: any, or one whose 64 bits, as an int, lie between two words."""

    leaf: int
    node: Node
    words: tuple[int, int] | None = None


@record
class IntLeaf:
    """A Python int that is a symbolic size."""

    leaf: int
    size: sizes.Expr


@record
class ObjectGuard:
    """A test of a leaf against a constant; `op` is IS, EQUAL, TYPE_IS or LACKS."""

    leaf: int
    op: Op
    object: int


@record
class SameGuard:
    """A test whether a leaf is the object that another leaf is."""

    leaf: int
    other: int
    expected: bool = True


@record
class WriteGuard:
    """A test whether a leaf may be written while gradients are recorded; see `Op.WRITABLE`."""

    leaf: int


@record
class Load:
    """How a leaf beyond the arguments is found: an instruction and its operands after the leaf."""

    leaf: int
    op: Op
    operands: tuple[int, ...]


Binding = TensorLeaf | FloatLeaf | IntLeaf | ObjectGuard | SameGuard | WriteGuard | Load


@record
class Fresh:
    """An output in new memory, or, where the call would return one, a view of an input's or another output's.

    `on_host`: a call that runs on a device gives it in memory of the host.
    """

    node: Node
    aliases: bool = False
    on_host: bool = False


@record
class Same:
    """An output that is a leaf itself."""

    leaf: int


@record
class Object:
    """An output that is a constant object."""

    object: int


Output = Fresh | Same | Object


@record
class Question:
    """A 0-d value of the call that decides how it goes on.

    With a size, the value (an int64) is what that size, which nothing else tells, stands for. Without, it has to have
    these bits: Python code acted on them, and the trace is for calls with the same answer alone.
    """

    node: Node
    bits: int = 0
    size: sizes.Expr | None = None


@record
class Trace:
    """A recorded function with everything needed to call it again."""

    graph: Graph
    n_arguments: int
    n_leaves: int
    bindings: list[Binding]
    outputs: list[Output]
    guards: list[sizes.Guard]
    hints: dict[str, int]
    grad_mode: int | None = None
    """The bits of `runtime.mode.gradients()` that the call must find."""
    epoch: bool = False
    distinct: bool = False
    """Whether no two tensors among the arguments may be one object."""
    writes: list[tuple[int, Node]] = field(default_factory=list)
    """(leaf, value): the Tensor holds this value afterwards."""
    lines: list[int] = field(default_factory=list)
    """Per write the object that names its line in the user's code, or -1."""
    times: list[int] = field(default_factory=list)
    """Per write how many in-place operations it stands for; 0 where no count is kept."""
    gradients: list[tuple[int, int]] = field(default_factory=list)
    """(leaf, output or -1): the Tensor's grad becomes this output, or None."""
    checks: tuple[str, ...] = ()
    """What kernels check besides indices: "nan", "inf"."""
    cuda_graphs: bool = False
    """Whether a device replays the call's work as graphs."""
    fastmath: bool = False
    """Whether kernels may round a product and a sum once instead of twice."""
    device: int | None = None
    """The number of the device that the call runs on, None for the host."""
    questions: list[Question] = field(default_factory=list)
    """In the order in which they were asked; nothing is written before the last is answered."""

    def measured(self) -> dict[str, int]:
        """The sizes that no leaf tells, each with the position of the question that does; later ones have to agree."""
        told: set[sizes.Expr] = set()
        for b in self.bindings:
            if isinstance(b, IntLeaf):
                told.add(b.size)
            elif isinstance(b, TensorLeaf):
                told.update((*b.node.type.shape, *(b.strides or ())))
        found: dict[str, int] = {}
        for position, q in enumerate(self.questions):
            if q.size is not None and sizes.is_symbol(q.size) and q.size not in told:
                found.setdefault(str(q.size), position)
        return found
