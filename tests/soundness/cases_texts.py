# ruff: noqa: UP031, UP032, B009, B010, B028, F507, F524
"""Texts of numbers that calls compute: kept, printed, joined, compared, and used as keys."""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import types
import warnings

import numpy as np

import eagerjit as torch
from tests.soundness.framework import attempt, case
from tests.soundness.tools import error_of


def ramp(*sizes):
    return (torch.arange(float(torch.Size(sizes).numel())) / 7 - 0.3).reshape(sizes)


@case(versions=1)
def texts_kept_in_a_list(jit):
    log = []

    def step(x, i):
        loss = (x * x).sum()
        log.append(f"step {i}: {loss.item():.4f} {loss:>9.2e} {x.shape}")
        log.append("step %d loss %.3f %5.1f%% of %s" % (i, loss.item(), 100 * x.mean(), x.shape[0]))
        log.append("step {}: {:.4f} {name:+d}".format(i, loss.item(), name=i))
        log.append(str(loss.item()) + " " + str(i))
        log.append("%(i)03d %(loss)g" % {"i": i, "loss": loss.item()})
        return loss

    f = jit(step)
    for i in range(5):
        f(ramp(2, 4) + i, i)
        yield log


@case(versions=1)
def a_text_is_built_and_printed(jit):
    def step(x, i):
        message = f"step {i}"
        message += f" loss {x.sum().item():.4f}"
        message = "[" + message + " | " + f"mean {x.mean():.2f}" + "]"
        print(message)
        print(message, len(x.shape), sep=": ", end=f" ({i})\n")
        return message

    f = jit(step)
    for i in range(4):
        f(ramp(2, 4) + i, i)
        yield


@case(versions=1)
def texts_are_joined(jit):
    def step(x, i):
        metrics = {"loss": (x * x).sum().item(), "mean": x.mean().item()}
        rows = [i, *metrics.values(), "end", 3]
        joined = ", ".join(f"{k}={v:.3f}" for k, v in metrics.items())
        print(joined, ",".join(map(str, rows)), "".join([joined]), sep="|")
        return ",".join([str(r) for r in rows]), " ".join(["no", "numbers"]), attempt(lambda: None)

    f = jit(step)
    for i in range(4):
        f(ramp(2, 4) + i, i)
        yield


@case(versions=1)
def a_text_is_a_key(jit):
    log, table = {}, {"kept": 1}

    def step(x, i):
        log[f"step {i}"] = (x * x).sum().item()
        table[f"{i}/{x.shape[0]}"] = f"{x.sum():.3f}"
        return x * 2

    f = jit(step)
    for i in range(4):
        f(ramp(2, 4) + i, i)
        yield log, table


@case(versions=4)
def a_text_in_a_key(jit):
    log = {}

    def step(x, i):
        log["a", f"{i}"] = x.sum().item()
        log[f"{i}"] = len(log)
        return x * 2

    f = jit(step)
    for i in range(4):
        f(ramp(2), i)
        yield log


@case(versions=8)
def attributes_by_texts(jit):
    weights = types.SimpleNamespace(w0=1.0, w1=2.0, w2=3.0)

    def step(x, i):
        setattr(weights, f"seen{i}", True)
        return x * getattr(weights, f"w{i}"), hasattr(weights, f"w{i + 1}")

    f = jit(step)
    for i in (0, 1, 2, 1):
        f(ramp(2), i)
    weights.w1 = 9.0
    f(ramp(2), 1)
    yield weights


@case(versions=10)
def a_table_by_texts_is_read(jit):
    table = {f"s{i}": float(i) for i in range(3)}

    def step(x, i):
        key = f"s{i}"
        if key in table:
            return x * table[key]
        table[key] = 7.0
        return x + table.get(key, 1.0) + len({key: 1, f"s{i + 1}": 2})

    f = jit(step)
    for i in (0, 1, 4, 4, 2, 5):
        f(ramp(2), i)
        yield table


@case(versions=1)
def a_text_of_a_list_that_changes(jit):
    def step(x, i):
        inner, values = [1], [i, x.shape[0]]
        text = f"{values} {inner} {x.shape}", "%s %s" % (values, inner), str(values)
        inner.append(2)
        values.append(3)
        return text

    f = jit(step)
    for i in range(3):
        f(ramp(2, 4), i)
        yield


@case(versions=4)
def a_text_of_lists_in_a_list(jit):
    def step(x, i):
        inner = [1]
        text = f"{[i, inner]}"
        inner.append(2)
        return x * 2, text

    f = jit(step)
    for i in range(3):
        f(ramp(2, 4), i)
        yield


@case(versions=1)
def texts_in_attributes(jit):
    state = types.SimpleNamespace(status="", count=0, last=None)

    def step(x):
        state.count += 1
        state.status = f"[{state.count}] loss={x.sum().item():.3f}"
        state.last = types.SimpleNamespace(text=f"{x.mean():.1f}", parts=[f"{x.max():.0f}", "b"])
        setattr(state, "other", f"{state.count}")
        return x * state.count

    f = jit(step)
    for i in range(4):
        f(ramp(2, 4) + i)
        yield state


