"""The tables of special cases of the array API standard 2024.12 (Elementwise functions), in a few characters a case.

A case of a real function is its operands and its result; one of a complex function `real,imaginary -> real,imaginary`.
Operands are numbers or classes of numbers, `VALUES`; results are numbers, or are computed from the operands, `RESULTS`.
`?` before a result leaves its sign open.
"""

from __future__ import annotations

import math

nan, inf, pi = math.nan, math.inf, math.pi

POSITIVE = (1e-30, 0.5, 1.0, 1.5, 2.0, 3.0, 1e30)
NEGATIVE = tuple(-x for x in POSITIVE)
NONZERO = POSITIVE + NEGATIVE
ZEROS = (0.0, -0.0)

VALUES: dict[str, tuple[float, ...]] = {
    "nan": (nan,), "inf": (inf,), "-inf": (-inf,), "+0": (0.0,), "-0": (-0.0,), "1": (1.0,), "-1": (-1.0,),
    "0": ZEROS, "+-1": (1.0, -1.0), "+-inf": (inf, -inf),
    "positive": POSITIVE, "negative": NEGATIVE, "nonzero": NONZERO, "finite": NONZERO + ZEROS,
    ">0": (*POSITIVE, inf), "<0": (*NEGATIVE, -inf), ">1": (1.5, 3.0, 1e30, inf), "<-1": (-1.5, -3.0, -1e30, -inf),
    "<1": (0.5, 0.0, -0.0, -1.0, -1e30, -inf),
    "|>1|": (1.5, -2.0, 1e30, -inf), "|<1|": (0.5, -0.5, 0.0, -0.0), "not-1": (0.0, -1.0, 2.0, inf, -inf),
    "not-nan": (*NONZERO, *ZEROS, inf, -inf), "not-0": (*NONZERO, inf, -inf, nan),
    "any": (*NONZERO, *ZEROS, inf, -inf, nan), "number": (*NONZERO, *ZEROS, nan),
    "odd>0": (1.0, 3.0, 7.0), "even>0": (2.0, 0.5, 1.5, 1e30, inf), "odd<0": (-1.0, -3.0, -7.0),
    "even<0": (-2.0, -0.5, -1.5, -1e30, -inf), "fraction": (0.5, -0.5, 1.5, -2.5),
    "whole": (1.0, -1.0, 2.0, -3.0, 1e30), "halves": (0.5, 1.5, 2.5, -0.5, -1.5, -2.5),
}  # fmt: skip
"""Numbers that an operand stands for."""

NUMBERS = {
    "nan": nan, "inf": inf, "-inf": -inf, "+0": 0.0, "-0": -0.0, "0": 0.0, "1": 1.0, "-1": -1.0, "pi": pi, "-pi": -pi,
    "pi/2": pi / 2, "-pi/2": -pi / 2, "pi/4": pi / 4, "-pi/4": -pi / 4, "3pi/4": 3 * pi / 4, "-3pi/4": -3 * pi / 4,
    "True": True, "False": False,
}  # fmt: skip
"""Results that are numbers."""

RESULTS = {
    "x1": lambda x1, *rest: x1,
    "x2": lambda x1, x2: x2,
    "|x1|": lambda x1, *rest: abs(x1),
    "-|x1|": lambda x1, *rest: -abs(x1),
    "|x2|": lambda x1, x2: abs(x2),
    "even": lambda x1: float(round(x1)) if round(x1) else math.copysign(0.0, x1),
    "x1/x2": lambda x1, x2: x1 / x2,
}
"""Results that are computed from the operands."""

_ODD = "nan nan; +0 +0; -0 -0"  # what odd functions do with zeros
_ROUNDS = f"{_ODD}; inf inf; -inf -inf; whole x1"
_DIVIDES = (
    "nan any nan; any nan nan; +-inf +-inf nan; 0 0 nan; +0 >0 +0; -0 >0 -0; +0 <0 -0; -0 <0 +0; "
    ">0 +0 inf; >0 -0 -inf; <0 +0 -inf; <0 -0 inf; "
)
_LOGARITHM = "nan nan; <0 nan; 0 -inf; 1 +0; inf inf"

