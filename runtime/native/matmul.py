"""Matrix products C = A @ B over batches, on the thread pool, each tile on one thread.

A product is cut into tiles of C by its sizes and the machine's processors, never by the number of threads in use, so
every element is computed the same way whatever runs it. float32 is multiplied in registers (`panels.py`), for which
operands are packed as they lie; vectors, columns narrower than a register and float64 go to single-threaded BLAS. An
operand BLAS can't read (no unit stride, another element type) is packed tile by tile into scratch memory; float16 is
computed in float32, and so is bfloat16 where the processor has no instructions for it (`pairs.py`), integers in 64 bits
by a plain loop, which does without BLAS what BLAS would. Products of a few numbers, of which a batch may have many, are
such loops too: BLAS takes longer to be called than to compute.
"""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.packing import item_size, pack, unpack, work_size
from eagerjit.runtime.native.pairs import pair_scratch, product_of_pairs, suits_pairs
from eagerjit.runtime.native.panels import multiply_panels, panel_scratch, suits_panels
from eagerjit.runtime.native.products import (
    BFLOAT16,
    ENOUGH_TILES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32_MAX,
    LEAST_TILE,
    LEAST_TILE_WORK,
    PAIRS_PER_TIME,
    PER_OPERATION,
    SEVERAL,
    SEVERAL_TILE_WORK,
    SHORT,
    SMALL,
    SMALL_WORK,
    TILE,
    TILE_ALIGNMENT,
    TOO_LARGE,
)
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for, serial_for
from eagerjit.runtime.native.tile_products import product_by_blas, product_of_integers, small_f32, small_f64

# Offsets in the job block that tasks read.
DTYPE = 0
A = 8
B = 16
C = 24
M = 32
N = 40
K = 48
A_ROW = 56
A_COLUMN = 64
B_ROW = 72
B_COLUMN = 80
C_ROW = 88
N_BATCH = 96
BATCH = 104
TILE_ROWS = 112
TILE_COLUMNS = 120
TILES_DOWN = 128
TILES_ACROSS = 136
A_LEADING = 144
B_LEADING = 152
A_SCRATCH_BYTES = 160
B_SCRATCH_BYTES = 168
C_SCRATCH_BYTES = 176
WAY = 184  # how tiles are multiplied
JOB_BYTES = 192

IN_CACHE = 1 << 18  # elements of B that are read in half the time that others take: half a scalar operation
TO_BEGIN = 2  # multiplications that end in the time that it takes to store an element

BY_BLAS, IN_PANELS, IN_PAIRS = range(3)


def matmul(
    dtype: i64,
    a: ptr,
    b: ptr,
    c: ptr,
    m: i64,
    n: i64,
    k: i64,
    a_row: i64,
    a_column: i64,
    b_row: i64,
    b_column: i64,
    c_row: i64,
    n_batch: i64,
    batch: ptr,
) -> i64:
    """C[..., m, n] = A[..., m, k] @ B[..., k, n]; returns 0 or a negative status.

    Strides count elements; C's columns are adjacent. `batch` holds extent, A's, B's and C's stride per batch dimension.
    """
    while n_batch > 0 and load_i64(batch, n_batch * 32 - 16) == 0 and m > 0:
        # B is the same for all: the innermost batch dimension is more rows, where the layout allows
        extent = load_i64(batch, n_batch * 32 - 32)
        a_step = load_i64(batch, n_batch * 32 - 24)
        c_step = load_i64(batch, n_batch * 32 - 8)
        if m == 1:
            a_row = a_step
            c_row = c_step
        elif extent != 1 and (a_step != m * a_row or c_step != m * c_row):
            if extent > m:  # the longer of the two dimensions are the rows
                _store_dimension(batch, n_batch - 1, m, a_row, c_row)
                m = extent
                a_row = a_step
                c_row = c_step
            break
        m *= extent
        n_batch -= 1
    batches = 1
    for d in range(n_batch):
        batches *= load_i64(batch, d * 32)
    if m == 0 or n == 0 or batches == 0:
        return 0
    if k > INT32_MAX or (m > 1 and c_row > INT32_MAX):
        return TOO_LARGE
    if m == 1:
        c_row = n  # never stepped over, but BLAS checks it
    job: ptr = buffer(JOB_BYTES)
    store_i64(job, DTYPE, dtype)
    store_ptr(job, A, a)
    store_ptr(job, B, b)
    store_ptr(job, C, c)
    store_i64(job, M, m)
    store_i64(job, N, n)
    store_i64(job, K, k)
    store_i64(job, A_ROW, a_row)
    store_i64(job, A_COLUMN, a_column)
    store_i64(job, B_ROW, b_row)
    store_i64(job, B_COLUMN, b_column)
    store_i64(job, C_ROW, c_row)
    store_i64(job, N_BATCH, n_batch)
    store_ptr(job, BATCH, batch)
    if m * n * k <= SMALL and k <= SHORT and (dtype == FLOAT32 or dtype == FLOAT64):
        if is_worth_threads(batches * (m * n * k * PER_OPERATION + SMALL_WORK)):
            return parallel_for(address_of(_small_kernel), job, batches, 0, TILE_ALIGNMENT)
        return serial_for(address_of(_small_kernel), job, batches, 0)
    store_i64(job, WAY, _way(dtype, m, n, k))
    tiles = batches * _choose_tiles(job, batches)
    scratch_bytes = _plan_packing(job)
    work = m * n * (k + TO_BEGIN) // (PER_OPERATION * _speed(job))
    reading = n * k if n * k > IN_CACHE else n * k // 2
    if is_worth_threads(batches * (work if work > reading else reading)):
        return parallel_for(address_of(_tiles_kernel), job, tiles, scratch_bytes, 1)
    return serial_for(address_of(_tiles_kernel), job, tiles, scratch_bytes)


