"""Numbers that Python and native code share, apart from the modules that compile to code.

A process that finds the code on the disk imports none of those.
"""

from __future__ import annotations

# -- classes of arguments (`operators.py`, `runtime/keys.py`) ---------------------------------------------------------
MAX_KEY_NDIM = 4
MAX_PARAMETERS = 15
OTHER = 15  # in a plan, in the place of an argument's position: an object that is none of the call's
TENSORS, SIZES = -(1 << 63), 1 << 62  # tells digests from addresses
KIND_LARGE, KIND_FLOAT, KIND_INT = 13, 14, 15  # beside the dtype codes; no address is as small as any of these words
FLOATS, INTS = -(1 << 62), 1 << 61  # tell numbers from these and from one another
INT_LIMIT = 1 << 60  # of the ints whose value is their word
EXPONENT_BIAS = 768  # floats from about 1e-76 to 1e77 have room: this less, their exponents are 1 to NOT_FINITE - 1
NOT_FINITE = 511
LARGEST_BFLOAT16 = float.fromhex("0x1.fep127")
HASH_SEED = 0x2545F491
HASH_FACTOR = -7046029254386353131  # odd, with well mixed bits

# -- statuses --------------------------------------------------------------------------------------------------------
OUT_OF_MEMORY = -1  # scratch memory could not be had

# -- offsets in `memory_counters` (`memory.py`) -----------------------------------------------------------------------
ALLOCATED = 0  # bytes in use now
PEAK = 8  # most bytes in use at once
CACHED = 16  # bytes on the free lists
LIMIT = 24  # most bytes the free lists may hold
FRESH = 32  # blocks taken from the C library
REUSED = 40  # blocks taken from the free lists

# -- the pool of threads: offsets in `thread_pool` (`threads.py`) -----------------------------------------------------
MAX_THREADS = 256
THREADS = 0  # threads to use, the caller included
SPIN_NANOSECONDS = 16  # how long waiting threads spin before they sleep

# -- shapes in the plan of a call (`taking.py`) ------------------------------------------------------------------------
OF_LEAF, OF_TUPLE, OF_LIST, OF_DICT, OF_FIELDS = range(5)
MOST_TAKEN = 256  # leaves

# -- launches on a device (`device.py`) -------------------------------------------------------------------------------
BESIDE = 6  # tasks, status, tables of functions, partials, counters, null
MOST_HIDDEN = 48  # parameters that the compiler may add to a kernel: of its own, and with tensor maps

# -- what an object is to the walk of a tape (`walk_graph.py`) --------------------------------------------------------
KIND_STRANGE, KIND_OP, KIND_OTHER, KIND_CALL, KIND_GRADIENT = 0, 1, 2, 3, 4  # the last is a compiled call's gradient
PART_SHOWN, PART_WRITTEN = 1, 2  # of an operation's first argument

# -- calls of the host that native code tries first -------------------------------------------------------------------
POTRF, GETRF, GETRS, TRSM, GESDD, SYEVD, GEQRF, ORGQR = range(8)  # LAPACK's functions (`factors.py`)
MOST_DIMS = 14  # of a Fourier transform (`fourier_calls.py`)
