"""Which instructions an observer looks at before they run, and what it calls for each."""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType
from typing import Any

from eagerjit.runtime.instructions import instructions

_HANDLERS: dict[str, str] = {
    "LOAD_ATTR": "load_attribute", "LOAD_METHOD": "load_attribute",
    "STORE_ATTR": "store_attribute", "DELETE_ATTR": "delete_attribute",
    "LOAD_GLOBAL": "load_global", "LOAD_NAME": "load_global",
    "STORE_GLOBAL": "store_global", "DELETE_GLOBAL": "delete_global",
    "LOAD_DEREF": "load_cell", "LOAD_CLASSDEREF": "load_cell",
    "STORE_DEREF": "store_cell", "DELETE_DEREF": "delete_cell",
    "LOAD_SUPER_ATTR": "load_super_attribute", "MATCH_CLASS": "match_class",
    "MATCH_SEQUENCE": "match_container", "MATCH_MAPPING": "match_container",
    "BINARY_SUBSCR": "load_item", "STORE_SUBSCR": "store_item", "DELETE_SUBSCR": "delete_item",
    "UNPACK_SEQUENCE": "iterate", "UNPACK_EX": "iterate",
    "LIST_EXTEND": "iterate", "SET_UPDATE": "iterate", "GET_ITER": "iterate",
    "GET_YIELD_FROM_ITER": "iterate", "BEFORE_WITH": "enter",
    "IS_OP": "compare_identities", "CONTAINS_OP": "search",
    "IMPORT_NAME": "bring_in", "IMPORT_FROM": "load_attribute",
    "BINARY_SLICE": "load_slice", "STORE_SLICE": "store_slice",
}  # fmt: skip
_TEXTS = frozenset(("__str__", "__repr__", "__format__"))
_NUMBERS = frozenset(("__index__", "__int__", "__float__", "__complex__", "__hash__", "__len__", "__length_hint__"))
"""Special methods of which C code needs a text or a number of Python's own."""

_ASKS_TRUTH = frozenset(
    n
    for n in dis.opmap
    if n in ("UNARY_NOT", "TO_BOOL") or ("JUMP" in n and n.endswith(("_TRUE", "_FALSE", "_OR_POP")))
)
_READING_ALL = {"DICT_UPDATE": 0, "DICT_MERGE": 0, "MATCH_KEYS": 1}
"""What reads all that a value holds, and how deep that lies on the stack."""

_FORMATTING = {"FORMAT_VALUE": 0, "FORMAT_SIMPLE": 0, "CONVERT_VALUE": 0, "FORMAT_WITH_SPEC": 1}
"""What makes a text of a value, and how deep that lies on the stack."""


def _converts(i: dis.Instruction) -> bool:
    """Whether an instruction formats what `str` or `repr` gives, or escapes letters beyond ASCII."""
    conversion = (i.arg or 0) & 3
    return conversion == 3 or (i.opname == "FORMAT_VALUE" and conversion > 0 and (i.arg or 0) & 4 > 0)


_KEYS: dict[str, Any] = {
    "BUILD_MAP": lambda count: range(1, 2 * count, 2), "MAP_ADD": lambda _: (1,),
    "BUILD_SET": range, "SET_ADD": lambda _: (0,),
}  # fmt: skip
"""What hashes values, and how deep these lie on the stack."""

_KEYWORDS_HAVE_A_PLACE = sys.version_info >= (3, 14)  # in calls with `*`, also where there are none
_CALL = "PRECALL" if sys.version_info < (3, 12) else "CALL"
_IN_PLACE = {
    "+=": "__iadd__", "-=": "__isub__", "*=": "__imul__", "/=": "__itruediv__", "//=": "__ifloordiv__",
    "%=": "__imod__", "**=": "__ipow__", "@=": "__imatmul__", "|=": "__ior__", "&=": "__iand__", "^=": "__ixor__",
    "<<=": "__ilshift__", ">>=": "__irshift__",
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def handlers(code: CodeType) -> dict[int, tuple[str, Any]]:
    """The method of an observer to call before instructions of a code object, and its operand, by offset."""
    out: dict[int, tuple[str, Any]] = {}
    names: tuple[str, ...] = ()
    copies = 0
    for i in instructions(code):
        name, operand = i.opname, i.argval
        if name == "KW_NAMES" and i.arg is not None:
            names = code.co_consts[i.arg]
        elif name == _CALL:
            out[i.offset] = "call", (i.arg, names)
            names = ()
        elif name == "CALL_KW":
            out[i.offset] = "call", (i.arg, None)
        elif name in _FORMATTING:
            depth = int(i.arg or 0) >> 2 if name == "FORMAT_VALUE" else _FORMATTING[name]
            out[i.offset] = "format_value", (depth, (i.arg or 0) & 2 > 0, _converts(i))
        elif name == "BUILD_STRING":
            out[i.offset] = "build_text", i.arg
        elif name in _KEYS:
            out[i.offset] = "tie_texts", _KEYS[name](i.arg or 0)
        elif name == "RETURN_VALUE" and code.co_name in _TEXTS:
            out[i.offset] = "tell_text", None
        elif name == "RETURN_VALUE" and code.co_name in _NUMBERS:
            out[i.offset] = "tell_number", None
        elif name == "BINARY_OP" and i.argrepr == "%":
            out[i.offset] = "fill_in", (2, ())
        elif name in _READING_ALL:
            out[i.offset] = "read_all", _READING_ALL[name]
        elif name == "CALL_FUNCTION_EX":
            out[i.offset] = "call_with", 1 if _KEYWORDS_HAVE_A_PLACE else (i.arg or 0) & 1
        elif name == "BINARY_OP" and i.argrepr in _IN_PLACE:
            out[i.offset] = "compute_in_place", (i.argrepr[:-1], _IN_PLACE[i.argrepr])
        elif name == "BINARY_OP":
            out[i.offset] = "compute", i.argrepr
        elif name == "COMPARE_OP":
            out[i.offset] = "operate", (2, ("__eq__", "__ne__"))
        elif name in _ASKS_TRUTH:
            out[i.offset] = "operate" if name.endswith("_OR_POP") else "ask_truth", (1, ("__bool__", "__len__"))
        elif name == "BINARY_SUBSCR":
            out[i.offset] = "load_item", copies == 2
        elif name == "RAISE_VARARGS" and not i.arg:
            out[i.offset] = "raise_again", None
        elif name in _HANDLERS and not ("DEREF" in name and operand not in code.co_freevars):
            out[i.offset] = _HANDLERS[name], operand
        copies = copies + 1 if name == "COPY" else 0
    return out


def is_evaluated_later(code: CodeType) -> bool:
    """Whether Python runs code once and keeps what it gives: annotations, what a `type` stands for, bounds."""
    return code.co_name == "__annotate__" or code.co_varnames[:1] == (".format",)
