"""Ops: the public operations, each one Python function over primitives.

A call while tracing runs the function's body, which records primitives. An eager call looks up the Program compiled for
arguments of these types, or traces the body and compiles it, so an operation written as ten primitives runs as one
fused kernel. Either way the autograd graph gets one node per public operation: eager and traced code share one tape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from eagerjit.autograd.formal import Formal
from eagerjit.autograd.node import GradNode, arguments_read, noted, record
from eagerjit.autograd.primitives import PrimitiveCall
from eagerjit.autograd.reads import without_false_histories
from eagerjit.autograd.rules import derived_gradient, ruled_gradient
from eagerjit.calling.arguments import class_of, constant, refusal
from eagerjit.calling.casts import CASTS
from eagerjit.calling.kinds import Kind, are_operands, kinds_of, taken
from eagerjit.calling.public import ARGUMENT_NAMES, own_memory
from eagerjit.compiled.compilation import finish
from eagerjit.compiled.evaluated import EVALUATED, computed, evaluate, has_complex, with_tensors, without_memory
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.recording.memory_order import in_row_major_order
from eagerjit.recording.numbers import plain
from eagerjit.recording.trace import Tracer
from eagerjit.runtime import mode
from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.once import lock
from eagerjit.runtime.parameters import parameters
from eagerjit.runtime.walking import OpFacts
from eagerjit.state import set_casting, state
from eagerjit.tensors.fitting import reachable
from eagerjit.tensors.mistakes import explained
from eagerjit.tensors.outputs import taken_out
from eagerjit.tensors.placement import common, is_nowhere
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import Evaluated, pause_observation, resume_observation, user_line
from eagerjit.watching.values_asked import ValueAsked, values_refused

if TYPE_CHECKING:
    from eagerjit.calling.gradients import OpGradient

OPS: dict[str, Op] = {}
"""Every public op by name."""

COMPLEX_FORMS: dict[str, Op] = {}
"""By name the ops that are others for complex arguments."""


def emit(primitive: Primitive, *inputs: Tensor, **attributes: Any) -> Tensor:
    """Record one primitive in the trace that is running an op's body."""
    tracer = state.tracer
    assert tracer is not None
    out = tracer.wrap(tracer.record(primitive, tuple(map(tracer.value, inputs)), **attributes))
    if mode.grad_mode():
        record(PrimitiveCall(primitive, attributes), inputs, out)
    return out


