"""Samples of what trains: gradients asked for, optimizers, schedules, initial values, distributions."""

from __future__ import annotations

import functools

from oracle import FLOATS

from catalog.sample import KINDS, Of, Table, Variation, call

ONCE = {"kinds": ("usual",), "dtypes": ()}
FILLED = tuple(k for k in KINDS if k != "empty")
DATA, WEIGHT = Of("ab", grad=False), Of("ab", grad=False)


def leaf(x):
    """A tensor of its own that requires a gradient."""
    return x.detach().clone().requires_grad_()


def descent(t, optimizer, parameter, x, steps=3):
    """Steps of an optimizer on one parameter; what became of it and of the settings."""
    for _ in range(steps):
        optimizer.zero_grad()
        (x * parameter).sin().sum().backward()
        optimizer.step()
    return parameter.detach(), parameter.grad, [group["lr"] for group in optimizer.param_groups]


def optimizers(kind, *options) -> list[Variation]:
    """An optimizer with each set of options; and wrong ones."""

    def use(given, t, f, x, w):
        parameter = leaf(w)
        return descent(t, f([parameter], **given), parameter, x)

    return [
        *(call(functools.partial(use, given), DATA, WEIGHT, eager=why(kind, given), on_gpu=False) for given in options),
        *(stepped(kind, given) for given in options),
        call(lambda t, f, x: f([leaf(x)], lr=-1.0), DATA, **ONCE),
        call(lambda t, f, x: f([]), DATA, **ONCE),
        call(lambda t, f, x: f(leaf(x)), DATA, **ONCE),
        call(lambda t, f, x: f([leaf(x) * 2]), DATA, **ONCE),
        call(lambda t, f, x: f([1.0]), DATA, **ONCE),
    ]


KEPT = "a tensor made in the function is kept outside of it"
OWN_PARAMETER = "an optimizer keeps the state of a parameter that is made in the function"


def why(kind, given) -> str:
    """Why a step on a parameter that is made in the function runs eagerly: plain SGD keeps no state of it."""
    return KEPT if kind == "SGD" and "momentum" not in given else OWN_PARAMETER


def stepped(kind, given) -> Variation:
    """Steps on a parameter that was there before, as was its optimizer."""
    return call(lambda t, f, x: descent(t, f.optimizer, f.weight, x, 2), DATA, module=holder(kind, given))


