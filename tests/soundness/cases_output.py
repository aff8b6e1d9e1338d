"""What a function prints, logs and warns of."""

from __future__ import annotations

import io
import logging
import warnings

import eagerjit as torch
from eagerjit import nn
from eagerjit.nn.attention.bias import causal_lower_right
from tests.soundness.framework import attempt, case


def ones(*shape):
    return torch.ones(*shape)


@case
def printed_constants(jit):
    def f(x):
        print("called")
        print("with", 1, 2.0, None, sep="-", end="!\n")
        return x + 1

    f = jit(f)
    for _ in range(3):
        f(ones(1))
        yield "between"


@case
def printed_sizes_and_numbers(jit):
    def f(x, rate):
        print(f"{x.shape[0]} rows, rate {rate:.3f}", rate)
        return x * rate

    f = jit(f)
    for n, rate in ((2, 0.5), (3, 0.25), (2, 0.125)):
        yield f(ones(n), rate)


@case
def printed_tensors(jit):
    def f(x):
        y = x.sum()
        print("sum:", y, y.item())
        return x + y

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        yield f(torch.full((2,), n))


@case
def printed_to_a_file_object(jit):
    out = io.StringIO()

    def f(x):
        print("to a file", x.shape, file=out)
        out.write("more\n")
        return x + 1

    f = jit(f)
    for n in (2, 3, 2):
        f(ones(n))
        yield out.getvalue()


@case
def logged_lines(jit):
    logger = logging.getLogger("soundness")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append((record.levelname, record.getMessage(), record.lineno, record.funcName))

    handler = Handler()
    logger.addHandler(handler)

    def f(x):
        logger.info("rows: %d", x.shape[0])
        logger.debug("not shown")
        return x + 1

    f = jit(f)
    for n in (2, 3):
        f(ones(n))
        yield seen
    logger.setLevel(logging.DEBUG)
    yield f(ones(2)), seen
    logger.removeHandler(handler)


@case
def warnings_given(jit):
    def f(x):
        if x.shape[0] > 2:
            warnings.warn("long input", UserWarning, stacklevel=1)
        return x + 1

    f = jit(f)
    for n in (2, 3, 4, 2):
        yield f(ones(n))


