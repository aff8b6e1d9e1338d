"""Eager operators: how arguments are bound, and the key they make.

The key has one word per argument: Tensors are known by a class (dtype, dimensions, layout), run-time numbers by their
type, tuples of Tensors and of run-time sizes by a digest of their elements' classes (the Program checks each of them),
other tuples of numbers, bools and None by the one object that stands for those like it, other numbers by their value
where a word has room for it, all else by identity. A table is a mask and, from byte 8 on, mask + 1 entries: executable
(null: free), a bit per argument that is one of its leaves, the key's words.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import (
    EXPONENT_BIAS,
    FLOATS,
    HASH_FACTOR,
    HASH_SEED,
    INT_LIMIT,
    INTS,
    KIND_FLOAT,
    KIND_INT,
    KIND_LARGE,
    LARGEST_BFLOAT16,
    MAX_KEY_NDIM,
    NOT_FINITE,
    SIZES,
    TENSORS,
)
from eagerjit.runtime.native.context import (
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_TYPE,
    CONTIGUOUS_FLAG,
    DESCRIPTORS,
    DEVICE_ARRAY_MEMORY,
    FLOAT_VALUE,
    MEMORY_PLACE,
    MEMORY_TYPE,
    N_DTYPES,
    N_HELD,
    NONE,
    OBJECT_TYPE,
    OPERATOR_COUNT,
    OPERATOR_NUMBERS,
    OPERATOR_PARAMETERS,
    OPERATOR_REFLECTED,
    OPERATOR_SHAPES,
    OPTIONS,
    SHAPE_TYPE,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
    external,
    external_data,
    f64,
    i64,
    load_f64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    shift_right_unsigned,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import Py_IncRef, any_array_of, is_tensor

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyList_AsTuple = external("ptr PyList_AsTuple(ptr)")
PyLong_AsLongLongAndOverflow = external("i64 PyLong_AsLongLongAndOverflow(ptr, ptr)")
PyDict_GetItemWithError = external("ptr PyDict_GetItemWithError(ptr, ptr)")
PyList_Type = external_data("PyList_Type")
PyFloat_Type = external_data("PyFloat_Type")
PyLong_Type = external_data("PyLong_Type")
PyTuple_Type = external_data("PyTuple_Type")
PyBool_Type = external_data("PyBool_Type")

MAX_LEAVES = 1024


def code_of(descriptor: ptr) -> i64:
    """The dtype code of an array's descriptor, or -1; common ones are found first."""
    code = N_DTYPES - 1
    while code >= 0:
        if descriptor == load_ptr(context, DESCRIPTORS + 8 * code):
            return code
        code -= 1
    return -1


def held_code_of(descriptor: ptr) -> i64:
    """The dtype code of an array's descriptor, those of complex numbers too, or -1."""
    for code in range(N_DTYPES, N_HELD):
        if descriptor == load_ptr(context, DESCRIPTORS + 8 * code):
            return code
    return code_of(descriptor)


def _tensor_class(tensor: ptr) -> i64:
    """The class of a Tensor argument, 0 where it has none (see `entry.argument_class`)."""
    array = any_array_of(tensor)
    if array == 0:
        return 0
    place = 0
    if load_ptr(array, OBJECT_TYPE) != load_ptr(context, ARRAY_TYPE):
        memory = load_ptr(array, load_i64(context, DEVICE_ARRAY_MEMORY))
        if memory == 0 or load_ptr(memory, OBJECT_TYPE) != load_ptr(context, MEMORY_TYPE):
            return 0
        place = load_i64(memory, MEMORY_PLACE)
    ndim = load_i32(array, ARRAY_NDIM)
    code = held_code_of(load_ptr(array, ARRAY_DESCRIPTOR))
    if ndim > MAX_KEY_NDIM or code < 0:
        return 0
    found = place << 16 | code | ndim << 4 | (load_i32(array, ARRAY_FLAGS) & CONTIGUOUS_FLAG) << 7
    dims = load_ptr(array, ARRAY_DIMS)
    for axis in range(ndim):
        extent = load_i64(dims, 8 * axis)
        found |= (extent if extent < 2 else 2) << (8 + 2 * axis)
    return found


def is_tuple(argument: ptr) -> bool:
    kind = load_ptr(argument, OBJECT_TYPE)
    return kind == PyTuple_Type or kind == load_ptr(context, SHAPE_TYPE)


