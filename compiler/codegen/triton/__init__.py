"""Kernel IR -> Triton: a readable Python file per kernel.

A kernel is a loop over tasks. How it runs on a GPU is read off its loops (`mapping.py`):

- pointwise, one index      a program per block of 1024 elements
- the same on many tensors  a program finds its tensor by its number (`several.py`)
- pointwise, several        blocks of tasks x elements, all numbered in one grid; square ones where an operand is read
                            across, which Triton then moves through shared memory
- rows (softmax, norms)     a program per rows that fill 1024 lanes; a row of up to 16384 elements is a block, so that
                            every phase works on registers and memory is read once; longer ones are taken in steps,
                            by several programs where rows are few
- all, to a number          at most 1024 programs with running sums per lane, then one that combines their results
- columns                   a program per part of the rows and block of columns, the sum a register; again combined
- rows or elements added    a program per entry, of which the first of each destination adds the others in order; or
                            columns in parallel, in the order of the entries (`ordered.py`); of many entries the
                            first in a piece of their order, and what pieces come to is joined (`joined.py`)
- products                  a tile per program, or several programs that add in turn (`tiles.py`); what follows
                            elementwise on parts of the tile (`product.py`)
- convolutions              products whose factors are gathered, for the output and both gradients (`convolution.py`)
- attention                 a block of rows, or of keys, per program; the others in steps (`attention.py`)
- scans                     lines in steps with what is carried along (`along.py`, `running.py`); programs share few
                            long ones (`lines.py`)
- orders                    places counted within runs, then runs merged by bisection (`sorting.py`)
- sparse products           some rows and columns per program, some entries of every row at a time (`weighted.py`)
- small matrices            one per program, in registers (`matrices.py`)
- lookups                   loads at loaded indices, masked by the check that they are in range

Values are what they are on the CPU (`values.py`): the same polynomials, 16-bit floats as rounded f32, integers that
wrap, Philox. Divisions and roots round to nearest, nothing is contracted, so results without sums are the CPU's bit for
bit. A failed check stores its number in `status`; its lanes touch no memory. The order of a sum depends on extents.
"""
