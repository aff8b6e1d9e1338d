"""Sobol' sequences: points that fill a cube more evenly than random ones, the same as PyTorch's without scrambling.

The direction numbers in `directions.bin` are those of https://web.maths.unsw.edu.au/~fkuo/sobol (S. Joe and F. Y. Kuo,
Constructing Sobol sequences with better two-dimensional projections, 2008; copyright 2008 F. Y. Kuo and S. Joe, who
allow their distribution with this notice): per dimension the inner coefficients of a primitive polynomial, then its
odd initial numbers without their last bits, of which number j has j.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from eagerjit.generator import Generator
from eagerjit.ops.index import concrete
from eagerjit.random import randint
from eagerjit.state import Defaults
from eagerjit.tensors.creation import from_numpy
from eagerjit.tensors.tensor import Tensor

__all__ = ["SobolEngine"]

_POLYNOMIALS = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)
"""How many primitive polynomials there are of each degree from 1 on."""
_READ = "points of a Sobol sequence were drawn"


class SobolEngine:
    """Draws the points of a Sobol' sequence in [0, 1)^dimension, in Gray code order.

    scramble    whether digits are shuffled by random matrices and shifts (Owen 1998), so that points are random ones
    seed        of the random numbers for that; None takes them from the default generator

    Raises ValueError for dimensions beyond 1 to 21201.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None):
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        directions, shift = _directions(dimension, self.MAXBIT), np.zeros(dimension, np.int64)
        if scramble:
            generator = None if seed is None else Generator().manual_seed(seed)
            bits = _bits((dimension, self.MAXBIT), generator)
            shift = bits @ (1 << np.arange(self.MAXBIT))
            directions = scrambled(directions, _bits((dimension, self.MAXBIT, self.MAXBIT), generator))
        self.sobolstate, self.shift = from_numpy(directions), from_numpy(shift)
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points: (n, dimension), in the default dtype unless another is given."""
        dtype = dtype or Defaults.dtype
        begins = self.num_generated == 0
        changes = self._changes(self.num_generated, n)
        last = concrete(self.quasi, _READ)
        points = np.bitwise_xor.accumulate(np.concatenate([last[None], changes]), 0)
        self.quasi = from_numpy(points[-1].copy())
        result = from_numpy(points[1:]).to(dtype) * 2.0**-self.MAXBIT
        if begins and n:
            from eagerjit.ops.index import cat

            result = cat.call([self._first_point.to(dtype), result], 0)
        self.num_generated += n
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2**m points. Raises ValueError unless there are a power of 2 of them in all."""
        count = 2**m
        total = self.num_generated + count
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(count, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin anew."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next n points."""
        self.num_generated += n
        place = max(self.num_generated - 1, 0)
        gray, directions = place ^ place >> 1, concrete(self.sobolstate, _READ)
        chosen = [bit for bit in range(self.MAXBIT) if gray >> bit & 1]
        moved = np.bitwise_xor.reduce(directions[:, chosen], 1, initial=0)
        self.quasi = from_numpy(concrete(self.shift, _READ) ^ moved)
        return self

    def _changes(self, number: int, n: int) -> np.ndarray:
        """What turns each point into the next, for n points of which the first has this number; 0 has no change."""
        places = np.arange(max(number - 1, 0), number + n - 1)
        lowest = np.bitwise_count(places & ~(places + 1))  # the lowest bit of a place that is 0
        if lowest.size and lowest.max() >= self.MAXBIT:
            raise ValueError(f"a Sobol sequence has {2**self.MAXBIT} points")
        return concrete(self.sobolstate, _READ).T[lowest]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        seed = f", seed={self.seed}" if self.seed is not None else ""
        return f"SobolEngine(dimension={self.dimension}{', scramble=True' if self.scramble else ''}{seed})"


def _bits(shape: tuple[int, ...], generator: Generator | None) -> np.ndarray:
    """Random bits."""
    return concrete(randint(2, shape, generator=generator, device="cpu"), _READ)


def scrambled(directions: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Direction numbers, their digits (highest first) multiplied by lower triangular matrices with diagonals of 1."""
    bits = directions.shape[1]
    places = np.arange(bits)[::-1]
    rows = (np.tril(matrices, -1) + np.eye(bits, dtype=np.int64)) @ (1 << places)
    made = np.zeros_like(directions)
    for place, row in zip(places, rows.T, strict=True):
        made |= (np.bitwise_count(row[:, None] & directions) & 1).astype(np.int64) << place
    return made


@functools.lru_cache(maxsize=8)
def _directions(dimension: int, bits: int) -> np.ndarray:
    """Direction numbers (dimension, bits): number j is odd and shifted to bit `bits` - 1 - j."""
    numbers = np.ones((dimension, bits), np.int64)
    data = np.unpackbits(np.fromfile(Path(__file__).with_name("directions.bin"), np.uint8))
    row, begin = 1, 0
    for degree, count in enumerate(_POLYNOMIALS, start=1):
        width = (degree - 1) * (degree + 2) // 2
        given = data[begin : begin + count * width].reshape(count, width)[: max(dimension - row, 0)].astype(np.int64)
        _fill(numbers[row : row + count], given, degree)
        row, begin = row + count, begin + count * width
    made = numbers << np.arange(bits)[::-1]
    made.flags.writeable = False
    return made


def _fill(numbers: np.ndarray, given: np.ndarray, degree: int) -> None:
    """The numbers of all polynomials of a degree, from the bits of these and of the first numbers."""
    coefficients, end = given[:, : degree - 1], degree - 1
    for j in range(1, degree):
        numbers[:, j] = given[:, end : end + j] @ (2 << np.arange(j)[::-1]) + 1
        end += j
    for j in range(degree, numbers.shape[1]):
        found = numbers[:, j - degree] ^ numbers[:, j - degree] << degree
        for k in range(1, degree):
            found ^= coefficients[:, k - 1] * numbers[:, j - k] << k
        numbers[:, j] = found
