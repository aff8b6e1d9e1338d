"""CPython counts the depth of syntax trees for all threads together: ours are made alone."""

from __future__ import annotations

import ast
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from eagerjit.runtime import syntax_trees
from eagerjit.runtime.gpu import compiler

SOURCE = Path(ast.__file__).read_text()


def native() -> ast.AST:
    with syntax_trees.alone():
        return ast.parse(SOURCE)


def triton() -> ast.AST:
    body = "\n    ".join(f"a{i} = x + {i}" for i in range(500))
    text = f"import triton\n\n\n@triton.jit\ndef k(x):\n    {body}\n"
    compiler._parses_alone()
    return compiler.function(text, "k", False).parse()  # type: ignore[no-any-return]


@pytest.mark.parametrize("ours", [native, triton])
def test_no_tree_is_made_while_another_thread_makes_one(ours: Callable[[], ast.AST]) -> None:
    held, free = threading.Event(), threading.Event()
    made, errors = list[ast.AST](), list[SystemError]()

    def hold(phase: str, info: object) -> None:
        if threading.current_thread() is other:
            held.set()
            free.wait(10)

    def parse(function: Callable[[], ast.AST]) -> None:
        try:
            made.append(function())
        except SystemError as error:
            errors.append(error)

    ours()  # what it imports is there
    other = threading.Thread(target=parse, args=(lambda: ast.parse(SOURCE),))
    own = threading.Thread(target=parse, args=(ours,))
    gc.callbacks.append(hold)
    try:
        other.start()
        assert held.wait(10), "making a tree collects garbage"
        own.start()
        own.join(0.1)
        waits = own.is_alive() and not made
        free.set()
        other.join()
        own.join()
    finally:
        gc.callbacks.remove(hold)
    assert waits and not errors and len(made) == 2


def test_garbage_is_collected_again_afterwards() -> None:
    with syntax_trees.alone():
        assert not gc.isenabled()
    assert gc.isenabled()
