"""Translates native modules (see `language` for the subset) into LLVM text, whole or module by module.

Locals become stack slots that LLVM turns into registers. Every public function and global is a symbol of its own
name; private ones carry their module's name. Where all is one object they are internal, so that LLVM may inline and
drop them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from types import FunctionType, ModuleType

from eagerjit.runtime import syntax_trees
from eagerjit.runtime.native.expressions import STORAGE, Symbols, TranslationError
from eagerjit.runtime.native.language import Global, Signature
from eagerjit.runtime.native.statements import FunctionTranslator
from eagerjit.runtime.records import record

__all__ = ["Translated", "TranslationError", "translate"]

INLINE_INSTRUCTIONS = 60
"""Shorter functions (counted before optimisation) are inlined wherever they are called."""

_ATTRIBUTES = "attributes #0 = { nounwind }"
_USED = re.compile(r'@"([^"]+)"')


def translate(modules: Sequence[ModuleType], base: Sequence[ModuleType] = ()) -> str:
    """LLVM text of all functions defined in the modules; TranslationError names the file and line at fault.

    Public functions and globals of `base` are declared only: another object defines them.
    """
    return Translated(modules, base).whole()


@record(frozen=True)
class Function:
    """A translated function: what stands between `define` and the end."""

    symbol: str
    module: str
    result: str
    parameters: list[str]
    lines: list[str]
    is_inlined: bool

    @property
    def is_private(self) -> bool:
        return "." in self.symbol

    def defined(self, linkage: str = "", symbol: str = "") -> str:
        """Its definition, under another symbol if one is given."""
        inline = " alwaysinline" if self.is_inlined else ""
        head = f'define {linkage}{self.result} @"{symbol or self.symbol}"({", ".join(self.parameters)}) #0{inline} {{'
        return "\n".join([head, *self.lines, "}"])

    def replaceable(self) -> str:
        """Its definition, reached by a jump to what a cell holds: this code until better code is stored there."""
        cell, own = code_cell(self.symbol), f"{self.symbol}.own"
        call = f'musttail call {self.result} %code({", ".join(self.parameters)})'
        result = ["  %result = " + call, f"  ret {self.result} %result"]
        return "\n".join(
            [
                f'@"{cell}" = global ptr @"{own}"',
                f'define {self.result} @"{self.symbol}"({", ".join(self.parameters)}) #0 {{',
                f'  %code = load atomic ptr, ptr @"{cell}" monotonic, align 8',
                *(["  " + call, "  ret void"] if self.result == "void" else result),
                "}",
                self.defined("internal ", own),
            ]
        )


def code_cell(symbol: str) -> str:
    """The symbol of the cell that holds where a replaceable function's code is."""
    return f"{symbol}.code"


