"""Samples of what surrounds tensors: dtypes, devices, Modules' bookkeeping, files, data, traces of functions."""

from __future__ import annotations

import io

import numpy as np
from oracle import FLOATS

from catalog.facts import NUMPYS, text
from catalog.sample import Of, Table, Variation, call

ONCE = {"kinds": ("usual",), "dtypes": ()}
PLAIN = Of("ab", grad=False)


def dtype(name) -> list[Variation]:
    """A dtype: what it says of itself, and tensors that are made or converted with it."""

    def facts(t, f, x):
        d = getattr(t, name)
        return text(d), d.itemsize, d.is_floating_point, d.is_complex, d.is_signed, d == x.dtype

    return [
        call(lambda t, f, x: x.to(getattr(t, name)), Of("ab", 0, 2)),
        call(lambda t, f, x: (t.zeros(x.shape, dtype=getattr(t, name)), x.type(getattr(t, name))), Of("ab", 0, 2)),
        call(facts, "ab"),
        call(lambda t, f, x: x + t.ones(x.shape, dtype=getattr(t, name)), Of("ab", 0, 2)),
        call(lambda t, f, x: getattr(t, name)(x), "ab", **ONCE),
        call(lambda t, f, x: getattr(t, name).zz, "ab", **ONCE),
    ]


def legacy(low, high) -> list[Variation]:
    """A type of tensor by its old name."""
    return [
        call(lambda t, f, x: (f([1, 2]), f([[1], [0]]), f(2, 3).zero_(), f().shape), "", **ONCE),
        call(lambda t, f, x: f(*x.shape).fill_(2), "ab"),
        call(lambda t, f, x: f(x.tolist()), Of("ab", low, high, grad=False), dtypes=("int64", "float32", "float64")),
        call(lambda t, f, x: isinstance(x, f), "ab"),
        call(lambda t, f, x: f("zz"), "", **ONCE),
        call(lambda t, f, x: f(-1), "", **ONCE),
        call(lambda t, f, x: f([[1], [1, 2]]), "", **ONCE),
    ]


def flag(owner, name) -> list[Variation]:
    """A switch: read, written, and as it was."""

    def use(t, f, x):
        home = getattr(t.backends, owner)
        before = getattr(home, name)
        setattr(home, name, True)
        inside = getattr(home, name)
        setattr(home, name, before)
        return before, inside, getattr(home, name), x * 2

    return [call(use, "ab"), call(lambda t, f, x: getattr(getattr(t.backends, owner), name + "zz"), "", **ONCE)]


def answer(*refused) -> list[Variation]:
    """A function without arguments; and wrong calls."""
    return [
        call(lambda t, f, x: (f(), x), "ab"),
        *(call(lambda t, f, x, a=a: f(*a), "", **ONCE) for a in (*refused, (1, 2, 3))),
    ]


def stored(t, x):
    """Written to a file and read again."""
    file = io.BytesIO()
    t.save({"x": x, "more": [x[..., :1] if x.ndim else x, 3, "text"]}, file)
    file.seek(0)
    found = t.load(file)
    return found["x"], found["more"]


def allowed(t, f, x):
    with f([Of]):
        return stored(t, x)


def autocast(t, f, x, y):
    with f("cpu", dtype=t.bfloat16):
        return x @ y, x + 1


def numbers(t, f, x):
    d = f(x.dtype)
    return d.bits, d.eps, d.max, d.min, d.tiny, d.resolution, d.smallest_normal, d.dtype


def drawn_by(t, f, x):
    g = f()
    g.manual_seed(5)
    first = t.rand(tuple(x.shape), generator=g)
    state = g.get_state()
    second = t.rand(tuple(x.shape), generator=g)
    g.set_state(state)
    again = t.rand(tuple(x.shape), generator=g)
    return second == again, first == t.rand(tuple(x.shape), generator=g.manual_seed(5))


def seeded(t, f, x):
    f(7)
    first = t.rand(tuple(x.shape))
    return (f(7), first == t.rand(tuple(x.shape)))[1]


def profiled(t, f, x):
    with f() as found, t.profiler.record_function("mine"):
        y = x * 2
    return y, "mine" in [event.key for event in found.key_averages()]


def rows(t, x):
    class Rows(t.utils.data.Dataset):
        def __len__(self):
            return len(x)

        def __getitem__(self, index):
            return x[index], index

    return Rows()


