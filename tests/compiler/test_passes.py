"""Passes: what each one rewrites and what it must leave alone, as text."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiler import layout
from eagerjit.compiler.passes.dead import remove_dead
from eagerjit.compiler.passes.fold import fold_constants
from eagerjit.compiler.passes.share import share_equal
from eagerjit.compiler.passes.simplify import simplify
from eagerjit.compiler.passes.slices import join_slices
from eagerjit.compiler.text import parse_graph, print_graph
from eagerjit.compiler.verify import verify

ARGUMENTS = """
    %x: f32[s0, 4] = argument(leaf=0)
    %y: f32[s0, 4] = argument(leaf=1)
    %i: i64[s0] = argument(leaf=2)
    %flags: bool[s0] = argument(leaf=3)
    %h: f16[s0] = argument(leaf=4)
    %j: i8[s0] = argument(leaf=5)
    %n: i32[s0] = argument(leaf=6)
"""


def graph(body: str):
    return parse_graph(f"graph f{ARGUMENTS}{body}")


def rewritten(function, body: str) -> str:
    """The graph's text after a pass and the removal of what is dead then."""
    before = graph(body)
    verify(before, {"s0": 3})
    after = remove_dead(function(before))
    verify(after, {"s0": 3})
    return print_graph(after)


def check(function, before: str, after: str) -> None:
    assert rewritten(function, before) == print_graph(graph(after))


def unchanged(function, body: str) -> None:
    check(function, body, body)


def observed(value: str, type_: str) -> str:
    """Lines that return a new value computed from this one, so that its own memory is nobody's business."""
    return f"%result: {type_} = exp({value})\nreturn %result\n"


NOTHING_DONE = {
    "times one": ("%k: f32[] = constant(value=1.0, dtype=f32)\n%v: f32[s0, 4] = mul(%x, %k)", "%x", "f32[s0, 4]"),
    "one times": ("%k: f32[] = constant(value=1.0, dtype=f32)\n%v: f32[s0, 4] = mul(%k, %x)", "%x", "f32[s0, 4]"),
    "times ones": (
        "%k: f32[] = constant(value=1.0, dtype=f32)\n%e: f32[s0, 4] = expand(%k, shape=(s0, 4))\n"
        "%v: f32[s0, 4] = mul(%x, %e)",
        "%x",
        "f32[s0, 4]",
    ),
    "by one": ("%k: f32[] = constant(value=1.0, dtype=f32)\n%v: f32[s0, 4] = div(%x, %k)", "%x", "f32[s0, 4]"),
    "plus -0": ("%k: f32[] = constant(value=-0.0, dtype=f32)\n%v: f32[s0, 4] = add(%x, %k)", "%x", "f32[s0, 4]"),
    "minus 0": ("%k: f32[] = constant(value=0.0, dtype=f32)\n%v: f32[s0, 4] = sub(%x, %k)", "%x", "f32[s0, 4]"),
    "half times one": ("%k: f16[] = constant(value=1.0, dtype=f16)\n%v: f16[s0] = mul(%h, %k)", "%h", "f16[s0]"),
    "--x": ("%m: f32[s0, 4] = neg(%x)\n%v: f32[s0, 4] = neg(%m)", "%x", "f32[s0, 4]"),
    "same dtype": ("%v: f32[s0, 4] = cast(%x, dtype=f32)", "%x", "f32[s0, 4]"),
    "there and back": (
        "%w: f64[s0, 4] = cast(%x, dtype=f64)\n%v: f32[s0, 4] = cast(%w, dtype=f32)",
        "%x",
        "f32[s0, 4]",
    ),
    "transposed twice": (
        "%t: f32[4, s0] = permute(%x, dims=(1, 0))\n%v: f32[s0, 4] = permute(%t, dims=(1, 0))",
        "%x",
        "f32[s0, 4]",
    ),
    "permuted in place": ("%v: f32[s0, 4] = permute(%x, dims=(0, 1))", "%x", "f32[s0, 4]"),
    "reshaped to itself": ("%v: f32[s0, 4] = reshape(%x, shape=(s0, 4))", "%x", "f32[s0, 4]"),
    "reshaped and back": (
        "%r: f32[4*s0] = reshape(%x, shape=(4*s0,))\n%v: f32[s0, 4] = reshape(%r, shape=(s0, 4))",
        "%x",
        "f32[s0, 4]",
    ),
    "expanded to itself": ("%v: f32[s0, 4] = expand(%x, shape=(s0, 4))", "%x", "f32[s0, 4]"),
    "slice of all": ("%v: f32[s0, 4] = slice(%x, dim=0, start=0, stop=s0, step=1)", "%x", "f32[s0, 4]"),
    "where true": (
        "%k: bool[] = constant(value=True, dtype=bool)\n%v: f32[s0, 4] = where(%k, %x, %y)",
        "%x",
        "f32[s0, 4]",
    ),
    "where false": (
        "%k: bool[] = constant(value=False, dtype=bool)\n%v: f32[s0, 4] = where(%k, %x, %y)",
        "%y",
        "f32[s0, 4]",
    ),
    "what was written": (
        "%t: f16[2*s0] = cat(%h, %h, dim=0)\n"
        "%u: f16[2*s0] = slice_scatter(%t, %h, dim=0, start=s0, stop=2*s0, step=1)\n"
        "%v: f16[s0] = slice(%u, dim=0, start=s0, stop=2*s0, step=1)",
        "%h",
        "f16[s0]",
    ),
    "all written": ("%v: f32[s0, 4] = slice_scatter(%x, %y, dim=0, start=0, stop=s0, step=1)", "%y", "f32[s0, 4]"),
    "same either way": ("%k: bool[s0, 4] = lt(%x, %y)\n%v: f32[s0, 4] = where(%k, %x, %x)", "%x", "f32[s0, 4]"),
}