REAL: dict[str, str] = {
    "abs": "nan nan; -0 +0; -inf inf; finite |x1|",
    "acos": "nan nan; >1 nan; <-1 nan; 1 +0",
    "acosh": "nan nan; <1 nan; 1 +0; inf inf",
    "add": "nan any nan; any nan nan; inf -inf nan; -inf inf nan; inf inf inf; -inf -inf -inf; inf finite inf; "
    "-inf finite -inf; finite inf inf; finite -inf -inf; -0 -0 -0; -0 +0 +0; +0 -0 +0; +0 +0 +0; 0 nonzero x2; "
    "nonzero 0 x1",
    "asin": f"{_ODD}; >1 nan; <-1 nan",
    "asinh": f"{_ODD}; inf inf; -inf -inf",
    "atan": f"{_ODD}; inf pi/2; -inf -pi/2",
    "atan2": "nan any nan; any nan nan; >0 +0 pi/2; >0 -0 pi/2; +0 >0 +0; +0 +0 +0; +0 -0 pi; +0 <0 pi; -0 >0 -0; "
    "-0 +0 -0; -0 -0 -pi; -0 <0 -pi; <0 +0 -pi/2; <0 -0 -pi/2; positive inf +0; positive -inf pi; negative inf -0; "
    "negative -inf -pi; inf finite pi/2; -inf finite -pi/2; inf inf pi/4; inf -inf 3pi/4; -inf inf -pi/4; "
    "-inf -inf -3pi/4",
    "atanh": f"{_ODD}; <-1 nan; >1 nan; -1 -inf; 1 inf",
    "ceil": _ROUNDS,
    "copysign": "not-nan <0 -|x1|; not-nan -0 -|x1|; not-nan +0 |x1|; not-nan >0 |x1|; nan any nan",
    "cos": "nan nan; 0 1; +-inf nan",
    "cosh": "nan nan; 0 1; +-inf inf",
    "divide": f"{_DIVIDES} inf positive inf; inf negative -inf; -inf positive -inf; -inf negative inf; "
    "positive inf +0; positive -inf -0; negative inf -0; negative -inf +0",
    "equal": "nan any False; any nan False; inf inf True; -inf -inf True; 0 0 True; inf finite False; 1 1 True; "
    "1 -1 False",
    "exp": "nan nan; 0 1; inf inf; -inf +0",
    "expm1": f"{_ODD}; inf inf; -inf -1",
    "floor": _ROUNDS,
    # An infinity divided, or a number divided by an infinity of the other sign, may be what Python has: NaN and -1.
    "floor_divide": f"{_DIVIDES} +-inf nonzero nan; positive inf +0; positive -inf -1; negative inf -1; "
    "negative -inf +0",
    "hypot": "+-inf any inf; any +-inf inf; 0 any |x2|; any 0 |x1|; number nan nan; nan number nan",
    "isfinite": "inf False; -inf False; nan False; finite True",
    "isinf": "inf True; -inf True; nan False; finite False",
    "isnan": "inf False; -inf False; nan True; finite False",
    "log": _LOGARITHM,
    "log10": _LOGARITHM,
    "log1p": f"{_ODD}; <-1 nan; -1 -inf; inf inf",
    "log2": _LOGARITHM,
    "logaddexp": "nan any nan; any nan nan; inf not-nan inf; not-nan inf inf",
    "maximum": "nan any nan; any nan nan; inf not-nan inf; -inf finite x2",
    "minimum": "nan any nan; any nan nan; -inf not-nan -inf; inf finite x2",
    "multiply": "nan any nan; any nan nan; +-inf 0 nan; 0 +-inf nan; inf positive inf; inf negative -inf; "
    "-inf positive -inf; -inf negative inf; positive inf inf; positive -inf -inf; negative inf -inf; "
    "negative -inf inf; inf inf inf; -inf -inf inf; inf -inf -inf; -inf inf -inf; +0 positive +0; +0 negative -0; "
    "-0 negative +0; -0 positive -0; +0 +0 +0; +0 -0 -0; -0 -0 +0",
    "nextafter": "nan any nan; any nan nan; -0 +0 +0; +0 -0 -0; 1 1 1; inf inf inf",
    "not_equal": "nan any True; any nan True; inf -inf True; -inf inf True; inf inf False; 0 0 False; 1 -1 True",
    "pow": "not-1 nan nan; any 0 1; nan not-0 nan; |>1| inf inf; |>1| -inf +0; +-1 inf 1; +-1 -inf 1; "
    "1 not-nan 1; |<1| inf +0; |<1| -inf inf; inf >0 inf; inf <0 +0; -inf odd>0 -inf; -inf even>0 inf; -inf odd<0 -0; "
    "-inf even<0 +0; +0 >0 +0; +0 <0 inf; -0 odd>0 -0; -0 even>0 +0; -0 odd<0 -inf; -0 even<0 inf; "
    "negative fraction nan",
    "reciprocal": "nan nan; +0 inf; -0 -inf; inf +0; -inf -0",
    "remainder": "nan any nan; any nan nan; +-inf +-inf nan; 0 0 nan; +0 >0 +0; -0 >0 +0; +0 <0 -0; -0 <0 -0; "
    ">0 0 nan; <0 0 nan; +-inf nonzero nan; positive inf x1; positive -inf x2; negative inf x2; negative -inf x1",
    "round": f"{_ROUNDS}; halves even",
    "sign": "<0 -1; 0 0; >0 1; nan nan",
    "signbit": "+0 False; -0 True; inf False; -inf True; positive False; negative True",
    "sin": f"{_ODD}; +-inf nan",
    "sinh": f"{_ODD}; inf inf; -inf -inf",
    "sqrt": f"{_ODD}; <0 nan; inf inf",
    "square": "nan nan; 0 +0; +-inf inf",
    "subtract": "nan any nan; any nan nan; inf inf nan; -inf -inf nan; inf -inf inf; -inf inf -inf; -0 +0 -0; "
    "-0 -0 +0; +0 +0 +0; +0 -0 +0; nonzero 0 x1",
    "tan": f"{_ODD}; +-inf nan",
    "tanh": f"{_ODD}; inf 1; -inf -1",
    "trunc": _ROUNDS,
}

