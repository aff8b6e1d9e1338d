"""Special functions against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import compare, draw

RANGES = {
    "below 1": draw((3, 4), "float64", 0.1, 0.9, 3),
    "wide": draw((3, 4), "float64", -4, 4, 2),
    "single": draw((3, 4), "float32", -4, 4, 2),
}
ANYWHERE = """erf erfc erfcx exp2 expit expm1 i0 i0e i1 i1e log_ndtr ndtr sinc round""".split()
NARROW = "digamma entr erfinv gammaln log1p logit ndtri psi".split()


@pytest.mark.parametrize("values", RANGES)
@pytest.mark.parametrize("name", [*ANYWHERE, *NARROW])
def test_values(name: str, values: str) -> None:
    if name in ANYWHERE or values == "below 1":
        compare(
            lambda t, x: getattr(t.special, name)(x), RANGES[values], tolerance=1e-4 if values == "single" else 1e-8
        )


PAIRS: dict[str, Any] = {
    "xlogy": lambda t, x, y: t.special.xlogy(x, y),
    "xlog1py": lambda t, x, y: t.special.xlog1py(x, y),
    "zeta": lambda t, x, y: t.special.zeta((x + 1).detach(), y.detach()),
    "gammainc": lambda t, x, y: t.special.gammainc(x.detach(), y),
    "gammaincc": lambda t, x, y: t.special.gammaincc(x.detach(), y),
    "multigammaln": lambda t, x, y: t.special.multigammaln(y + 1, 2),
    "polygamma": lambda t, x, y: t.special.polygamma(2, y),
    "softmax": lambda t, x, y: (t.special.softmax(x, 1), t.special.log_softmax(y, 0), t.special.logsumexp(x, 1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    compare(PAIRS[name], draw((3, 4), "float64", 0.1, 0.9, 3), draw((3, 4), "float64", 1.2, 5, 5), tolerance=1e-8)


def test_tails() -> None:
    values = np.array([-30.0, -8, -3, 0, 5, 30])
    compare(lambda t, x: (t.special.log_ndtr(x), t.special.erfcx(x.abs())), values, tolerance=1e-7)
