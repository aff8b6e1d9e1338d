"""Small tensors made from rules: `zeros(2, 3)`, `full((4,), 0.5)`, `arange(0, 1, 0.1)`, `linspace(0, 1, 5)`, `eye(3)`.

Large ones of zeros or ones, and random numbers, are calls of operators.

What native code does not know (options, large tensors, wrong arguments) goes to Python, which gives the same elements.
"""

from __future__ import annotations

from eagerjit.runtime.making import (
    ARANGE,
    DRAW,
    EMPTY,
    EYE,
    FROM_NUMPY,
    FULL,
    LIKE,
    LINSPACE,
    NEW,
    ONES,
    RANDINT,
    RANDPERM,
    TENSOR,
)
from eagerjit.runtime.mode import ELSEWHERE, TRACING
from eagerjit.runtime.native.agreed import KIND_LARGE
from eagerjit.runtime.native.arrays import tensor_on
from eagerjit.runtime.native.context import (
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    CONTIGUOUS_FLAG,
    DTYPES,
    ITEM_SIZES,
    MAX_NDIM,
    N_DTYPES,
    NONE,
    OBJECT_TYPE,
    OPERATOR_KIND,
    OPERATOR_OP,
    OPERATOR_PARAMETERS,
    OPERATOR_SLOW,
    TRUE,
    context,
)
from eagerjit.runtime.native.elements import ANY, MANY, default_dtype, fresh, tensor_of
from eagerjit.runtime.native.entry import COUNT, PyObject_Vectorcall, to_python
from eagerjit.runtime.native.filling import (
    BFLOAT16,
    BOOL,
    FILLED,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    filled,
    store_number,
)
from eagerjit.runtime.native.flags import thread_flags
from eagerjit.runtime.native.language import (
    buffer,
    external,
    external_data,
    f64,
    fill_bytes,
    i64,
    load_f64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_f64,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import Py_DecRef, array_of
from eagerjit.runtime.native.operators import code_of, float_kind
from eagerjit.runtime.native.subscripts import NO_NUMBER, integer
from eagerjit.runtime.native.view_calls import integers

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyLong_FromLongLong = external("ptr PyLong_FromLongLong(i64)")
PyFloat_AsDouble = external("f64 PyFloat_AsDouble(ptr)")
PyErr_Occurred = external("ptr PyErr_Occurred()")
PyFloat_Type = external_data("PyFloat_Type")
PyBool_Type = external_data("PyBool_Type")

EXACT = 1 << 40
"""Integers up to which quotients and sums of a thousand steps are exact as doubles."""


def _option_dtype(callee: ptr, values: ptr, keywords: ptr, given: i64) -> i64:
    """The dtype that the options name, or the one given; -1 where they are others."""
    names = load_ptr(callee, OPERATOR_PARAMETERS)
    for k in range(PyTuple_Size(keywords)):
        name = PyTuple_GetItem(keywords, k)
        value = load_ptr(values, 8 * k)
        if name != load_ptr(names, 0) and name != load_ptr(names, 16):
            return -1
        if value == load_ptr(context, NONE):
            continue
        if name != load_ptr(names, 0):
            return -1
        given = N_DTYPES - 1
        while given >= 0 and value != load_ptr(context, DTYPES + 8 * given):
            given -= 1
        if given < 0:
            return -1
    return given


def _vector(code: i64, length: i64, data: ptr) -> ptr:
    size = buffer(8)
    store_i64(size, 0, length)
    return fresh(code, size, 1, data, MANY)


# -- arguments --------------------------------------------------------------------------------------------------------


def _number(thing: ptr, value: ptr) -> i64:
    """Stores an exact float, int or bool as a double, and returns the dtype it stands for; -1 for anything else.

    Ints that a double has no room for, and the zero that has a sign, are left to Python.
    """
    kind = load_ptr(thing, OBJECT_TYPE)
    if kind == PyFloat_Type:
        found = PyFloat_AsDouble(thing)
        store_f64(value, 0, found)
        return -1 if found == 0.0 and load_i64(value, 0) != 0 else default_dtype()
    if kind == PyBool_Type:
        store_f64(value, 0, f64(thing == load_ptr(context, TRUE)))
        return BOOL
    whole = integer(thing)
    if whole == NO_NUMBER or whole > EXACT or whole < -EXACT:
        return -1
    store_f64(value, 0, f64(whole))
    return INT64


def _full(arguments: ptr, n: i64, code: i64) -> ptr:
    """`full(sizes, number)`; with a dtype other than the number's, Python says what fits."""
    sizes = buffer(8 * MAX_NDIM)
    value = buffer(8)
    if n != 2:
        return 0
    found = _number(load_ptr(arguments, 8), value)
    rank = integers(arguments, 1, sizes)
    if rank < 0 or integer(load_ptr(arguments, 0)) != NO_NUMBER or (code >= 0 and code != found):
        return 0
    if found != FLOAT32 and found != FLOAT64 and found != INT64 and found != BOOL:
        return 0
    if found == FLOAT32 and float_kind(load_f64(value, 0)) == KIND_LARGE:
        return 0
    return filled(found, sizes, rank, load_f64(value, 0))


def _in_steps(code: i64, start: f64, step: f64, count: i64) -> ptr:
    """start, start + step, ... as doubles, made elements of a dtype."""
    place = buffer(16)
    made = _vector(code, count, place)
    if made:
        for i in range(count):
            store_number(load_ptr(place, 0), code, i, start + f64(i) * step)
    return made


def _arange(arguments: ptr, n: i64, code: i64) -> ptr:
    """`arange(end)`, `arange(start, end)`, `arange(start, end, step)`."""
    numbers = buffer(32)
    store_f64(numbers, 0, 0.0)
    store_f64(numbers, 16, 1.0)
    found = INT64
    for i in range(n):
        kind = _number(load_ptr(arguments, 8 * i), numbers + 8 * (i + (n == 1)))
        if kind < 0 or kind == BOOL:
            return 0
        found = kind if kind != INT64 else found
    code = found if code < 0 else code
    if n < 1 or n > 3 or code == BOOL or code == FLOAT16 or code == BFLOAT16:
        return 0
    if found != INT64 and code != FLOAT32 and code != FLOAT64:
        return 0
    start = load_f64(numbers, 0)
    step = load_f64(numbers, 16)
    span = load_f64(numbers, 8) - start
    steps = span / step if step != 0.0 else -1.0
    if not (steps >= 0.0 and steps < f64(MANY)):
        return 0
    count = i64(steps)
    count += f64(count) < steps
    return _in_steps(code, start, step, count)


def _linspace(arguments: ptr, n: i64, code: i64) -> ptr:
    """`linspace(start, end, steps)`: counted from the nearer end, so that both ends are exact."""
    numbers = buffer(16)
    place = buffer(16)
    if n != 3 or (code != FLOAT32 and code != FLOAT64):
        return 0
    for i in range(2):
        kind = _number(load_ptr(arguments, 8 * i), numbers + 8 * i)
        if kind < 0 or kind == BOOL:
            return 0
    count = integer(load_ptr(arguments, 16))
    start = load_f64(numbers, 0)
    end = load_f64(numbers, 8)
    made = _vector(code, count, place)
    if made:
        step = (end - start) / f64(count - 1 if count > 1 else 1)
        for i in range(count):
            value = start + f64(i) * step if 2 * i < count else end - f64(count - 1 - i) * step
            store_number(load_ptr(place, 0), code, i, value)
    return made


def _eye(arguments: ptr, n: i64, code: i64) -> ptr:
    """`eye(n)`, `eye(n, m)`."""
    sizes = buffer(8 * MAX_NDIM)
    place = buffer(16)
    if n < 1 or n > 2 or integers(arguments, n, sizes) != n:
        return 0
    if n == 1:
        store_i64(sizes, 8, load_i64(sizes, 0))
    made = fresh(code, sizes, 2, place, FILLED)
    if made:
        data = load_ptr(place, 0)
        fill_bytes(data, 0, load_i64(place, 8) * load_i64(context, ITEM_SIZES + 8 * code))
        columns = load_i64(sizes, 8)
        for i in range(load_i64(sizes, 0)):
            if i < columns:
                store_number(data, code, i * (columns + 1), 1.0)
    return made


def _by_operator(callee: ptr, sizes: ptr, rank: i64, low: ptr, high: ptr, code: i64) -> ptr:
    """What an operator makes of its first argument, the shape, limits unless these are null, and the dtype."""
    shape = PyTuple_New(rank)
    if shape == 0:
        return 0
    for axis in range(rank):
        size = load_i64(sizes, 8 * axis)
        number = PyLong_FromLongLong(size) if size >= 0 else ptr(0)
        if number == 0:
            Py_DecRef(shape)
            return 0
        PyTuple_SetItem(shape, axis, number)
    operator = load_ptr(callee, load_i64(context, OPERATOR_OP))
    given = buffer(40)
    store_ptr(given, 0, PyTuple_GetItem(operator, 1))
    store_ptr(given, 8, shape)
    store_ptr(given, 16, low)
    store_ptr(given, 24, high)
    n = 4 if low else 2
    store_ptr(given, 8 * n, load_ptr(context, DTYPES + 8 * code))
    made = PyObject_Vectorcall(PyTuple_GetItem(operator, 0), given, n + 1, ptr(0))
    Py_DecRef(shape)
    return made


def _integers_by_operator(callee: ptr, arguments: ptr, n: i64, code: i64) -> ptr:
    """`randint(high, sizes)`, `randint(low, high, sizes)`."""
    sizes = buffer(8 * MAX_NDIM)
    if n < 2 or n > 3 or integer(load_ptr(arguments, 8 * n - 8)) != NO_NUMBER:
        return 0
    rank = integers(arguments + 8 * n - 8, 1, sizes)
    high = load_ptr(arguments, 8 * n - 16)
    first = integer(load_ptr(arguments, 0)) if n == 3 else 0
    if rank < 0 or first == NO_NUMBER or integer(high) <= first:
        return 0
    low = PyLong_FromLongLong(first)
    if low == 0:
        return 0
    made = _by_operator(callee, sizes, rank, low, high, INT64 if code < 0 else code)
    Py_DecRef(low)
    return made


def _by_sizes(kind: i64, callee: ptr, sizes: ptr, rank: i64, code: i64) -> ptr:
    """What is made of a shape and a dtype."""
    place = buffer(16)
    if kind == DRAW:
        return _by_operator(callee, sizes, rank, ptr(0), ptr(0), code) if code >= FLOAT16 else ptr(0)
    if kind == EMPTY:
        return fresh(code, sizes, rank, place, ANY)
    made = filled(code, sizes, rank, f64(kind == ONES))
    if made or PyErr_Occurred() or (code != FLOAT32 and code != FLOAT64):
        return made
    return _by_operator(callee, sizes, rank, ptr(0), ptr(0), code)


def _like(kind: i64, callee: ptr, tensor: ptr, code: i64) -> ptr:
    """What is made of a tensor's shape, and of its dtype where no other is asked for."""
    array = array_of(tensor)
    if array == 0 or load_i32(array, ARRAY_FLAGS) & CONTIGUOUS_FLAG == 0:
        return 0
    code = code_of(load_ptr(array, ARRAY_DESCRIPTOR)) if code < 0 else code
    if code < 0:
        return 0
    return _by_sizes(kind, callee, load_ptr(array, ARRAY_DIMS), load_i32(array, ARRAY_NDIM), code)


def _made(callee: ptr, arguments: ptr, n: i64, keywords: ptr) -> ptr:
    """The tensor; null where Python has to make it, or with an exception set."""
    kind = load_i64(callee, OPERATOR_KIND)
    sizes = buffer(8 * MAX_NDIM)
    code = -2
    if keywords:
        code = _option_dtype(callee, arguments + 8 * n, keywords, code)
        if code == -1:
            return 0
    if kind == FULL:
        return _full(arguments, n, code)
    if kind == ARANGE:
        return _arange(arguments, n, code)
    if kind == RANDINT:
        return _integers_by_operator(callee, arguments, n, code)
    if kind == RANDPERM:
        store_i64(sizes, 0, integer(load_ptr(arguments, 0)) if n == 1 else -1)
        return _by_operator(callee, sizes, 1, ptr(0), ptr(0), INT64 if code < 0 else code)
    if kind == TENSOR:
        return tensor_of(load_ptr(arguments, 0), code) if n == 1 else ptr(0)
    if kind == FROM_NUMPY:
        return tensor_on(load_ptr(arguments, 0)) if n == 1 and code == -2 else ptr(0)
    if kind >= LIKE:
        if kind < NEW:
            return _like(kind - LIKE, callee, load_ptr(arguments, 0), code) if n == 1 else ptr(0)
        array = array_of(load_ptr(arguments, 0)) if n > 0 else ptr(0)
        if array == 0:
            return 0
        code = code_of(load_ptr(array, ARRAY_DESCRIPTOR)) if code < 0 else code
        if code < 0:
            return 0
        kind -= NEW
        arguments = arguments + 8
        n -= 1
    elif code < 0:
        code = default_dtype()
    if kind == LINSPACE:
        return _linspace(arguments, n, code)
    if kind == EYE:
        return _eye(arguments, n, code)
    rank = integers(arguments, n, sizes) if n > 0 else -1
    if rank < 0:
        return 0
    return _by_sizes(kind, callee, sizes, rank, code)


def make_call(callee: ptr, arguments: ptr, count: i64, keywords: ptr) -> ptr:
    """Vectorcall of a MakeCall: the tensor natively, else by `slow`."""
    if thread_flags() & (TRACING | ELSEWHERE) == 0:
        made = _made(callee, arguments, count & COUNT, keywords)
        if made or PyErr_Occurred():
            return made
    return to_python(callee, OPERATOR_SLOW, arguments, count, keywords)