def dictionaries(t, f, x):
    found = f(lambda leaf: leaf * 2, {"a": x, "b": [x, (3,)]})
    return found["a"], found["b"]


READ = "turned into an ndarray"
SAVED = "a tensor was saved"
COMPARED = "tensors were compared in Python"
LEFT_OUT = "which compiled code would not do"

PROGRAMS: Table = {
    **{
        f"torch.{n}": dtype(n) for n in "float32 float16 bfloat16 float64 int64 int32 uint8 long float bool int".split()
    },
    "torch.Tensor": [
        *legacy(-2, 2),
        call(lambda t, f, x: (f(x.detach()), isinstance(x, f), type(x) is f), "ab", dtypes=("float32",)),
        call(lambda t, f, x: f(np.ones((2, 3), np.float32)), "", **ONCE),
    ],
    "torch.FloatTensor": legacy(-2, 2),
    "torch.LongTensor": legacy(0, 2),
    "torch.Size": [
        call(lambda t, f, x: (tuple(f(x.shape)), isinstance(x.shape, f), isinstance(x.shape[:1], f)), "ab"),
        call(
            lambda t, f, x: (f((2, 3)).numel(), f() + f((1,)), f([2]) * 2, repr(f((2, 3))), f((2,)) == (2,)), "", **ONCE
        ),
        call(lambda t, f, x: t.zeros(f(x.shape)), "ab"),
        call(lambda t, f, x: f(["a"]), "", **ONCE),
        call(lambda t, f, x: f(1), "", **ONCE),
        call(lambda t, f, x: f([1.5]), "", **ONCE),
    ],
    "torch.finfo": [
        call(numbers, "ab"),
        call(lambda t, f, x: (f().bits, f("float64").eps), "", **ONCE),
        call(lambda t, f, x: f(3), "", **ONCE),
    ],
    "torch.__version__": [
        call(
            lambda t, f, x: (t.__version__ >= (2, 13), t.__version__ > "2.12", t.__version__.split(".")[:2]), "", **ONCE
        ),
        call(lambda t, f, x: t.__version__ < object(), "", **ONCE),
    ],
    "torch.manual_seed": [
        call(seeded, "ab", random=True, eager=LEFT_OUT),
        call(lambda t, f, x: type(f(3)).__name__, "", eager=LEFT_OUT, **ONCE),
        call(lambda t, f, x: (f(3), t.initial_seed())[1], "", eager="the seed was asked for", **ONCE),
        call(lambda t, f, x: f("zz"), "", **ONCE),
        call(lambda t, f, x: f(2**65), "", **ONCE),
    ],
    "torch.Generator": [
        call(drawn_by, "ab", random=True, eager=LEFT_OUT),
        call(lambda t, f, x: (str(f().device), f("cpu").device.type), "", **ONCE),
        call(lambda t, f, x: f("zz"), "", **ONCE),
        call(lambda t, f, x: f().manual_seed(5).initial_seed(), "", eager="the seed was asked for", **ONCE),
        call(lambda t, f, x: f().manual_seed("zz"), "", **ONCE),
        call(lambda t, f, x: f().set_state(x), "", **ONCE),
    ],
    "torch.autograd.Variable": [
        call(lambda t, f, x: f(x), "ab"),
        call(lambda t, f, x: (f(x.detach(), True).requires_grad, f(x.detach()).requires_grad, isinstance(x, f)), "ab"),
        call(lambda t, f, x: f("zz"), "", **ONCE),
    ],
    "torch.from_numpy": [
        call(lambda t, f, x: f(x.detach().numpy()), "ab", dtypes=NUMPYS, eager=READ),
        call(lambda t, f, x: f(np.arange(6, dtype=np.int32).reshape(2, 3)), "", **ONCE),
        call(lambda t, f, x: f([1, 2]), "", **ONCE),
        call(lambda t, f, x: f(np.array(["a"])), "", **ONCE),
        call(lambda t, f, x: f(np.arange(4)[::-1]), "", **ONCE),
    ],
    **{f"torch.backends.cudnn.{n}": flag("cudnn", n) for n in ("benchmark", "deterministic")},
    **{f"torch.accelerator.{n}": answer() for n in ("is_available", "device_count")},
    "torch.accelerator.current_accelerator": answer(),
    "torch.accelerator.set_device_index": [
        call(lambda t, f, x: f(0), "", **ONCE),
        call(lambda t, f, x: f(), "", **ONCE),
    ],
    "torch.amp.autocast": [
        call(
            autocast,
            "ab",
            "ba",
            dtypes=FLOATS,
        ),
        call(lambda t, f, x: f("cpu", enabled=False)(lambda y: y * 2)(x), "ab"),
        call(lambda t, f, x: f(), "", **ONCE),
        call(lambda t, f, x: f("zz"), "", **ONCE),
    ],
    "torch.autograd.profiler.profile": [
        call(profiled, "ab"),
        call(lambda t, f, x: f(1, 2, 3, 4, 5, 6, 7, 8, 9), "", **ONCE),
    ],
    "torch.compile": [
        call(lambda t, f, x: f(lambda y: y.sin() * 2, backend="eager")(x), "ab", dtypes=()),
        call(lambda t, f, x: f(1), "", **ONCE),
    ],
    "torch.save": [call(lambda t, f, x: stored(t, x), "ab", eager=SAVED), call(lambda t, f, x: f(x), "", **ONCE)],
    "torch.load": [
        call(lambda t, f, x: stored(t, x * 1), "ab", eager=SAVED),
        call(lambda t, f, x: f(io.BytesIO(b"no file")), "", **ONCE),
        call(lambda t, f, x: f("/absent/file"), "", **ONCE),
        call(lambda t, f, x: f(), "", **ONCE),
    ],
    "torch.serialization.safe_globals": [
        call(allowed, "ab", eager=SAVED),
        call(lambda t, f, x: f(), "", **ONCE),
    ],
    "torch.testing.assert_allclose": [
        call(lambda t, f, x: (f(x, x), f(x, x + 1e-7)), "ab", dtypes=("float32", "float64", "int64"), eager=COMPARED),
        call(lambda t, f, x: f(x, x + 1), "ab", eager=COMPARED),
        call(lambda t, f, x: f(x, x[:1]), "ab", **ONCE),
        call(lambda t, f, x: f(x, "zz"), "", **ONCE),
    ],
    "torch.utils._pytree.tree_map": [call(dictionaries, "ab"), call(lambda t, f, x: f(1, [x]), "", **ONCE)],
    "torch.utils.data.DataLoader": [
        call(
            lambda t, f, x: list(f(t.utils.data.TensorDataset(x.detach(), x.detach()), batch_size=2)),
            "ab",
            eager="goes through a DataLoader",
        ),
        call(
            lambda t, f, x: [b for b in f(rows(t, x.detach()), 2, drop_last=True)],
            "ab",
            eager="goes through a DataLoader",
        ),
        call(
            lambda t, f, x: len(f(rows(t, x.detach()), 2, shuffle=True)), "ab", kinds=("usual", "size-1", "transposed")
        ),
        call(lambda t, f, x: f(rows(t, x), batch_size=0), "ab", **ONCE),
        call(lambda t, f, x: f(rows(t, x), num_workers=-1), "ab", **ONCE),
        call(lambda t, f, x: f(rows(t, x), batch_size=None, drop_last=True), "ab", **ONCE),
    ],
    "torch.utils.data.Dataset": [
        call(lambda t, f, x: (lambda d: (len(d), d[0], isinstance(d, f)))(rows(t, x)), "ab"),
        call(lambda t, f, x: f()[0], "", **ONCE),
        call(lambda t, f, x: len(f()), "", **ONCE),
    ],
    "torch.utils.data.TensorDataset": [
        call(
            lambda t, f, x, y: (lambda d: (len(d), d[0], d[-1]))(f(x, y)),
            "ab",
            "ab",
            broadcast=(("ab", "a"), ("ab", "b")),
        ),
        call(lambda t, f, x: f(1), "", **ONCE),
    ],
    "torch.utils.data.RandomSampler": [
        call(lambda t, f, x: (lambda s: (sorted(s), len(s)))(f(rows(t, x))), "ab"),
        call(lambda t, f, x: len(list(f(rows(t, x), replacement=True, num_samples=7))), "ab"),
        call(lambda t, f, x: f(rows(t, x), replacement=1), "ab", **ONCE),
        call(lambda t, f, x: f(rows(t, x), num_samples=-1), "ab", **ONCE),
    ],
}
