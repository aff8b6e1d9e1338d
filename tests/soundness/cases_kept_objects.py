"""Objects that functions behind lru_cache keep: recipes of a kind and a shape, as libraries of patterns have them."""

from __future__ import annotations

import functools
import types

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


def numbered(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


class Recipe:
    """How the dimensions of a pattern are arranged: letters, and those of a group in brackets."""

    def __init__(self, groups, order, known):
        self.groups, self.order, self.known = groups, order, known


def patterns(maxsize=128):
    """A function that arranges dimensions, and the two functions that keep what it does for patterns and sizes."""

    @functools.lru_cache(maxsize)
    def recipe(pattern, ndim):
        left, right = (side.split() for side in pattern.split("->"))
        if len(left) != ndim:
            raise ValueError(f"{pattern} is not for {ndim} dimensions")
        names = [name for group in left for name in group]
        order = [names.index(name) for group in right for name in group]
        return Recipe([len(group) for group in left], order, {name: i for i, name in enumerate(names)})

    def steps_of(made, shape, lengths):
        sizes = [None] * len(made.order)
        for name, length in lengths:
            sizes[made.known[name]] = length
        at = 0
        for size, count in zip(shape, made.groups, strict=True):
            rest, unknown = size, None
            for i in range(at, at + count):
                if sizes[i] is None:
                    unknown = i
                else:
                    if rest % sizes[i]:
                        raise ValueError(f"{size} is not divided by {sizes[i]}")
                    rest = rest // sizes[i]
            if unknown is not None:
                sizes[unknown] = rest
            at += count
        order = None if made.order == list(range(len(made.order))) else made.order
        return sizes, order, {"last": sizes[made.order[-1]]}

    steps = functools.lru_cache(maxsize)(steps_of)

    def arrange(x, pattern, **lengths):
        made = recipe(pattern, x.dim())
        sizes, order, more = steps(made, tuple(x.shape), tuple(lengths.items()))
        x = x.reshape(sizes)
        if order is not None:
            x = x.permute(order)
        return x * more["last"]

    return arrange, recipe, steps


@case(versions=1)
def patterns_of_every_size(jit):
    arrange, recipe, steps = patterns()
    f = jit(lambda x: arrange(arrange(x, "b nc -> c b n", c=2) + 1, "a b c -> b c a").sum(0))
    for n in (2, 3, 2, 5, 3):
        yield f(numbered(n, 8)), recipe.cache_info(), steps.cache_info()


@case(versions=1)
def patterns_that_keep_everything(jit):
    arrange, recipe, steps = patterns(None)
    weight = ones(4).requires_grad_()

    def f(x):
        for _ in range(3):
            x = arrange(arrange(x, "b hd -> h b d", h=2) * weight, "h b d -> b h d").flatten(1) / 2
        return x.square().sum()

    f = jit(f)
    for n in (2, 3, 4, 2):
        f(numbered(n, 8)).backward()
        yield weight.grad, recipe.cache_info(), steps.cache_info()


@case
def a_pattern_that_does_not_fit(jit):
    arrange, recipe, steps = patterns()
    f = jit(lambda x: arrange(x, "b nc -> c b n", c=2))
    for shape in ((2, 8), (2, 7), (2, 8), (3, 8), (2, 2, 2), (3, 8)):
        yield attempt(f, numbered(*shape)), recipe.cache_info(), steps.cache_info()


@case
def a_recipe_is_changed(jit):
    arrange, recipe, _ = patterns()
    f = jit(lambda x: arrange(x, "a b c -> c a b"))
    yield f(numbered(2, 3, 4)), f(numbered(3, 3, 4))
    recipe("a b c -> c a b", 3).order[:] = [1, 0, 2]
    yield f(numbered(2, 3, 4)), f(numbered(4, 3, 4))
    recipe("a b c -> c a b", 3).order = [0, 2, 1]
    yield f(numbered(2, 3, 4)), f(numbered(5, 3, 4))


@case
def kept_steps_are_changed(jit):
    arrange, recipe, steps = patterns()
    f = jit(lambda x: arrange(x, "a b c -> b c a"))
    yield f(numbered(2, 3, 4)), f(numbered(5, 3, 4))
    kept = steps(recipe("a b c -> b c a", 3), (2, 3, 4), ())
    kept[2]["last"] = 10
    yield f(numbered(2, 3, 4)), f(numbered(5, 3, 4)), steps.cache_info()
    kept[2]["last"] = 2.0
    yield f(numbered(2, 3, 4))
    kept[2]["last"] = 2
    kept[0][:] = [4, 3, 2]
    yield f(numbered(2, 3, 4)), f(numbered(6, 3, 4))


@case
def what_is_kept_is_forgotten(jit):
    arrange, recipe, steps = patterns()
    f = jit(lambda x: arrange(x, "a b c -> b c a"))
    for n in (2, 3, 2):
        yield f(numbered(n, 3, 4)), recipe.cache_info(), steps.cache_info()
    steps.cache_clear()
    yield f(numbered(2, 3, 4)), steps.cache_info()
    recipe.cache_clear()
    for n in (2, 3, 2):
        yield f(numbered(n, 3, 4)), recipe.cache_info(), steps.cache_info()


@case
def a_kept_shape_of_a_setting_that_has_changed(jit):
    settings = types.SimpleNamespace(factor=2)

    @functools.lru_cache
    def shape(size):
        return [size * settings.factor, 1]

    f = jit(lambda x: x.repeat(shape(x.shape[0])))
    for n in (2, 3):
        yield f(ones(n, 2))
    settings.factor = 3
    for n in (2, 3, 4, 2, 4):
        yield f(ones(n, 2)), shape.cache_info()
    shape.cache_clear()
    for n in (2, 3, 4, 2):
        yield f(ones(n, 2)), shape.cache_info()


@case(outcome=FELL_BACK)
def a_kept_shape_of_what_the_function_changes(jit):
    settings = types.SimpleNamespace(factor=2)

    @functools.lru_cache
    def shape(size):
        return [size * settings.factor]

    def f(x):
        settings.factor = 3 if x.shape[0] > 3 else 5
        return x.repeat(shape(x.shape[0]))

    f = jit(f)
    for n in (2, 3, 4, 5, 2, 5):
        yield attempt(f, ones(n)), shape.cache_info(), settings
        settings.factor = 2


@case
def a_kept_shape_of_what_changes_afterwards(jit):
    settings = types.SimpleNamespace(factor=2)

    @functools.lru_cache
    def shape(size):
        return [size * settings.factor]

    def f(x):
        result = x.repeat(shape(x.shape[0]))
        settings.factor += 1
        return result

    f = jit(f)
    for n in (2, 3, 4, 2, 3, 4, 5, 6):
        yield f(ones(n)), shape(n), shape.cache_info(), settings


@case(outcome=FELL_BACK)
def a_kept_list_is_returned(jit):
    @functools.lru_cache
    def shape(size):
        return [size, 1]

    f = jit(lambda x: (x * 2, shape(x.shape[0])))
    for n in (2, 3, 2):
        result = f(ones(n))[1]
        result.append(0)
        yield result, shape(n) is result


@case(outcome=FELL_BACK)
def kept_lists_are_told_apart(jit):
    @functools.lru_cache
    def shape(size):
        return [size, 1]

    f = jit(lambda x: x * 2 if shape(x.shape[0]) is shape(x.shape[1]) else x * 3)
    for shape_ in ((2, 2), (2, 3), (3, 3), (2, 2)):
        yield f(ones(shape_)), shape.cache_info()


@case
def one_kept_list_read_twice(jit):
    @functools.lru_cache
    def shape(size):
        return [size, 1]

    f = jit(lambda x: x * 2 if shape(x.shape[0]) is shape(x.shape[0]) else x * 3)
    for n in (2, 3, 2):
        yield f(ones(n, 2)), shape.cache_info()


@case
def a_list_for_a_name(jit):
    class Table:
        @functools.lru_cache(typed=True)  # noqa: B019
        def values(self, name, scale=1.0):
            return [len(name) * scale, name]

    table = Table()
    bound = table.values

    @jit
    def f(x, name):
        return x * table.values(name)[0] + bound(name, scale=2.0)[0]

    for name in ("a", "bb", "a"):
        yield f(ones(2), name), Table.values.cache_info()
    table.values("a")[0] = 100.0
    bound("bb", scale=2.0).insert(0, 7.0)
    for name in ("a", "bb"):
        yield f(ones(2), name), Table.values.cache_info()
    table = Table()
    yield f(ones(2), "a"), Table.values.cache_info()


@case(versions=1)
def kept_numbers_by_map_and_partial(jit):
    @functools.lru_cache
    def scale(a, b=1.0):
        return len(a) * b

    half = functools.partial(scale, b=0.5)

    @jit
    def f(x):
        for number in (*map(scale, ["a", "bb"]), half("a")):
            x = x * number
        return x

    for _ in range(3):
        yield f(ones(2)), scale.cache_info()


@case
def kept_numbers_by_map_are_forgotten(jit):
    settings = types.SimpleNamespace(factor=1.0)

    @functools.lru_cache
    def scale(name):
        return settings.factor

    f = jit(lambda x: [x * k for k in map(scale, "ab")])
    scale("a"), scale("b")
    for _ in range(3):
        yield f(ones(2)), scale.cache_info()
        settings.factor += 1
        scale.cache_clear()
        scale("a")


@case(outcome=FELL_BACK)
def kept_anew_after_every_change(jit):
    settings = types.SimpleNamespace(count=0)

    @functools.lru_cache
    def scale(name):
        return settings.count * 2.0

    @jit
    def f(x):
        settings.count += 1
        return x * scale("a")

    for _ in range(4):
        yield f(ones(2)), scale("a"), settings
        scale.cache_clear()


@case
def a_function_that_keeps_is_made_inside(jit):
    settings = types.SimpleNamespace(factor=1.0)

    @jit
    def f(x):
        @functools.lru_cache
        def scale(name, size):
            return [settings.factor + len(name), size]

        return x * scale("a", x.shape[0])[0] * scale("a", x.shape[0])[1]

    for n in (2, 3, 2):
        yield f(ones(n))
    settings.factor = 5.0
    yield f(ones(2))


@case
def nothing_is_kept(jit):
    calls = []

    @functools.lru_cache(maxsize=0)
    def scale(name):
        calls.append(name)
        return [len(name)]

    f = jit(lambda x: x * scale("a")[0])
    for _ in range(3):
        yield f(ones(2)), calls, scale.cache_info()


@case
def a_second_derivative_through_a_pattern(jit):
    arrange, recipe, steps = patterns()
    f = jit(lambda x: arrange(x, "b nc -> c b n", c=2).pow(3).sum())
    for n in (2, 3, 2):
        x = numbered(n, 4).requires_grad_()
        [gradient] = torch.autograd.grad(f(x), x, create_graph=True)
        recipe.cache_clear()
        gradient.square().sum().backward()
        yield x.grad, recipe.cache_info(), steps.cache_info()


@case
def a_decision_by_values_between_patterns(jit):
    arrange, recipe, steps = patterns()

    @jit
    def f(x):
        x = arrange(x, "b nc -> c b n", c=2)
        return arrange(x, "a b c -> b c a") if x.sum() > 0 else x

    for n, sign in ((2, 1), (2, -1), (3, -1), (3, 1), (2, 1)):
        yield f(numbered(n, 4) * sign), recipe.cache_info(), steps.cache_info()


@case(versions=2)
def patterns_beside_a_counter(jit):
    arrange, _, steps = patterns()
    state = types.SimpleNamespace(calls=0, mean=torch.zeros(()))

    @jit
    def f(x):
        state.calls += 1
        state.mean.mul_(0.5).add_(x.mean())
        return arrange(x, "b nc -> c b n", c=2) * state.mean

    arrange(numbered(2, 4), "b nc -> c b n", c=2)
    for n in (2, 3, 2, 5):
        yield f(numbered(n, 4)), state, steps.cache_info()


@case(outcome=FELL_BACK)
def a_kept_list_under_another_name(jit):
    current = [2]

    @functools.lru_cache
    def shape(size):
        return [size]

    @jit
    def f(x):
        current.append(1)
        return x.repeat(shape(x.shape[0])).sum(), len(shape(2))

    for n in (2, 3, 2):
        yield f(ones(n)), current, shape.cache_info()
    current = shape(3)
    for n in (2, 3, 3, 2):
        yield f(ones(n)), current, shape.cache_info()


@case(outcome=FELL_BACK)
def a_kept_list_is_an_argument(jit):
    @functools.lru_cache
    def shape(size):
        return [size]

    @jit
    def f(x, other):
        other.append(1)
        return x.repeat(shape(x.shape[0])).sum()

    for n in (2, 3, 2):
        other = [n]
        yield f(ones(n), other), other, shape.cache_info()
    for n in (2, 3, 3):
        yield f(ones(n), shape(n)), shape(n), shape.cache_info()


@case
def an_index_out_of_range_after_a_pattern(jit):
    arrange, recipe, steps = patterns()
    f = jit(lambda x, i: arrange(x, "b nc -> c b n", c=2).flatten()[i])
    for n, i in ((2, 1), (3, 1), (4, 100), (2, 1), (4, 1)):
        yield attempt(f, numbered(n, 4), torch.tensor([i])), recipe.cache_info(), steps.cache_info()
