"""Where the coefficients in `compiler/codegen` come from: minimax polynomials, computed with 50 digits.

    python -m benchmarks.fit_polynomials [NAME ...]

Prints each polynomial's coefficients and the largest relative error it adds to its function; `tanh` is a
table of polynomials per quarter of an octave, `erf` one of polynomials per half. The last digits depend on the points
sampled. Needs mpmath.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mp, mpf

Function = Callable[[Any], Any]
mp.dps = 50


@dataclass(frozen=True)
class Fit:
    """A polynomial p for `function` on low..high whose largest `weight` * (p - function) is as small as can be."""

    function: Function
    weight: Function
    low: Any
    high: Any
    degree: int
    single: bool


def minimax(fit: Fit, points: int = 600) -> tuple[list[Any], Any]:
    """The coefficients and the largest weighted error, by Remez's exchange."""
    count = fit.degree + 1
    low, high = mpf(fit.low), mpf(fit.high)
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / points) for i in range(points + 1)]
    values, weights = [fit.function(x) for x in grid], [fit.weight(x) for x in grid]
    nodes = [round(points * (1 - float(mp.cos(mp.pi * i / count))) / 2) for i in range(count + 1)]
    for _ in range(15):
        matrix, right = mp.matrix(count + 1, count + 1), mp.matrix(count + 1, 1)
        for row, i in enumerate(nodes):
            for power in range(count):
                matrix[row, power] = grid[i] ** power
            matrix[row, count] = (-1) ** row / weights[i]
            right[row] = values[i]
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[i] for i in range(count)]
        errors = [w * (mp.polyval(coefficients[::-1], x) - v) for x, v, w in zip(grid, values, weights, strict=True)]
        largest = max(map(abs, errors))
        extremes = alternating(errors)
        while len(extremes) > count + 1:
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        if len(extremes) < count + 1 or largest < abs(solution[count]) * mpf("1.01"):
            break
        nodes = extremes
    return coefficients, largest


def alternating(errors: Sequence[Any]) -> list[int]:
    """The place of the largest error of each run of one sign."""
    places: list[int] = []
    for i, error in enumerate(errors):
        if places and (error > 0) == (errors[places[-1]] > 0):
            places[-1] = max(places[-1], i, key=lambda place: abs(errors[place]))
        else:
            places.append(i)
    return places


def of_square(function: Function, first: Any, at_zero: Any) -> Function:
    """(function(x)/x - first) / x^2 in z = x^2."""
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - first) / z if z > mpf("1e-18") else at_zero


def exp_rest(r: Any) -> Any:
    return (mp.expm1(r) - r) / r**2 if abs(r) > mpf("1e-12") else mpf(1) / 2 + r / 6


def log_rest(r: Any) -> Any:
    return (mp.log1p(r) - r + r * r / 2) / r**3 if abs(r) > mpf("1e-10") else mpf(1) / 3 - r / 4


def cos_rest(z: Any) -> Any:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > mpf("1e-9") else mpf(1) / 24 - z / 720


def scaled_erfcx(t: Any) -> Any:
    x = 3 * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def erfinv_ratio(w: Any) -> Any:
    """erfinv(x) / x for x^2 = 1 - e^-w."""
    if w < mpf("1e-8"):
        return mp.sqrt(mp.pi) / 2 * (1 + w * mp.pi / 12)
    x = mp.sqrt(-mp.expm1(-w))
    log_complement = mp.log(-mp.expm1(mp.log1p(-mp.exp(-w)) / 2))
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) - log_complement, 0.9 * mp.sqrt(w)) / x


LN2_HALF, QUARTER = mp.log(2) / 2 * mpf("1.002"), (mp.pi / 4 * mpf("1.0005")) ** 2
ROOT = mp.sqrt(2)
ATANH_LIMIT = ((ROOT - 1) / (ROOT + 1)) ** 2 * mpf("1.01")
SIN = of_square(mp.sin, 1, -mpf(1) / 6)
ERF = of_square(mp.erf, 2 / mp.sqrt(mp.pi), -2 / mp.sqrt(mp.pi) / 3)
ATAN, ASIN = of_square(mp.atan, 1, -mpf(1) / 3), of_square(mp.asin, 1, mpf(1) / 6)
ATANH = of_square(lambda s: 2 * mp.atanh(s), 2, mpf(2) / 3)


def of_z(z: Any) -> Any:
    return z + mpf("1e-9")