def _small_integer(thing: ptr) -> i64:
    """An exact int from 0 on; -1 for anything else."""
    if load_ptr(thing, OBJECT_TYPE) != PyLong_Type:
        return -1
    overflow = buffer(8)
    value = PyLong_AsLongLongAndOverflow(thing, overflow)
    return value if value >= 0 else -1


def _digest(argument: ptr, sizes: bool) -> i64:
    """The word of a tuple of Tensors or of run-time sizes; 0 where it is neither."""
    n = PyTuple_Size(argument)
    mixed = HASH_SEED ^ n
    for i in range(n):
        item = PyTuple_GetItem(argument, i)
        word = 0
        if sizes:
            word = _small_integer(item)
            if word < 0:
                return 0
            word = word if word < 2 else 2
        else:
            word = _tensor_class(item)
            if word == 0:
                return 0
        mixed = (mixed ^ word) * HASH_FACTOR
    return shift_right_unsigned(mixed, 2) | (SIZES if sizes else TENSORS)


def _option(argument: ptr) -> i64:
    """The word of a tuple of numbers, bools and None: the address of the one that stands for all like it, 0 where there
    is none yet. The dictionary has those that are equal but of other types side by side."""
    n = PyTuple_Size(argument)
    for i in range(n):
        if option_word(PyTuple_GetItem(argument, i)) == 0:
            return i64(argument)
    equal = PyDict_GetItemWithError(load_ptr(context, OPTIONS), argument)
    for k in range(PyTuple_Size(equal) if equal else 0):
        known = PyTuple_GetItem(equal, k)
        same = 0
        while same < n and option_word(PyTuple_GetItem(argument, same)) == option_word(PyTuple_GetItem(known, same)):
            same += 1
        if same == n:
            return i64(known)
    return 0


def _tuple_word(argument: ptr, sizes: bool) -> i64:
    if sizes or (PyTuple_Size(argument) > 0 and is_tensor(PyTuple_GetItem(argument, 0))):
        return _digest(argument, sizes)
    return _option(argument)


def option_word(thing: ptr) -> i64:
    """The word of None, a bool, or a number that is known by its value; 0 for anything else."""
    if thing == load_ptr(context, NONE) or load_ptr(thing, OBJECT_TYPE) == PyBool_Type:
        return i64(thing)
    return number_word(thing)


def _float_word(number: ptr) -> i64:
    """The word of an exact float: its bits, the exponent in nine of them; its address where that has no room."""
    bits = load_i64(number, FLOAT_VALUE)
    sign = shift_right_unsigned(bits, 63) << 61
    fraction = bits & ((1 << 52) - 1)
    exponent = (shift_right_unsigned(bits, 52) & 2047) - EXPONENT_BIAS
    if exponent == 2047 - EXPONENT_BIAS:
        exponent = NOT_FINITE
    elif exponent == -EXPONENT_BIAS and fraction == 0:
        exponent = 0
    elif exponent < 1 or exponent >= NOT_FINITE:
        return i64(number)
    return FLOATS | sign | exponent << 52 | fraction


def _int_word(number: ptr) -> i64:
    """The word of an exact int: its value, or its address where that has no room."""
    overflow = buffer(8)
    value = PyLong_AsLongLongAndOverflow(number, overflow)
    if load_i32(overflow) or value < -INT_LIMIT or value >= INT_LIMIT:
        return i64(number)
    return INTS | (value & (INTS - 1))


def number_word(thing: ptr) -> i64:
    """The word of an exact int or float that is known by its value; 0 for anything else."""
    kind = load_ptr(thing, OBJECT_TYPE)
    word = 0
    if kind == PyFloat_Type:
        word = _float_word(thing)
    elif kind == PyLong_Type:
        word = _int_word(thing)
    return 0 if word == i64(thing) else word


def float_kind(value: f64) -> i64:
    """Whether a run-time float is one that floats of 16 and 32 bits may lack."""
    if value > LARGEST_BFLOAT16 or value < -LARGEST_BFLOAT16:
        return KIND_FLOAT if value - value != 0.0 else KIND_LARGE
    return KIND_FLOAT


