"""Floats in Triton as a factor from 1 to 2 and a power of 2: products of such pairs are within the range of floats."""

from __future__ import annotations

from eagerjit.compiler.codegen.triton.operations import Function

TEXTS = {
    "split": """@triton.jit
def split(x):
    small = tl.abs(x) < 2.2250738585072014e-308
    x = tl.where(small, x * 18014398509481984.0, x)
    bits = x.to(tl.int64, bitcast=True)
    power = ((bits >> 52) & 2047).to(tl.int32) - 1023
    finite = (power < 1024) & (x != 0.0)
    factor = ((bits & -9218868437227405313) | 4607182418800017408).to(tl.float64, bitcast=True)
    return tl.where(finite, factor, x), tl.where(finite, tl.where(small, power - 54, power), 0)
""",
    "times": """@triton.jit
def times(x, i, y, j):
    both = x * y
    large = tl.abs(both) >= 2.0
    return tl.where(large, both * 0.5, both), i + j + large.to(i.dtype)
""",
    "joined": """@triton.jit
def joined(x, i):
    i = tl.minimum(tl.maximum(i, -1100), 1100).to(tl.int64)
    half = i >> 1
    return x * power_of_two(half) * power_of_two(i - half)
""",
    "power_of_two": """@triton.jit
def power_of_two(i):
    return ((i + 1023) << 52).to(tl.float64, bitcast=True)
""",
}
"""A float as such a pair, two pairs as one, a pair as a float, rounded once. Zeros, infinities and NaN are factors."""

FUNCTIONS = {name: Function(name, text) for name, text in TEXTS.items()}
