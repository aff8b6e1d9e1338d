"""What all control structures are: one operation on the tape, one call of a Python function in a compiled one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eagerjit.autograd.node import GradNode, record
from eagerjit.calling.dispatch import emit
from eagerjit.compiler import sizes
from eagerjit.compiler.batch import Batcher, Value
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.ops.host import TENSOR, host
from eagerjit.control.body import BodyTracer
from eagerjit.control.code import Code, specific
from eagerjit.runtime import mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.runtime.meta_array import meta_array
from eagerjit.state import state
from eagerjit.tensors.placement import common, host_array, is_nowhere, put
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import pause_observation, resume_observation, user_line

Types = list[tuple[DType, tuple[sizes.Expr, ...]]]


class NoGradient(RuntimeError):
    """A structure has no gradient where it stands."""


class Runner:
    """A structure's loop over compiled code: (*arrays, *numbers) -> arrays, None for results that nobody wants."""

    key: str
    made_of: tuple[str, ...] = ()
    """Attributes with what it was made of, in the order in which its class takes it."""

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs that it runs, for reports."""
        return ()

    def __call__(self, *arguments: Any) -> tuple[np.ndarray | None, ...]:
        """Run it."""
        raise NotImplementedError

    def selecting(self, results: frozenset[int]) -> Runner:
        """The same for some of the results alone."""
        raise NotImplementedError

    def batched(self, b: Batcher, arguments: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
        """A call's results for a batch of examples, where inputs differ between them."""
        raise NotImplementedError("vmap: the gradient of a while_loop inside of another loop or branch")

    def replayed(self, numbers: Sequence[sizes.Expr], tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """A call's results with a tape: the structure recorded anew from its compiled graphs."""
        raise NoGradient("the gradient of a while_loop inside of another loop or branch has no gradient itself")


class Structure:
    """A control structure with its recorded functions: (*tensors) -> a tuple of tensors."""

    name: str
    tracer: BodyTracer
    rules = None
    derives = True
    absent_gradients = True
    """Whether gradients of results may be None."""

    def lowered(self) -> tuple[Runner, list[sizes.Expr], list[int]]:
        """The function that computes it, the sizes which that takes after the tensors, and which tensors it takes."""
        raise NotImplementedError

    def types(self) -> Types:
        """The results' types, in the recording's symbols."""
        raise NotImplementedError

    def connected(self, needs: Sequence[bool]) -> list[bool]:
        """Which results depend on arguments that need gradients."""
        raise NotImplementedError

    def backward(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """Gradients of the arguments, by the structure that is its gradient."""
        raise NotImplementedError

    def run(self, arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Compute or record it, and note it on the tape."""
        recording = mode.set_grad_mode(False)
        observation = pause_observation()
        try:
            results = self._computed(arguments) if state.tracer is None else self._recorded(arguments)
        finally:
            mode.set_grad_mode(recording)
            resume_observation(observation)
        if recording:
            record(self, tuple(arguments), results)
            flags = self.connected([a._requires_grad for a in arguments])
            for result, connected in zip(results, flags, strict=True):
                if not connected:
                    result._node, result._requires_grad = None, False
        return results

    def _computed(self, arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
        device = common(arguments)
        if is_nowhere(device):
            return tuple(self._nothing(dtype, shape) for dtype, shape in self.types())
        runner, numbers, used = self.lowered()
        given = [host_array(arguments[i]._data) for i in used]
        arrays = [np.ascontiguousarray(a).reshape(a.shape) for a in given]
        found = tuple(map(new_tensor, runner(*arrays, *[self.tracer.size(n) for n in numbers])))
        return found if device is None else put(found, device)

    def _nothing(self, dtype: DType, shape: Sequence[sizes.Expr]) -> Tensor:
        """A result on the meta device."""
        return new_tensor(meta_array(tuple(map(self.tracer.size, shape)), dtype.numpy))  # type: ignore[arg-type]

    def _recorded(self, arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
        tracer = state.tracer
        assert tracer is not None
        runner, numbers, used = self.lowered()
        FUNCTIONS.setdefault(runner.key, runner)
        outermost = tracer.source is None
        if outermost:
            tracer.source = user_line()
        template = (*(TENSOR,) * len(used), *map(self.tracer.size, numbers))
        try:
            return tuple([
                emit(
                    host,
                    *(arguments[i] for i in used),
                    function=runner.key,
                    arguments=template,
                    result=position,
                    dtype=dtype,
                    shape=tuple(map(self.tracer.size, shape)),
                )
                for position, (dtype, shape) in enumerate(self.types())
            ])  # fmt: skip
        finally:
            if outermost:
                tracer.source = None


def in_vmap() -> bool:
    """Whether what is recorded stands for many examples."""
    tracer: Any = state.tracer
    while tracer is not None and not tracer.single_example:
        tracer = getattr(tracer, "outer", None)
    return tracer is not None


def replayed(code: Code, values: Sequence[sizes.Expr]) -> tuple[BodyTracer, list[Node], list[Tensor]]:
    """(tracer, inputs, outputs) of a body recorded anew from its compiled graph."""
    from eagerjit.func.evaluate import evaluate

    graph, _ = specific(code, values)
    tracer = BodyTracer(graph.name)
    with tracer:
        given = [tracer.parameter(n.type) for n in graph.inputs]
        outputs = tracer.isolate(evaluate(graph, tuple(given)))
    return tracer, [n for n, _ in tracer.parameters], outputs
