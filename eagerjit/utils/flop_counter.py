"""How many floating-point operations a program's products, convolutions and attentions take, by Module."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from eagerjit.autograd.anomaly import stood_in_for
from eagerjit.library import CustomOpDef
from eagerjit.namespace.packets import Packet, aten
from eagerjit.nn.global_hooks import register_module_forward_hook, register_module_forward_pre_hook
from eagerjit.state import set_counting
from eagerjit.utils._pytree import tree_map
from eagerjit.utils.flop_formulas import FORMULAS, shape_of
from eagerjit.utils.flop_formulas import addmm_flop as addmm_flop
from eagerjit.utils.flop_formulas import baddbmm_flop as baddbmm_flop
from eagerjit.utils.flop_formulas import bmm_flop as bmm_flop
from eagerjit.utils.flop_formulas import conv_backward_flop as conv_backward_flop
from eagerjit.utils.flop_formulas import conv_flop as conv_flop
from eagerjit.utils.flop_formulas import conv_flop_count as conv_flop_count
from eagerjit.utils.flop_formulas import mm_flop as mm_flop
from eagerjit.utils.flop_formulas import sdpa_backward_flop_count as sdpa_backward_flop_count
from eagerjit.utils.flop_formulas import sdpa_flop as sdpa_flop
from eagerjit.utils.flop_formulas import sdpa_flop_count as sdpa_flop_count
from eagerjit.utils.flop_products import products

__all__ = ["FlopCounterMode", "register_flop_formula"]

def shape_wrapper(f: Any) -> Callable[..., int]:
    """A formula of tensors, from one of their shapes."""

    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        given, named, out = tree_map(shape_of, (args, kwargs, out_val))
        return f(*given, out_shape=out, **named)

    return of_tensors


flop_registry: dict[Any, Callable[..., int]] = {getattr(aten, name): shape_wrapper(f) for name, f in FORMULAS.items()}
"""What counts an operator's operations, from its arguments and `out_val`, by its name in `torch.ops.aten`."""


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator of the formula for one operator of `torch.ops`, or for several.

    A formula takes the call's arguments, with shapes for tensors, and `out_shape`; with `get_raw` it takes the tensors
    and `out_val`. Raises ValueError for what is no operator, RuntimeError for one that has a formula.
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        counted = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            if not isinstance(target, (Packet, CustomOpDef)):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket "
                    f"(i.e. torch.ops.mylib.foo), JitFunction, or HigherOrderOperator, got {target} which is of type "
                    f"{type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = counted
        return counted

    return register