@case(versions=4)
def what_a_text_tells(jit):
    def step(x, n):
        text = f"{n}:{x.shape[0]}"
        return (
            len(text), text == "2:3", text != "2:3", text[0], text.startswith("2"), "3" in text, text.split(":"),
            text * 2, list(text), hash(text) == hash("2:3"), text < "3", isinstance(text, str), type(text) is str,
            bool(text),
            f"{text:>8}", f"{text}!", "%5s|%s" % (text, text), "{:<6}|{}".format(text, text), sorted([text, "1"]),
            text.upper(), "b" + text, text in ("2:3", "x"), {text: 1}, {text}, text or "empty", repr(text), f"{text!r}",
            int(text[0]), text.encode(), x * int(text.split(":")[0]),
        )  # fmt: skip

    f = jit(step)
    for n, size in ((2, 3), (2, 4), (3, 4), (2, 3), (3, 3)):
        f(ramp(size), n)
        yield


@case(versions=2)
def texts_that_functions_get(jit):
    class Report:
        def __init__(self, text, *rest):
            self.text, self.rest = text, rest

        def __eq__(self, other):
            return self.text == other

    def shout(text, *, mark="!"):
        return text + mark

    def step(x, i):
        made = Report(f"{i}", f"{x.sum():.2f}")
        kept = dict(name=f"{x.mean():.2f}")
        return made.text, made.rest, shout(f"{x.sum():.1f}", mark=f"<{i}>"), shout(*[f"{i}"]), kept, (f"{i}",), [f"{i}"]

    f = jit(step)
    for i in range(4):
        f(ramp(2, 4) + i, i)
        yield


@case(versions=3)
def texts_in_memory(jit):
    def step(x, i):
        out = io.StringIO()
        out.write(f"{i};")
        out.write("end")
        out.flush()
        return out.getvalue(), x * 2

    f = jit(step)
    for i in range(3):
        f(ramp(2), i)
        yield


@case(versions=2)
def objects_that_tell_their_numbers(jit):
    class Meter:
        def __init__(self, name, form=":f"):
            self.name, self.form, self.val, self.sum, self.count = name, form, 0.0, 0.0, 0

        def update(self, value):
            self.val, self.sum, self.count = value, self.sum + value, self.count + 1
            self.avg = self.sum / self.count

        def __str__(self):
            return ("{name} {val" + self.form + "} ({avg" + self.form + "})").format(**self.__dict__)

    class Named(Meter):
        def __repr__(self):
            return f"<{self.name} {self.avg:.2f}>"

        def __format__(self, form):
            return f"{form}~{self.avg:.1f}"

    meters = [Meter("loss", ":.4e"), Named("mean", ":6.2f")]

    def step(x, i):
        meters[0].update((x * x).sum().item())
        meters[1].update(x.mean().item())
        print("\t".join([f"[{i}]"] + [str(m) for m in meters]))
        print(f"{meters[0]} and {meters[1]:x}", "%s" % meters[0])
        return x * 2

    f = jit(step)
    for i in range(4):
        f(ramp(2, 4) + i, i)
        yield


@case(versions=1)
def texts_that_are_logged(jit):
    logger = logging.getLogger("tests.texts")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    records = []

    class Handler(logging.Handler):
        def emit(self, record):
            records.append((record.getMessage(), record.lineno))

    logger.handlers = [Handler()]

    def step(x, i):
        loss = (x * x).sum()
        text = f"loss {loss:.2f}"
        logger.info(text)
        logger.warning("%s at %d: %.3f", text, i, loss.item())
        logger.info("x {}".format(i))
        warnings.warn(f"{text} is high")
        return loss

    f = jit(step)
    for i in range(4):
        f(ramp(2, 4) + i, i)
        yield records


@case(versions=1)
def numbers_that_have_no_value(jit):
    def step(x):
        total = x.sum()
        return f"{total.item():.3f} {x.max().item()}", "%5.1f %s" % (total, x.max().item()), round(total.item(), 2)

    f = jit(step)
    for value in (1.0, float("nan"), float("inf"), -0.0):
        f(ramp(2) * value)
        yield


@case(versions=1)
def numbers_of_numpy(jit):
    def step(x):
        mean = np.mean([x.sum().item(), 1.0])
        single = x.numpy().mean()
        other = f"{single:.3f} {single} {mean}", f"{x.numpy().max():>9.2e}"
        return str(mean), str(single), "%.2f %s %s" % (single, mean, single), other

    f = jit(step)
    for i in range(3):
        f(ramp(4) + i)
        yield


@case(versions=8)
def formats_that_depend_on_the_number(jit):
    def step(x, n):
        return attempt(lambda: "%d" % x.sum().item()), "%x %c" % (n, n), f"{n:c}", f"{n:{n}d}", "%*d" % (n, n), "%r" % n

    f = jit(step)
    for n in (40, 50, 40):
        f(ramp(2) * n, n)
        yield