@pytest.mark.parametrize(("body", "value", "type_"), NOTHING_DONE.values(), ids=NOTHING_DONE)
def test_simplify_drops_what_does_nothing(body, value, type_):
    check(simplify, f"{body}\n{observed('%v', type_)}", observed(value, type_))


@pytest.mark.parametrize(("body", "value", "type_"), NOTHING_DONE.values(), ids=NOTHING_DONE)
def test_an_output_keeps_its_own_memory(body, value, type_):
    """The argument may be returned in place of its copy only where the result was a view of it anyway."""
    before = graph(f"{body}\nreturn %v\n")
    after = simplify(before)
    kept, given_ = layout.layout(after.outputs[0]), layout.layout(before.outputs[0])
    assert (kept.root in after.inputs) == (given_.root in before.inputs)
    assert kept.strides == given_.strides


INTEGERS = {
    "plus 0": "%k: i64[] = constant(value=0, dtype=i64)\n%v: i64[s0] = add(%i, %k)",
    "minus 0": "%k: i64[] = constant(value=0, dtype=i64)\n%v: i64[s0] = sub(%i, %k)",
    "times 1": "%k: i64[] = constant(value=1, dtype=i64)\n%v: i64[s0] = mul(%i, %k)",
    "or 0": "%k: i64[] = constant(value=0, dtype=i64)\n%v: i64[s0] = bitwise_or(%k, %i)",
    "~~x": "%m: i64[s0] = bitwise_not(%i)\n%v: i64[s0] = bitwise_not(%m)",
}


@pytest.mark.parametrize("body", INTEGERS.values(), ids=INTEGERS)
def test_simplify_drops_what_does_nothing_to_integers(body):
    result = "%result: bool[s0] = gt(%a, %a)\nreturn %result\n"
    check(simplify, f"{body}\n{result.replace('%a', '%v')}", result.replace("%a", "%i"))


EXACTNESS = {
    "-0.0 + 0.0 is 0.0": "%k: f32[] = constant(value=0.0, dtype=f32)\n%v: f32[s0, 4] = add(%x, %k)",
    "0.0 - -0.0 is 0.0": "%k: f32[] = constant(value=-0.0, dtype=f32)\n%v: f32[s0, 4] = sub(%x, %k)",
    "1 / x": "%k: f32[] = constant(value=1.0, dtype=f32)\n%v: f32[s0, 4] = div(%k, %x)",
    "f16 rounds": "%c: f16[s0, 4] = cast(%x, dtype=f16)\n%v: f32[s0, 4] = cast(%c, dtype=f32)",
    "i64 rounds to f64": "%c: f64[s0] = cast(%i, dtype=f64)\n%v: i64[s0] = cast(%c, dtype=i64)",
    "floats and integers differ out of range": "%c: f32[s0] = cast(%j, dtype=f32)\n%v: u8[s0] = cast(%c, dtype=u8)",
    "f16 rounds from f32": "%c: f64[s0] = cast(%n, dtype=f64)\n%v: f16[s0] = cast(%c, dtype=f16)",
    "a broadcast": "%o: f32[] = constant(value=1.0, dtype=f32)\n%k: f32[1, 1, 1] = reshape(%o, shape=(1, 1, 1))\n"
    "%v: f32[1, s0, 4] = mul(%x, %k)",
    "half a slice": "%v: f32[s0, 2] = slice(%x, dim=1, start=2, stop=4, step=1)",
    "a transpose": "%v: f32[4, s0] = permute(%x, dims=(1, 0))",
    "steps of steps": "%c: f32[s0, 2] = slice(%x, dim=1, start=0, stop=4, step=2)\n"
    "%v: f32[s0, 1] = slice(%c, dim=1, start=0, stop=2, step=2)",
}