def key_word(argument: ptr, is_number: bool, sizes: bool) -> i64:
    """What an operator's table knows an argument by; 0 where only Python can serve it."""
    if is_tensor(argument):
        return _tensor_class(argument)
    if is_tuple(argument):
        return _tuple_word(argument, sizes)
    kind = load_ptr(argument, OBJECT_TYPE)
    if kind == PyFloat_Type:
        return float_kind(load_f64(argument, FLOAT_VALUE)) if is_number else _float_word(argument)
    if kind == PyLong_Type:
        return KIND_INT if is_number else _int_word(argument)
    return i64(argument)


def bind_arguments(callee: ptr, arguments: ptr, n: i64, keywords: ptr, full: ptr) -> bool:
    """Stores all arguments in the order of the parameters; 0 where names or counts do not fit."""
    expected = load_i64(callee, OPERATOR_COUNT)
    if n > expected:
        return 0
    swap = n == 2 and keywords == 0 and load_i64(callee, OPERATOR_REFLECTED)
    for i in range(n):
        store_ptr(full, 8 * (1 - i if swap else i), load_ptr(arguments, 8 * i))
    if n == expected and keywords == 0:
        return 1
    parameters = load_ptr(callee, OPERATOR_PARAMETERS)
    for i in range(n, expected):
        store_ptr(full, 8 * i, load_ptr(parameters, 16 * i + 8))
    for k in range(PyTuple_Size(keywords) if keywords else 0):
        name = PyTuple_GetItem(keywords, k)
        at = n
        while at < expected and load_ptr(parameters, 16 * at) != name:
            at += 1
        if at == expected:
            return 0
        store_ptr(full, 8 * at, load_ptr(arguments, 8 * (n + k)))
    for i in range(n, expected):
        if load_ptr(full, 8 * i) == 0:
            return 0
    return 1


def make_key(callee: ptr, full: ptr, key: ptr) -> i64:
    """Stores the key's words, one per argument, and returns their hash; 0 where the arguments have no key."""
    numbers = load_i64(callee, OPERATOR_NUMBERS)
    shapes = load_i64(callee, OPERATOR_SHAPES)
    mixed = HASH_SEED
    for i in range(load_i64(callee, OPERATOR_COUNT)):
        word = key_word(load_ptr(full, 8 * i), (numbers >> i) & 1, (shapes >> i) & 1)
        if word == 0:
            return 0
        store_i64(key, 8 * i, word)
        mixed = (mixed ^ word) * HASH_FACTOR
    return shift_right_unsigned(mixed, 32) | 1 << 40


def tuples_for_lists(full: ptr, n: i64) -> i64:
    """Puts tuples (new references) in the place of lists: a bit for each; -1 with an exception set."""
    replaced = 0
    for i in range(n):
        if load_ptr(load_ptr(full, 8 * i), OBJECT_TYPE) == PyList_Type:
            made = PyList_AsTuple(load_ptr(full, 8 * i))
            if made == 0:
                return -1
            store_ptr(full, 8 * i, made)
            replaced |= 1 << i
    return replaced


def chosen_leaves(full: ptr, chosen: i64, n: i64, leaves: ptr) -> i64:
    """Stores the leaves among the arguments, and returns how many: tuples' elements one by one, of sizes those over 1.

    -1 where they are too many.
    """
    count = 0
    for i in range(n):
        if (chosen >> i) & 1 == 0:
            continue
        argument = load_ptr(full, 8 * i)
        if not is_tuple(argument):
            store_ptr(leaves, 8 * count, argument)
            count += 1
            continue
        m = PyTuple_Size(argument)
        if count + m + n > MAX_LEAVES:
            return -1
        for k in range(m):
            item = PyTuple_GetItem(argument, k)
            if is_tensor(item) or _small_integer(item) > 1:
                store_ptr(leaves, 8 * count, item)
                count += 1
    return count


def same_key(entry: ptr, key: ptr, n: i64) -> bool:
    """Whether a table entry has these words."""
    for i in range(n):
        if load_i64(entry, 16 + 8 * i) != load_i64(key, 8 * i):
            return 0
    return 1


def tuple_of(arguments: ptr, n: i64) -> ptr:
    """The arguments as a tuple; null on failure."""
    result = PyTuple_New(n)
    if result == 0:
        return 0
    for i in range(n):
        argument = load_ptr(arguments, 8 * i)
        Py_IncRef(argument)
        PyTuple_SetItem(result, i, argument)
    return result