class Translated:
    """The functions of native modules as LLVM text, to be put together."""

    def __init__(self, modules: Sequence[ModuleType], base: Sequence[ModuleType] = ()):
        self._symbols = symbols = Symbols({}, {}, {})
        self._given = _given([module for module in base if module not in modules], symbols)
        self._sizes: dict[str, int] = {}
        self._functions: dict[str, Function] = {}
        owners: dict[str, ModuleType] = {}
        for module in modules:
            for name, value in vars(module).items():
                if _is_memory(value) and id(value) not in symbols.globals:
                    symbol = symbols.globals[id(value)] = _symbol(module, name)
                    self._sizes[symbol] = value.size
                elif _is_defined_in(module, value):
                    symbol = _symbol(module, name)
                    if symbol in owners:
                        line = f"{module.__file__}:{value.__code__.co_firstlineno}"
                        raise TranslationError(f"{line}: {owners[symbol].__file__} also defines {symbol}")
                    owners[symbol] = module
                    symbols.names[value], symbols.signatures[value] = symbol, _signature(value)
        for module in modules:  # one syntax tree at a time: many objects that live long keep the collector busy
            for node in _definitions(module):
                made = self._translated(module, node)
                self._functions[made.symbol] = made

    def _translated(self, module: ModuleType, node: ast.FunctionDef) -> Function:
        code = FunctionTranslator(getattr(module, node.name), str(module.__file__), self._symbols)
        parameters, result = code.translate(node), STORAGE[code.signature.result]
        lines, is_inlined = ["entry:", *code.entry, *code.lines], len(code.lines) < INLINE_INSTRUCTIONS
        return Function(code.symbol, _short(module), result, parameters, lines, is_inlined)

    def whole(self) -> str:
        """All in one object."""
        functions = [f.defined("internal " if f.is_private else "") for f in self._functions.values()]
        return self._text([*self._given, *self._memory("internal "), *functions])

    def replaceable(self) -> str:
        """All in one object, public functions so that others can take their place, over the same memory."""
        functions = [f.defined("internal ") if f.is_private else f.replaceable() for f in self._functions.values()]
        return self._text([*self._given, *self._memory(), *functions])

    def memory(self) -> str:
        """What the objects of single modules share."""
        return "\n".join(self._memory())

    def of(self, module: ModuleType) -> str:
        """One module's functions, and those of others that they inline."""
        name = _short(module)
        shown = {f.symbol: f for f in self._functions.values() if f.module == name}
        waiting, used = list(shown.values()), set[str]()
        while waiting:
            for symbol in _USED.findall("\n".join(waiting.pop().lines)):
                used.add(symbol)
                other = self._functions.get(symbol)
                if other is not None and other.is_inlined and symbol not in shown:
                    shown[symbol] = other
                    waiting.append(other)
        bodies = [f.defined(self._linkage(f, name)) for f in shown.values()]
        declared = [_declared(f) for s, f in self._functions.items() if s in used and s not in shown]
        memory = [_outside(symbol, size) for symbol, size in self._sizes.items() if symbol in used]
        given = [line for line in self._given if used.intersection(_USED.findall(line))]
        return self._text([*given, *memory, *declared, *bodies], used)

    @staticmethod
    def _linkage(function: Function, module: str) -> str:
        if function.is_private:
            return "internal " if function.is_inlined else ""
        return "" if function.module == module else "available_externally "

    def _memory(self, private: str = "") -> list[str]:
        return [
            f'@"{symbol}" = {private if "." in symbol else ""}global [{size} x i8] zeroinitializer, align 64'
            for symbol, size in self._sizes.items()
        ]

    def _text(self, lines: Iterable[str], used: set[str] | None = None) -> str:
        """LLVM text of these definitions; with the strings among `used`, or all."""
        strings = {s: data for data, s in self._symbols.strings.items() if used is None or s in used}
        return "\n".join([*_strings(strings), *_declarations(self._symbols), *lines, _ATTRIBUTES, ""])


def _given(modules: Sequence[ModuleType], symbols: Symbols) -> list[str]:
    """Declarations of what another object defines."""
    lines = []
    for module in modules:
        for name, value in vars(module).items():
            if _is_memory(value) and id(value) not in symbols.globals:
                symbols.globals[id(value)] = name
                lines.append(_outside(name, value.size))
            elif _is_defined_in(module, value) and not name.startswith("_"):
                symbols.names[value], symbols.signatures[value] = name, _signature(value)
                lines.append(_declaration(name, symbols.signatures[value]))
    return lines


def _is_memory(value: object) -> bool:
    return isinstance(value, Global) and not value.symbol


def _is_defined_in(module: ModuleType, value: object) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == module.__name__


def _short(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _symbol(module: ModuleType, name: str) -> str:
    return f"{_short(module)}.{name}" if name.startswith("_") else name


def _definitions(module: ModuleType) -> list[ast.FunctionDef]:
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        with syntax_trees.alone():
            tree = ast.parse(file.read(), module.__file__)
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _signature(function: FunctionType) -> Signature:
    """What a function's annotations, which nobody has evaluated, say."""
    code, types = function.__code__, function.__annotations__
    parameters, result = code.co_varnames[: code.co_argcount], types.get("return", "i64")
    for name in types.values():
        if name not in STORAGE:
            raise TranslationError(f"{code.co_filename}:{code.co_firstlineno}: {name} is not a native type")
    return Signature(result, tuple(types.get(parameter, "i64") for parameter in parameters))


def _outside(symbol: str, size: int) -> str:
    return f'@"{symbol}" = external global [{size} x i8], align 64'


def _strings(strings: dict[str, bytes]) -> list[str]:
    texts = {symbol: "".join(f"\\{byte:02X}" for byte in data) for symbol, data in strings.items()}
    return [f'@"{s}" = internal constant [{len(strings[s])} x i8] c"{text}"' for s, text in texts.items()]


def _declaration(symbol: str, signature: Signature) -> str:
    types = [STORAGE[p] for p in signature.parameters] + (["..."] if signature.variadic else [])
    return f'declare {STORAGE[signature.result]} @"{symbol}"({", ".join(types)}) #0'


def _declared(function: Function) -> str:
    types = ", ".join(parameter.partition(" ")[0] for parameter in function.parameters)
    return f'declare {function.result} @"{function.symbol}"({types}) #0'


def _declarations(symbols: Symbols) -> list[str]:
    """What C defines."""
    data = [f"@{name} = external global i8" for name in sorted(symbols.data)]
    functions = [_declaration(name, signature) for name, signature in sorted(symbols.externals.items())]
    return [*data, *sorted(symbols.declarations), *functions]
