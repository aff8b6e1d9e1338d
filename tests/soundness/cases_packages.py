"""What packages built on PyTorch do inside of the functions that programs compile."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import itertools

import eagerjit as torch
import eagerjit.library
from eagerjit import nn
from eagerjit.nn import functional as F
from eagerjit.nn.attention import flex_attention as flex
from tests.soundness.framework import case


def ones(*shape):
    return torch.ones(*shape)


def heads(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 2, length, 4, generator=generator).requires_grad_() for _ in range(3)]


def attended(jit, score_mod, mask_mod):
    def f(query, key, value):
        length, mask = query.shape[2], None
        if mask_mod is not None:
            mask = flex.create_block_mask(mask_mod, None, None, length, length)
        out = flex.flex_attention(query, key, value, score_mod=score_mod, block_mask=mask)
        out.square().sum().backward()
        return out

    f = jit(f)
    for length in (3, 5, 8):
        tensors = heads(length)
        yield f(*tensors), [t.grad for t in tensors]


@case
def attention_with_a_causal_mask(jit):
    yield from attended(jit, None, lambda b, h, q, k: q >= k)


@case
def attention_with_a_window(jit):
    yield from attended(jit, None, lambda b, h, q, k: (q - k).abs() < 2)


@case
def attention_with_scores_by_distance(jit):
    slopes = torch.tensor([0.5, 0.25])
    yield from attended(jit, lambda s, b, h, q, k: s + slopes[h] * (k - q), None)
    slopes.mul_(2)
    yield from attended(jit, lambda s, b, h, q, k: s + slopes[h] * (k - q), lambda b, h, q, k: q >= k)


@case
def attention_with_capped_scores(jit):
    yield from attended(jit, lambda s, b, h, q, k: torch.tanh(s / 2) * 2, lambda b, h, q, k: q >= k)


@case
def an_operator_under_a_name(jit):
    scaled = eagerjit.library.custom_op("cases::scaled", lambda x, by: x * by, mutates_args=())
    scaled.register_autograd(
        lambda ctx, grad: (grad * ctx.by, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1])
    )
    f = jit(lambda x: torch.ops.cases.scaled(x, 3.0).sum())
    for size in (2, 3, 4):
        x = ones(size).requires_grad_()
        f(x).backward()
        yield f(x), x.grad


@case(versions=4)
def an_operator_that_is_defined_anew(jit):
    scaled = eagerjit.library.custom_op("cases::scaled_anew", lambda x, by: x * by, mutates_args=())
    f = jit(lambda x: torch.ops.cases.scaled_anew(x, 3.0).sum())
    yield f(ones(2))
    for factor in (3.0, 5.0):
        scaled.register_autograd(lambda ctx, grad, factor=factor: (grad * factor, None))
        for _ in range(2):
            x = ones(2).requires_grad_()
            f(x).backward()
            yield x.grad
    scaled.register_kernel("cpu", lambda x, by: x - by)
    yield f(ones(2))


@case
def an_optimizer_of_older_form(jit):
    weight, average = ones(3).requires_grad_(), torch.zeros(3)

    def step(x, rate):
        loss = (weight * x).square().sum()
        (gradient,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            average.mul_(0.9).add_(0.1, gradient)
            weight.add_(-rate, average)
        return loss

    step = jit(step)
    for rate in (0.1, 0.05, 0.025):
        yield step(ones(3) * 2, rate), weight, average


@dataclasses.dataclass
class Output(collections.OrderedDict):
    loss: object = None
    logits: object = None

    def __post_init__(self):
        if all(v is None for v in (self.loss, self.logits)):
            raise ValueError("nothing")
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def to_tuple(self):
        return tuple(self[k] for k in self)


@case
def results_in_a_dictionary_that_is_a_dataclass(jit):
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(0.5)
        model.bias.zero_()

    def f(x):
        logits = model(x)
        out = Output(loss=logits.square().mean(), logits=logits)
        return out.loss + out["logits"].sum(), len(out.to_tuple())

    f = jit(f)
    for size in (1, 2, 3):
        yield f(ones(size, 2))


@case
def a_result_without_a_loss(jit):
    f = jit(lambda x: Output(logits=x * 2).to_tuple()[0])
    for size in (1, 2):
        yield f(ones(size))


@case
def tables_are_kept_by_size(jit):
    @functools.cache
    def rotations(length, base):
        angles = torch.arange(length) / base
        return angles.cos(), angles.sin()

    def f(x):
        cosines, sines = rotations(4, 10.0)
        return x * cosines + x.flip(0) * sines

    f = jit(f)
    for factor in (1.0, 2.0, 3.0):
        yield f(ones(4) * factor)


@case
def a_kept_choice_of_a_function(jit):
    @functools.cache
    def activation(name):
        return {"relu": 1, "double": 2}[name]

    class Model(nn.Module):
        kind = "relu"

        def forward(self, x):
            return F.relu(x) if activation(self.kind) == 1 else x * activation(self.kind)

    model = Model()
    f = jit(model)
    yield f(ones(2) * -1)
    model.kind = "double"
    yield f(ones(2) * -1)
    model.kind = "relu"
    yield f(ones(2) * -1)


@case
def a_kept_error(jit):
    @functools.cache
    def scale(name):
        if name == "bad":
            raise ValueError("no such scale")
        return 2.0

    def f(x, name):
        try:
            return x * scale(name)
        except ValueError:
            return x

    f = jit(f)
    for name in ("good", "good", "fine"):
        yield f(ones(2), name)


@case
def keyword_arguments_of_a_kept_function(jit):
    @functools.lru_cache(maxsize=8)
    def scale(a, *, b=1.0, dtype=torch.float32):
        return torch.full((2,), a * b, dtype=dtype)

    f = jit(lambda x: x * scale(2.0, b=3.0) + scale(1.0) + scale(1.0, dtype=torch.float64))
    for factor in (1.0, 2.0):
        yield f(ones(2) * factor), scale.cache_info().currsize


@case
def grad_mode_of_a_kept_tensor(jit):
    @functools.cache
    def table():
        return torch.arange(3.0).requires_grad_()

    def f(x):
        with torch.no_grad():
            known = table() * 2
        return (x * table() + known).sum()

    f = jit(f)
    for _ in range(2):
        f(ones(3)).backward()
        yield table().grad


@case
def nested_context_variables(jit):
    depth = contextvars.ContextVar("depth", default=0)

    @contextlib.contextmanager
    def deeper():
        token = depth.set(depth.get() + 1)
        try:
            yield
        finally:
            depth.reset(token)

    def f(x):
        with deeper():
            x = x * depth.get()
            with deeper():
                x = x + depth.get()
        return x + depth.get()

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), depth.get()


@case
def a_context_variable_chooses(jit):
    style = contextvars.ContextVar("style", default="plain")
    f = jit(lambda x: x * 2 if style.get() == "double" else x)
    yield f(ones(2))
    token = style.set("double")
    yield f(ones(2))
    style.reset(token)
    yield f(ones(2))


@case
def a_context_variable_is_set_back_after_an_error(jit):
    current = contextvars.ContextVar("current", default=None)

    def f(x):
        token = current.set("inside")
        try:
            if x.shape[0] == 3:
                raise ValueError("three")
            return x + 1
        finally:
            current.reset(token)

    f = jit(f)
    for size in (2, 3, 2):
        try:
            yield f(ones(size)), current.get()
        except ValueError as error:
            yield str(error), current.get()


@case
def the_first_of_a_generator(jit):
    def candidates(x):
        yield x * 2
        yield x * 3

    f = jit(lambda x: next(c for c in candidates(x)) + next(iter(candidates(x))))
    for size in (2, 3):
        yield f(ones(size))


@case
def a_search_that_ends_early(jit):
    layers = [nn.Identity(), nn.ReLU(), nn.Tanh()]

    def f(x):
        chosen = next(layer for layer in layers if not isinstance(layer, nn.Identity))
        return chosen(x) if any(isinstance(layer, nn.ReLU) for layer in layers) else x

    f = jit(f)
    yield f(ones(2) * -1)
    layers.reverse()
    yield f(ones(2) * -1)


@case
def pairs_of_neighbours(jit):
    f = jit(lambda *xs: sum(a * b for a, b in itertools.pairwise(xs)))
    for count in (2, 3, 2):
        yield f(*[ones(2) * (i + 1) for i in range(count)])


@case
def chained_and_sliced_iterators(jit):
    weights = [1.0, 2.0, 3.0]

    def f(x):
        for w in itertools.chain(weights[:1], itertools.islice(weights, 1, None)):
            x = x * w
        return x

    f = jit(f)
    yield f(ones(2))
    weights.append(0.5)
    yield f(ones(2))
    weights[0] = 7.0
    yield f(ones(2))


@case
def masks_over_positions(jit):
    allowed = torch.tensor([True, False, True, True])

    def f(x):
        inner = torch.vmap(lambda q, k: (q >= k) & allowed[k], in_dims=(None, 0))
        mask = torch.vmap(inner, in_dims=(0, None))(torch.arange(4), torch.arange(4))
        return x.masked_fill(~mask, 0.0)

    f = jit(f)
    yield f(ones(4, 4))
    allowed[1] = True
    yield f(ones(4, 4))


@case
def checks_that_hold_and_fail(jit):
    def f(x, limit):
        torch._check(x.shape[0] <= limit, lambda: f"{x.shape[0]} is more than {limit}")
        return x * 2

    f = jit(f)
    for size in (2, 4, 3):
        try:
            yield f(ones(size), 3)
        except RuntimeError as error:
            yield str(error)


@case
def an_argument_of_a_wrong_type(jit):
    def f(x, other):
        try:
            return torch.cat([x, other])
        except TypeError:
            return x

    f = jit(f)
    for other in (ones(1), None, ones(2)):
        yield f(ones(2), other)


@case
def a_module_imported_inside(jit):
    def f(x):
        import math

        return x * math.pi

    f = jit(f)
    for size in (2, 3):
        yield f(ones(size))


@case
def a_cache_of_keys_and_values(jit):
    class Cache:
        def __init__(self):
            self.keys = None

        def update(self, key):
            self.keys = key if self.keys is None else torch.cat([self.keys, key], 1)
            return self.keys

    def f(x, steps):
        cache = Cache()
        for i in range(steps):
            seen = cache.update(x[:, i : i + 1])
        return seen.sum(1)

    f = jit(f)
    for size in (2, 3):
        yield f(ones(size, 4).cumsum(1), 3)


@case
def repeated_heads(jit):
    def f(key, groups):
        batch, heads_, length, size = key.shape
        spread = key[:, :, None].expand(batch, heads_, groups, length, size)
        return spread.reshape(batch, heads_ * groups, length, size).sum((0, 2))

    f = jit(f)
    for length in (2, 3, 4):
        yield f(ones(1, 2, length, 4).cumsum(2), 3)


@case
def a_registry_of_functions(jit):
    registry = {}

    def register(name):
        return lambda function: registry.setdefault(name, function)

    @register("double")
    def double(x):
        return x * 2

    f = jit(lambda x, name: registry.get(name, torch.neg)(x))
    yield f(ones(2), "double"), f(ones(2), "other")
    registry["other"] = torch.exp
    yield f(ones(2), "double"), f(ones(2), "other")


@case
def hooks_that_collect_outputs(jit):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with torch.no_grad():
        model[0].weight.fill_(0.5)
        model[0].bias.zero_()

    collected = []
    model[1].register_forward_hook(lambda module, args, output: collected.append(output))

    def f(x):
        collected.clear()
        out = model(x)
        return out, len(collected), collected[0] * 2

    f = jit(f)
    for size in (1, 2, 3):
        yield f(ones(size, 2)), len(collected)


@case
def a_choice_by_enumeration(jit):
    class Mode(enum.Enum):
        SUM = "sum"
        MEAN = "mean"

    def f(x, mode):
        match mode:
            case Mode.SUM:
                return x.sum()
            case Mode.MEAN:
                return x.mean()

    f = jit(f)
    for mode in (Mode.SUM, Mode.MEAN, Mode.SUM):
        yield f(ones(3) * 2, mode)


@case
def scores_gathered_and_scattered(jit):
    def f(edges, features):
        source, target = edges
        messages = features[source] * 0.5
        out = torch.zeros_like(features).index_add(0, target, messages)
        degree = torch.zeros(features.shape[0]).scatter_add(0, target, torch.ones(target.shape[0]))
        return out / degree.clamp(min=1).unsqueeze(-1)

    f = jit(f)
    for count in (3, 4, 5):
        edges = torch.tensor([list(range(count)), [0] * count])
        features = ones(count, 2).cumsum(0).requires_grad_()
        out = f(edges, features)
        out.sum().backward()
        yield out, features.grad


@case
def running_averages_of_weights(jit):
    model, average = nn.Linear(2, 1), nn.Linear(2, 1)
    for module in (model, average):
        with torch.no_grad():
            module.weight.fill_(0.5)
            module.bias.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, decay):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 1 - decay)
        return loss

    step = jit(step)
    for decay in (0.9, 0.99, 0.999):
        yield step(ones(3, 2), decay), *average.parameters()
