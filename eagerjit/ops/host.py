"""Operations that NumPy computes: what no kernel and no routine of ours does. Compiled calls call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.autograd.node import record
from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiled import compilation
from eagerjit.compiled.evaluated import without_memory
from eagerjit.compiler.ops.host import BY_KERNELS, NONE, NUMBER, TENSOR, host
from eagerjit.devices import CPU
from eagerjit.recording.numbers import SymbolicInt, TracedFloat, expression
from eagerjit.runtime import direct, dtypes, mode
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.state import state
from eagerjit.tensors.placement import common, device_of, host_array, is_nowhere, put
from eagerjit.tensors.tensor import Tensor, new_tensor


class HostOp(Op):
    """An op whose results NumPy computes from arrays.

    function        (*arguments with contiguous ndarrays for tensors) -> an ndarray, or a tuple of them
    types           (*arguments) -> (dtype, shape) of the result, or a list of them for a tuple: what a trace, which
                    has no arrays, records
    on_host         why no kernel computes it, in a few words

    Under vmap its first parameter is the one tensor if its second is `dim` or `dims`, along which it works; or, with
    `leading`, its tensors broadcast along leading dimensions, of which the examples' is one more; any other runs
    once for each example.
    """

    leading = False

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        rules: Any = None,
        doc: str = "",
        differentiable: bool = True,
        *,
        types: Callable[..., Any],
        on_host: str = "",
        numbers: Sequence[str] = (),
    ):
        super().__init__(name, function, rules, numbers, differentiable, fused_rules=False)
        self.call.__doc__ = doc or function.__doc__
        self.function, self.types = function, types
        self.on_host = on_host or self.on_host
        if not self.on_host:
            raise ValueError(f"{name}: why does no kernel compute it?")
        self.leading = self.leading or types is broadcast
        self.body = self._call
        FUNCTIONS[name] = function

    def eager(self, arguments: tuple[Any, ...]) -> Any:
        """The result as tensors, which lie where the arguments do.

        A Program computes it where native code may, else NumPy.
        """
        device = common(arguments)
        if is_nowhere(device):
            return without_memory(self, arguments)
        if device is None and self.name in direct.FUNCTIONS:
            return super().eager(arguments)
        with np.errstate(all="ignore"):
            result = self.function(*map(_plain, arguments))
        made = tuple(map(_tensor, result)) if isinstance(result, tuple) else _tensor(result)
        return made if device is None else put(made, device)

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Compute or record; under vmap, compute for all examples outside of it."""
        tracer = state.tracer
        if tracer is None or not tracer.single_example:
            return super().run(arguments)
        result = tracer.outside_of(self, arguments)
        if self.differentiable and mode.grad_mode():
            record(self, arguments, result)
        return result

    def _call(self, *arguments: Any) -> Any:
        """Record the call."""
        inputs: list[Tensor] = []
        template = tuple([_recorded(a, inputs) for a in arguments])
        found = self.types(*arguments)
        results = [
            emit(
                host,
                *inputs,
                function=self.name,
                arguments=template,
                result=position,
                dtype=dtype,
                shape=tuple(map(expression, shape)),
            )
            for position, (dtype, shape) in enumerate(found if isinstance(found, list) else [found])
        ]
        return tuple(results) if isinstance(found, list) else results[0]


class LoweredOp(HostOp):
    """An op that kernels compute on a GPU, where `suits` says so of its arguments, and NumPy elsewhere.

    by_kernels      the same by operations on tensors and by `called`
    """

    def __init__(self, *described: Any, by_kernels: Callable[..., Any] | None = None, **options: Any):
        super().__init__(*described, **options)
        self.by_kernels = by_kernels
        FUNCTIONS[self.name + BY_KERNELS] = self.function

    def suits(self, *arguments: Any) -> bool:
        """Whether kernels compute it of these."""
        return True

    def eager(self, arguments: tuple[Any, ...]) -> Any:
        """The kernels' result where the tensor lies on a device, or NumPy's."""
        if self.by_kernels is not None and device_of(arguments[0]) is not CPU and self.suits(*arguments):
            return Op.eager(self, arguments)
        return super().eager(arguments)

    def _call(self, *arguments: Any) -> Any:
        tracer = state.tracer
        for_gpu = compilation.backend is not None or (tracer is not None and tracer.device is not None)
        if for_gpu and self.by_kernels is not None and self.suits(*arguments):
            return self.by_kernels(*arguments)
        return super()._call(*arguments)


def has_kernels(tensor: Tensor) -> bool:
    """Whether kernels of a GPU work on a tensor."""
    return compilation.backend is not None or device_of(tensor) is not CPU


def called(function: str, tensors: Sequence[Tensor], types: Sequence[tuple[Any, Any]], *rest: Any) -> tuple[Any, ...]:
    """The results of a function that kernels compute (`compiler/lower/matrices.py`), in an op's body.

    types       (dtype, shape) of every result
    rest        its arguments after the tensors
    """
    template = (*[TENSOR] * len(tensors), *(_recorded(a, []) for a in rest))
    return tuple(
        emit(
            host, *tensors, function=function + BY_KERNELS, arguments=template, result=position, dtype=dtype,
            shape=tuple(map(expression, shape)),
        )
        for position, (dtype, shape) in enumerate(types)
    )  # fmt: skip


def _plain(argument: Any) -> Any:
    """An argument as the function takes it: row-major always, for NumPy's results may depend on the order in memory."""
    if isinstance(argument, Tensor):
        array = host_array(argument._data)
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)
    if type(argument) in (tuple, list):
        return tuple(map(_plain, argument))
    return argument


def _recorded(argument: Any, inputs: list[Tensor]) -> Any:
    """What the graph holds for an argument; tensors and numbers of the call become inputs."""
    if isinstance(argument, Tensor):
        inputs.append(argument)
        return TENSOR
    if isinstance(argument, TracedFloat):
        assert state.tracer is not None
        inputs.append(state.tracer.wrap(state.tracer.constant(argument, dtypes.float64)))
        return NUMBER
    if isinstance(argument, SymbolicInt):
        return argument.expression
    if type(argument) in (tuple, list):
        return tuple([_recorded(a, inputs) for a in argument])
    if argument is None:
        return NONE
    return f"={argument}" if isinstance(argument, str) else argument


def like(input: Tensor, *rest: Any) -> Any:
    """The type of a result that is as the first argument is."""
    return input.dtype, input.shape


def broadcast(input: Tensor, other: Tensor, *rest: Any) -> Any:
    """The type of a result that two arguments of one dtype broadcast to."""
    from eagerjit.ops.subscript import broadcast_shapes

    return input.dtype, broadcast_shapes(tuple(input.shape), tuple(other.shape))


def _tensor(array: np.ndarray) -> Tensor:
    return new_tensor(np.ascontiguousarray(array).reshape(np.shape(array)))