class Op:
    """A public operation.

    body            (*arguments) -> Tensor or tuple of Tensors, over primitives and other ops
    rules           per parameter a gradient rule (g, out, *arguments) -> Tensor, or None for no gradient; without rules
                    the gradient is derived by differentiating the body
    kinds           what parameters take, of those where that is one of a few kinds
    numbers         parameters whose Python numbers are run-time inputs rather than constants
    steady          those of them that are constants of the first program of a kind, since most calls give the same ones
    shapes          parameters that are tuples of sizes, which are run-time inputs too
    symbolic        whether its programs serve all sizes, or those of the call they were compiled for
    derives         whether a gradient without rules runs the body again, so that it reads no results
    linear          whether it is linear in all its tensors together: the tangent is the op of the tangents
    wirtinger       whether its rules take and give gradients of complex numbers as PyTorch has them
    absent_gradients  whether its rules take None for the gradient of a result that nothing depends on
    results_read    which of several results rules read that read results; None: all
    formal          what gradients depend on without varying with it, where they are differentiated in turn
    on_host         why NumPy computes it and no kernel does, in a few words; "" for what kernels compute
    once            what computes the first calls of a kind, by its key, where most kinds come once; None of others
    fitting         what refuses numbers that its tensors' dtype cannot hold, and says whether there was one to check
    ordered         what puts arguments into their order, of calls that may give them in an older one
    facts           what a walk backwards knows of it natively; None before it has met one
    """

    once: Callable[[Any, tuple[Any, ...]], Any] | None = None
    fitting: Callable[[tuple[Any, ...]], bool] | None = None
    ordered: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None
    writes = aliases = accumulates = linear = wirtinger = absent_gradients = False
    derives = symbolic = True
    results_read: tuple[int, ...] | None = None
    formal: Formal | None = None
    on_host = ""
    facts: OpFacts | None = None
    kinds: tuple[Kind, ...] = ()
    steady: frozenset[int] = frozenset()

    def __init__(
        self,
        name: str,
        body: Callable[..., Any],
        rules: tuple[Callable[..., Any] | None, ...] | None = None,
        numbers: Sequence[str] = (),
        differentiable: bool = True,
        fused_rules: bool = True,
        shapes: Sequence[str] = (),
    ):
        self.name, self.body, self.rules, self.differentiable = name, body, rules, differentiable
        self.fused_rules = fused_rules
        given = parameters(body).together()
        self.parameters, self.defaults, self.required = given.names, given.defaults, len(given.required)
        self.numbers, self.shapes = (frozenset(map(self.parameters.index, names)) for names in (numbers, shapes))
        self.kinds = kinds_of(body, self.parameters)
        self.programs: dict[Any, Any] = {}
        self.gradients: dict[Any, OpGradient] = {}
        self.entries: list[OpCall] = []
        self.call = self.entry(explained(self.slow, name, like=body))
        OPS[name] = self

    def entry(self, function: Callable[..., Any], reflected: bool = False) -> OpCall:
        """A function that calls the op, and may take more arguments: natively where it is given the op's alone."""
        described = self.parameters, self.defaults, self.numbers, self.differentiable, reflected, self.shapes
        entry = OpCall(self.name, function, self, *described, siblings=self.entries, casts=self.name in CASTS)
        entry.__doc__ = function.__doc__
        return entry

    def operator(self, reflected: bool = False) -> OpCall:
        """The op as an operator's method: NotImplemented for operands it does not take."""
        return self.entry(self._operate, reflected)

    def _operate(self, *args: Any) -> Any:
        return self.slow(*args) if are_operands(args) else NotImplemented

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments in order. Raises TypeError as Python does for a call that does not fit."""
        count = len(self.parameters)
        if self.ordered is not None:
            args = self.ordered(args)
        if not kwargs and len(args) == count:
            return args
        if len(args) > count:
            raise TypeError(f"{self.name}() takes {count} positional arguments but {len(args)} were given")
        bound = list(args) + list(self.defaults[len(args) :])
        for key, value in kwargs.items():
            index = self._index(key)
            if index is None:
                raise TypeError(f"{self.name}() got an unexpected keyword argument '{key}'")
            if index < len(args):
                raise TypeError(f"{self.name}() got multiple values for argument '{key}'")
            bound[index] = value
        for name, value in zip(self.parameters, bound, strict=True):
            if value is Parameter.empty:
                raise TypeError(f"{self.name}() missing required argument '{name}'")
        return tuple(bound)

    def _index(self, key: str) -> int | None:
        name = key if key in self.parameters else ARGUMENT_NAMES.get(key)
        return self.parameters.index(name) if name in self.parameters else None

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        """The call that no native table served."""
        if state.casting is not None and state.tracer is None and not kwargs:
            return self._run_casting(args)  # a call in turn, which checks them
        write = taken_out(self.name, args, kwargs) if kwargs else None
        arguments = taken(self, self.bind(args, kwargs))
        if self.fitting is not None:
            self.fitting(arguments)
        op = _complex_form(self) if has_complex(arguments) else self
        try:
            result = op.run(arguments) if state.casting is None else op._run_casting(arguments)
        except ValueAsked as asked:
            if state.tracer is not None:  # it is asked by the body of another op
                raise
            result = self.slow(*asked.numbers(self.name, arguments))
        return result if write is None else write(result)

    def _run_casting(self, arguments: tuple[Any, ...]) -> Any:
        """Run under autocast, which converts the arguments of the op that was called, not those of ops in its body."""
        before = set_casting(None)
        try:
            arguments = before.convert(self.name, arguments)
            return self.call(*arguments) if state.tracer is None else self.run(arguments)
        finally:
            set_casting(before)

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Compute or record, then note the call on the tape."""
        if (tracer := state.tracer) is not None:
            return self._record(tracer, arguments)
        result = computed(self, arguments)
        return noted(self, arguments, result) if self.differentiable and mode.grad_mode() else result

    def _record(self, tracer: Tracer, arguments: tuple[Any, ...]) -> Any:
        """Run the body under a trace; everything in it counts as the user's line that called the outermost op."""
        if outermost := tracer.source is None:
            tracer.source = user_line()
        before, observation = mode.set_grad_mode(False), pause_observation()
        try:
            result = tracer.result_of(self, arguments)
            mode.set_grad_mode(before)
            return noted(self, arguments, result) if self.differentiable and before else result
        finally:
            mode.set_grad_mode(before)
            resume_observation(observation)
            if outermost:
                tracer.source = None

    def is_taken_apart(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a call that no Program takes runs its body operation by operation."""
        return False

    def eager(self, arguments: tuple[Any, ...]) -> Any:
        """Run the Program for arguments of these types, compiling it at the first such call."""
        if is_nowhere(common(arguments)):
            return without_memory(self, arguments)
        key, leaves = self.signature(arguments := with_tensors(arguments, self.numbers, self.steady))
        if self.once and key not in self.programs and (result := self.once(key, arguments)) is not None:
            return result
        programs = self.programs.setdefault(key, [])
        if programs is EVALUATED:
            return evaluate(self, arguments)
        if type(programs) is frozenset:
            raise ValueAsked("", programs)
        made = None
        while True:
            known = len(programs)
            for executable in programs:
                result = executable.run(leaves)
                if result is not MISS:
                    return result
                if executable is made:
                    raise refusal(self.name, arguments)
            if self.is_taken_apart(arguments):
                return self.body(*arguments)
            if (near := reachable(arguments)) is not arguments:
                return self.eager(near)
            try:
                made = self._compile_another(programs, known, arguments)
            except Evaluated:
                self.programs[key] = EVALUATED
                return evaluate(self, arguments)
            except ValueAsked as asked:
                self.programs[key] = asked.positions
                raise

    def _compile_another(self, programs: list[Any], known: int, arguments: tuple[Any, ...]) -> Any:
        """A program for arguments that those known do not serve; None where another thread has just added one."""
        with lock:
            if len(programs) > known:
                return None
            with values_refused(self.name, arguments):
                executable = self.compile(arguments, () if programs else self.steady)
            programs.append(executable)
        if self.fitting is None or not self.fitting(arguments):  # native calls check no numbers
            for entry in self.entries:
                entry.insert(arguments, executable)
        return executable

    def signature(self, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """(what the Program depends on, the leaves it is run with)."""
        key, leaves = list[Any](), list[Any]()
        for index, argument in enumerate(arguments):
            kind = type(argument)
            if isinstance(argument, Tensor):
                key.append(class_of(argument))
                leaves.append(argument)
            elif (kind is float or kind is int) and index in self.numbers:
                key.append(kind)
                leaves.append(argument)
            elif index in self.shapes:
                if any(isinstance(d, Tensor) for d in argument):
                    raise ValueAsked("", frozenset((index,)))
                key.append(tuple(min(d, 2) for d in argument))
                leaves += [d for d in argument if d > 1]
            elif kind in (tuple, list):
                key.append(self._sequence(argument, leaves))
            else:
                key.append(constant(argument))
        return tuple(key), tuple(leaves)

    def _sequence(self, argument: Any, leaves: list[Any]) -> Any:
        if not any(isinstance(x, (Tensor, list, tuple)) for x in argument):
            return tuple(map(constant, argument))
        parts = []
        for x in argument:
            if isinstance(x, Tensor):
                parts.append(class_of(x))
                leaves.append(x)
            elif isinstance(x, (list, tuple)):
                parts.append(self._sequence(x, leaves))
            else:
                parts.append(constant(x))
        return tuple(parts)

    def compile(self, arguments: tuple[Any, ...], constant: Collection[int] = ()) -> Any:
        """Trace the body on arguments of these types, or with these very numbers at some places, and compile it."""
        tracer = Tracer(self.name)
        tracer.values_only = True
        tracer.source = self.name  # stands for the line: the Program serves calls from any
        with tracer:
            before = mode.set_grad_mode(False)
            try:
                inputs, ends = list[Any](), list[int]()
                for i, a in enumerate(arguments):
                    inputs.append(self._placeholder(tracer, i, a))
                    ends.append(tracer.n_leaves)
                arguments_ = tracer.n_leaves
                result = self.computed(tuple([plain(x) if i in constant else x for i, x in enumerate(inputs)]))
                return finish(tracer, arguments_, [*result] if type(result) is tuple else [result], self.aliases)[0]
            except ValueAsked as asked:
                asked.locate(ends)
                raise
            finally:
                mode.set_grad_mode(before)

    def computed(self, arguments: tuple[Any, ...]) -> Any:
        """What the body gives, in memory of its own and in row-major order."""
        result = in_row_major_order(state.tracer, self.body, arguments)
        return result if self.writes else own_memory(result, arguments)

    def _placeholder(self, tracer: Tracer, index: int, argument: Any) -> Any:
        """A stand-in with its own identity, so that passing one tensor twice compiles nothing special."""
        if isinstance(argument, Tensor):
            stand_in = new_tensor(argument._data)
            tracer.tensor_leaf(stand_in, tracer.new_leaf(), symbolic=self.symbolic)
            return stand_in
        if type(argument) in (float, int) and index in self.numbers:
            return tracer.number_leaf(argument, tracer.new_leaf())
        if index in self.shapes:
            return tuple(d if d < 2 else tracer.int_leaf(d, tracer.new_leaf()) for d in argument)
        if type(argument) in (tuple, list):
            return type(argument)(self._placeholder(tracer, -1, a) for a in argument)
        return argument

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Gradients for the node's inputs (None where not needed), from those of its outputs."""
        derived = create_graph and self.rules is None
        if not derived and (state.tracer is not None or not self.fused_rules):
            return self.gradient_body(needs, len(grads))(*grads, *node.outputs(), *node.inputs)  # type: ignore[misc]
        op = self.gradient(needs, len(grads) if type(node.output) is tuple else None)
        arguments = (*grads, *(node.outputs() if op.reads_outputs else op.absent), *node.inputs)  # type: ignore[misc]
        if create_graph and not derived:
            return op.by_operations(*arguments)
        # A derived gradient runs the op's body, which only a trace can: it is an op on the tape.
        result = op.run(arguments) if derived else op.call(*arguments)
        result = without_false_histories(self, node, grads, needs, result) if derived else result
        if op.single >= 0:
            return (*op.before, result, *op.after)
        values = iter(result)
        return tuple([next(values) if present else None for present in op.pattern])

    def gradient(self, needs: tuple[bool, ...], n_outputs: int | None = None) -> OpGradient:
        """The gradient for the arguments flagged in `needs` as an op; `n_outputs` is None for a single result."""
        key = needs if n_outputs is None else (needs, n_outputs)
        op = self.gradients.get(key)
        if op is None:
            from eagerjit.calling.gradients import OpGradient

            op = self.gradients[key] = OpGradient(self, needs, n_outputs or 1)
        return op

    def learn_gradient(self, needs: tuple[bool, ...]) -> None:
        """Tell native code the gradient of a single result for the arguments flagged in `needs`."""
        gradient = self.gradient(needs)
        assert self.facts is not None
        flags = (sum(1 << i for i, flag in enumerate(f) if flag) for f in (needs, gradient.pattern))
        self.facts.add(next(flags), gradient.call, next(flags), gradient.reads_outputs)

    @functools.cached_property
    def saved_by(self) -> tuple[Sequence[int | None], ...] | None:
        """What the gradients may read, as `arguments_read` has it."""
        return () if self.linear else arguments_read(self.rules, len(self.parameters))

    def gradient_body(self, needs: tuple[bool, ...], n_outputs: int) -> Callable[..., Any]:
        """(*grads, *outputs, *arguments) -> gradients of the arguments flagged in `needs`, as a function over ops."""
        make = derived_gradient if self.rules is None else ruled_gradient
        return make(self, needs, n_outputs)


def _complex_form(op: Op) -> Op:
    """What an op is for complex arguments."""
    from eagerjit.ops import complexes  # noqa: F401  registers the forms

    return COMPLEX_FORMS.get(op.name, op)


def forget_programs() -> None:
    """Compile all ops anew: what their bodies take from process-wide defaults has changed."""
    for op in OPS.values():
        for table in ("programs", "gradients"):
            op.__dict__.get(table, {}).clear()
        op.facts = None
        for entry in op.__dict__.get("entries", ()):
            entry.clear()