FITS = {
    "exp f32": Fit(exp_rest, lambda r: r * r / mp.exp(r) + mpf("1e-12"), -LN2_HALF, LN2_HALF, 4, True),
    "expm1 f32": Fit(exp_rest, lambda r: abs(r) + mpf("1e-6"), -LN2_HALF, LN2_HALF, 5, True),
    "exp f64": Fit(exp_rest, lambda r: abs(r) + mpf("1e-6"), -LN2_HALF, LN2_HALF, 10, False),
    "log f32": Fit(log_rest, lambda r: r * r + mpf("1e-3"), 1 / ROOT - 1, ROOT - 1, 8, True),
    "log f64": Fit(ATANH, of_z, 0, ATANH_LIMIT, 7, False),
    "log short": Fit(ATANH, of_z, 0, ATANH_LIMIT, 4, False),
    "log2 f32": Fit(
        lambda r: log_rest(r) / mp.log(2), lambda r: r * r + mpf("4e-6"), mpf(-21) / 1024, mpf(1) / 32, 3, True
    ),
    "sin f32": Fit(SIN, of_z, 0, QUARTER, 2, True),
    "sin f64": Fit(SIN, of_z, 0, QUARTER, 6, False),
    "cos f32": Fit(cos_rest, lambda z: z * z + mpf("1e-12"), 0, QUARTER, 2, True),
    "cos f64": Fit(cos_rest, lambda z: z * z + mpf("1e-12"), 0, QUARTER, 5, False),
    "atan": Fit(ATAN, of_z, 0, (ROOT - 1) ** 2 * mpf("1.001"), 11, False),
    "asin": Fit(ASIN, of_z, 0, mpf("0.2501"), 12, False),
    "erf f64": Fit(ERF, of_z, 0, 1, 11, False),
    "erfcx": Fit(scaled_erfcx, lambda t: 1 / scaled_erfcx(t), mpf(-2.5) / mpf(3.5), mpf(25) / 31, 23, False),
    "erfinv near": Fit(lambda u: erfinv_ratio(u + 2.5), lambda u: 1 / erfinv_ratio(u + 2.5), -2.5, 2.5, 12, False),
    "erfinv far": Fit(
        lambda u: erfinv_ratio((u + 4) ** 2), lambda u: 1 / erfinv_ratio((u + 4) ** 2), mp.sqrt(5) - 4, 2.15, 12, False
    ),
}
TABLES = {"tanh": lambda: table(mp.tanh, 9.2, 5), "erf": lambda: table_of_halves(mp.erf, 7)}


def single(number: Any) -> float:
    return float(np.float32(float(number)))


def least_squares(function: Function, weight: Function, low: Any, high: Any, powers: Sequence[int]) -> list[Any]:
    """Coefficients for some powers, from samples at Chebyshev's nodes."""
    nodes = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / 96) for i in range(48)]
    matrix = mp.matrix([[weight(x) * x**power for power in powers] for x in nodes])
    right = mp.matrix([weight(x) * function(x) for x in nodes])
    return list(mp.lu_solve(matrix.T * matrix, matrix.T * right))


def table_column(function: Function, low: float, high: float, degree: int, first: bool) -> list[float]:
    """A centre, the function there, and coefficients rounded to f32 one by one, each making up for those before."""
    centre = 0.0 if first else float_centre(function, low, high)
    value, half = function(mpf(centre)), (mpf(high) - low) / 2

    def slope(d: Any) -> Any:
        d = max(d, mpf("1e-9"), key=abs)
        return (function(centre + d) - value) / d - first

    def weight(d: Any) -> Any:
        return mpf(1) if first else max(abs(d), half / 20) / function(centre + d)

    fixed: list[float] = []
    for power in range(degree):
        rest = least_squares(
            lambda d: slope(d) - mp.polyval(fixed[::-1] or [0], d), weight, mpf(low) - centre, mpf(high) - centre,
            range(power, degree),
        )  # fmt: skip
        fixed.append(single(rest[0]))
    return [centre, single(value), *fixed]


def float_centre(function: Function, low: float, high: float) -> float:
    """A number near the middle whose function value is almost exactly an f32."""
    middle = int(np.float32((low + high) / 2).view(np.uint32))
    candidates = [float(np.uint32(middle + 7 * k).view(np.float32)) for k in range(-400, 400)]

    def distance(centre: float) -> Any:
        value = function(mpf(centre))
        return abs(value - single(value)) / value

    return min(sorted(candidates, key=lambda c: abs(c - (low + high) / 2))[:200], key=distance)


def table(function: Function, stop: float, degree: int) -> list[list[float]]:
    """Columns by bits 21 to 25 of the argument, as rows per power."""
    columns = [[0.0] * (degree + 2) for _ in range(32)]
    first, last = (int(np.float32(x).view(np.uint32)) >> 21 for x in (0.12, stop))
    for cell in range(first, last + 1):
        low, high = (float(np.uint32((cell + end) << 21).view(np.float32)) for end in (0, 1))
        columns[cell & 31] = table_column(
            function, 0.0 if cell == first else low, min(high, stop), degree, cell == first
        )
    return [list(row) for row in zip(*columns, strict=True)]


def table_of_halves(function: Function, degree: int) -> list[list[float]]:
    """Columns for 0 to 1/2, 1/2 to 1 and so on up to 4, as rows per power."""
    columns = [table_column(function, j / 2, j / 2 + 0.5, degree, j == 0) for j in range(8)]
    return [list(row) for row in zip(*columns, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit_polynomials", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join((*FITS, *TABLES))} (all)")
    for name in parser.parse_args().names or (*FITS, *TABLES):
        if name in TABLES:
            print(name, *TABLES[name](), sep="\n  ")
            continue
        coefficients, error = minimax(FITS[name])
        numbers = [single(c) if FITS[name].single else float(c) for c in coefficients]
        print(f"{name}: error 2^{float(mp.log(error, 2)):.1f}\n  {numbers}", flush=True)


if __name__ == "__main__":
    main()
