"""Checks a Program before it is loaded: every operand must lie in its table, since native code trusts them."""

from __future__ import annotations

from eagerjit.runtime.dtypes import HELD
from eagerjit.runtime.mode import GRADIENTS
from eagerjit.runtime.program import Op, Program

OPERANDS: dict[Op, str] = {
    Op.LOAD_OBJECT: "leaf object",
    Op.LOAD_ITEM: "leaf leaf object",
    Op.LOAD_CELL: "leaf object",
    Op.LOAD_ATTRIBUTE: "leaf leaf object",
    Op.LOAD_GRAD: "leaf leaf",
    Op.IS: "leaf object",
    Op.SAME: "leaf leaf flag",
    Op.WRITABLE: "leaf",
    Op.EQUAL: "leaf object",
    Op.TYPE_IS: "leaf object",
    Op.LACKS: "leaf object",
    Op.GRAD_MODE: "gradients",
    Op.EPOCH: "word",
    Op.READ_FLOAT: "leaf slot",
    Op.READ_INT: "leaf slot",
    Op.CHECK_EQ: "slot slot",
    Op.CHECK_CONST: "slot constant",
    Op.CHECK_GE: "slot constant",
    Op.CHECK_TRUE: "slot flag",
    Op.CHECK_VALUE: "slot width constant",
    Op.READ_SIZE: "slot slot",
    Op.CONST: "slot constant",
    Op.ARENA: "slot slot",
    Op.OUTPUT_LEAF: "output leaf",
    Op.OUTPUT_OBJECT: "output object",
    Op.BEGIN: "slot",
    Op.CONVOLUTION: "gradient dtype" + " slot" * 25,
    Op.COPY: "slot slot slot",
    Op.FINISH: "",
} | dict.fromkeys((Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.MOD, Op.MIN, Op.MAX, Op.LT, Op.LE, Op.EQ), "slot slot slot")
"""The kinds of the operands of instructions that have a fixed number of them."""


WITHOUT_GIL = frozenset(
    (
        *(Op.KERNEL, Op.MATMUL, Op.CONVOLUTION, Op.CALL, Op.COPY, Op.CONST),
        *(Op.ADD, Op.SUB, Op.MUL, Op.MIN, Op.MAX, Op.LT, Op.LE, Op.EQ),
    )
)
"""What may stand between BEGIN and FINISH: nothing that can miss, or that needs the GIL without taking it."""

LOADS = (Op.LOAD_OBJECT, Op.CAPTURED, Op.LOAD_ITEM, Op.LOAD_CELL, Op.LOAD_ATTRIBUTE, Op.LOAD_GRAD)
OUTPUTS = (Op.OUTPUT, Op.OUTPUT_LEAF, Op.OUTPUT_VIEW, Op.OUTPUT_OBJECT)


def operand_kinds(code: Op, operands: tuple[int, ...]) -> list[str]:
    """What each operand of an instruction refers to; a list of another length where there are too few or too many."""
    match code, operands:
        case Op.TENSOR, (_, _, ndim, contiguous, *_):
            sizes = [f"slots {ndim}", "any" if contiguous else f"slots {ndim}"]
            return ["leaf", "dtype", "rank", "flag", "grad", "slot", *sizes]
        case Op.CAPTURED, (_, _, _, _, _, *dims):
            return ["leaf", "object", "dtype", "grad", "slot", *["constant"] * len(dims)]
        case Op.DISTINCT, (n_written, *rest) if 0 <= n_written < len(rest):
            return ["count", *["leaf"] * n_written, "count", *["leaf"] * rest[n_written]]
        case Op.DIFFERENT, (_, *rest):
            return ["count", *["leaf"] * len(rest)]
        case Op.OUTPUT, (_, _, ndim, *_):
            return ["output", "dtype", "rank", "slot", *["slot"] * ndim]
        case Op.OUTPUT_VIEW, (_, is_output, _, _, ndim, *_):
            return ["output", "flag", "output" if is_output else "leaf", "dtype", "rank", "slot", *["slot"] * 2 * ndim]
        case Op.KERNEL, (_, _, _, scratch, n, *_):
            return ["function", "slot", "slot", "any" if scratch == -1 else "slot", "count", *["slot"] * n]
        case Op.MATMUL, (_, n_batch, *_):
            return ["dtype", "count", *["slot"] * (11 + 4 * n_batch)]
        case Op.CALL, (_, n, *_):
            return ["call", "count", *["slot"] * n]
        case Op.BUMP_VERSION, (_, line, _):
            return ["leaf", "any" if line == -1 else "object", "count"]
        case Op.SET_GRAD, (_, output):
            return ["leaf", "any" if output == -1 else "output"]
    return OPERANDS[code].split() if code in OPERANDS else ["unknown"] * (len(operands) + 1)


def check_program(program: Program, n_functions: int, n_objects: int) -> int:
    """Raises ValueError naming the first instruction that is not well formed; returns the most dimensions of any."""
    limits = {
        "leaf": program.n_leaves,
        "slot": program.n_slots,
        "output": program.n_outputs,
        "object": n_objects,
        "function": n_functions,
        "word": program.n_words,
        "call": len(program.calls),
        "dtype": len(HELD),
        "flag": 2,
        "gradients": GRADIENTS + 1,
        "grad": 3,
        "gradient": 3,
    }
    if program.n_arguments > program.n_leaves:
        raise ValueError("a program has at least one leaf per argument")
    made: set[int] = set()
    loaded = set(range(program.n_arguments))
    rank = 0
    working = False
    for index, (number, *operands) in enumerate(program.instructions):
        code = Op(number)
        kinds = operand_kinds(code, tuple(operands))
        if (working and code not in WITHOUT_GIL and code != Op.FINISH) or (code == Op.FINISH and not working):
            raise ValueError(f"instruction {index}, {code.name.lower()}, stands on the wrong side of begin or finish")
        working = code == Op.BEGIN or (working and code != Op.FINISH)
        if len(kinds) != len(operands):
            raise ValueError(f"instruction {index}, {code.name.lower()}: {len(operands)} operands")
        for kind, operand in zip(kinds, operands, strict=True):
            if not _fits(kind, operand, limits):
                raise ValueError(f"instruction {index}, {code.name.lower()}: there is no {kind} {operand}")
            if kind == "rank":
                rank = max(rank, operand)
        if code == Op.CALL and operands[1] != program.calls[operands[0]].n_words:
            wanted = program.calls[operands[0]].n_words
            raise ValueError(f"instruction {index}, call: it takes {wanted} words, not {operands[1]}")
        makes = code in LOADS or code in OUTPUTS
        for kind, operand in list(zip(kinds, operands, strict=True))[makes:]:
            if (kind == "leaf" and operand not in loaded) or (kind == "output" and operand not in made):
                raise ValueError(f"instruction {index}, {code.name.lower()}: {kind} {operand} is empty")
        if makes:
            (loaded if code in LOADS else made).add(operands[0])
    if working:
        raise ValueError("finish is missing")
    if len(made) != program.n_outputs:
        raise ValueError(f"{len(made)} of {program.n_outputs} outputs are made")
    return rank


def _fits(kind: str, operand: int, limits: dict[str, int]) -> bool:
    match kind.split():
        case ["any"] | ["constant"]:
            return -(2**63) <= operand < 2**63
        case ["width"]:
            return operand in (1, 2, 4, 8)
        case ["count"] | ["rank"]:
            return operand >= 0
        case ["slots", n]:
            return 0 <= operand <= limits["slot"] - int(n)
    return 0 <= operand < limits[kind]