def _store_dimension(batch: ptr, d: i64, extent: i64, a_step: i64, c_step: i64) -> None:
    """Makes this a dimension of the batch, in which B is the same."""
    store_i64(batch, d * 32, extent)
    store_i64(batch, d * 32 + 8, a_step)
    store_i64(batch, d * 32 + 16, 0)
    store_i64(batch, d * 32 + 24, c_step)


def _way(dtype: i64, m: i64, n: i64, k: i64) -> i64:
    if dtype == BFLOAT16 and suits_pairs(m, n, k):
        return IN_PAIRS
    return IN_PANELS if work_size(dtype) == 4 and suits_panels(m, n, k) else BY_BLAS


def _speed(job: ptr) -> i64:
    """How many multiplications end in the time of one otherwise."""
    return PAIRS_PER_TIME if load_i64(job, WAY) == IN_PAIRS else 1


def _choose_tiles(job: ptr, batches: i64) -> i64:
    """Cuts C into tiles, larger side first, until there are enough or they get too small; returns tiles per batch."""
    m = load_i64(job, M)
    n = load_i64(job, N)
    k = load_i64(job, K)
    rows = _part(m, (m + TILE - 1) // TILE)
    columns = _part(n, (n + TILE - 1) // TILE)
    while True:
        down = (m + rows - 1) // rows
        across = (n + columns - 1) // columns
        tiles = batches * down * across
        least = LEAST_TILE_WORK * _speed(job)
        if tiles >= ENOUGH_TILES:
            if tiles >= SEVERAL * ENOUGH_TILES or load_i64(job, WAY) != IN_PANELS:
                break
            least = SEVERAL_TILE_WORK
        if rows * columns * k < 2 * least:
            break
        if rows >= columns and rows >= 2 * LEAST_TILE:
            rows = _part(m, 2 * down)
        elif columns >= 2 * LEAST_TILE:
            columns = _part(n, 2 * across)
        else:
            break
    if tiles > ENOUGH_TILES and tiles < SEVERAL * ENOUGH_TILES and columns > LEAST_TILE:
        # processors that have no tile in the last round wait for those that do
        while batches * down * across % ENOUGH_TILES != 0:
            across += 1
        columns = _part(n, across)
        across = (n + columns - 1) // columns
    store_i64(job, TILE_ROWS, rows)
    store_i64(job, TILE_COLUMNS, columns)
    store_i64(job, TILES_DOWN, down)
    store_i64(job, TILES_ACROSS, across)
    return down * across


def _part(size: i64, parts: i64) -> i64:
    """The size of one of `parts` nearly equal parts, a multiple of what BLAS kernels take at a time."""
    if parts <= 1:
        return size
    return ((size + parts - 1) // parts + TILE_ALIGNMENT - 1) & -TILE_ALIGNMENT


def _plan_packing(job: ptr) -> i64:
    """Settles how each operand is read, and the bytes of scratch a tile needs."""
    dtype = load_i64(job, DTYPE)
    rows = load_i64(job, TILE_ROWS)
    columns = load_i64(job, TILE_COLUMNS)
    k = load_i64(job, K)
    a_leading = 0
    b_leading = 0
    panels = i64(load_i64(job, WAY) == IN_PANELS)
    if load_i64(job, WAY) == IN_PAIRS:
        return pair_scratch(rows, columns, k)
    if dtype == FLOAT32 and panels:
        return panel_scratch(rows, columns, k)
    if dtype == FLOAT32 or dtype == FLOAT64:
        a_leading = _leading(load_i64(job, M), k, load_i64(job, A_ROW), load_i64(job, A_COLUMN))
        b_leading = _leading(k, load_i64(job, N), load_i64(job, B_ROW), load_i64(job, B_COLUMN))
    size = work_size(dtype)
    a_bytes = 0 if a_leading else (rows * k * size + 63) & -64
    b_bytes = 0 if b_leading else (columns * k * size + 63) & -64
    c_bytes = 0 if dtype == FLOAT32 or dtype == FLOAT64 else (rows * columns * size + 63) & -64
    store_i64(job, A_LEADING, a_leading)
    store_i64(job, B_LEADING, b_leading)
    store_i64(job, A_SCRATCH_BYTES, a_bytes)
    store_i64(job, B_SCRATCH_BYTES, b_bytes)
    store_i64(job, C_SCRATCH_BYTES, c_bytes)
    return a_bytes + b_bytes + c_bytes + (panel_scratch(rows, columns, k) if panels else 0)


def _leading(rows: i64, columns: i64, row: i64, column: i64) -> i64:
    """BLAS's leading dimension of a matrix, negative if it lies transposed in memory, 0 if BLAS can't read it."""
    if column == 1 or columns == 1:
        leading = row if rows > 1 else columns
        if columns <= leading <= INT32_MAX and leading > 0:
            return leading
    if row == 1 or rows == 1:
        leading = column if columns > 1 else rows
        if rows <= leading <= INT32_MAX and leading > 0:
            return -leading
    return 0


def _tiles_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Computes tiles begin..end, numbered batch by batch, row of tiles by row of tiles."""
    across = load_i64(job, TILES_ACROSS)
    per_batch = load_i64(job, TILES_DOWN) * across
    for tile in range(begin, end):
        inner = tile % per_batch
        _tile(job, tile // per_batch, inner // across, inner % across, scratch)
    return 0


def _batch_offset(job: ptr, index: i64, field: i64) -> i64:
    """Where a product of the batch has an operand or its result, in elements."""
    table: ptr = load_ptr(job, BATCH)
    offset = 0
    for d in range(load_i64(job, N_BATCH) - 1, 0, -1):
        extent = load_i64(table, d * 32)
        offset += index % extent * load_i64(table, d * 32 + field)
        index //= extent
    return offset + index * load_i64(table, field) if load_i64(job, N_BATCH) else 0


def _small_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Computes products begin..end of the batch."""
    dtype = load_i64(job, DTYPE)
    item = item_size(dtype)
    a_row = load_i64(job, A_ROW) * item
    a_column = load_i64(job, A_COLUMN) * item
    b_row = load_i64(job, B_ROW) * item
    b_column = load_i64(job, B_COLUMN) * item
    c_row = load_i64(job, C_ROW) * item
    rows = load_i64(job, M)
    columns = load_i64(job, N)
    k = load_i64(job, K)
    table: ptr = load_ptr(job, BATCH)
    single = load_i64(job, N_BATCH) == 1
    a_step = load_i64(table, 8) * item if single else 0
    b_step = load_i64(table, 16) * item if single else 0
    c_step = load_i64(table, 24) * item if single else 0
    a: ptr = load_ptr(job, A) + begin * a_step
    b: ptr = load_ptr(job, B) + begin * b_step
    c: ptr = load_ptr(job, C) + begin * c_step
    for index in range(begin, end):
        if not single:
            a = load_ptr(job, A) + _batch_offset(job, index, 8) * item
            b = load_ptr(job, B) + _batch_offset(job, index, 16) * item
            c = load_ptr(job, C) + _batch_offset(job, index, 24) * item
        if dtype == FLOAT32:
            small_f32(a, a_row, a_column, b, b_row, b_column, c, c_row, rows, columns, k)
        else:
            small_f64(a, a_row, a_column, b, b_row, b_column, c, c_row, rows, columns, k)
        a = a + a_step
        b = b + b_step
        c = c + c_step
    return 0


def _tile(job: ptr, batch_index: i64, down: i64, across: i64, scratch: ptr) -> None:
    dtype = load_i64(job, DTYPE)
    item = item_size(dtype)
    k = load_i64(job, K)
    row = down * load_i64(job, TILE_ROWS)
    column = across * load_i64(job, TILE_COLUMNS)
    rows = load_i64(job, M) - row
    rows = rows if rows < load_i64(job, TILE_ROWS) else load_i64(job, TILE_ROWS)
    columns = load_i64(job, N) - column
    columns = columns if columns < load_i64(job, TILE_COLUMNS) else load_i64(job, TILE_COLUMNS)
    a_offset = row * load_i64(job, A_ROW)
    b_offset = column * load_i64(job, B_COLUMN)
    c_row = load_i64(job, C_ROW)
    c_offset = row * c_row + column
    a_offset += _batch_offset(job, batch_index, 8)
    b_offset += _batch_offset(job, batch_index, 16)
    c_offset += _batch_offset(job, batch_index, 24)
    a: ptr = load_ptr(job, A) + a_offset * item
    b: ptr = load_ptr(job, B) + b_offset * item
    c: ptr = load_ptr(job, C) + c_offset * item
    way = load_i64(job, WAY)
    if way == IN_PAIRS or (dtype == FLOAT32 and way == IN_PANELS):
        a_row = load_i64(job, A_ROW)
        a_column = load_i64(job, A_COLUMN)
        b_row = load_i64(job, B_ROW)
        b_column = load_i64(job, B_COLUMN)
        if way == IN_PAIRS:
            product_of_pairs(2, a, a_row, a_column, b, b_row, b_column, 0, c, c_row, rows, columns, k, scratch)
        else:
            multiply_panels(a, a_row, a_column, b, b_row, b_column, c, c_row, rows, columns, k, 0, scratch)
        return
    if way == IN_PANELS:
        _short_panels(job, a, b, c, c_row, rows, columns, scratch)
        return
    a_leading = load_i64(job, A_LEADING)
    b_leading = load_i64(job, B_LEADING)
    packed: ptr = scratch
    if a_leading == 0:
        pack(dtype, packed, a, rows, k, load_i64(job, A_ROW), load_i64(job, A_COLUMN))
        a = packed
        packed += load_i64(job, A_SCRATCH_BYTES)
        a_leading = k if k > 0 else 1
    if b_leading == 0:
        pack(dtype, packed, b, k, columns, load_i64(job, B_ROW), load_i64(job, B_COLUMN))
        b = packed
        packed += load_i64(job, B_SCRATCH_BYTES)
        b_leading = columns
    if dtype == FLOAT32 or dtype == FLOAT64:
        product_by_blas(dtype == FLOAT64, a, a_leading, b, b_leading, c, c_row, rows, columns, k)
    elif dtype == FLOAT16 or dtype == BFLOAT16:
        product_by_blas(0, a, a_leading, b, b_leading, packed, columns, rows, columns, k)
        unpack(dtype, c, c_row, packed, rows, columns)
    else:
        product_of_integers(a, b, packed, rows, columns, k)
        unpack(dtype, c, c_row, packed, rows, columns)


def _short_panels(job: ptr, a: ptr, b: ptr, c: ptr, c_row: i64, rows: i64, columns: i64, scratch: ptr) -> None:
    """A tile of C of short floats, which are multiplied as float32."""
    dtype = load_i64(job, DTYPE)
    k = load_i64(job, K)
    right: ptr = scratch + load_i64(job, A_SCRATCH_BYTES)
    sums: ptr = right + load_i64(job, B_SCRATCH_BYTES)
    room: ptr = sums + load_i64(job, C_SCRATCH_BYTES)
    a_turned = _widen(dtype, scratch, a, rows, k, load_i64(job, A_ROW), load_i64(job, A_COLUMN))
    b_turned = _widen(dtype, right, b, k, columns, load_i64(job, B_ROW), load_i64(job, B_COLUMN))
    a_row = 1 if a_turned else k
    a_column = rows if a_turned else 1
    b_row = 1 if b_turned else columns
    b_column = k if b_turned else 1
    multiply_panels(scratch, a_row, a_column, right, b_row, b_column, sums, columns, rows, columns, k, 0, room)
    unpack(dtype, c, c_row, sums, rows, columns)


def _widen(dtype: i64, to: ptr, source: ptr, rows: i64, columns: i64, row: i64, column: i64) -> i64:
    """Copies an operand as float32, run by run of memory; returns whether these are its columns."""
    if row == 1 and column != 1:
        pack(dtype, to, source, columns, rows, column, row)
        return 1
    pack(dtype, to, source, rows, columns, row, column)
    return 0
