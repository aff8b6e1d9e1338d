"""Functions of SciPy and scikit-learn that are written for the array API standard, called with tensors and with arrays.

As a program it prints, as JSON, what came of each: the type of its result on tensors, and whether the values are those
of NumPy's arrays. SciPy reads `SCIPY_ARRAY_API` when it is imported, so this needs a process of its own.
"""

from __future__ import annotations

import json
from typing import Any

CALLS = {
    "zscore": "stats.zscore(x, axis=0)",
    "skewness": "stats.skew(x, axis=0)",
    "kurtosis": "stats.kurtosis(x, axis=0)",
    "moment": "stats.moment(x, 2, axis=0)",
    "geometric mean": "stats.gmean(abs(x) + 1, axis=0)",
    "harmonic mean": "stats.hmean(abs(x) + 1, axis=0)",
    "power mean": "stats.pmean(abs(x) + 1, 3, axis=0)",
    "standard error": "stats.sem(x, axis=0)",
    "t-test": "tuple(stats.ttest_1samp(x, 0.0, axis=0))",
    "correlation": "tuple(stats.pearsonr(x[:, 0], x[:, 1]))",
    "entropy": "stats.entropy(abs(x), axis=0)",
    "variation": "stats.variation(x, axis=0)",
    "ranks": "stats.rankdata(x, axis=0)",
    "quantile": "stats.quantile(x, 0.3, axis=0)",
    "describe": "stats.describe(x, axis=0)[2:]",
    "chi-square test": "tuple(stats.chisquare(abs(x) / abs(x).sum(0) * 5, axis=0))",
    "trapezoids": "integrate.trapezoid(x, axis=0)",
    "cubature": "integrate.cubature(lambda z: (z**2)[..., 0], x[:1, 0] * 0, x[:1, 0] * 0 + 2).estimate",
    "root": "elementwise.find_root(lambda z, c: z**3 - c, (x * 0 - 5, x * 0 + 5), args=(abs(x) + 1,)).x",
    "logsumexp": "special.logsumexp(x, axis=0)",
    "softmax": "special.softmax(x, axis=0)",
    "log_softmax": "special.log_softmax(x, axis=1)",
    "expit": "special.expit(x)",
    "xlogy": "special.xlogy(abs(x), abs(x))",
    "whiten": "vq.whiten(x)",
    "detrend": "signal.detrend(x, axis=0)",
    "StandardScaler": "preprocessing.StandardScaler().fit_transform(x)",
    "MinMaxScaler": "preprocessing.MinMaxScaler().fit_transform(x)",
    "PCA": "abs(decomposition.PCA(2, svd_solver='full').fit_transform(x))",
    "Ridge": "linear_model.Ridge(solver='svd').fit(x, x[:, 0] * 2 + 1).predict(x)",
    "mean squared error": "metrics.mean_squared_error(x, x * 2)",
    "r2 score": "metrics.r2_score(x, x * 1.1)",
}


def outcomes() -> dict[str, tuple[str, Any]]:
    """By name the type of the result on tensors, and True or what is wrong."""
    import numpy as np
    from scipy import integrate, signal, special, stats
    from scipy.cluster import vq
    from scipy.optimize import elementwise
    from sklearn import config_context, decomposition, linear_model, metrics, preprocessing

    import eagerjit

    modules = dict(
        integrate=integrate, signal=signal, special=special, stats=stats, vq=vq, elementwise=elementwise,
        decomposition=decomposition, linear_model=linear_model, metrics=metrics, preprocessing=preprocessing,
    )  # fmt: skip
    array = np.random.default_rng(0).standard_normal((5, 3))
    found: dict[str, tuple[str, Any]] = {}
    for name, call in CALLS.items():
        try:
            with config_context(array_api_dispatch=True):
                results = [eval(call, modules | {"x": x}) for x in (eagerjit.tensor(array), array)]
            ours, theirs = ([r] if not isinstance(r, tuple) else list(r) for r in results)
            same = all(np.allclose(np.asarray(a), np.asarray(b)) for a, b in zip(ours, theirs, strict=True))
            found[name] = type(ours[0]).__name__, same
        except Exception as error:
            found[name] = "none", f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    print(json.dumps(outcomes()))
