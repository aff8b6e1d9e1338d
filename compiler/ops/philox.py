"""The random number generator, in NumPy."""

from __future__ import annotations

import numpy as np


def philox(key: int, counter: np.ndarray, word: int) -> np.ndarray:
    """Philox4x32-10 (Salmon et al., SC 2011): one of the four 32-bit words for each 64-bit counter."""
    mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    counter = counter.astype(np.uint64)
    c = [counter & mask, counter >> shift, np.zeros_like(counter), np.zeros_like(counter)]
    k = [key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> shift) ^ c[1] ^ np.uint64(k[0]), b & mask, (a >> shift) ^ c[3] ^ np.uint64(k[1]), a & mask]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[word].astype(np.int64)
