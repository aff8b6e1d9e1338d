"""What matrix products share with those who ask for them: statuses, BLAS's functions, and how finely work is cut."""

from __future__ import annotations

import os

from eagerjit.runtime import dtypes
from eagerjit.runtime.native.language import global_bytes

TOO_LARGE = -2  # a status of ours: a size or stride beyond what BLAS can count

FLOAT16 = dtypes.float16.code
BFLOAT16 = dtypes.bfloat16.code
FLOAT32 = dtypes.float32.code
FLOAT64 = dtypes.float64.code

# Offsets in `blas_functions`: addresses of cblas functions, 0 where there are none.
SGEMM = 0
DGEMM = 8
SGEMV = 16
DGEMV = 24
blas_functions = global_bytes(32)

ROW_MAJOR = 101
NO_TRANSPOSE = 111
TRANSPOSE = 112
INT32_MAX = 2**31 - 1

TILE = 512  # rows and columns of a tile of a large product: BLAS runs at full speed from about 256
ENOUGH_TILES = min(16, max(2, os.cpu_count() or 1))  # one per processor; more would pack the operands more often
LEAST_TILE = 64
LEAST_TILE_WORK = 1 << 18  # multiplications worth a task of their own: some 3 microseconds
SEVERAL = 2  # tiles of a large product per processor: one held up gets fewer; more would pack operands more often
SEVERAL_TILE_WORK = 1 << 24  # multiplications of such a tile: some 300 microseconds
SERIAL_WORK = 1 << 18  # multiplications of a whole product that one thread had better do alone
SMALL, SHORT = 128, 32  # multiplications of a product and of an element that end before a call of BLAS would
SMALL_WORK = 50  # scalar operations of a kernel in the time that is lost between two such products
PER_OPERATION = 4  # multiplications in the time that a scalar operation of a kernel takes
PAIRS_PER_TIME = 8  # multiplications of pairs of bfloat16 numbers in the time of one of float32, packing included
TILE_ALIGNMENT = 16