@case(outcome="fell back")
def formats_that_are_wrong(jit):
    wrong = lambda n: f"{n:.2z}", lambda n: "%d %d" % (n,), lambda n: "{} {}".format(n), lambda n: "%d" % n % n
    f = jit(lambda x, n: (x * n, [error_of(lambda w=w: w(n)) for w in wrong]))
    for n in (4, 5):
        f(ramp(2), n)
        yield


@case(versions=1)
def numbers_as_json(jit):
    lines = []

    def step(x, i):
        lines.append(json.dumps({"step": i, "loss": (x * x).sum().item(), "text": f"{i}", "sizes": [x.shape[0], None]}))
        print(json.dumps([i, {"b": x.mean().item(), "a": True}], indent=1, sort_keys=True))
        return json.dumps({"lr": 0.1})

    f = jit(step)
    for i in range(4):
        f(ramp(2, 4) + i, i)
        yield lines


def named(name):
    try:
        return dict(**dict(zip([name], [1], strict=True)))
    except TypeError:
        return "caught"


@case(outcome="fell back")
def an_error_that_a_text_may_cause(jit):
    f = jit(lambda x, i: (x * 2, named(f"{i}")))
    for i in range(3):
        f(ramp(2), i)
        yield


@case(versions=4)
def callbacks_that_log(jit):
    class Callback:
        def __init__(self):
            self.rates, self.texts, self.losses, self.best = {}, [], [], None

        def end(self, trainer, logs):
            self.rates[trainer.count] = logs["loss"] / 2
            self.texts.append(f"{trainer.count}: {logs['loss']:.3f}")
            self.losses.append(logs["loss"])

    class Trainer:
        def __init__(self):
            self.callbacks, self.count = [Callback(), Callback()], 0

        def step(self, x):
            self.count += 1
            logs = {"loss": (x * x).sum().item()}
            for callback in self.callbacks:
                getattr(callback, "end")(self, logs)
            return len(self.callbacks[0].losses)

    trainer = Trainer()
    f = jit(trainer.step)
    for i in range(5):
        f(ramp(2) + i)
        yield [vars(c) for c in trainer.callbacks]
    trainer.callbacks[0].rates = {"other": 0}
    trainer.callbacks[1].losses.clear()
    f(ramp(2))
    yield [vars(c) for c in trainer.callbacks]


@case(versions=5)
def callbacks_that_read_what_they_keep(jit):
    class Callback:
        def __init__(self):
            self.table, self.limit = {}, 3

        def end(self, count):
            self.table[count] = count * 2
            return sum(self.table.values()) if self.table and count > self.limit else len(self.table)

    callbacks = [Callback()]
    f = jit(lambda x, n: [x * c.end(n) for c in callbacks])
    for n in (1, 1, 2, 5):
        f(ramp(2), n)
        yield callbacks[0].table
    callbacks[0].table.clear()
    f(ramp(2), 1)
    callbacks[0].limit = 0
    f(ramp(2), 1)


@dataclasses.dataclass
class Record:
    """Its text is made by the standard library."""

    loss: float
    count: int


@case(versions=8)
def texts_with_conversions(jit):
    def step(x, i):
        record, name = Record(x.sum().item(), i), "\u00e9"
        return f"{i!s} {i!r} {i!a} {i!s:>4} {name!a} {x.sum().item()!r}", "%s|%r|%5s|%a" % (i, i, i, name), str(record)

    f = jit(step)
    for i in range(3):
        f(ramp(2, 4), i)
        yield


@case(versions=1)
def texts_stripped_and_changed(jit):
    log = []

    def f(x):
        loss = x.sum().item()
        text = f"  Loss {loss:8.3f} \n".strip()
        log.append(text.upper().replace("LOSS", "loss") + "|" + text.rjust(20, "*"))
        print(text.title(), f"{loss:g}".zfill(12), f"{loss!r}".center(30), f"[{text.removeprefix('Loss').lower()}]")
        return {"text": text.lower().swapcase(), "loss": loss}

    f = jit(f)
    for i in range(6):
        f(torch.full((3,), i - 1.5))
    yield log


@case
def texts_changed_in_ways_that_depend_on_them(jit):
    def f(x, text=" a"):
        loss = f"{x.sum().item():.1f} "
        return loss.strip().split("."), text.rjust(len(loss)), loss.replace(".", loss), loss.ljust(x.shape[0])

    f = jit(f)
    for i in range(3):
        f(torch.full((2 + i,), 1.5))
    for bad in (lambda t: t.strip(3), lambda t: t.center(5, "ab"), lambda t: t.replace("a"), lambda t: t.zfill("4")):
        g = jit(lambda x, bad=bad: bad(f"{x.sum().item():.1f} "))
        attempt(g, torch.ones(2))
        attempt(g, torch.zeros(2))
