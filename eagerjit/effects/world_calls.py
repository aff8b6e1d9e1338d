"""Which calls ask the world something that compiled calls can ask too, and which iterators only give items."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import datetime
import functools
import gc
import heapq
import itertools
import os
import pathlib
import random
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

import numpy as np

from eagerjit.effects.lru_caches import is_plain
from eagerjit.pytree import held_by
from eagerjit.runtime.instructions import instructions
from eagerjit.runtime.source import is_library
from eagerjit.tensors.tensor import Parameter, Tensor

_OF_RANDOM = frozenset(
    "random uniform triangular randint randrange getrandbits gauss normalvariate lognormvariate expovariate "
    "vonmisesvariate gammavariate betavariate paretovariate weibullvariate binomialvariate choice choices sample "
    "seed".split()
)
_OF_BOTH = frozenset(
    "uniform normal standard_normal beta gamma exponential binomial poisson laplace lognormal triangular dirichlet "
    "choice permutation chisquare geometric gumbel logistic multinomial negative_binomial pareto power "
    "rayleigh standard_cauchy standard_exponential standard_gamma standard_t vonmises wald weibull zipf random".split()
)
_OF_NUMPYS = {
    "RandomState": _OF_BOTH | {"rand", "randn", "random_sample", "randint", "seed"},
    "Generator": _OF_BOTH | {"integers"},
}
SHUFFLED = "shuffled"
"""The question for what a generator's `shuffle` makes of a list, as a list of its own."""


def draws(kind: type) -> frozenset[str]:
    """The methods of a class of random numbers' generators that change nothing else and give numbers or arrays.

    NumPy's classes are known where somebody has imported them: that takes a while.
    """
    if kind is random.Random:
        return _OF_RANDOM
    numpys = getattr(sys.modules.get("numpy.random"), kind.__name__, None)
    return _OF_NUMPYS.get(kind.__name__, frozenset()) if numpys is kind else frozenset()


def method(owner: Any, name: str) -> Any:
    """What answers a question."""
    return functools.partial(_shuffled, owner) if name == SHUFFLED else getattr(owner, name)


def _shuffled(generator: Any, values: Any) -> list[Any]:
    made = list(values)
    generator.shuffle(made)
    return made


_FUNCTIONS = (os.path.exists, os.path.isfile, os.path.isdir, os.path.getsize, os.getcwd, os.getpid)


def _seed_of_numpys() -> Any:
    return getattr(sys.modules.get("numpy.random"), "seed", None)


_OF_PATHS = frozenset("exists is_file is_dir read_text read_bytes".split())


def asked_of(function: Any, args: tuple[Any, ...]) -> tuple[Any, str, int] | None:
    """The object and the method that a question is asked of, and whether the object is the first argument (0 or 1)."""
    if any(function is known for known in _FUNCTIONS) or function is _seed_of_numpys():
        return function, "__call__", 0
    name, owner, bound = owner_of(function, args)
    if name in draws(type(owner)):
        return owner, name, bound
    path = isinstance(owner, pathlib.Path) and name in _OF_PATHS and type(owner).__module__.startswith("pathlib")
    today = owner is datetime.date and name == "today"
    item = isinstance(owner, Iterator) and name == "__next__"
    return (owner, name, bound) if path or today or item else None


def owner_of(function: Any, args: tuple[Any, ...]) -> tuple[str, Any, int]:
    """The name of a method, what it is called of, and whether that is the first argument (0 or 1)."""
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    if (owner is None or isinstance(owner, ModuleType)) and args and getattr(type(args[0]), name, None) is function:
        return name, args[0], 1
    return name, owner, 0


_LOOKING = frozenset("isinstance issubclass type id hasattr getattr callable repr str hash".split())


def only_looks(function: Any) -> bool:
    """Whether a builtin function of an iterator takes no items of it."""
    name = getattr(function, "__name__", "")
    return name in _LOOKING and getattr(builtins, name) is function


_TAKING = frozenset(
    "next iter list tuple set frozenset dict sum min max sorted any all zip enumerate map filter bytes".split()
)
_TAKING_METHODS = frozenset("extend extendleft join fromkeys union intersection difference update".split())
_TAKING_MODULES = ("itertools", "math", "math.integer", "statistics")
_OF_ITEMS = (functools.reduce, collections.deque, collections.Counter, np.fromiter, heapq.nlargest, heapq.nsmallest)


def takes_items(function: Any) -> bool:
    """Whether a library's function does nothing with an iterator but take items of it, now or as its own are taken."""
    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", None)
    if getattr(builtins, name, None) is function:
        return name in _TAKING
    if module in _TAKING_MODULES or any(function is known for known in _OF_ITEMS):
        return True
    owner = getattr(function, "__self__", None)
    owner = getattr(function, "__objclass__", type(owner) if not isinstance(owner, type) else owner)
    if owner in (list, dict, set, frozenset, str, bytes, bytearray, collections.deque):
        return name in _TAKING_METHODS
    return isinstance(function, FunctionType) and str(module).startswith("eagerjit")


def gives_by_code(iterator: Any) -> bool:
    """Whether Python code of the user's gives the items of an iterator."""
    gives = getattr(type(iterator), "__next__", None)
    return isinstance(gives, FunctionType) and not is_library(gives.__code__.co_filename)


def is_constant(value: Any) -> bool:
    """Whether a part of a question or an answer has nothing that could change."""
    return is_plain(value) or isinstance(value, np.dtype) or type(value) in (range, datetime.date, np.bool_)


