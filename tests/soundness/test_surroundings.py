"""What a function reads besides its arguments may change between calls: a jitted function must notice."""

from __future__ import annotations

import types

import numpy as np
import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.jit import jit

SCALE = 2.0
COUNT = 3
TABLE = {"scale": 2.0}
LIST = [1.0, 2.0]
TENSOR = torch.ones(3)
ARRAY = np.ones(3, np.float32)


def ones(*shape):
    return torch.ones(*shape)


def test_a_global_number():
    global SCALE
    f = jit(lambda x: x * SCALE)
    for value in (2.0, 3.0, -0.0, 2.0, 0.0, 1):
        SCALE = value
        assert f(ones(2)).tolist() == [value] * 2
        assert str(f(ones(2)).tolist()[0]) == str(float(value))


def test_a_global_tensor_replaced():
    global TENSOR
    f = jit(lambda x: x + TENSOR)
    for value in (1.0, 5.0, 2.0):
        TENSOR = torch.full((3,), value)
        assert f(ones(3)).tolist() == [1.0 + value] * 3


def test_a_global_tensor_written():
    global TENSOR
    TENSOR = torch.zeros(3)
    f = jit(lambda x: x + TENSOR * 2)
    for value in (0.0, 1.0, 2.0):
        assert f(ones(3)).tolist() == [1.0 + 2 * value] * 3
        TENSOR += 1


def test_a_global_tensor_resized():
    global TENSOR
    f = jit(lambda x: (x + TENSOR).sum())
    for size in (3, 1, 3, 4):
        TENSOR = torch.ones(size)
        assert f(ones(size)).item() == 2 * size


def test_a_global_function_replaced():
    scope = {"torch": torch, "helper": lambda x: x + 1}
    exec(compile("def f(x): return helper(x)", __file__, "exec"), scope)
    f = jit(scope["f"])
    assert f(ones(1)).item() == 2
    scope["helper"] = lambda x: x * 10
    assert f(ones(1)).item() == 10


def test_a_closure_cell():
    scale = 1.0

    def outer():
        def change(value):
            nonlocal scale
            scale = value

        return jit(lambda x: x * scale), change

    f, change = outer()
    for value in (1.0, 4.0, 1.0):
        change(value)
        assert f(ones(1)).item() == value


def test_a_container_changed():
    f = jit(lambda x: x * LIST[0] + TABLE["scale"])
    assert f(ones(1)).item() == 3.0
    LIST[0], TABLE["scale"] = 5.0, 1.0
    assert f(ones(1)).item() == 6.0
    LIST[0], TABLE["scale"] = 1.0, 2.0


def test_a_nested_container_of_tensors():
    state = {"weights": [torch.ones(2), torch.full((2,), 2.0)]}
    f = jit(lambda x: x * state["weights"][0] + state["weights"][1])
    assert f(ones(2)).tolist() == [3.0, 3.0]
    state["weights"][0] = torch.full((2,), 10.0)
    assert f(ones(2)).tolist() == [12.0, 12.0]
    state["weights"].append(None)
    assert f(ones(2)).tolist() == [12.0, 12.0]


def test_an_attribute_of_a_plain_object():
    config = types.SimpleNamespace(scale=2.0, tensor=torch.ones(1), inner=types.SimpleNamespace(flag=True))
    f = jit(lambda x: x * config.scale + (config.tensor if config.inner.flag else 0.0))
    assert f(ones(1)).item() == 3.0
    config.scale = 3.0
    assert f(ones(1)).item() == 4.0
    config.inner.flag = False
    assert f(ones(1)).item() == 3.0
    config.inner = types.SimpleNamespace(flag=True)
    config.tensor = torch.full((1,), 7.0)
    assert f(ones(1)).item() == 10.0


def test_an_attribute_of_a_module_object():
    module = types.ModuleType("settings")
    module.scale = 2.0
    f = jit(lambda x: x * module.scale)
    assert f(ones(1)).item() == 2.0
    module.scale = 3.0
    assert f(ones(1)).item() == 3.0


def test_an_instance_attribute_read_by_a_method():
    class Model:
        scale = 2.0

        def __call__(self, x):
            return x * self.scale

    model = Model()
    f = jit(model)
    assert f(ones(1)).item() == 2.0
    model.scale = 5.0
    assert f(ones(1)).item() == 5.0
    del model.scale
    Model.scale = 7.0
    assert f(ones(1)).item() == 7.0


def test_a_bound_method():
    class Model:
        def __init__(self):
            self.scale = 2.0

        def forward(self, x):
            return x * self.scale

    model = Model()
    f = jit(model.forward)
    assert f(ones(1)).item() == 2.0
    model.scale = 3.0
    assert f(ones(1)).item() == 3.0