@pytest.mark.parametrize("body", EXACTNESS.values(), ids=EXACTNESS)
def test_simplify_leaves_what_does_something(body):
    type_ = body.splitlines()[-1].split(": ")[1].split(" = ")[0]
    unchanged(simplify, f"{body}\n%w: {type_} = maximum(%v, %v)\nreturn %w\n")


def test_simplify_joins_views_and_conversions():
    check(
        simplify,
        """
        %a: f32[4, s0] = reshape(%x, shape=(4, s0))
        %b: f32[2, 2, s0] = reshape(%a, shape=(2, 2, s0))
        %c: f32[s0, 2, 2] = permute(%b, dims=(2, 0, 1))
        %d: f32[2, s0, 2] = permute(%c, dims=(1, 0, 2))
        %e: f32[s0, 3] = slice(%x, dim=1, start=1, stop=4, step=1)
        %g: f32[s0, 1] = slice(%e, dim=1, start=1, stop=3, step=2)
        %k: f32[s0] = cast(%h, dtype=f32)
        %l: f64[s0] = cast(%k, dtype=f64)
        %m: f32[2, s0, 2] = exp(%d)
        %o: f32[s0, 1] = exp(%g)
        return %m, %o, %l
        """,
        """
        %b: f32[2, 2, s0] = reshape(%x, shape=(2, 2, s0))
        %d: f32[2, s0, 2] = permute(%b, dims=(0, 2, 1))
        %g: f32[s0, 1] = slice(%x, dim=1, start=2, stop=4, step=2)
        %l: f64[s0] = cast(%h, dtype=f64)
        %m: f32[2, s0, 2] = exp(%d)
        %o: f32[s0, 1] = exp(%g)
        return %m, %o, %l
        """,
    )


def test_a_copy_stays_where_it_changes_strides_that_a_sum_reads():
    unchanged(
        simplify,
        """
        %t: f32[4, s0] = permute(%x, dims=(1, 0))
        %c: f32[4, s0] = cast(%t, dtype=f32)
        %v: f32[4] = sum(%c, axes=(1,))
        return %v
        """,
    )


def test_a_copy_of_new_memory_is_the_memory():
    check(
        simplify,
        "%v: f32[s0, 4] = exp(%x)\n%c: f32[s0, 4] = cast(%v, dtype=f32)\nreturn %c",
        "%v: f32[s0, 4] = exp(%x)\nreturn %v",
    )


def test_two_copies_stay_two():
    check(
        simplify,
        "%v: f32[s0, 4] = exp(%x)\n%c: f32[s0, 4] = cast(%v, dtype=f32)\n%d: f32[s0, 4] = cast(%v, dtype=f32)\n"
        "write %y <- %d\nreturn %c",
        "%v: f32[s0, 4] = exp(%x)\n%d: f32[s0, 4] = cast(%v, dtype=f32)\nwrite %y <- %d\nreturn %v",
    )


FOLDED = {
    "sum of floats": (("2.5", "f32"), ("0.1", "f32"), "add", "f32", "2.5999999046325684"),
    "sum of halves": (("2.5", "f16"), ("0.0999755859375", "f16"), "add", "f16", "2.599609375"),
    "difference": (("1", "i64"), ("3", "i64"), "sub", "i64", "-2"),
    "bytes wrap": (("200", "u8"), ("100", "u8"), "add", "u8", "44"),
    "product": (("1e+30", "f32"), ("1e+30", "f32"), "mul", "f32", "inf"),
    "comparison": (("1.0", "f64"), ("3.0", "f64"), "lt", "bool", "True"),
    "bits": (("6", "i32"), ("3", "i32"), "bitwise_and", "i32", "2"),
}


