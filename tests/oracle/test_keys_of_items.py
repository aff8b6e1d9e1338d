"""Items by keys of every form: what is read, what is written, and the gradients of what is written."""

import numpy as np
import pytest
import torch

import eagerjit

KEYS = {
    "a place without dimensions and a slice": lambda t: (t.tensor(1), slice(0, 2)),
    "a matrix of rows": lambda t: t.tensor([[0, 2], [1, 0]]),
    "places that broadcast, behind a slice": lambda t: (slice(None), t.tensor([[1], [3]]), t.tensor([0, 2])),
    "places apart": lambda t: (t.tensor([0, 2]), slice(None), t.tensor([0, 2])),
    "a matrix of columns": lambda t: (slice(None), t.tensor([[1, 3], [0, 2]])),
    "a mask and places": lambda t: (t.tensor([True, False, True]), t.tensor([1, 3])),
    "a list of lists": lambda t: [[0, 1], [1, 0]],
    "a list of a list": lambda t: [[0, 1]],
    "a list of a slice and a place": lambda t: [slice(0, 1), 2],
    "a list of tensors": lambda t: [t.tensor(0), t.tensor(2)],
    "a list with None": lambda t: [None, 0],
    "a list with an ellipsis": lambda t: [..., 0],
    "a list of a mask and a place": lambda t: [t.tensor([True, False, True]), 0],
    "a list of a range and a place": lambda t: [range(2), 0],
    "a list of places": lambda t: [0, 1],
    "a list of flags": lambda t: [True, False, True],
    "a long list of lists": lambda t: [[0, 1]] * 33,
}
USES = {
    "read": lambda t, x, key: x[key],
    "written": lambda t, x, key: ((y := x * 2).__setitem__(key, -1.0), y)[1],
    "written what is computed": lambda t, x, key: ((y := x * 2).__setitem__(key, x[key] * 3), y)[1],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", KEYS)
def test_as_torch(name, use):
    """Values and gradients, eagerly and compiled."""

    def both(t, function):
        x = t.arange(60.0).view(3, 4, 5).requires_grad_()
        out = function(x)
        (out * t.arange(float(out.numel())).view(out.shape)).sum().backward()
        return out.detach().numpy(), x.grad.numpy()

    def call(t):
        return lambda x: USES[use](t, x, KEYS[name](t))

    expected = both(torch, call(torch))
    for function in (call(eagerjit), eagerjit.jit(call(eagerjit))):
        for found, wanted in zip(both(eagerjit, function), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


WRONG = {
    "a text among places": ((0, "a"),),
    "a text": ("a",),
    "bytes": (b"a",),
    "None among places": ([None],),
    "an object among places": ([object()],),
    "a dtype among places": ((0, float),),
    "an ellipsis among places": ((0, ...),),
    "a place beyond 64 bits": ([2**70],),
    "a complex place": ([1j],),
    "an array of texts": (np.array(["a"]),),
    "an array of objects": (np.array([None]),),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_place_is_refused_as_by_torch(name):
    for use in (lambda x: x[WRONG[name]], lambda x: x.__setitem__(WRONG[name], 1.0)):
        with pytest.raises(Exception) as wanted:
            use(torch.ones(2, 3))
        for function in (use, eagerjit.jit(use)):
            with pytest.raises(wanted.type):
                function(eagerjit.ones(2, 3))


def test_lists_that_mean_tuples_are_deprecated():
    with pytest.warns(UserWarning, match="deprecated"):
        eagerjit.zeros(3, 4)[[[0, 1], [1, 0]]]


def test_accumulated_where_places_are_a_matrix():
    """The gradient of what `index_put_` adds to rows that a matrix names."""

    def gradient(t):
        value = t.ones(2, 2, 4, requires_grad=True)
        out = t.zeros(3, 4).index_put((t.tensor([[0, 2], [1, 0]]),), value, accumulate=True)
        (out * t.arange(12.0).view(3, 4)).sum().backward()
        return value.grad.tolist()

    assert gradient(eagerjit) == gradient(torch)
