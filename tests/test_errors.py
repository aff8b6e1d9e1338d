"""Wrong calls: every one raises PyTorch's class of exception, with a message that says what is wrong and where."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from pickle import PicklingError
from typing import Any

import pytest

import eagerjit
from eagerjit.jit import JitWarning, jit

try:
    import torch
except ImportError:
    torch = None

ROOT = Path(__file__).resolve().parent.parent
Call = Callable[[Any], Any]


def line(text: str) -> str:
    """`file:line` of the line of this file that ends with a comment."""
    for number, content in enumerate(Path(__file__).read_text().splitlines(), 1):
        if content.endswith(f"# {text}"):
            return f"{__file__}:{number}"
    raise AssertionError(text)


def raised(call: Call, library: Any) -> BaseException:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(library)
        except Exception as error:
            return error
    raise AssertionError(f"{library.__name__} returned {result!r}")


def check(call: Call, *phrases: str) -> None:
    """The call raises what PyTorch raises, and the message holds the phrases."""
    error = raised(call, eagerjit)
    for phrase in phrases:
        assert phrase in str(error), f"{phrase!r} is missing in {error!r}"
    if torch is not None:
        expected = raised(call, torch)
        assert type(error).__mro__[:-2] == type(expected).__mro__[:-2], f"{error!r} instead of {expected!r}"


SHAPES: dict[str, tuple[Call, tuple[str, ...]]] = {
    "add": (lambda t: t.ones(2, 3) + t.ones(4), ("add", "(3)", "(4)", "dimension 1", "[2, 3] and [4]")),
    "mul": (lambda t: t.ones(2, 3, 4) * t.ones(3, 3, 1), ("mul", "dimension 0", "[2, 3, 4] and [3, 3, 1]")),
    "matmul": (lambda t: t.ones(2, 3) @ t.ones(4, 5), ("matmul", "2x3 and 4x5")),
    "mm": (lambda t: t.mm(t.ones(2), t.ones(2, 2)), ("mm", "must be a matrix", "1D")),
    "bmm": (lambda t: t.bmm(t.ones(2, 3, 4), t.ones(3, 4, 5)), ("batch2", "[2, 4]", "[3, 4]")),
    "mv": (lambda t: t.ones(2, 3) @ t.ones(4), ("matmul", "2x3", "4x1")),
    "dot": (lambda t: t.dot(t.ones(3), t.ones(4)), ("[3] and src [4]",)),
    "linear": (lambda t: t.nn.functional.linear(t.ones(2, 3), t.ones(4, 5)), ("linear", "2x3 and 5x4")),
    "Linear": (lambda t: t.nn.Linear(3, 4)(t.ones(2, 5)), ("linear", "2x5 and 3x4")),
    "cat": (lambda t: t.cat([t.ones(2, 3), t.ones(2, 4)]), ("cat", "Expected size 3 but got size 4", "dimension 0")),
    "cat of nothing": (lambda t: t.cat([]), ("cat()", "non-empty")),
    "cat of ranks": (lambda t: t.cat([t.ones(2, 3), t.ones(2)]), ("same number of dimensions", "2", "1")),
    "stack": (lambda t: t.stack([t.ones(2), t.ones(3)]), ("stack", "[2] at entry 0", "[3] at entry 1")),
    "view": (lambda t: t.ones(6).view(4, 2), ("shape '[4, 2]'", "size 6")),
    "view inferring twice": (lambda t: t.ones(6).view(-1, -1), ("only one dimension can be inferred",)),
    "view of a transpose": (lambda t: t.ones(2, 3).t().view(6), ("view size is not compatible", "reshape")),
    "reshape": (lambda t: t.ones(6).reshape(4, -1), ("shape '[4, -1]'", "size 6")),
    "expand": (lambda t: t.ones(2, 3).expand(4, 3), ("expanded size", "[4, 3]", "[2, 3]")),
    "expand to fewer": (lambda t: t.ones(2, 3).expand(3), ("expand([2, 3], size=[3])",)),
    "gather": (lambda t: t.gather(t.ones(2, 3), 1, t.zeros(3, dtype=t.int64)), ("gather", "same number of dim")),
    "movedim repeated": (lambda t: t.ones(2, 3).movedim((0, 0), (0, 1)), ("movedim", "source", "[0, 0]")),
    "movedim to one place": (lambda t: t.ones(2, 3).movedim((0, 1), (1, 1)), ("movedim", "destination", "[1, 1]")),
    "movedim to fewer": (lambda t: t.ones(2, 3).movedim((0, 1), (0,)), ("movedim", "[0, 1]", "[0]")),
    "permute": (lambda t: t.ones(2, 3).permute(0), ("permute", "input.dim() = 2")),
    "t": (lambda t: t.ones(2, 3, 4).t(), ("t()", "3D")),
    "split": (lambda t: t.ones(5).split([2, 2]), ("split", "exactly to 5", "[2, 2]")),
    "narrow": (lambda t: t.ones(3).narrow(0, 2, 4), ("start (2) + length (4)", "(3)")),
    "diagonal": (lambda t: t.ones(2, 3).diagonal(0, 0, 0), ("diagonal", "0, 0")),
    "mask": (lambda t: t.ones(3)[t.tensor([True, False])], ("mask [2]", "[3] at index 0")),
    "where": (lambda t: t.where(t.tensor([True, False]), t.ones(3), t.ones(3)), ("where", "(2)", "(3)")),
    "in place": (lambda t: t.ones(2).add_(t.ones(3, 2)), ("shape [2]", "[3, 2]")),
    "assignment": (lambda t: t.ones(3).__setitem__(slice(0, 2), t.ones(3)), ("(2)", "(3)")),
    "cross_entropy": (
        lambda t: t.nn.functional.cross_entropy(t.ones(2, 3), t.tensor([0, 1, 2])),
        ("batch_size (2)", "batch_size (3)"),
    ),
    "layer_norm": (
        lambda t: t.nn.functional.layer_norm(t.ones(2, 3), (4,)),
        ("normalized_shape=[4]", "size[2, 3]"),
    ),
    "state": (
        lambda t: t.nn.Linear(2, 2).load_state_dict({"weight": t.ones(3, 2), "bias": t.ones(2)}),
        ("Linear", "weight"),
    ),
    "topk": (lambda t: t.ones(3).topk(5), ("out of range",)),
    "item": (lambda t: t.ones(3).item(), ("3 elements",)),
    "int": (lambda t: int(t.ones(2, 2)), ("one element", "[2, 2]")),
    "bool": (lambda t: bool(t.ones(3)), ("ambiguous",)),
    "ragged": (lambda t: t.tensor([[1, 2], [3]]), ("expected sequence",)),
    "negative size": (lambda t: t.zeros(-1), ("negative",)),
    "eye": (lambda t: t.eye(-1), ("eye", "-1")),
}

DTYPES: dict[str, tuple[Call, tuple[str, ...]]] = {
    "matmul": (lambda t: t.ones(2, 2) @ t.ones(2, 2, dtype=t.int64), ("same dtype", "float32", "int64")),
    "linear": (
        lambda t: t.nn.functional.linear(t.ones(2, 2).double(), t.ones(2, 2)),
        ("same dtype", "float64", "float32"),
    ),
    "add_": (lambda t: t.ones(2, dtype=t.int64).add_(1.5), ("Float", "Long", "result type")),
    "div_": (lambda t: t.ones(2, dtype=t.int64).div_(2), ("Float", "Long", "result type")),
    "bool minus": (lambda t: t.tensor([True]) - t.tensor([False]), ("sub", "bool", "^")),
    "float minus bool": (lambda t: t.ones(2) - t.tensor([True, False]), ("sub", "bool", "~")),
    "one minus bool": (lambda t: 1 - t.tensor([True, False]), ("sub", "bool", "~")),
    "minus True": (lambda t: t.ones(2) - True, ("sub", "bool")),
    "bool minus in place": (lambda t: t.tensor([True]).sub_(1), ("sub", "bool")),
    "add into ints": (lambda t: t.add(t.ones(2), 1, out=t.zeros(2, dtype=t.int64)), ("add", "Float", "Long")),
    "sub into bools": (lambda t: t.sub(t.arange(2), 1, out=t.zeros(2, dtype=t.bool)), ("sub", "Long", "Bool")),
    "div into ints": (lambda t: t.div(t.arange(2), 1, out=t.zeros(2, dtype=t.int64)), ("div", "Float", "Long")),
    "meshgrid of two": (lambda t: t.meshgrid(t.ones(2), t.arange(2), indexing="ij"), ("meshgrid", "float32", "int64")),
    "minus bool": (lambda t: -t.tensor([True]), ("neg", "bool", "~")),
    "and": (lambda t: t.ones(2) & t.ones(2), ("bitwise_and", "float32")),
    "mean": (lambda t: t.ones(2, dtype=t.int64).mean(), ("mean()", "int64")),
    "gather": (lambda t: t.gather(t.ones(2, 3), 1, t.zeros(2, 3)), ("gather()", "index", "float32")),
    "index": (lambda t: t.ones(3)[t.tensor([1.0])], ("indices", "long")),
    "embedding": (lambda t: t.nn.functional.embedding(t.tensor([1.0]), t.ones(3, 2)), ("embedding", "float32")),
    "where": (lambda t: t.where(t.ones(2), t.ones(2), t.ones(2)), ("where", "boolean", "float32")),
    "masked_fill": (lambda t: t.ones(2).masked_fill(t.ones(2), 0.0), ("masked_fill", "boolean", "float32")),
    "integer gradient": (lambda t: t.tensor([1], requires_grad=True), ("floating point", "require gradients")),
    "negative power": (lambda t: t.tensor([2]) ** -1, ("Integers to negative integer powers",)),
    "zero divisor": (lambda t: t.tensor([1]) // t.tensor([0]), ("ZeroDivisionError", "floor")),
}

INDICES: dict[str, tuple[Call, tuple[str, ...]]] = {
    "element": (lambda t: t.ones(3)[5], ("index 5", "dimension 0 with size 3")),
    "from the end": (lambda t: t.ones(3)[-4], ("index -4", "dimension 0 with size 3")),
    "too many": (lambda t: t.ones(3)[0, 0], ("too many indices", "dimension 1")),
    "float": (lambda t: t.ones(3)[1.5], ("float", "valid indices")),
    "assigned": (lambda t: t.ones(3).__setitem__(5, 1.0), ("index 5", "dimension 0 with size 3")),
    "sum": (lambda t: t.ones(2, 3).sum(2), ("Dimension out of range", "[-2, 1]", "got 2")),
    "twice": (lambda t: t.ones(2, 3).sum((0, 0)), ("dim 0", "multiple times")),
    "softmax": (lambda t: t.softmax(t.ones(2, 3), 5), ("Dimension out of range", "got 5")),
    "transpose": (lambda t: t.ones(2, 3).transpose(0, 3), ("Dimension out of range", "got 3")),
    "embedding": (
        lambda t: t.nn.functional.embedding(t.tensor([7]), t.ones(3, 2)),
        ("index out of range", "embedding", "size 3"),
    ),
    "negative embedding": (
        lambda t: t.nn.functional.embedding(t.tensor([-1]), t.ones(3, 2)),
        ("index out of range", "embedding", "size 3"),
    ),
    "tensor": (lambda t: t.ones(4, 2)[t.tensor([5])], ("out of", "size 4")),
    "index_select": (lambda t: t.index_select(t.ones(3, 2), 0, t.tensor([4])), ("out of", "size 3")),
    "target": (
        lambda t: t.nn.functional.cross_entropy(t.ones(2, 3), t.tensor([0, 5])),
        ("out of", "cross_entropy", "size 3"),
    ),
    "argmax": (lambda t: t.argmax(t.ones(0)), ("argmax()", "numel() == 0")),
}

ARGUMENTS: dict[str, tuple[Call, tuple[str, ...]]] = {
    "missing": (lambda t: t.add(t.ones(2)), ("add()", "other")),
    "too many": (lambda t: t.exp(t.ones(2), 1, 2, 3), ("exp()", "4")),
    "unknown name": (lambda t: t.exp(t.ones(2), speed=3), ("exp()", "'speed'")),
    "twice": (lambda t: t.add(t.ones(2), t.ones(2), other=t.ones(2)), ("add()", "multiple values", "'other'")),
    "string": (lambda t: t.sqrt("a"), ("sqrt()", "Tensor", "str")),
    "None": (lambda t: t.add(t.ones(2), None), ("add()", "Tensor", "NoneType")),
    "operator with a string": (lambda t: t.ones(2) + "a", ("+", "'Tensor' and 'str'")),
    "operator after None": (lambda t: None + t.ones(2), ("+", "'NoneType' and 'Tensor'")),
    "unknown attribute": (lambda t: t.ones(2).nothing, ("'Tensor'", "'nothing'")),
    "unknown function": (lambda t: t.no_such_function, ("no_such_function",)),
    "module attribute": (lambda t: t.nn.Linear(2, 2).nothing, ("'Linear'", "'nothing'")),
    "size of a float": (lambda t: t.zeros(1.5), ("ints", "float")),
    "data": (lambda t: t.tensor([None]), ("dtype", "NoneType")),
    "step": (lambda t: t.arange(0, 5, 0), ("step must be nonzero",)),
    "bounds": (lambda t: t.randint(5, 2, (3,)), ("from=5", "to=2")),
    "deviation": (lambda t: t.normal(0.0, -1.0, (2,)), ("std", "-1")),
    "probability": (lambda t: t.nn.functional.dropout(t.ones(2), 1.5), ("dropout", "1.5")),
    "learning rate": (lambda t: t.optim.Adam([t.ones(2, requires_grad=True)], lr=-1), ("learning rate", "-1")),
    "no parameters": (lambda t: t.optim.SGD([], lr=0.1), ("empty parameter list",)),
    "no leaf": (lambda t: t.optim.SGD([t.ones(2, requires_grad=True) * 2], lr=0.1), ("non-leaf",)),
    "device": (lambda t: t.ones(2, device="tpuu"), ("tpuu",)),
    "clamp": (lambda t: t.ones(2).clamp(), ("clamp", "At least one")),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in {"shape": SHAPES, "dtype": DTYPES, "index": INDICES, "argument": ARGUMENTS}.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_calls(name: str) -> None:
    call, phrases = CASES[name]
    check(call, *phrases)


@pytest.mark.parametrize("name", [f"shape: {n}" for n in ("add", "matmul", "cat", "view", "expand")])
def test_wrong_calls_in_compiled_functions_raise_the_same(name: str) -> None:
    call, _ = CASES[name]
    eager = raised(call, eagerjit)
    compiled = raised(lambda t: jit(lambda: call(t))(), eagerjit)
    assert type(compiled) is type(eager) and str(compiled) == str(eager)


# -- gradients --------------------------------------------------------------------------------------------------------


def leaf(t: Any, *shape: int) -> Any:
    return t.ones(*(shape or (3,)), requires_grad=True)


def backward_twice(t: Any) -> None:
    y = leaf(t).exp().sum()  # summed
    y.backward()
    y.backward()


def overwrite_output(t: Any) -> None:
    y = leaf(t).exp()  # exponential
    y.mul_(2)  # doubled
    y.sum().backward()


def overwrite_input(t: Any) -> None:
    w = t.ones(3)
    y = leaf(t) * w  # product
    w[1:].zero_()  # zeroed
    y.sum().backward()


def overwrite_saved(t: Any) -> None:
    class Twice(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    w = leaf(t) * 1
    y = Twice.apply(w)  # applied
    w.mul_(2)  # spoilt
    y.sum().backward()


def view_made_without_gradients(t: Any) -> None:
    x = leaf(t)
    with t.no_grad():
        view = x[:2]
    view.mul_(2)


def too_few_gradients(t: Any) -> None:
    class Product(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    Product.apply(leaf(t), leaf(t)).sum().backward()


INPLACE = "modified by an inplace operation"
GRADIENTS: dict[str, tuple[Call, Callable[[], tuple[str, ...]]]] = {
    "twice": (backward_twice, lambda: ("second time", "sum", line("summed"), "retain_graph=True")),
    "output": (
        overwrite_output,
        lambda: (INPLACE, "float32", "[3]", "output of exp", line("exponential"), line("doubled")),
    ),
    "input": (
        overwrite_input,
        lambda: (INPLACE, "[3]", "version 1 (expected 0)", "input 1 of mul", line("product"), line("zeroed")),
    ),
    "saved": (overwrite_saved, lambda: (INPLACE, "version 1 (expected 0)", "Twice", line("applied"), line("spoilt"))),
    "no gradient": (lambda t: t.ones(()).backward(), lambda: ("element 0 of tensors does not require grad",)),
    "argmax": (lambda t: leaf(t).argmax().backward(), lambda: ("element 0 of tensors does not require grad",)),
    "comparison": (lambda t: (leaf(t) > 0).sum().backward(), lambda: ("does not require grad",)),
    "many": (lambda t: leaf(t).mul(2).backward(), lambda: ("only for scalar outputs", "[3]")),
    "shape": (lambda t: leaf(t).mul(2).backward(t.ones(4)), lambda: ("grad_output[0]", "[4]", "[3]")),
    "leaf": (lambda t: leaf(t).add_(1), lambda: ("a leaf Variable that requires grad", "in-place")),
    "view": (lambda t: leaf(t)[:2].zero_(), lambda: ("a view of a leaf Variable that requires grad",)),
    "view as a leaf": (lambda t: t.ones(3).view(3).requires_grad_().mul_(2), lambda: ("a view of a leaf Variable",)),
    "view without": (view_made_without_gradients, lambda: ("no_grad mode", "inplace")),
    "unused": (
        lambda t: t.autograd.grad(leaf(t).sum(), [leaf(t)]),
        lambda: ("Tensor at index 0", "not have been used", "allow_unused=True"),
    ),
    "constant": (lambda t: t.autograd.grad(leaf(t).sum(), t.ones(3)), lambda: ("does not require grad",)),
    "result": (lambda t: leaf(t).mul(2).requires_grad_(False), lambda: ("requires_grad flags of leaf",)),
    "numpy": (lambda t: leaf(t).numpy(), lambda: ("numpy()", "detach()")),
    "grad type": (lambda t: setattr(leaf(t), "grad", 3), lambda: ("assigned grad", "int")),
    "grad shape": (lambda t: setattr(leaf(t), "grad", t.ones(4)), lambda: ("[4]", "[3]")),
    "function": (too_few_gradients, lambda: ("ProductBackward", "expected 2, got 1")),
    "expanded": (lambda t: t.ones(1).expand(3).add_(1), lambda: ("single memory location", "clone()")),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_wrong_gradients(name: str) -> None:
    call, phrases = GRADIENTS[name]
    check(call, *phrases())


def test_an_unused_input_may_be_allowed() -> None:
    x, z = leaf(eagerjit), leaf(eagerjit)
    first, second = eagerjit.autograd.grad(x.mul(2).sum(), [x, z], allow_unused=True)
    assert first.tolist() == [2, 2, 2] and second is None


@pytest.mark.parametrize("call", [overwrite_output, overwrite_input], ids=lambda f: f.__name__)
def test_overwritten_values_are_named_in_compiled_functions(call: Call) -> None:
    eager = raised(call, eagerjit)
    compiled = raised(lambda t: jit(lambda: call(t))(), eagerjit)
    assert type(compiled) is RuntimeError and str(compiled) == str(eager)


def test_a_compiled_call_that_overwrites_what_a_gradient_needs_is_named() -> None:
    @jit
    def scale(w: Any) -> None:
        w.mul_(2)  # inside

    for _ in range(2):  # the first call records, the second runs compiled
        w = eagerjit.ones(3)
        y = leaf(eagerjit) * w  # needed
        scale(w)
        with pytest.raises(RuntimeError, match=INPLACE) as caught:
            y.sum().backward()
        assert line("needed") in str(caught.value) and line("inside") in str(caught.value)


def test_a_compiled_call_whose_values_are_overwritten_is_named() -> None:
    @jit
    def square(x: Any) -> Any:
        return x * x  # squared

    for _ in range(2):
        x = leaf(eagerjit) * 1
        y = square(x)
        x.add_(1)  # raised
        with pytest.raises(RuntimeError, match=INPLACE) as caught:
            y.sum().backward()
        assert "of mul" in str(caught.value)  # as the plain call says
        assert line("squared") in str(caught.value) and line("raised") in str(caught.value)


# -- indices in kernels -----------------------------------------------------------------------------------------------


def test_an_index_out_of_range_in_an_eager_kernel_names_the_operation() -> None:
    x = eagerjit.ones(2, 3)
    x.gather(1, eagerjit.tensor([[0], [2]]))
    for index in (3, -1):
        with pytest.raises(RuntimeError, match="gather: the dimension has size 3"):
            x.gather(1, eagerjit.tensor([[0], [index]]))
    with pytest.raises(RuntimeError, match="gather: the dimension has size 5"):
        eagerjit.ones(2, 5).gather(1, eagerjit.tensor([[0], [5]]))


def test_an_index_out_of_range_in_a_compiled_kernel_names_operation_and_line() -> None:
    @jit(fullgraph=True)
    def look_up(table: Any, at: Any) -> Any:
        found = eagerjit.nn.functional.embedding(at, table)  # embedded
        return found.exp().sum(-1)

    table, good = eagerjit.zeros(4, 2), eagerjit.tensor([0, 3])
    assert look_up(table, good).tolist() == [2, 2]
    for bad in (4, -1):
        with pytest.raises(IndexError) as caught:
            look_up(table, eagerjit.tensor([0, bad]))
        assert line("embedded") in str(caught.value) and "size 4" in str(caught.value)
    assert look_up(table, good).tolist() == [2, 2]
    with pytest.raises(IndexError, match="size 7"):
        look_up(eagerjit.zeros(7, 2), eagerjit.tensor([0, 7]))


def test_a_failed_call_writes_nothing() -> None:
    @jit(fullgraph=True)
    def update(w: Any, at: Any) -> None:
        w.add_(w[at])

    w = eagerjit.ones(3)
    update(w, eagerjit.tensor([0, 1, 2]))
    with pytest.raises(IndexError):
        update(w, eagerjit.tensor([0, 1, 3]))
    assert w.tolist() == [2, 2, 2] and w._version == 1


# -- what cannot be compiled ------------------------------------------------------------------------------------------


def waits(x: Any) -> Any:
    y = x * 2
    time.sleep(0)  # waited
    return y


def to_numpy(x: Any) -> Any:
    return eagerjit.from_numpy(x.exp().numpy().cumsum() * 0 + 2)  # converted


def generator(x: Any) -> Any:
    yield x * 2


UNSUPPORTED = {"waited": waits, "converted": to_numpy}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_cannot_be_compiled_runs_eagerly_after_one_warning(name: str) -> None:
    function, x = jit(UNSUPPORTED[name]), eagerjit.ones(2)
    with pytest.warns(JitWarning) as caught:
        assert function(x).tolist() == [2, 2]  # called
        assert function(x).tolist() == [2, 2]
    (warning,) = caught
    message = str(warning.message)
    assert UNSUPPORTED[name].__name__ in message and line(name) in message and message.endswith("It runs eagerly.")
    assert f"{warning.filename}:{warning.lineno}" == line("called")
    assert function.cache_info().eager_calls == 2


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_fullgraph_refuses_it_and_names_the_line(name: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        jit(UNSUPPORTED[name], fullgraph=True)(eagerjit.ones(2))
    assert UNSUPPORTED[name].__name__ in str(caught.value) and line(name) in str(caught.value)


def test_a_generator_is_refused() -> None:
    with pytest.raises(RuntimeError, match="makes a generator"):
        jit(generator, fullgraph=True)(eagerjit.ones(2))


def test_only_callables_are_compiled() -> None:
    with pytest.raises(TypeError, match="not int"):
        jit(3)


def test_an_exception_of_the_function_is_its_own() -> None:
    @jit
    def refuse(x: Any) -> Any:
        raise KeyError("of the user")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        with pytest.raises(KeyError, match="of the user"):
            refuse(eagerjit.ones(2))


# -- files ------------------------------------------------------------------------------------------------------------

PROGRAM = "import eagerjit as t; print((t.ones(3) + t.ones(3)).tolist())"


def run(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {"EAGERJIT_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT), "EAGERJIT_CACHE": "1", **environment}
    call = [sys.executable, "-c", PROGRAM]
    return subprocess.run(call, env={**os.environ, **given}, capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.parametrize("damage", ["truncated", "changed"])
def test_a_damaged_cache_entry_is_compiled_again(damage: str, tmp_path: Path) -> None:
    run(tmp_path)
    files = [p for p in tmp_path.rglob("program/*/*") if p.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content[:50] if damage == "truncated" else content[:-1] + bytes([content[-1] ^ 1]))
    result = run(tmp_path, EAGERJIT_LOG="cache,compile")
    assert result.stdout == "[2.0, 2.0, 2.0]\n"
    assert result.stderr.count("dropped corrupt entry") == len(files) and "compiled in" in result.stderr
    assert "compiled in" not in run(tmp_path, EAGERJIT_LOG="compile").stderr


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run(tmp_path / "file")
    assert result.stdout == "[2.0, 2.0, 2.0]\n"
    assert result.stderr.count("Warning") == 1 and "cannot be written" in result.stderr


def saved(tmp_path: Path) -> tuple[Path, bytes]:
    path = tmp_path / "model.pt"
    eagerjit.save({"weight": eagerjit.arange(12.0).reshape(3, 4), "step": 3}, path)
    return path, path.read_bytes()


def test_a_checkpoint_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path, content = saved(tmp_path)
    end = content.rindex(bytes(eagerjit.tensor(11.0).numpy())) + 4
    for length in (0, 4, 8, 20, 24, 60, len(content) // 2, end - 1):
        path.write_bytes(content[:length])
        with pytest.raises(RuntimeError if length else EOFError, match=r"model\.pt"):
            eagerjit.load(path)


def test_a_checkpoint_with_any_byte_changed_is_refused_or_equal(tmp_path: Path) -> None:
    path, content = saved(tmp_path)
    before = eagerjit.load(path)
    for position in range(0, len(content), 7):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :])
        try:
            found = eagerjit.load(path)
        except RuntimeError as error:
            assert "model.pt" in str(error)
        else:
            assert found["step"] == 3 and found["weight"].tolist() == before["weight"].tolist()


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0btouch hurt\x85R.")
    with pytest.raises(RuntimeError, match=r"model\.pt"):
        eagerjit.load(path)
    assert not (tmp_path / "hurt").exists() and not Path("hurt").exists()


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        eagerjit.save({"f": generator(1)}, tmp_path / "x.pt")
    with pytest.raises(PicklingError, match="<lambda>"):
        eagerjit.save({"f": lambda: 0}, tmp_path / "x.pt")
    with pytest.raises(FileNotFoundError):
        eagerjit.load(tmp_path / "absent.pt")


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: x.expand(10**14, 3) + 1, lambda t, x: t.zeros(10**14), lambda t, x: t.empty(10**14),
        lambda t, x: x.repeat(10**14), lambda t, x: t.nn.Linear(10**7, 10**7),
    ],
    ids=["sum", "zeros", "empty", "repeat", "Linear"],
)  # fmt: skip
def test_too_large_results(call: Any, wrap: Any) -> None:
    """Programs that look for a size that fits ask for a RuntimeError and PyTorch's words, and go on."""
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"DefaultCPUAllocator: can't allocate memory.* \d+ bytes") as error:
            wrap(lambda x: call(eagerjit, x))(eagerjit.ones(3))
        assert isinstance(error.value, MemoryError)
    assert (eagerjit.ones(3).expand(2, 3) + 1).tolist() == [[2.0] * 3] * 2