@pytest.mark.parametrize(("a", "b", "name", "type_", "value"), FOLDED.values(), ids=FOLDED)
def test_fold_computes_with_literals(a, b, name, type_, value):
    check(
        fold_constants,
        f"""
        %p: {a[1]}[] = constant(value={a[0]}, dtype={a[1]})
        %q: {b[1]}[] = constant(value={b[0]}, dtype={b[1]})
        %v: {type_}[] = {name}(%p, %q)
        return %v
        """,
        f"%v: {type_}[] = constant(value={value}, dtype={type_})\nreturn %v",
    )


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        ("2.5", "f64", "f32", "2.5"),
        ("0.1", "f64", "f32", "0.10000000149011612"),
        ("2.5", "f64", "i32", "2"),
        ("-2.5", "f32", "bool", "True"),
        ("300", "i64", "u8", "44"),
        ("3", "i64", "f16", "3.0"),
    ],
)
def test_fold_converts(value, source, target, result):
    check(
        fold_constants,
        f"""
        %k: {source}[] = constant(value={value}, dtype={source})
        %v: {target}[] = cast(%k, dtype={target})
        return %v
        """,
        f"%v: {target}[] = constant(value={result}, dtype={target})\nreturn %v",
    )


@pytest.mark.parametrize(
    "body",
    [
        "%k: f64[] = constant(value=1e+20, dtype=f64)\n%v: i64[] = cast(%k, dtype=i64)",
        "%k: f64[] = constant(value=nan, dtype=f64)\n%v: i64[] = cast(%k, dtype=i64)",
        "%k: f64[] = constant(value=0.1, dtype=f64)\n%v: f16[] = cast(%k, dtype=f16)",
        "%k: f64[] = constant(value=inf, dtype=f64)\n%v: f64[] = sub(%k, %k)",
        "%k: f64[] = constant(value=0.1, dtype=f64)\n%v: f64[] = exp(%k)",
        "%k: f64[] = constant(value=0.1, dtype=f64)\n%e: f64[2] = expand(%k, shape=(2,))\n%v: f64[2] = add(%e, %k)",
        "%k: i64[] = size_value(size=s0)\n%v: i64[] = neg(%k)",
    ],
)
def test_fold_leaves_what_a_processor_may_do_otherwise(body):
    unchanged(fold_constants, f"{body}\nreturn %v")


def test_share_computes_equal_values_once():
    check(
        share_equal,
        """
        %a: f32[s0, 4] = add(%x, %y)
        %b: f32[s0, 4] = add(%y, %x)
        %c: f32[s0, 4] = sub(%x, %y)
        %d: f32[s0, 4] = sub(%y, %x)
        %e: f32[s0, 4] = mul(%a, %c)
        %g: f32[s0, 4] = mul(%b, %d)
        %k: f32[s0, 4] = add(%e, %g)
        return %k
        """,
        """
        %a: f32[s0, 4] = add(%x, %y)
        %c: f32[s0, 4] = sub(%x, %y)
        %d: f32[s0, 4] = sub(%y, %x)
        %e: f32[s0, 4] = mul(%a, %c)
        %g: f32[s0, 4] = mul(%a, %d)
        %k: f32[s0, 4] = add(%e, %g)
        return %k
        """,
    )


def test_share_knows_that_the_larger_of_two_zeros_is_the_second():
    unchanged(
        share_equal,
        """
        %a: f32[s0, 4] = maximum(%x, %y)
        %b: f32[s0, 4] = maximum(%y, %x)
        %c: f32[s0, 4] = div(%a, %b)
        return %c
        """,
    )


def test_share_tells_numbers_apart():
    unchanged(
        share_equal,
        """
        %p: f32[] = constant(value=0.0, dtype=f32)
        %q: f32[] = constant(value=-0.0, dtype=f32)
        %r: f64[] = constant(value=0.0, dtype=f64)
        %v: f32[s0, 4] = div(%x, %p)
        %w: f32[s0, 4] = div(%x, %q)
        return %v, %w, %r
        """,
    )


def test_share_knows_random_numbers_by_their_state():
    check(
        share_equal,
        """
        %p: i64[s0] = random_bits(%i, shape=(s0,), word=0)
        %q: i64[s0] = random_bits(%i, shape=(s0,), word=0)
        %r: i64[s0] = random_bits(%i, shape=(s0,), word=1)
        %v: i64[s0] = add(%q, %r)
        return %p, %v
        """,
        """
        %p: i64[s0] = random_bits(%i, shape=(s0,), word=0)
        %r: i64[s0] = random_bits(%i, shape=(s0,), word=1)
        %v: i64[s0] = add(%p, %r)
        return %p, %v
        """,
    )


