"""Samples of Modules' bookkeeping, and of functions that are recorded symbolically."""

from __future__ import annotations

from catalog.facts import text
from catalog.modules import sequential
from catalog.sample import Of, Table, Variation, call

ONCE = {"kinds": ("usual",), "dtypes": ()}
ROWS = Of("a4")
"""What the sequential Module takes."""
LEFT_OUT = "which compiled code would not do"


def of_module(function, wrong=None, make=sequential, **options) -> list[Variation]:
    """What a Module says or does, with its results."""
    made = [call(function, ROWS, module=make, broadcast=(("4",), ("ca4",)), **options)]
    return made if wrong is None else [*made, call(wrong, ROWS, module=sequential, **ONCE)]


def named_parts(values):
    return [(name, type(part).__name__) for name, part in values]


def trained(t, f, x):
    """Training or evaluating, seen in every part."""
    whole = f.train()
    flags = [m.training for m in f.modules()]
    evaluated = whole.eval()(x)
    flags += [m.training for m in f.modules()]
    return evaluated, whole is f, flags, f.train(False).training, f.train(True).training


def forgetful(t):
    return t.nn.Sequential(t.nn.Linear(4, 3), t.nn.Dropout(0.5))


def converted(t, f, x):
    m = t.nn.Linear(4, 3)
    with t.no_grad():
        for number, p in enumerate(m.parameters()):
            p.fill_(number + 0.25)
    whole = m.to(t.float64)
    return (
        whole is m,
        [text(p.dtype) for p in m.parameters()],
        m(x.double()).detach(),
        m.to("cpu", t.float32)(x.float()),
    )


def zeroed_parts(t, f, x):
    names = []

    @t.no_grad()
    def zero(part):
        names.append(type(part).__name__)
        if isinstance(part, t.nn.Linear):
            part.bias.zero_()

    same = f.apply(zero) is f
    return f(x), same, names


def grown(t, f, x):
    m = t.nn.Module()
    m.add_module("inner", t.nn.Identity())
    m.register_module("none", None)
    m.register_parameter("scale", t.nn.Parameter(x.detach() * 2))
    m.register_parameter("absent", None)
    m.register_buffer("shift", x.detach() + 1)
    m.register_buffer("kept", None, persistent=False)
    kinds = [type(c).__name__ for c in m.children()], [n for n, _ in m.named_parameters()], list(m.state_dict())
    return kinds, m.inner(x) * m.scale + m.shift


def loaded(t, f, x):
    state = {key: value * 2 for key, value in f.state_dict().items()}
    answer = f.load_state_dict(state)
    return f(x), list(answer.missing_keys), list(state)


def without_gradients(t, f, x):
    f(x).sum().backward()
    before = [p.grad.clone() for p in f.parameters()]
    f.zero_grad()
    after = [p.grad is None for p in f.parameters()]
    f(x).sum().backward()
    f.zero_grad(set_to_none=False)
    return before, after, [p.grad for p in f.parameters()]


def hooked(t, f, x):
    seen = []
    handles = [
        f.register_forward_hook(lambda module, inputs, output: output * 2),
        f.register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape)), prepend=True),
    ]
    try:
        doubled = f(x)
    finally:
        for handle in handles:
            handle.remove()
    return doubled, f(x), seen


def symbolic(t, f, x):
    graph = t.fx.Graph()
    tracer = t.fx.proxy.GraphAppendingTracer(graph)
    y = t.fx.Proxy(graph.placeholder("x"), tracer)
    graph.output((y * 2 + 1).node)
    module = t.fx.GraphModule(t.nn.Module(), graph)
    return module(x), [(node.op, isinstance(node, t.fx.Node)) for node in graph.nodes]


def traced(t, f, x):
    module = t.fx.GraphModule(f, t.fx.Tracer().trace(f))
    return module(x), [node.op for node in module.graph.nodes]


def symbols(wrong) -> list[Variation]:
    """Functions recorded symbolically, by hand and from a Module; a wrong use."""
    return [call(symbolic, "ab"), call(traced, ROWS, module=sequential), call(wrong, "ab", **ONCE)]