class FlopCounterMode:
    """Counts the floating-point operations of what runs in it, forward and backward: a context.

    depth           how many levels of Modules its table shows
    display         whether the table is printed at the end
    custom_mapping  formulas for operators of `torch.ops`, as `register_flop_formula` takes them

    Compiled functions run as they are meanwhile; the gradients of calls that were compiled before are not counted. An
    operation of a backward pass belongs to the Modules in which the operation was called that it is the gradient of.
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ):
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        custom = custom_mapping or {}
        self.flop_registry = {
            **flop_registry, **{k: v if getattr(v, "_get_raw", False) else shape_wrapper(v) for k, v in custom.items()}
        }  # fmt: skip
        self._modules = _Modules()
        self._made_in: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()
        self._walking: tuple[str, ...] = ()

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._modules.begin()
        self._before = set_counting(self)
        return self

    def __exit__(self, *exc: object) -> None:
        set_counting(self._before)
        self._modules.end()
        if self.display:
            print(self.get_table(self.depth))

    def called(self, op: Any, arguments: tuple[Any, ...], result: Any) -> None:
        """An operation was computed."""
        own = op if isinstance(op, CustomOpDef) else getattr(aten, op.name)
        if own in self.flop_registry and own.__name__ not in FORMULAS:
            counts = [(own, self.flop_registry[own](*arguments, out_val=result))]
        elif own is op:
            counts = []
        else:
            found = products(op, arguments, result)
            packets = [(getattr(aten, name), args, out) for name, args, out in found]
            counts = [(packet, self.flop_registry[packet](*args, out_val=out)) for packet, args, out in packets]
        for packet, count in counts:
            for module in {"Global", *self._now()}:
                self.flop_counts[module][packet] += count
        if self._before is not None:
            self._before.called(op, arguments, result)

    def recorded(self, node: Any) -> None:
        """An operation is on the tape."""
        self._made_in[node] = self._now()
        if self._before is not None:
            self._before.recorded(node)

    def _now(self) -> tuple[str, ...]:
        """The Modules that what is computed belongs to; a backward pass may call some again, for a checkpoint."""
        return (*self._modules.entered, *self._walking)

    @contextmanager
    def walk(self, roots: Any, create_graph: bool) -> Iterator[None]:
        """A context of a backward walk from these tensors."""
        before = self._walking
        try:
            with stood_in_for(roots, create_graph, lambda op, node: _Placed(op, self, self._made_in.get(node, ()))):
                yield
        finally:
            self._walking = before

    def get_total_flops(self) -> int:
        """How many operations there were."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """How many operations there were, by Module and operator; "Global" has all."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as a table, of Modules down to a depth."""
        depth = depth or self.depth or 999999
        total = self.get_total_flops()
        unit = _unit(total)

        def rows(name: str, indent: str) -> list[list[str]]:
            counts = self.flop_counts[name]
            shown = [(name, sum(counts.values())), *((f" - {packet}", count) for packet, count in counts.items())]
            return [[indent + text, _in_unit(count, unit), _percent(count, total)] for text, count in shown]

        seen = [name for name in sorted(self.flop_counts) if name != "Global" and name.count(".") < depth]
        table = [row for name in seen for row in rows(name, " " * name.count("."))]
        subsumed = any(sum(self.flop_counts[name].values()) >= total for name in seen)
        if "Global" in self.flop_counts and not subsumed:
            table = [*rows("Global", ""), *([" " + row[0], *row[1:]] for row in table)]
        return _aligned(["Module", "FLOP", "% Total"], table if total else [["Global", "0", "0%"]])


class _Modules:
    """The Modules whose forward is under way, by their names."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def begin(self) -> None:
        """Note calls of Modules from here on."""
        self._handles = [
            register_module_forward_pre_hook(lambda module, given: self.entered.append(self._name_of(module))),
            register_module_forward_hook(lambda module, given, result: self._leave(), always_call=True),
        ]

    def _leave(self) -> None:
        self.entered.pop()

    def _name_of(self, module: Any) -> str:
        """The name by which a Module is found in the first one that was called, its class's for that one."""
        if module not in self._names:
            self._name(module, type(module).__name__)
        return self._names[module]

    def _name(self, module: Any, name: str) -> None:
        self._names[module] = name
        for child, part in module.named_children():
            if part not in self._names:
                self._name(part, f"{name}.{child}")

    def end(self) -> None:
        """Note them no longer."""
        for handle in self._handles:
            handle.remove()
        self.entered.clear()


class _Placed:
    """Stands for an operation on the tape during a walk: its gradients belong to the Modules it was called in."""

    def __init__(self, op: Any, counter: FlopCounterMode, modules: tuple[str, ...]):
        self._op, self._counter, self._modules = op, counter, modules

    def __getattr__(self, name: str) -> Any:
        return getattr(self._op, name)

    def backward(self, *arguments: Any) -> Any:
        """The operation's gradients."""
        self._counter._walking = self._modules
        return self._op.backward(*arguments)

    def backward_onto(self, *arguments: Any) -> Any:
        """The operation's gradients added to what is known."""
        self._counter._walking = self._modules
        return self._op.backward_onto(*arguments)


_UNITS = "", "K", "M", "B", "T"


def _unit(number: int) -> int:
    """The power of a thousand that leaves a number between one and four digits."""
    return max(0, min(len(_UNITS) - 1, (len(str(number)) - 2) // 3))


def _in_unit(number: int, unit: int) -> str:
    return f"{number / 1000**unit:.3f}{_UNITS[unit]}"


def _percent(number: int, whole: int) -> str:
    return f"{number / whole:.2%}" if whole else "0%"


def _aligned(head: list[str], rows: list[list[str]]) -> str:
    """A table as text: the first column to the left, the others to the right."""
    widths = [max(len(row[0]) for row in (head, *rows)), *(max(len(row[i]) for row in (head, *rows)) for i in (1, 2))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in (head, rule, *rows)
    )
