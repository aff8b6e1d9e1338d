"""What a function reads besides its arguments changes between calls."""

from __future__ import annotations

import os
import types

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import case

SCALE: float = 2.0
TABLE = {"scale": 2.0}
LIST = [1.0, 2.0]
TENSOR = torch.ones(3)
ARRAY = np.ones(3, np.float32)


def ones(*shape):
    return torch.ones(*shape)


@case
def a_global_number_replaced(jit):
    global SCALE
    f = jit(lambda x: x * SCALE)
    for SCALE in (2.0, 3.0, -0.0, 2.0, 0.0, 1):  # noqa: B007
        yield f(ones(2))
    SCALE = 2.0


@case
def a_global_tensor_replaced(jit):
    global TENSOR
    f = jit(lambda x: x + TENSOR)
    for value in (1.0, 5.0, 2.0):
        TENSOR = torch.full((3,), value)
        yield f(ones(3))


@case(versions=1)
def a_global_tensor_written(jit):
    global TENSOR
    TENSOR = torch.zeros(3)
    f = jit(lambda x: x + TENSOR * 2)
    for _ in range(3):
        f(ones(3))
        TENSOR += 1
    yield TENSOR


@case
def a_global_tensor_resized(jit):
    global TENSOR
    f = jit(lambda x: (x + TENSOR).sum())
    for size in (3, 1, 3, 4):
        TENSOR = torch.ones(size)
        yield f(ones(size))


@case
def a_global_function_replaced(jit):
    scope = {"helper": lambda x: x + 1}
    exec(compile("def f(x): return helper(x)", __file__, "exec"), scope)
    f = jit(scope["f"])
    yield f(ones(1))
    scope["helper"] = lambda x: x * 10
    yield f(ones(1))


@case
def a_closure_cell_assigned(jit):
    scale = 1.0
    f = jit(lambda x: x * scale)
    for scale in (1.0, 4.0, 1.0):  # noqa: B007
        yield f(ones(1))


@case
def items_of_a_global_list_and_dictionary(jit):
    f = jit(lambda x: x * LIST[0] + TABLE["scale"])
    yield f(ones(1))
    LIST[0], TABLE["scale"] = 5.0, 1.0
    yield f(ones(1))
    LIST[0], TABLE["scale"] = 1.0, 2.0
    yield f(ones(1))


@case
def tensors_in_a_nested_container(jit):
    state = {"weights": [torch.ones(2), torch.full((2,), 2.0)]}
    f = jit(lambda x: x * state["weights"][0] + state["weights"][1])
    yield f(ones(2))
    state["weights"][0] = torch.full((2,), 10.0)
    yield f(ones(2))
    state["weights"].append(None)
    yield f(ones(2))


@case
def attributes_of_a_plain_object(jit):
    config = types.SimpleNamespace(scale=2.0, tensor=torch.ones(1), inner=types.SimpleNamespace(flag=True))
    f = jit(lambda x: x * config.scale + (config.tensor if config.inner.flag else 0.0))
    yield f(ones(1))
    config.scale = 3.0
    yield f(ones(1))
    config.inner.flag = False
    yield f(ones(1))
    config.inner = types.SimpleNamespace(flag=True)
    config.tensor = torch.full((1,), 7.0)
    yield f(ones(1))


@case
def names_of_another_python_module(jit):
    module = types.ModuleType("settings")
    module.scale = 2.0
    f = jit(lambda x: x * module.scale)
    yield f(ones(1))
    module.scale = 3.0
    yield f(ones(1))


@case
def an_instance_attribute_that_hides_the_class_attribute(jit):
    class Model:
        scale = 2.0

        def __call__(self, x):
            return x * self.scale

    model = Model()
    f = jit(model)
    yield f(ones(1))
    model.scale = 5.0
    yield f(ones(1))
    del model.scale
    Model.scale = 7.0
    yield f(ones(1))


@case
def the_training_flag(jit):
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.Dropout(1.0))
    f = jit(model)
    for training in (True, False, True):
        model.train(training)
        yield f(ones(1, 2))


@case
def a_dropout_rate(jit):
    model = nn.Dropout(1.0)
    f = jit(model)
    for model.p in (1.0, 0.0, 0.5):
        yield f(ones(8))


@case
def a_parameter_replaced(jit):
    model = nn.Linear(2, 2, bias=False)
    f = jit(model)
    yield f(ones(1, 2))
    model.weight = nn.Parameter(torch.full((2, 2), 3.0))
    yield f(ones(1, 2))
    model.weight.data = torch.full((2, 2), 1.0)
    yield f(ones(1, 2))
    with torch.no_grad():
        model.weight.mul_(5)
    yield f(ones(1, 2))


@case
def a_submodule_replaced(jit):
    model = nn.Sequential(nn.Identity())
    f = jit(model)
    yield f(-ones(1))
    model[0] = nn.ReLU()
    yield f(-ones(1))


@case
def a_submodule_appended(jit):
    model = nn.ModuleList([nn.Identity(), nn.ReLU()])

    def forward(x):
        for layer in model:
            x = layer(x) + 1
        return x

    f = jit(forward)
    yield f(ones(1))
    model.append(nn.Identity())
    yield f(ones(1))


@case
def a_parameter_frozen(jit):
    model = nn.Linear(2, 1)
    f = jit(lambda x: model(x).sum())
    for flag in (True, False, True):
        model.weight.requires_grad_(flag)
        model.weight.grad = None
        f(ones(1, 2)).backward()
        yield model.weight.grad, model.bias.grad


@case
def a_forward_hook_added_and_removed(jit):
    model = nn.Identity()
    f = jit(model)
    yield f(ones(1))
    handle = model.register_forward_hook(lambda module, inputs, output: output * 3)
    yield f(ones(1))
    handle.remove()
    yield f(ones(1))


@case
def grad_mode_switched(jit):
    w = torch.ones(2, requires_grad=True)
    f = jit(lambda x: x * w)
    f(ones(2))
    with torch.no_grad():
        f(ones(2))
    yield f(ones(2))


@case
def the_default_dtype_changed(jit):
    f = jit(lambda x: x + torch.zeros(2))
    integers = torch.ones(2, dtype=torch.int64)
    yield f(integers)
    torch.set_default_dtype(torch.float64)
    try:
        yield f(integers)
    finally:
        torch.set_default_dtype(torch.float32)
    yield f(integers)


@case
def a_numpy_array_changed(jit):
    f = jit(lambda x: x + torch.tensor(ARRAY))
    yield f(ones(3))
    ARRAY[:] = 5
    yield f(ones(3))
    ARRAY[:] = 1
@case
def an_environment_variable_changed(jit):
    def f(x):
        return x * float(os.environ.get("SOUNDNESS_SCALE", "1"))

    f = jit(f)
    yield f(ones(2))
    os.environ["SOUNDNESS_SCALE"] = "3"
    yield f(ones(2))
    del os.environ["SOUNDNESS_SCALE"]
    yield f(ones(2))