STRUCTURE: Table = {
    "Module.parameters": of_module(
        lambda t, f, x: (list(f.parameters()), len(list(f.parameters(recurse=False))), f(x))
    ),
    "Module.named_parameters": of_module(lambda t, f, x: ([(n, p * 1) for n, p in f.named_parameters("at")], f(x))),
    "Module.modules": of_module(lambda t, f, x: ([type(m).__name__ for m in f.modules()], f(x))),
    "Module.named_modules": of_module(lambda t, f, x: (named_parts(f.named_modules()), f(x))),
    "Module.children": of_module(
        lambda t, f, x: (next(f.children())(x), [type(m).__name__ for m in f.children()], f(x))
    ),
    "Module.named_children": of_module(lambda t, f, x: (named_parts(f.named_children()), f(x))),
    "Module.get_submodule": of_module(lambda t, f, x: f.get_submodule("0")(x), lambda t, f, x: f.get_submodule("zz")),
    "Module.train": of_module(trained, lambda t, f, x: f.train("zz"), forgetful, eager=LEFT_OUT),
    "Module.eval": of_module(trained, lambda t, f, x: f.eval(1), forgetful, eager=LEFT_OUT),
    "Module.apply": of_module(zeroed_parts, lambda t, f, x: f.apply(1), eager=LEFT_OUT),
    "Module.add_module": [
        call(grown, "ab"),
        call(lambda t, f, x: t.nn.Module().add_module("a.b", None), "", **ONCE),
        call(lambda t, f, x: t.nn.Module().add_module("a", 3), "", **ONCE),
    ],
    "Module.register_parameter": [
        call(grown, "ab"),
        call(lambda t, f, x: t.nn.Module().register_parameter("p", x), "", **ONCE),
        call(lambda t, f, x: t.nn.Module().register_parameter(1, None), "", **ONCE),
    ],
    "Module.register_buffer": [
        call(grown, "ab"),
        call(lambda t, f, x: t.nn.Module().register_buffer("p", 1), "", **ONCE),
        call(lambda t, f, x: t.nn.Module().register_buffer("a.b", x), "", **ONCE),
    ],
    "Module.state_dict": of_module(
        lambda t, f, x: ([(k, v * 1) for k, v in f.state_dict().items()], list(f.state_dict(prefix="at.")), f(x)),
        lambda t, f, x: f.state_dict(zz=1),
    ),
    "Module|Optimizer.state_dict": of_module(
        lambda t, f, x: (
            list(f.state_dict()),
            t.optim.SGD(f.parameters(), lr=0.5).state_dict()["param_groups"][0]["lr"],
            f(x),
        ),
        lambda t, f, x: f.state_dict(zz=1),
    ),
    "Module|Optimizer.load_state_dict": of_module(loaded, lambda t, f, x: f.load_state_dict({"zz": x}))
    + of_module(
        lambda t, f, x: t.optim.SGD(f.parameters(), lr=0.5).load_state_dict({"state": {}, "param_groups": []}),
        lambda t, f, x: f.load_state_dict(3),
    ),
    "Module.zero_grad": of_module(without_gradients, lambda t, f, x: f.zero_grad(zz=1)),
    "Module.register_forward_hook": of_module(hooked, lambda t, f, x: f.register_forward_hook(), eager=LEFT_OUT),
    "Module.to": [
        call(converted, Of("a4", grad=False), broadcast=(("4",), ("ca4",)), eager="cannot be compiled"),
        call(lambda t, f, x: f.to(t.int64), ROWS, module=sequential, **ONCE),
        call(lambda t, f, x: f.to("zz"), ROWS, module=sequential, **ONCE),
    ],
    "torch.fx.symbolic_trace": [
        call(lambda t, f, x: t.fx.symbolic_trace(f)(x), ROWS, module=sequential),
        call(lambda t, f, x: f(lambda y: y.sin() + 1)(x), "ab"),
        call(lambda t, f, x: f(lambda y: 1 if y.sum() > 0 else 2), "", **ONCE),
    ],
    "torch.fx.GraphModule": symbols(lambda t, f, x: f(1, 2)),
    "torch.fx.Graph": symbols(lambda t, f, x: f().placeholder()),
    "torch.fx.Tracer": symbols(lambda t, f, x: f().trace(1)),
    "torch.fx.Node": symbols(lambda t, f, x: f()),
    "torch.fx.Proxy": symbols(lambda t, f, x: bool(f(t.fx.Graph().placeholder("x")))),
    "torch.fx.proxy.GraphAppendingTracer": symbols(lambda t, f, x: f()),
}