def test_default_arguments_and_keywords():
    @jit
    def f(x, scale=2.0, *, shift=1.0):
        return x * scale + shift

    assert f(ones(1)).item() == 3.0
    assert f(ones(1), 3.0).item() == 4.0
    assert f(ones(1), shift=0.5).item() == 2.5
    assert f(scale=4.0, x=ones(1)).item() == 5.0


def test_the_training_flag():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.Dropout(1.0))
    f = jit(model)
    assert f(ones(1, 2)).abs().sum().item() == 0
    model.eval()
    assert f(ones(1, 2)).tolist() == layer(ones(1, 2)).tolist()
    model.train()
    assert f(ones(1, 2)).abs().sum().item() == 0


def test_a_dropout_rate():
    model = nn.Dropout(1.0)
    f = jit(model)
    assert f(ones(8)).sum().item() == 0
    model.p = 0.0
    assert f(ones(8)).sum().item() == 8


def test_a_replaced_parameter():
    model = nn.Linear(2, 2, bias=False)
    f = jit(model)
    f(ones(1, 2))
    model.weight = nn.Parameter(torch.full((2, 2), 3.0))
    assert f(ones(1, 2)).tolist() == [[6.0, 6.0]]
    model.weight.data = torch.full((2, 2), 1.0)
    assert f(ones(1, 2)).tolist() == [[2.0, 2.0]]
    with torch.no_grad():
        model.weight.mul_(5)
    assert f(ones(1, 2)).tolist() == [[10.0, 10.0]]


def test_a_replaced_submodule():
    model = nn.Sequential(nn.Identity())
    f = jit(model)
    assert f(ones(1)).item() == 1
    model[0] = nn.ReLU()
    assert f(-ones(1)).item() == 0


def test_a_parameter_removed_from_a_list():
    model = nn.ModuleList([nn.Identity(), nn.ReLU()])

    def forward(x):
        for layer in model:
            x = layer(x) + 1
        return x

    f = jit(forward)
    assert f(ones(1)).item() == 3
    model.append(nn.Identity())
    assert f(ones(1)).item() == forward(ones(1)).item() == 4


def test_a_frozen_parameter():
    model = nn.Linear(2, 1)
    f = jit(lambda x: model(x).sum())
    f(ones(1, 2)).backward()
    assert model.weight.grad is not None
    model.weight.requires_grad_(False)
    model.weight.grad = None
    f(ones(1, 2)).backward()
    assert model.weight.grad is None


def test_a_forward_hook():
    model = nn.Identity()
    f = jit(model)
    assert f(ones(1)).item() == 1
    handle = model.register_forward_hook(lambda module, inputs, output: output * 3)
    assert f(ones(1)).item() == 3
    handle.remove()
    assert f(ones(1)).item() == 1


def test_grad_mode():
    w = torch.ones(2, requires_grad=True)
    f = jit(lambda x: x * w)
    assert f(ones(2)).requires_grad
    with torch.no_grad():
        assert not f(ones(2)).requires_grad
    assert f(ones(2)).requires_grad


def test_the_default_dtype():
    f = jit(lambda x: x + torch.zeros(2))
    integers = torch.ones(2, dtype=torch.int64)
    assert f(integers).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert f(integers).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore::eagerjit.jit.JitWarning")
def test_a_numpy_array_changed():
    f = jit(lambda x: x + torch.tensor(ARRAY))
    assert f(ones(3)).tolist() == [2.0] * 3
    ARRAY[:] = 5
    assert f(ones(3)).tolist() == [6.0] * 3
    ARRAY[:] = 1


@pytest.mark.filterwarnings("ignore::eagerjit.jit.JitWarning")
def test_numpy_random_numbers():
    generator = np.random.default_rng(0)
    f = jit(lambda x: x + float(generator.random()))
    assert f(ones(1)).item() != f(ones(1)).item()


@pytest.mark.filterwarnings("ignore::eagerjit.jit.JitWarning")
def test_an_iterator_moves_on():
    numbers = iter([1.0, 2.0, 3.0])
    f = jit(lambda x: x * next(numbers))
    assert [f(ones(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]


def test_isinstance_and_types_of_arguments():
    f = jit(lambda x, y: x + (y if isinstance(y, float) else 10))
    assert f(ones(1), 1.0).item() == 2.0
    assert f(ones(1), 1).item() == 11.0
    assert f(ones(1), True).item() == 11.0


def test_a_string_argument():
    f = jit(lambda x, how: x + 1 if how == "add" else x * 5)
    assert [f(ones(1), how).item() for how in ("add", "mul", "add")] == [2.0, 5.0, 2.0]


def test_shape_decisions():
    f = jit(lambda x: x.sum() if x.shape[0] > 3 else x.sum() * 100)
    assert [f(ones(n)).item() for n in (5, 3, 4, 2, 1, 0)] == [5.0, 300.0, 4.0, 200.0, 100.0, 0.0]
