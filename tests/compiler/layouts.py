"""Operations on tensors whose elements lie in other orders, and anywhere in a page: prints what differs."""

from __future__ import annotations

from itertools import product

import numpy as np

import eagerjit as torch

FUNCTIONS = {
    "copy": lambda m, x, y: x + 1 - 1,
    "sum of two": lambda m, x, y: x + y,
    "choice": lambda m, x, y: torch.where(m, x, y),
    "masked": lambda m, x, y: x.masked_fill(m, 3),
    "of three": lambda m, x, y: x * m + y,
    "comparison": lambda m, x, y: (x > y) ^ m,
    "bytes": lambda m, x, y: x.to(torch.int8) + m,
    "floats": lambda m, x, y: x.to(torch.float32) * 0.5,
    "wider": lambda m, x, y: x.to(torch.float64) + y,
    "largest of rows": lambda m, x, y: (x + m).amax(-1),
    "sum of columns": lambda m, x, y: (x * m).sum(0),
    "less its mean": lambda m, x, y: x.double() - x.double().mean(-1, keepdim=True),
}


def long(m: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """More elementary functions than a kernel computes in two places."""
    return torch.where(m, x.sin() * y.cos(), (x * 0.01).exp() - y.tanh()) + (y * 0.01).sigmoid() * (x * 0.02).erf()


LONG = {
    "long": long,
    "long, of rows": lambda m, x, y: (long(m, x, y).sum(-1), long(m, x, y).amax(-1)),
    "long, comparison": lambda m, x, y: long(m, x, y) > 0.25,
    "long, complex": lambda m, x, y: torch.complex(long(m, x, y), long(m, y, x)),
    "long, halves": lambda m, x, y: long(m, x, y).to(torch.bfloat16),
    "long, in place": lambda m, x, y: x.copy_(long(m, x, y)) + 0,
    "long, with a row": lambda m, x, y: long(m, x, y[..., :1, :]),
}
"""Compiled as one kernel, compared with what they give operation by operation."""

SHAPES = (95, 129), (512, 127), (127, 512), (1024, 65), (33, 2048), (2048, 31), (6, 257, 64), (256, 3, 33)
DTYPES = np.float32, np.uint8, np.int64, np.int16
CASES = [(dtype, shape) for dtype, shape in product(DTYPES, SHAPES) if len(shape) == 2 or dtype in DTYPES[:2]]
"""Of three dimensions the widths of elements are two: what is further out counts rows, whatever is in them."""
STARTS = 0, 1, 1001, 2731


def placed(values: np.ndarray, turned: bool, start: int) -> tuple[torch.Tensor, np.ndarray]:
    """The values as a tensor that begins `start` elements after its memory, which is zero elsewhere, and this memory.

    The tensor's dimensions lie in reverse if `turned`.
    """
    stored = np.ascontiguousarray(values.T if turned else values)
    memory = np.zeros(start + stored.size + 64, stored.dtype)
    memory[start : start + stored.size] = stored.reshape(-1)
    x = torch.from_numpy(memory)[start : start + stored.size].reshape(stored.shape)
    return x.permute(*reversed(range(x.dim()))) if turned else x, memory


def differences() -> list[str]:
    """Names of functions, dtypes, shapes and layouts for which the order changed a result, or memory beside it."""
    rng, found = np.random.default_rng(0), []
    compiled = {name: torch.jit(function, fullgraph=True) for name, function in LONG.items()}
    for name, function in (FUNCTIONS | compiled).items():
        for dtype, shape in product(DTYPES[:1], SHAPES[:4]) if name in LONG else CASES:
            arrays = [rng.integers(0, 100, shape).astype(t) for t in (dtype, dtype)]
            arrays.insert(0, rng.integers(0, 2, shape).astype(bool))
            wanted = LONG.get(name, function)(*map(torch.tensor, arrays))
            for number, turned in enumerate(np.ndindex(2, 2, 2)):
                start = STARTS[number % len(STARTS)]
                given = [placed(a, bool(t), start) for a, t in zip(arrays, turned, strict=True)]
                results = function(*(x for x, _ in given))
                pairs = zip(results, wanted, strict=True) if isinstance(wanted, tuple) else [(results, wanted)]
                outside = any(memory[:start].any() or memory[start + x.numel() :].any() for x, memory in given)
                if outside or not all(torch.equal(result, value) for result, value in pairs):
                    found.append(f"{name} {np.dtype(dtype)} {shape} {turned} from {start}")
    return found


if __name__ == "__main__":
    print(*differences(), "the end", sep="\n")
