"""A graph of ONNX nodes in the making: names, constants, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.polynomials import Quotient
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType

_QUOTIENTS = {"//": "Div", "%": "Mod", "min": "Min", "max": "Max"}
_NAMES = {
    dtypes.float32: "FLOAT", dtypes.float64: "DOUBLE", dtypes.float16: "FLOAT16", dtypes.bfloat16: "BFLOAT16",
    dtypes.bool_: "BOOL", dtypes.uint8: "UINT8", dtypes.int8: "INT8", dtypes.int16: "INT16", dtypes.int32: "INT32",
    dtypes.int64: "INT64", dtypes.uint16: "UINT16", dtypes.uint32: "UINT32", dtypes.uint64: "UINT64",
}  # fmt: skip


def element_type(dtype: DType) -> int:
    """ONNX's number of a dtype. Raises RuntimeError for one that it lacks."""
    from onnx import TensorProto

    if dtype not in _NAMES:
        raise RuntimeError(f"torch.onnx.export: ONNX files have no tensors of {dtype}")
    return int(TensorProto.DataType.Value(_NAMES[dtype]))


class Writer:
    """Nodes in order, and the constants they read.

    opset    the version of ONNX's operators that may be used
    known    sizes that are the same in every call, by symbol
    places   where the others are read, by symbol: (an input's name, its dimension)
    calls    ops of the library by the node of a result, as `recording.Recorded` has them
    """

    def __init__(
        self, opset: int, known: Mapping[str, int], places: Mapping[str, tuple[str, int]], calls: Mapping[Any, Any]
    ):
        self.opset, self.known, self.places, self.calls = opset, known, places, calls
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[Any, str] = {}
        self._sizes: dict[Any, str] = {}
        self._names: set[str] = set()
        self.source = ""

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet."""
        name, count = wanted, 0
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._names.add(name)
        return name

    def nodes_of(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node; the names of its results."""
        from onnx import helper

        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        node = helper.make_node(kind, list(inputs), names, name=self.fresh(f"node_{kind}"), **attributes)
        node.doc_string = self.source
        self.nodes.append(node)
        return names

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; the name of its one result."""
        return self.nodes_of(kind, inputs, **attributes)[0]

    def initializer(self, array: np.ndarray, name: str) -> str:
        """A tensor that is part of the file."""
        from onnx import numpy_helper

        name = self.fresh(name)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def constant(self, value: Any, dtype: DType = dtypes.int64) -> str:
        """A number, or numbers, once however often it is asked for."""
        array = np.asarray(value).astype(dtype.numpy)
        key = dtype, array.shape, array.tobytes()
        if key not in self._constants:
            self._constants[key] = self.initializer(array, "constant")
        return self._constants[key]

    def since(self, version: int, what: str) -> None:
        """Raises NotImplementedError where the operators that may be used are older."""
        if self.opset < version:
            raise NotImplementedError(f"{what} needs opset_version {version}")

    def reduced(self, kind: str, x: str, axes: Sequence[int], keepdims: bool) -> str:
        """A reduction over some dimensions."""
        if self.opset < 18 and kind != "ReduceSum":
            return self.node(kind, x, axes=list(axes), keepdims=int(keepdims))
        return self.node(kind, x, self.constant(list(axes)), keepdims=int(keepdims))

    def split(self, x: str, count: int) -> list[str]:
        """Equal parts along the first dimension."""
        more = {"num_outputs": count} if self.opset >= 18 else {}
        return self.nodes_of("Split", (x,), count, axis=0, **more)

    # -- sizes --------------------------------------------------------------------------------------------------------

    def settled(self, size: sizes.Expr) -> sizes.Expr:
        """A size of which only what differs from call to call is unknown."""
        return sizes.substitute(size, self.known)

    def known_size(self, size: sizes.Expr) -> int:
        """A size that does not differ. NotImplementedError for one that does."""
        found = self.settled(size)
        if not isinstance(found, int):
            raise NotImplementedError(f"ONNX's operator needs to know the size {found}")
        return found

    def number(self, size: sizes.Expr) -> str:
        """A size as a tensor without dimensions."""
        size = self.settled(size)
        if isinstance(size, int):
            return self.constant(size)
        if size not in self._sizes:
            self._sizes[size] = self._sum(size)
        return self._sizes[size]

    def _sum(self, size: sizes.Size) -> str:
        total = ""
        for monomial, coefficient in size.terms:
            factors = [self._atom(atom) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.append(self.constant(coefficient))
            term = factors[0]
            for factor in factors[1:]:
                term = self.node("Mul", term, factor)
            total = self.node("Add", total, term) if total else term
        return total

    def _atom(self, atom: str | Quotient) -> str:
        if isinstance(atom, Quotient):
            return self.node(_QUOTIENTS[atom.op], self.number(atom.a), self.number(atom.b))
        name, dimension = self.places[atom]
        return self.node("Gather", self.node("Shape", name), self.constant(dimension), axis=0)

    def shape(self, shape: Sequence[sizes.Expr]) -> str:
        """Sizes as a tensor of one dimension."""
        found = [self.settled(d) for d in shape]
        if all(isinstance(d, int) for d in found):
            return self.constant(np.array(found, np.int64))
        one = self.constant([1])
        return self.node("Concat", *(self.node("Reshape", self.number(d), one) for d in found), axis=0)

    # -- what is needed -----------------------------------------------------------------------------------------------

    def needed(self, outputs: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """(nodes, constants) that the outputs are computed from."""
        wanted, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                nodes.append(node)
        return nodes[::-1], [tensor for tensor in self.initializers if tensor.name in wanted]