_EMPTY: list[Any] = [(), [], {}, set(), "", "\xe9", b"", bytearray(), range(1), range(1 << 65), np.zeros(1)]
_EMPTY += [collections.deque(), {}.keys(), {}.values(), {}.items()]
_GIVING = frozenset(
    {type(iter(x)) for x in _EMPTY} | {type(reversed(x)) for x in _EMPTY if hasattr(x, "__reversed__")} | {
        reversed, enumerate, zip, itertools.count, itertools.cycle, itertools.repeat, itertools.islice,
        itertools.zip_longest, itertools.pairwise, itertools.permutations, itertools.combinations, itertools.product,
    }
)  # fmt: skip
_NUMBERS = frozenset((int, float, complex, str, bytes, bool, type(None), range))
_STATIC = _NUMBERS | {slice, np.ndarray, Tensor, Parameter}
_DICT_VIEWS = {type({}.keys()), type({}.values()), type({}.items())}
_HOLDING = frozenset((list, tuple, dict, set, frozenset, bytearray, collections.deque)) | _DICT_VIEWS
_MOST_HELD = 1000


def is_harmless(iterator: Any, after_writes: bool = False) -> bool:
    """Whether giving an item runs nobody's code that does more than calculate, and changes nothing but the iterator.

    A generator may calculate with tensors; not `after_writes`, which compiled calls do later.
    """
    pending, seen = [(iterator, _STATIC | _HOLDING)], set()
    while pending:
        value, allowed = pending.pop()
        kind = type(value)
        if kind in allowed or id(value) in seen:
            continue
        seen.add(id(value))
        if kind is GeneratorType:
            if after_writes or value.gi_running or not _only_calculates(value.gi_code) or _hides(value):
                return False
            known = _NUMBERS if _changes_in_place(value.gi_code) else _STATIC
            pending += [(x, known) for x in _held_by(value)]
        elif kind in _GIVING:
            pending += [(x, allowed) for x in gc.get_referents(value) if x is not kind]
        elif (kind in _HOLDING if allowed is _STATIC else kind is tuple) and len(value) <= _MOST_HELD:
            pending += [(x, allowed) for x in ([*value, *value.values()] if kind is dict else value)]
        else:
            return False
    return True


def containers_of(item: Any) -> set[int]:
    """The containers that an item is made of and that may be changed, by identity."""
    pending, found, seen = [item], set[int](), set[int]()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (list, dict)) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            found.add(id(value))
        if isinstance(value, (list, tuple)):
            pending += value
        elif id(value) in found:
            pending += value.values() if isinstance(value, dict) else held_by(value).values()
    return found


def sources_of(iterator: Any) -> set[int]:
    """What an iterator takes its items of, by identity; nothing for other values."""
    pending, found = [iterator], set[int]()
    while pending and isinstance(iterator, Iterator):
        value = pending.pop()
        if id(value) in found:
            continue
        if type(value) is GeneratorType:
            pending += _held_by(value)
        elif isinstance(value, Iterator):
            pending += gc.get_referents(value)
        else:
            found.add(id(value))
            pending += gc.get_referents(value) if type(value) in _DICT_VIEWS else ()
    return found


def _held_by(generator: Any) -> list[Any]:
    """What the variables of a generator hold, and what it is in the middle of."""
    frame = generator.gi_frame
    if frame is None:
        return []
    local = frame.f_locals
    names = frame.f_globals, frame.f_builtins, local
    found = [*local.values(), *gc.get_referents(generator), *gc.get_referents(frame)]
    return [x for x in found if not any(x is n for n in names) and type(x) not in _OF_FRAMES and x is not generator]


_OF_FRAMES = (CodeType, FunctionType, FrameType)
_CALLED = frozenset(("range", "len", "enumerate", "zip", "reversed", "min", "max", "abs"))


def _hides(generator: Any) -> bool:
    """Whether functions that the code of a generator calls are others than Python's."""
    frame = generator.gi_frame
    return frame is not None and not _CALLED.isdisjoint(frame.f_globals)


_CALCULATING = frozenset(
    "RESUME RETURN_GENERATOR POP_TOP LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_FAST_AND_CLEAR STORE_FAST "
    "STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST LOAD_CONST BINARY_OP UNARY_NEGATIVE UNARY_NOT COMPARE_OP IS_OP "
    "CONTAINS_OP BINARY_SUBSCR YIELD_VALUE JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT POP_JUMP_IF_TRUE "
    "POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE "
    "POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE "
    "POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP GET_ITER "
    "FOR_ITER END_FOR RETURN_VALUE RETURN_CONST BUILD_TUPLE BUILD_LIST UNPACK_SEQUENCE COPY SWAP TO_BOOL "
    "POP_ITER LOAD_GLOBAL PRECALL CALL PUSH_NULL CALL_INTRINSIC_1 RERAISE EXTENDED_ARG".split()
)


@functools.lru_cache(maxsize=1024)
def _only_calculates(code: CodeType) -> bool:
    """Whether the code of a generator calculates with its own variables, and calls nothing but a few of Python's."""
    return all(
        i.opname in _CALCULATING and (i.opname != "LOAD_GLOBAL" or i.argval in _CALLED)
        for i in instructions(code)
    )


@functools.lru_cache(maxsize=1024)
def _changes_in_place(code: CodeType) -> bool:
    return any(i.opname == "BINARY_OP" and i.argrepr.endswith("=") for i in instructions(code))