def test_share_keeps_two_outputs_apart():
    unchanged(share_equal, "%a: f32[s0, 4] = exp(%x)\n%b: f32[s0, 4] = exp(%x)\nreturn %a, %b")
    unchanged(
        share_equal,
        "%a: f32[s0, 4] = exp(%x)\n%b: f32[s0, 4] = exp(%x)\n%t: f32[4, s0] = permute(%b, dims=(1, 0))\nreturn %a, %t",
    )


def test_share_knows_that_equal_views_are_one():
    check(
        share_equal,
        "%a: f32[4, s0] = permute(%x, dims=(1, 0))\n%b: f32[4, s0] = permute(%x, dims=(1, 0))\nreturn %a, %b",
        "%a: f32[4, s0] = permute(%x, dims=(1, 0))\nreturn %a, %a",
    )


def test_dead_code_goes():
    check(
        remove_dead,
        """
        %a: f32[s0, 4] = exp(%x)
        %b: f32[s0, 4] = exp(%a)
        %c: f32[s0, 4] = neg(%y)
        write %y <- %c
        return %a
        """,
        "%a: f32[s0, 4] = exp(%x)\n%c: f32[s0, 4] = neg(%y)\nwrite %y <- %c\nreturn %a",
    )


def test_an_error_is_not_dead():
    unchanged(
        remove_dead,
        "%a: f32[s0, 4] = take_rows(%x, %i)\n%b: i64[s0] = floordiv(%i, %i)\nreturn %i",
    )
    check(remove_dead, "%a: f32[s0, 4] = floordiv(%x, %x)\nreturn %x", "return %x")


ZEROS = "%k: f32[] = constant(value=0.0, dtype=f32)\n%e: f32[s0, 8] = expand(%k, shape=(s0, 8))\n"


def scattered(name: str, value: str, start: int, stop: int) -> str:
    return f"%{name}: f32[s0, 8] = slice_scatter(%e, {value}, dim=1, start={start}, stop={stop}, step=1)\n"


def test_slices_that_cover_zeros_lie_side_by_side() -> None:
    before = ZEROS + scattered("b", "%y", 4, 8) + scattered("a", "%x", 0, 4) + "%v: f32[s0, 8] = add(%b, %a)\nreturn %v"
    after = (
        "%k: f32[] = constant(value=0.0, dtype=f32)\n%a: f32[s0, 4] = add(%x, %k)\n%b: f32[s0, 4] = add(%y, %k)\n"
        "%v: f32[s0, 8] = cat(%a, %b, dim=1)\nreturn %v"
    )
    check(join_slices, before, after)


@pytest.mark.parametrize("sizes", [4, [2, 10], [0, 6, 6]])
def test_gradients_of_parts_keep_their_bits(sizes) -> None:
    def gradient(x, g):
        x = x.detach().requires_grad_()
        torch.autograd.backward(list(x.split(sizes, dim=1)), list(g.split(sizes, dim=1)))
        return x.grad

    numbers = np.array([[-0.0, 0.0, np.inf, np.nan] * 3, [1.5, -2.5, 1e-45, -0.0] * 3], np.float32)
    x, g = torch.tensor(numbers), torch.tensor(numbers)
    expected, actual = gradient(x, g), torch.jit(gradient, fullgraph=True)(x, g)
    assert actual._data.tobytes() == expected._data.tobytes()


def test_other_slices_are_added() -> None:
    total = "%v: f32[s0, 8] = add(%a, %b)\nreturn %v"
    unchanged(join_slices, ZEROS + scattered("a", "%x", 0, 4) + scattered("b", "%y", 0, 4) + total)
    unchanged(join_slices, ZEROS + scattered("a", "%x", 0, 4) + scattered("b", "%y", 2, 6) + total)
    apart = scattered("a", "%x", 0, 4) + scattered("b", "%y", 4, 8)
    unchanged(join_slices, ZEROS.replace("0.0", "-0.0") + apart + total)
    used = "%v: f32[s0, 8] = add(%a, %b)\n%w: f32[s0, 8] = add(%v, %c)\nreturn %v, %w"
    before = ZEROS.replace("8", "12") + "".join(
        scattered(name, "%x", 4 * i, 4 * i + 4).replace("s0, 8", "s0, 12") for i, name in enumerate("abc")
    )
    unchanged(join_slices, before + used.replace("s0, 8", "s0, 12"))
