"""erf, erfc and erfinv.

Near 0 erf is x times a polynomial in x^2. Further out it goes through erfc(x) = exp(-x^2) g(x), where (1 + 2x) g(x) is
a polynomial in (x - 3) / (x + 3). The f32 erf is a table of polynomials.
"""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.exponentials import exp, exp_of_sum, quotient
from eagerjit.compiler.codegen.logarithms import log1p
from eagerjit.compiler.codegen.numeric import INF, at_most, magnitude, polynomial, two_product, two_sum, with_sign
from eagerjit.compiler.codegen.piecewise import odd_function_of_halves
from eagerjit.compiler.codegen.piecewise_tables import ERF

# (erf(x)/x - 2/sqrt(pi)) / x^2 in x^2, up to 1
ERF_F64 = (
    -0.3761263890318375, 0.1128379167095493, -0.026866170645084494, 0.005223977624882095, -0.000854832698410484,
    0.00012055331220147, -1.4925597676394442e-05, 1.6461036613070184e-06, -1.635067373188651e-07,
    1.4662078946464707e-08, -1.1381338767755652e-09, 5.970924324507737e-11,
)  # fmt: skip
# exp(x^2) erfc(x) (1 + 2x) in (x - 3) / (x + 3), from 1/2 to 28
ERFCX_F64 = (
    1.2530080582697296, -0.1356211061245812, -0.04756229435345117, 0.1296451587027639, -0.11927366341527586,
    0.06830802734385973, -0.023770514919595254, 0.002529391818154376, 0.001888690372392707, -0.0007798322938472998,
    -0.0001051599009897229, 0.00012509949953209686, 4.949945793393385e-06, -2.0101242070871187e-05,
    -7.327908665120314e-07, 3.4745175232957565e-06, 3.589106903247984e-07, -6.210367074648548e-07,
    -1.431108476268531e-07, 1.0770851356705878e-07, 4.126411107805173e-08, -1.7797498505120584e-08,
    -6.75904338651315e-09, 2.485564800771361e-09,
)  # fmt: skip
# erfinv(x) / x in w - 2.5 up to w = 5, then in sqrt(w) - 4, where w = -log(1 - x^2)
ERFINV_NEAR = (
    1.5014093511463469, 0.2466402767403865, -0.0041773182372605785, -0.0012527079281030972, 0.0002182514741667576,
    -4.996029476108334e-06, -3.417693928774374e-06, 4.787015688062668e-07, 1.3874146417923263e-08,
    -1.0863823604246025e-08, 8.062276943026649e-10, 1.2359437518210852e-10, -1.9768940305592215e-11,
)  # fmt: skip
ERFINV_FAR = (
    3.8397838894255076, 1.0094926643047921, 0.0012575278705561996, -0.0008645054856897576, 0.00033001954617713263,
    -0.0001283821569604313, 4.309874526983288e-05, -2.1061931117961597e-05, 2.6205189673104816e-05,
    -1.55200386770308e-05, 1.290302733626367e-06, 1.5847916823953422e-06, -3.7447369183022844e-07,
)  # fmt: skip
TWO_OVER_SQRT_PI = 1.1283791670955126


def erf(x: Value) -> Value:
    """The error function."""
    if x.dtype == "f32":
        return odd_function_of_halves(x, "erf", ERF)
    a = magnitude(x)
    return x.builder.select(a < 1.0, _erf_near(x), with_sign(1.0 - _erfc_tail(at_most(a, 6.0)), x))


def _erf_near(x: Value) -> Value:
    """erf(x) for |x| up to 1 (f64)."""
    b = x.builder
    square = x * x
    return b.fma(x, b.fma(square, polynomial(square, ERF_F64), TWO_OVER_SQRT_PI - 1.0), x)


def _erfc_tail(x: Value) -> Value:
    """erfc(x) for x from 1/2 on (f64)."""
    b = x.builder
    square = x * x
    e = exp_of_sum(-square, -b.fma(x, x, -square))
    n, n_low = two_product(e, polynomial((x - 3.0) / (x + 3.0), ERFCX_F64))
    d, d_low = two_sum(2.0 * x, b.constant("f64", 1.0))
    return quotient(n, n_low, d, d_low)


def erfc(x: Value) -> Value:
    """1 - erf(x), relatively exact for large x (f64)."""
    b = x.builder
    tail = _erfc_tail(at_most(magnitude(x), 28.0))
    return b.select(magnitude(x) < 0.65, 1.0 - _erf_near(x), b.select(x < 0.0, 2.0 - tail, tail))


def erfinv_near(x: Value) -> Value:
    """The inverse of erf with 24 correct bits (f64)."""
    b = x.builder
    w = -log1p(-(x * x))
    near = polynomial(w - 2.5, ERFINV_NEAR)
    far = polynomial(b.intrinsic("sqrt", w) - 4.0, ERFINV_FAR)
    result = x * b.select(w < 5.0, near, far)
    return b.select(magnitude(x).eq(1.0), with_sign(b.constant(x.dtype, INF), x), result)


def erfinv(x: Value) -> Value:
    """The inverse of erf: one step of Halley's method after the approximation (f64)."""
    b = x.builder
    a = magnitude(x)
    # 1 - x^2 = (1 - |x|) (1 + |x|) keeps its digits near 1.
    y = erfinv_near(a)
    finite = at_most(y, 6.0)
    error = b.select(a < 0.5, _erf_near(finite) - a, (1.0 - a) - erfc(finite))
    step = error * (1.0 / TWO_OVER_SQRT_PI) * exp(finite * finite)
    refined = y - step / b.fma(step, finite, 1.0)
    return with_sign(b.select(y < 7.0, refined, y), x)
