"""Functions of CPython whose types other libraries set too: numba's, for one, as it is imported."""

from __future__ import annotations

import subprocess
import sys

OTHERS = """
import ctypes
import eagerjit

a, b, c, d = (getattr(ctypes.pythonapi, name) for name in "Py_IncRef Py_DecRef PyCapsule_New PyThread_tss_set".split())
for function in (a, b, c, d):
    assert function.argtypes is None and function.restype is ctypes.c_int
a.argtypes = b.argtypes = [ctypes.py_object]
c.argtypes = d.argtypes = [ctypes.py_object, ctypes.py_object]


@eagerjit.jit(fullgraph=True)
def step(x):
    return eagerjit.autocast("cpu", dtype=eagerjit.float16)(lambda: x @ x)()


for _ in range(200):
    step.clear()
    x = eagerjit.ones(3, 3)
    assert step(x).dtype is eagerjit.float16 and step(x).tolist() == [[3.0] * 3] * 3
"""


def test_types_that_other_libraries_set_change_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