@case
def warnings_of_masks_of_bytes(jit):
    def f(x, mask):
        y = x * 2
        y[mask] = x[mask] + 1
        return y

    f = jit(f)
    for values in ([1, 0, 1], [0, 0, 1], [1, 0, 1]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield f(torch.arange(3.0), torch.tensor(values, dtype=torch.uint8))
            yield [(str(w.message), w.lineno) for w in caught]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield attempt(f, torch.arange(3.0), torch.tensor([1, 0, 1], dtype=torch.uint8))


@case
def warnings_for_the_caller(jit):
    def check(x, level):
        if x.shape[0] > 2:
            warnings.warn("long input", stacklevel=level)
        return x + 1

    def checked(x, level):
        return check(x, level)

    f = jit(lambda x: checked(x, 2) + checked(x, 3))
    for n in (2, 3, 4, 2):
        yield f(ones(n))


@case
def warnings_of_the_library(jit):
    norm, tracked = nn.InstanceNorm1d(3), nn.InstanceNorm1d(3, track_running_stats=True)
    weight = nn.Parameter(ones(3))

    def masked(x):
        return torch.zeros(x.shape[0], 2).masked_fill(causal_lower_right(x.shape[0], 2), 1.0) + x[:, :1, 0]

    def twice(x):
        return torch.optim.SGD([weight, weight], lr=0.1).param_groups[0]["lr"] * x

    for part in (norm, tracked, masked, twice):
        f = jit(lambda x, part=part: part(x))
        for n in (4, 4, 5):
            yield attempt(f, ones(n, 4, 5))


@case(versions=1)
def tensors_printed_before_they_are_written(jit):
    @jit
    def f(x):
        print(x)
        x.add_(1)
        print(x, (x, "again"))
        y = x * 2
        print("y", y)
        y.mul_(3)
        y.view(-1)[0] = 7
        print("y", y)
        y.zero_()
        return y

    for value in (1.0, 2.0, 3.0):
        yield f(torch.full((2,), value))


def _with_a_handler(name):
    class Printing(logging.Handler):
        def emit(self, record):
            print(record.levelname, record.getMessage(), type(record.msg).__name__)

    logger = logging.getLogger(name)
    logger.handlers, logger.propagate = [Printing()], False
    logger.setLevel(logging.INFO)
    return logger


@case(versions=1)
def numbers_in_texts_that_are_printed(jit):
    logger = _with_a_handler("texts that are printed")

    @jit
    def f(x, step, rate):
        loss = x.mean()
        print(f"step {step} loss {loss:.4f} rate {rate:.2e} {x.shape[0]:03d}", f"{loss.item():>9.3f}", step, end="\n")
        logger.info(f"loss {loss:.3f} {x.sum().item()}")
        logger.warning(f"{int((x > 0).sum())}/{x.shape[0]}")
        logger.debug(f"{loss}")
        return loss

    for n in range(5):
        yield f(torch.arange(3.0 + n) * (n + 1), n, 0.1 / (n + 1))


@case
def numbers_in_texts_that_others_get(jit):
    texts, given = [], []

    class Writer:
        def say(self, *args, **kwargs):
            given.append((args, kwargs))

    writer = Writer()

    @jit
    def f(x):
        value = x.sum().item()
        text = f"{value:.1f}"
        texts.append(f"{value:.2f}")
        writer.say(f"{value:.3f}", f"{value}{value}", key=f"a{value:.0f}")
        print(text, text + f"{value:.0f}", f"{value!r:>8}", f"{value:{8}.2f}", str(f"{value:.1f}"))
        print(f"a{value:.1f}".upper(), len(f"{value:.5f}"))
        print(f"{'positive' if value > 0 else 'negative'} {value:.2f}", f"{value:.3f}", sep=f"|{value:.0f}|")
        return x

    for value in (1.0, 2.0, 1.0, -1.0):
        yield f(torch.full((2,), value)), texts, given


@case(versions=1)
def numbers_in_texts_of_every_kind(jit):
    f = jit(lambda x: print(f"{x.mean():.2f} {x.max():8.3e} {x.argmax()} {x.size(0):>4}", f"{x.sum()}") or x)
    for value in (1.0, float("nan"), float("inf"), -0.0, 1e-300):
        yield f(torch.tensor([value, 0.5], dtype=torch.float64))


@case
def texts_that_cannot_be_made(jit):
    f = jit(lambda x, n: print(f"{x.mean():d}") or x if n > 1 else x + n)
    for n in (1, 2, 1, 3):
        yield attempt(f, torch.ones(2), n)


@case
def printed_with_unpacked_arguments(jit):
    parts, options = ["a", "b"], {"sep": "-"}

    def f(x):
        print(*parts)
        print(*parts, **options)
        print(*{"c"})
        return x + 1

    f = jit(f)
    for _ in range(3):
        yield f(ones(2))


@case(versions=9)
def what_loggers_answer(jit):
    logger = logging.getLogger("soundness.answers")
    logger.propagate = True
    logger.setLevel(logging.NOTSET)
    handler = logging.NullHandler()

    @jit
    def f(x, level):
        x = x * (2 if logger.isEnabledFor(level) else 3) + len(logging.getLevelName(logging.INFO))
        return x + logger.hasHandlers()

    def calls():
        return [f(torch.ones(2), level) for level in (logging.DEBUG, logging.ERROR)]

    yield calls(), logger._cache
    logging.disable(logging.CRITICAL)
    yield calls(), logger._cache
    logging.disable(logging.NOTSET)
    logger.propagate = False
    yield calls(), logger._cache
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield calls(), logger._cache
    logger.removeHandler(handler)
    logging.addLevelName(logging.INFO, "INFORMATION")
    yield calls(), logger._cache
    logging.addLevelName(logging.INFO, "INFO")
    yield calls(), logger._cache
