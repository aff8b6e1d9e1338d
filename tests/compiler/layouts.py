"""Operations on tensors whose elements lie in other orders, and anywhere in a page: prints what differs."""

from __future__ import annotations

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
SHAPES = (512, 127), (127, 512), (1024, 65), (33, 2048), (2048, 31), (6, 257, 64), (256, 3, 33)
DTYPES = np.float32, np.int64, np.uint8, np.int16
STARTS = 0, 1, 1001, 2731


def placed(values: np.ndarray, turned: bool, start: int) -> torch.Tensor:
    """The values as a tensor that begins `start` elements after its memory, its dimensions in reverse if `turned`."""
    stored = np.ascontiguousarray(values.T if turned else values)
    memory = np.zeros(start + stored.size + 64, stored.dtype)
    memory[start : start + stored.size] = stored.reshape(-1)
    x = torch.from_numpy(memory)[start : start + stored.size].reshape(stored.shape)
    return x.permute(*reversed(range(x.dim()))) if turned else x


def differences() -> list[str]:
    """Names of functions, dtypes, shapes and layouts for which the order in memory changed a result."""
    rng, found = np.random.default_rng(0), []
    for name, function in FUNCTIONS.items():
        for dtype in DTYPES:
            for shape in SHAPES:
                arrays = [rng.integers(0, 100, shape).astype(t) for t in (dtype, dtype)]
                arrays.insert(0, rng.integers(0, 2, shape).astype(bool))
                wanted = function(*(torch.from_numpy(a) for a in arrays))
                for number, turned in enumerate(np.ndindex(2, 2, 2)):
                    start = STARTS[number % len(STARTS)]
                    given = [placed(a, bool(t), start) for a, t in zip(arrays, turned, strict=True)]
                    if not torch.equal(function(*given), wanted):
                        found.append(f"{name} {np.dtype(dtype)} {shape} {turned} from {start}")
    return found


if __name__ == "__main__":
    print(*differences(), "the end", sep="\n")