def holder(kind, given):
    """Makes a Module with one parameter and an optimizer of a kind for it."""

    def make(t):
        class Holder(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = t.nn.Parameter(t.ones(1))
                self.optimizer = getattr(t.optim, kind)(self.parameters(), **given)

        return Holder()

    return make


def schedules(*made, wrong=()) -> list[Variation]:
    """A schedule of learning rates, as functions of (its class, optimizer); and wrong ones."""

    def use(make, t, f, x):
        optimizer = t.optim.SGD([leaf(x)], lr=0.5)
        schedule, rates = make(f, optimizer), []
        for _ in range(4):
            optimizer.step()
            schedule.step()
            rates.append(schedule.get_last_lr())
        return x * rates[-1][0], rates

    refused = [call(lambda t, f, x, make=make: make(f, t.optim.SGD([leaf(x)], lr=0.5)), DATA, **ONCE) for make in wrong]
    return [*(call(functools.partial(use, make), "ab", eager=KEPT, on_gpu=False) for make in made), *refused]


def plateau(t, f, x):
    optimizer = t.optim.SGD([leaf(x)], lr=0.5)
    schedule, rates = f(optimizer, factor=0.1, patience=0), []
    for measured in (1.0, 0.5, 0.5, 0.7):
        schedule.step(measured)
        rates.append(optimizer.param_groups[0]["lr"])
    return x * rates[-1], rates, schedule.get_last_lr()


def own_optimizer(t, f, x, w):
    class Descent(t.optim.Optimizer):
        def __init__(self, parameters, lr):
            super().__init__(parameters, {"lr": lr})

        @t.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.add_(parameter.grad, alpha=-group["lr"])

    parameter = leaf(w)
    return descent(t, Descent([parameter], 0.25), parameter, x)


def one_step(t, f, x, w):
    parameter = leaf(w)
    optimizer = t.optim.SGD([parameter], lr=0.1, momentum=0.9)
    optimizer.step()
    before = parameter.detach().clone()
    (x * parameter).sum().backward()
    loss = optimizer.step(lambda: (x * parameter).sum())
    return before, parameter.detach(), loss.detach()


def zeroed(t, f, x, w):
    parameter = leaf(w)
    optimizer = t.optim.SGD([parameter], lr=0.1)
    (x * parameter).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    kept = parameter.grad.clone()
    optimizer.zero_grad()
    return kept, parameter.grad is None


def twice(t, f, p):
    y = (p * p).sum()
    f(y)
    f(y)


def accumulated(t, f, x):
    p = leaf(x)
    before = p.grad is None
    (p * p).sum().backward()
    once = p.grad.clone()
    (p * 3).sum().backward()
    total, p.grad = p.grad, None
    return before, once, total, p.grad is None


def retained(t, f, x):
    p = leaf(x)
    y = p * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, p.grad


def second(t, f, x):
    p = leaf(x)
    (first,) = f((p * p * p).sum(), p, create_graph=True)
    return first.detach(), f(first.sum(), [p])[0]


def own_function(t):
    class Doubled(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx, g):
            return g * ctx.scale + ctx.saved_tensors[0] * 0, None

    return Doubled


def applied(t, f, x):
    """The other owner of the name: a Module, which applies a function to all of its parts."""
    seen = []
    whole = t.nn.Sequential(t.nn.ReLU(), t.nn.Tanh()).apply(lambda part: seen.append(type(part).__name__))
    return whole(x), seen


def switched(t, f, x):
    """A switch of gradients as a block and as a decorator."""

    @f()
    def decorated(y):
        return y * 3

    with f():
        y = x * 2
        inner = t.is_grad_enabled()
    return y, y.requires_grad, inner, t.is_grad_enabled(), decorated(x)


def enabled(t, f, x):
    with f(False):
        y = x * 2
        with f(True):
            z = x * 3
    return y.requires_grad, y, z


def initial(*arguments, **options) -> list[Variation]:
    """A function that fills a tensor with fixed values, in place."""
    return [
        call(lambda t, f, x: f(x.detach().clone(), *arguments), "ab", **options),
        call(lambda t, f, x: (lambda p: (f(p, *arguments) is p, p.requires_grad, p.detach()))(leaf(x)), "ab"),
        call(lambda t, f, x: f(x.tolist(), *arguments), "ab", **ONCE),
    ]


def drawn(within, *arguments) -> list[Variation]:
    """A function that fills a tensor with random numbers, and what is true of many of them."""

    def many(t, f, x):
        y = f(t.empty(300, 200), *arguments)
        return within(y.flatten())

    return [
        call(lambda t, f, x: f(x.detach().clone(), *arguments), "ab", random=True),
        call(lambda t, f, x: f(leaf(x), *arguments).detach(), "ab", random=True),
        call(many, "", random=True, **ONCE),
        call(lambda t, f, x: f(t.empty(3), *arguments), "", random=True, **ONCE),
        call(lambda t, f, x: f(x.tolist(), *arguments), "ab", random=True, **ONCE),
    ]


def near(mean, deviation, limit=float("inf")):
    """Whether numbers have this mean and standard deviation and are not beyond a limit."""
    return lambda y: (
        (y.mean() - mean).abs() < 0.1 * deviation,
        (y.std() - deviation).abs() < 0.05 * deviation,
        (y - mean).abs().amax() <= limit,
    )


def orthogonal(t, f, x):
    tall, wide = f(t.empty(5, 3), gain=2.0), f(t.empty(3, 5))
    return (tall.T @ tall - 4 * t.eye(3)).abs().amax() < 1e-4, (wide @ wide.T - t.eye(3)).abs().amax() < 1e-4


def clipped(t, f, x, **options):
    p, q = leaf(x), leaf(x)
    ((p * p).sum() + (q * 3).sum()).backward()
    return f([p, q], **options), p.grad, q.grad


def chances(t, f, x, i):
    d = f(probs=x)
    return d.log_prob(i % x.shape[-1]), d.entropy(), d.probs, d.logits, tuple(d.batch_shape)


SHARES = Of("ab", 0.1, 1.0)
UNIFORM = 3**-0.5

TRAINING: Table = {
    "torch.optim.SGD": optimizers(
        "SGD",
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"lr": 0.1, "maximize": True},
    ),
    "torch.optim.Adam": optimizers("Adam", {}, {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
    "torch.optim.AdamW": optimizers("AdamW", {}, {"lr": 0.1, "weight_decay": 0.5, "maximize": True}),
    "torch.optim.Adadelta": optimizers("Adadelta", {}, {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1}),
    "torch.optim.RMSprop": optimizers("RMSprop", {}, {"lr": 0.1, "momentum": 0.5, "centered": True}),
    "torch.optim.Optimizer": [
        call(own_optimizer, DATA, WEIGHT),
        call(lambda t, f, x: f([], {}), DATA, **ONCE),
        call(lambda t, f, x: f(leaf(x), {}), DATA, **ONCE),
    ],
    "Optimizer/Scheduler.step": [
        call(one_step, DATA, WEIGHT, eager=OWN_PARAMETER, on_gpu=False),
        stepped("SGD", {"lr": 0.1, "momentum": 0.9}),
        call(lambda t, f, x: t.optim.SGD([leaf(x)], lr=0.1).step(1, 2), DATA, **ONCE),
    ],
    "Optimizer/Scheduler.zero_grad": [
        call(zeroed, DATA, WEIGHT),
        call(lambda t, f, x: t.optim.SGD([leaf(x)], lr=0.1).zero_grad(zz=1), DATA, **ONCE),
    ],
    "torch.optim.lr_scheduler.StepLR": schedules(
        lambda f, o: f(o, 2), lambda f, o: f(o, step_size=1, gamma=0.5), wrong=(lambda f, o: f(o), lambda f, o: f(1, 2))
    ),
    "torch.optim.lr_scheduler.LambdaLR": schedules(
        lambda f, o: f(o, lambda epoch: 0.9**epoch),
        lambda f, o: f(o, [lambda epoch: 1 / (epoch + 1)]),
        wrong=(lambda f, o: f(o, [abs, abs]), lambda f, o: f(o)),
    ),
    "torch.optim.lr_scheduler.ReduceLROnPlateau": [
        call(plateau, "ab"),
        call(lambda t, f, x: f(t.optim.SGD([leaf(x)], lr=0.1), "zz"), DATA, **ONCE),
        call(lambda t, f, x: f(t.optim.SGD([leaf(x)], lr=0.1), factor=1.0), DATA, **ONCE),
    ],
    "Tensor.backward": [
        call(lambda t, f, x: (lambda p: (f((p * p).sum()), p.grad))(leaf(x)), "ab"),
        call(lambda t, f, x, g: (lambda p: (f(p * p, g), p.grad))(leaf(x)), "ab", DATA, broadcast=(("ab", "b"),)),
        call(
            lambda t, f, x: (lambda p: (f(p.sum(), retain_graph=True), f(p.sum(), inputs=[p]), p.grad))(leaf(x)), "ab"
        ),
        call(lambda t, f, x: f(leaf(x) * 2), "ab"),
        call(lambda t, f, x: f(x.detach().sum()), "ab"),
        call(lambda t, f, x: twice(t, f, leaf(x)), "ab", **ONCE),
        call(lambda t, f, x: f(x, 3.0), "", **ONCE),
    ],
    "Tensor.grad": [
        call(accumulated, "ab"),
        call(retained, "ab"),
        call(lambda t, f, x: setattr(leaf(x), "grad", 1.0), "ab", **ONCE),
        call(lambda t, f, x: setattr(leaf(x), "grad", x.detach()[:1]), "ab", **ONCE),
        call(lambda t, f, x: setattr(leaf(x), "grad", x.detach().double()), "ab", **ONCE),
    ],
    "torch.autograd.grad": [
        call(lambda t, f, x: (lambda p: f((p * p).sum(), p))(leaf(x)), "ab"),
        call(second, "ab"),
        call(lambda t, f, x, g: (lambda p: f([p * p, p * 2], [p], [g, None]))(leaf(x)), "ab", DATA),
        call(lambda t, f, x, y: (lambda p: f(p.sum(), [p, y], allow_unused=True))(leaf(x)), "ab", "ab"),
        call(lambda t, f, x, y: (lambda p: f(p.sum(), [p, y], materialize_grads=True))(leaf(x)), "ab", "ab"),
        call(lambda t, f, x, y: (lambda p: f(p.sum(), [p, y]))(leaf(x)), "ab", "ab", **ONCE),
        call(lambda t, f, x: f(x.detach().sum(), x), "ab", **ONCE),
        call(lambda t, f, x: f(x * 2, x), "ab", **ONCE),
    ],
    "torch.autograd.Function": [
        call(lambda t, f, x: own_function(t).apply(x, 2.0), "ab"),
        call(lambda t, f, x: (own_function(t).apply(x * x, 3), isinstance(own_function(t)(), f)), "cab"),
        call(lambda t, f, x: own_function(t).apply(x), "ab", **ONCE),
        call(lambda t, f, x: f.apply(x), "ab", **ONCE),
    ],
    "Module|Function.apply": [
        call(lambda t, f, x: own_function(t).apply(x, 0.5), "ab"),
        call(applied, "ab"),
        call(lambda t, f, x: own_function(t).apply(x, 0.5, 1), "ab", **ONCE),
        call(lambda t, f, x: t.nn.ReLU().apply(1), "ab", **ONCE),
    ],
    "torch.no_grad": [call(switched, "ab"), call(lambda t, f, x: f(1, 2), "", **ONCE)],
    "torch.inference_mode": [call(switched, "ab"), call(lambda t, f, x: f(1, 2), "", **ONCE)],
    "torch.set_grad_enabled": [call(enabled, "ab"), call(lambda t, f, x: f(), "", **ONCE)],
    "torch.nn.utils.clip_grad_norm_": [
        call(clipped, "ab"),
        call(functools.partial(clipped, max_norm=1.0), "ab"),
        call(functools.partial(clipped, max_norm=0.5, norm_type=float("inf")), "ab"),
        call(functools.partial(clipped, max_norm=0.5, norm_type=1), "ab"),
        call(lambda t, f, x: (f(leaf(x), 1.0), f([], 1.0)), "ab"),
        call(lambda t, f, x: clipped(t, f, x * float("inf"), max_norm=1.0, error_if_nonfinite=True), "ab", **ONCE),
    ],
    "torch.nn.init.zeros_": initial(),
    "torch.nn.init.ones_": initial(),
    "torch.nn.init.constant_": initial(2.5),
    "torch.nn.init.normal_": drawn(near(1.0, 3.0), 1.0, 3.0),
    "torch.nn.init.uniform_": drawn(near(0.0, 2 * UNIFORM, 2.0), -2.0, 2.0),
    "torch.nn.init.trunc_normal_": drawn(near(0.0, 0.5396, 1.0), 0.0, 1.0, -1.0, 1.0),
    "torch.nn.init.kaiming_uniform_": drawn(near(0.0, 0.1, 0.1733)),
    "torch.nn.init.kaiming_normal_": drawn(near(0.0, 0.1)),
    "torch.nn.init.xavier_uniform_": drawn(near(0.0, 0.0632, 0.11)),
    "torch.nn.init.xavier_normal_": drawn(near(0.0, 0.0632)),
    "torch.nn.init.orthogonal_": [
        call(lambda t, f, x: f(x.detach().clone()), "ab", random=True, dtypes=("float64",)),
        call(orthogonal, "", random=True, **ONCE),
        call(lambda t, f, x: f(x.detach().clone()), "a", random=True, **ONCE),
    ],
    "torch.nn.init.calculate_gain": [
        call(lambda t, f, x: [f(n) for n in "linear conv2d sigmoid tanh relu leaky_relu selu".split()], "", **ONCE),
        call(lambda t, f, x: (f("leaky_relu", 0.2), f("relu", 3)), "", **ONCE),
        call(lambda t, f, x: f("zz"), "", **ONCE),
        call(lambda t, f, x: f("leaky_relu", "zz"), "", **ONCE),
    ],
    "torch.distributions.Categorical": [
        call(chances, SHARES, Of("a", dtype="int64", below="b"), dtypes=FLOATS, broadcast=(("ab", "ca"), ("b", "c"))),
        call(
            lambda t, f, x: (lambda d: (d.probs, d.entropy(), d.logits))(f(logits=x)), "ab", dtypes=FLOATS, kinds=FILLED
        ),
        call(lambda t, f, x: f(logits=x, validate_args=False).logits, "ab", dtypes=FLOATS),
        call(lambda t, f, x: (lambda s: (s, s < x.shape[-1]))(f(x).sample((3,))), SHARES, random=True, dtypes=FLOATS),
        call(lambda t, f, x: f(-x).probs, SHARES, **ONCE),
        call(lambda t, f, x: f(x * float("nan")), SHARES, **ONCE),
        call(lambda t, f, x: f(), SHARES, **ONCE),
        call(lambda t, f, x: f(x, x), SHARES, **ONCE),
        call(lambda t, f, x: f(x).log_prob(x.shape[-1] + 9), SHARES, **ONCE),
    ],
}
