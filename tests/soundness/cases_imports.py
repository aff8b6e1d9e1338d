"""Functions that import modules while they run."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


@contextlib.contextmanager
def modules(**sources):
    """Modules that can be imported, and are forgotten at the end; `a__b` is the module b of the package a."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources.items():
            path = Path(folder, *name.split("__"))
            path.parent.mkdir(exist_ok=True)
            path.with_suffix(".py").write_text(text)
        before = dict(sys.modules)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path.remove(folder)
            for name in sys.modules.keys() - before.keys():
                if name.startswith("imported_"):
                    del sys.modules[name]


@case
def a_module_loaded_inside(jit):
    def f(x):
        import imported_scale

        imported_scale.calls += 1
        return x * imported_scale.scale + imported_scale.calls

    f = jit(f)
    with modules(imported_scale="print('loaded')\nscale, calls = 2.0, 0\n"):
        for value in (2.0, 3.0, 3.0):
            yield f(torch.ones(2)), sys.modules["imported_scale"].calls
            sys.modules["imported_scale"].scale = value


@case
def a_module_imported_after_something_was_done(jit):
    seen = []

    def f(x):
        print("before")
        seen.append(x.shape[0])
        from imported_late import scale

        return x * scale

    f = jit(f)
    with modules(imported_late="print('loaded')\nimport eagerjit\nscale = eagerjit.full((1,), 3.0)\n"):
        for n in (2, 3, 4):
            yield f(torch.ones(n)), seen


@case
def a_module_of_a_package(jit):
    def f(x):
        from imported_package import part

        return part.double(x)

    f = jit(f)
    with modules(imported_package____init__="", imported_package__part="def double(x):\n    return x * 2\n"):
        for n in (2, 3):
            yield f(torch.ones(n))


@case(outcome=FELL_BACK)
def a_module_that_is_not_there(jit):
    def f(x):
        try:
            import imported_nowhere
        except ImportError:
            return x + 1
        return x * imported_nowhere.scale

    f = jit(f)
    for _ in range(3):
        yield f(torch.ones(2))


@case(outcome=FELL_BACK)
def a_module_that_cannot_be_loaded(jit):
    def f(x):
        import imported_broken

        return x * imported_broken.scale

    f = jit(f)
    with modules(imported_broken="raise ImportError('broken')\n"):
        for _ in range(3):
            yield attempt(f, torch.ones(2))
