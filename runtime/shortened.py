"""What native code does in fewer steps than a Program says, since it knows the objects that it was loaded with."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from eagerjit.runtime.check import LOADS, operand_kinds
from eagerjit.runtime.program import PARTS, TYPES, DeviceOp, NativeOp, Op, Program

Step = tuple[int, ...]


def shortened(steps: Sequence[Step], program: Program, objects: Sequence[Any]) -> list[Step]:
    """The steps of a Program with instructions of native code's own in the place of several, and none without effect.

    Steps may be other than the Program's own instructions, but read the same leaves.
    """
    reads = Counter(leaf for code, *operands in program.instructions for leaf in _leaves_read(Op(code), operands))
    constants: dict[int, int] = {}
    known: set[Step] = set()
    made: list[Step] = []
    waiting = list(reversed(steps))
    while waiting:
        step = waiting.pop()
        match step, waiting[-1] if waiting else ():
            case (Op.LOAD_OBJECT, leaf, found), _:
                constants[leaf] = found
            case (Op.IS, leaf, expected), _ if leaf in constants and objects[constants[leaf]] is objects[expected]:
                reads[leaf] -= 1
                continue
            case (Op.LOAD_ATTRIBUTE, leaf, holder, name), (Op.IS, same, value) if leaf == same and holder in constants:
                looked = _looked_up(constants[holder], name, value, objects)
                if looked is not None:
                    reads[holder] -= 1
                    waiting[-1] = (Op.LOAD_OBJECT, leaf, value)
                    reads[leaf] -= 1
                    if looked in known:
                        continue
                    known.add(looked)
                    step = looked
        made.append(step)
    return _gathered([step for step in made if step[0] != Op.LOAD_OBJECT or reads[step[1]]], objects)


def with_constants(steps: Sequence[Step]) -> tuple[dict[int, int], list[Step]]:
    """The numbers of slots that only ever have one, and the steps that are left where frames begin with them."""
    written = Counter(slot for step in steps for slot in _slots_written(step))
    constants = {slot: value for code, slot, value in (s for s in steps if s[0] == Op.CONST) if written[slot] == 1}
    made: list[Step] = []
    for step in steps:
        match step:
            case (Op.CONST, slot, _) if slot in constants:
                continue
            case (Op.FLOORDIV, slot, a, b) if (divisor := constants.get(b, 0)) > 0 and divisor.bit_count() == 1:
                step = NativeOp.SHIFT, slot, a, divisor.bit_length() - 1
        made.append(step)
    return constants, made


def _slots_written(step: Step) -> Sequence[int]:
    match step:
        case (Op.TENSOR | DeviceOp.TENSOR, _, _, rank, contiguous, _, pointer, sizes, strides):
            return pointer, *range(sizes, sizes + rank), *(() if contiguous else range(strides, strides + rank))
        case (Op.CAPTURED | DeviceOp.CAPTURED, _, _, _, _, pointer, *_):
            return (pointer,)
        case (Op.OUTPUT | DeviceOp.OUTPUT, _, _, _, pointer, *_):
            return (pointer,)
        case (Op.READ_FLOAT | Op.READ_INT, _, slot):
            return (slot,)
        case (code, slot, *_) if code in _FIRST_IS_WRITTEN:
            return (slot,)
    return ()


_FIRST_IS_WRITTEN = frozenset(
    (
        *(Op.CONST, Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.MOD, Op.MIN, Op.MAX, Op.LT, Op.LE, Op.EQ),
        *(Op.READ_SIZE, Op.ARENA, DeviceOp.ARENA),
    )
)


def _gathered(steps: Sequence[Step], objects: Sequence[Any]) -> list[Step]:
    """Steps with all tensors of the surroundings that are read one after the other in one."""
    made: list[Step] = []
    for captured, group in itertools.groupby(steps, lambda step: step[0] == Op.CAPTURED):
        if not captured:
            made += group
            continue
        rows = [
            (id(objects[index]), id(TYPES[dtype]), len(dims), grad, 8 * leaf, 8 * pointer, *dims)
            for _, leaf, index, dtype, grad, pointer, *dims in group
        ]
        made.append((NativeOp.CAPTURED, len(rows), *itertools.chain.from_iterable(rows)))
    return made


def _leaves_read(code: Op, operands: list[int]) -> list[int]:
    makes = code in LOADS
    kinds = operand_kinds(code, tuple(operands))
    return [leaf for kind, leaf in list(zip(kinds, operands, strict=True))[makes:] if kind == "leaf"]


def _looked_up(holder: int, name: int, value: int, objects: Sequence[Any]) -> Step | None:
    """One instruction that finds this value under this name of the holder, where there is one."""
    owner, text, expected = objects[holder], objects[name], objects[value]
    if type(owner) is FunctionType and text in PARTS:
        return NativeOp.DEFINITION, holder, PARTS[text], value
    if type(owner) is not type or type(expected) is not FunctionType or hasattr(type, text):
        return None
    raw = next((vars(kind)[text] for kind in owner.__mro__ if text in vars(kind)), None)
    return (NativeOp.METHOD, holder, name, value, 0) if raw is expected else None