COMPLEX: dict[str, str] = {
    "abs": "+-inf,any -> inf; any,+-inf -> inf; nan,finite -> nan; finite,nan -> nan; nan,nan -> nan",
    "acos": "0,+0 -> pi/2,-0; 0,nan -> pi/2,nan; finite,inf -> pi/2,-inf; nonzero,nan -> nan,nan; "
    "-inf,positive -> pi,-inf; inf,positive -> +0,-inf; -inf,inf -> 3pi/4,-inf; inf,inf -> pi/4,-inf; "
    "+-inf,nan -> nan,?inf; nan,finite -> nan,nan; nan,inf -> nan,-inf; nan,nan -> nan,nan",
    "acosh": "0,+0 -> +0,pi/2; finite,inf -> inf,pi/2; nonzero,nan -> nan,nan; +0,nan -> nan,?pi/2; "
    "-inf,positive -> inf,pi; inf,positive -> inf,+0; -inf,inf -> inf,3pi/4; inf,inf -> inf,pi/4; "
    "+-inf,nan -> inf,nan; nan,finite -> nan,nan; nan,inf -> inf,nan; nan,nan -> nan,nan",
    "asinh": "+0,+0 -> +0,+0; positive,inf -> inf,pi/2; finite,nan -> nan,nan; inf,positive -> inf,+0; "
    "inf,inf -> inf,pi/4; nan,+0 -> nan,+0; nan,nonzero -> nan,nan; nan,inf -> ?inf,nan; nan,nan -> nan,nan",
    "atanh": "+0,+0 -> +0,+0; +0,nan -> +0,nan; 1,+0 -> inf,+0; positive,inf -> +0,pi/2; nonzero,nan -> nan,nan; "
    "inf,positive -> +0,pi/2; inf,inf -> +0,pi/2; inf,nan -> +0,nan; nan,finite -> nan,nan; nan,inf -> ?0,pi/2; "
    "nan,nan -> nan,nan",
    "cosh": "+0,+0 -> 1,+0; +0,inf -> nan,?0; +0,nan -> nan,?0; nonzero,inf -> nan,nan; nonzero,nan -> nan,nan; "
    "inf,+0 -> inf,+0; inf,1 -> inf,inf; inf,inf -> ?inf,nan; inf,nan -> inf,nan; nan,0 -> nan,?0; "
    "nan,nonzero -> nan,nan; nan,nan -> nan,nan",
    "exp": "0,+0 -> 1,+0; finite,inf -> nan,nan; finite,nan -> nan,nan; inf,+0 -> inf,+0; -inf,1 -> +0,+0; "
    "-inf,-1 -> +0,-0; inf,1 -> inf,inf; inf,-1 -> inf,-inf; -inf,inf -> ?0,?0; inf,inf -> ?inf,nan; "
    "-inf,nan -> ?0,?0; inf,nan -> ?inf,nan; nan,+0 -> nan,+0; nan,nonzero -> nan,nan; nan,nan -> nan,nan",
    "expm1": "0,+0 -> ?0,+0; finite,inf -> nan,nan; finite,nan -> nan,nan; inf,+0 -> inf,+0; -inf,1 -> -1,+0; "
    "inf,1 -> inf,inf; -inf,inf -> -1,?0; inf,inf -> ?inf,nan; -inf,nan -> -1,?0; inf,nan -> ?inf,nan; "
    "nan,+0 -> nan,+0; nan,nonzero -> nan,nan; nan,nan -> nan,nan",
    "isfinite": "nan,any -> False; any,nan -> False; +-inf,any -> False; any,+-inf -> False; finite,finite -> True",
    "isinf": "+-inf,any -> True; number,+-inf -> True; number,number -> False",
    "isnan": "nan,any -> True; any,nan -> True; not-nan,not-nan -> False",
    "log": "-0,+0 -> -inf,pi; +0,+0 -> -inf,+0; finite,inf -> inf,pi/2; finite,nan -> nan,nan; "
    "-inf,positive -> inf,pi; inf,positive -> inf,+0; -inf,inf -> inf,3pi/4; inf,inf -> inf,pi/4; "
    "+-inf,nan -> inf,nan; nan,finite -> nan,nan; nan,inf -> inf,nan; nan,nan -> nan,nan",
    "log1p": "-1,+0 -> -inf,+0; finite,inf -> inf,pi/2; finite,nan -> nan,nan; -inf,positive -> inf,pi; "
    "inf,positive -> inf,+0; -inf,inf -> inf,3pi/4; inf,inf -> inf,pi/4; +-inf,nan -> inf,nan; nan,finite -> nan,nan; "
    "nan,inf -> inf,nan; nan,nan -> nan,nan",
    "sign": "0,0 -> +0,+0; nan,any -> nan,nan; any,nan -> nan,nan; positive,+0 -> 1,+0; -0,negative -> -0,-1",
    "sinh": "+0,+0 -> +0,+0; +0,inf -> ?0,nan; +0,nan -> ?0,nan; positive,inf -> nan,nan; positive,nan -> nan,nan; "
    "inf,+0 -> inf,+0; inf,1 -> inf,inf; inf,inf -> ?inf,nan; inf,nan -> ?inf,nan; nan,+0 -> nan,+0; "
    "nan,nonzero -> nan,nan; nan,nan -> nan,nan",
    # The standard has the roots of both real infinities wrong; these are C's, which it follows elsewhere.
    "sqrt": "0,+0 -> +0,+0; any,inf -> inf,inf; finite,nan -> nan,nan; -inf,positive -> +0,inf; "
    "inf,positive -> inf,+0; -inf,nan -> nan,?inf; inf,nan -> inf,nan; nan,number -> nan,nan",
    # Of +0 with an infinite or NaN imaginary part, older versions of C and NumPy have NaN for the real one too.
    "tanh": "+0,+0 -> +0,+0; nonzero,inf -> nan,nan; nonzero,nan -> nan,nan; inf,1 -> 1,+0; inf,inf -> 1,?0; "
    "inf,nan -> 1,?0; nan,+0 -> nan,+0; nan,nonzero -> nan,nan; nan,nan -> nan,nan",
}

ROTATED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh"}
"""Functions whose complex special cases are those of another: f(x) = -1j * g(1j * x)."""
