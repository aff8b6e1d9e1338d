"""Recurrent networks and packed sequences against PyTorch, with the same weights, and jitted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import array_of, draw, same

import eagerjit as ej

NETWORKS: dict[str, Callable[[Any], Any]] = {
    "LSTM": lambda n: n.LSTM(3, 4),
    "LSTM layers": lambda n: n.LSTM(3, 4, num_layers=2, batch_first=True),
    "LSTM both": lambda n: n.LSTM(3, 4, 2, bidirectional=True),
    "LSTM no bias": lambda n: n.LSTM(3, 4, bias=False),
    "LSTM projected": lambda n: n.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2),
    "LSTM dropout": lambda n: n.LSTM(3, 4, num_layers=2, dropout=0.5).eval(),
    "GRU": lambda n: n.GRU(3, 4, batch_first=True),
    "GRU both": lambda n: n.GRU(3, 4, 2, bidirectional=True, bias=False),
    "RNN": lambda n: n.RNN(3, 4),
    "RNN relu": lambda n: n.RNN(3, 4, num_layers=2, nonlinearity="relu", bidirectional=True),
}
LENGTHS = [2, 5, 1, 5]


def both(name: str) -> tuple[Any, Any]:
    ours, theirs = NETWORKS[name](ej.nn), NETWORKS[name](torch.nn)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    return ours, theirs


def flat(result: Any) -> list[Any]:
    if isinstance(result, tuple):
        return [x for part in result for x in flat(part)]
    return [] if result is None else [result]


def total(results: list[Any]) -> Any:
    """A number that depends on all elements of all results in different ways."""
    return sum(
        (r * (i + 1.0)).sin().sum()
        for i, r in enumerate(results)
        if str(r.dtype).rpartition(".")[2].startswith("float")
    )


def check(library_results: list[tuple[Any, Any, list[Any]]]) -> None:
    """Results, gradients of inputs and of parameters of both libraries are the same."""
    for network, results, _ in library_results:
        total(results).backward()
        assert network is not None
    (ours, a, x), (theirs, b, y) = library_results
    same(a, b, 1e-5)
    for mine, other in zip(x, y, strict=True):
        same(mine.grad, other.grad, 1e-4, "input")
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        same(p.grad, q.grad, 1e-4, key)


def initial(library: Any, network: Any, batch: int | None, requires_grad: bool = True) -> Any:
    layers = network.num_layers * (2 if network.bidirectional else 1)
    shape = (layers,) if batch is None else (layers, batch)
    lstm = isinstance(network, library.nn.LSTM)
    parts = [
        library.tensor(draw((*shape, width), "float32", -1, 1, 5 + i), requires_grad=requires_grad)
        for i, width in enumerate((network.proj_size or 4, 4)[: 1 + lstm])
    ]
    return tuple(parts) if lstm else parts[0]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("form", ["batch", "state", "single", "one step", "packed", "packed sorted"])
def test_network(name: str, form: str) -> None:
    ours, theirs = both(name)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    found = []
    for library, network in ((ej, ours), (torch, theirs)):
        shape = {"single": (5, 3), "one step": (1, 1, 3)}.get(form, (4, 5, 3) if network.batch_first else (5, 4, 3))
        x = library.tensor(draw(shape, "float32", -1, 1, 1), requires_grad=True)
        state = None
        if form == "state":
            state = initial(library, network, 4)
        elif form == "single":
            state = initial(library, network, None)
        if form.startswith("packed"):
            rnn = library.nn.utils.rnn
            ordered = form == "packed sorted"
            lengths = sorted(LENGTHS, reverse=True) if ordered else LENGTHS
            packed = rnn.pack_padded_sequence(x, lengths, network.batch_first, enforce_sorted=ordered)
            out, final = network(packed, initial(library, network, 4))
            results = [*flat(tuple(out)), *flat(final), *rnn.pad_packed_sequence(out, network.batch_first, -1.0)]
        else:
            results = flat(network(x) if state is None else network(x, state))
        found.append((network, results, [x, *flat(state)]))
    check(found)


CELLS: dict[str, Callable[[Any], Any]] = {
    "RNNCell": lambda n: n.RNNCell(3, 4),
    "RNNCell relu": lambda n: n.RNNCell(3, 4, nonlinearity="relu"),
    "LSTMCell": lambda n: n.LSTMCell(3, 4),
    "LSTMCell no bias": lambda n: n.LSTMCell(3, 4, bias=False),
    "GRUCell": lambda n: n.GRUCell(3, 4),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("shape", [(2, 3), (3,)])
def test_cell(name: str, shape: tuple[int, ...]) -> None:
    ours, theirs = CELLS[name](ej.nn), CELLS[name](torch.nn)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    assert repr(ours) == repr(theirs)
    found = []
    for library, cell in ((ej, ours), (torch, theirs)):
        x = library.tensor(draw(shape, "float32", -1, 1, 1), requires_grad=True)
        state = cell(x)
        found.append((cell, flat(cell(x, state)), [x]))
    check(found)


SEQUENCES: dict[str, Callable[[Any, Any], Any]] = {
    "pad": lambda r, s: r.pad_sequence(s),
    "pad batch first": lambda r, s: r.pad_sequence(s, batch_first=True, padding_value=-1),
    "pad left": lambda r, s: r.pad_sequence(s, padding_side="left"),
    "pad badly": lambda r, s: r.pad_sequence(s, padding_side="up"),
    "pad nothing": lambda r, s: r.pad_sequence([]),
    "pack": lambda r, s: tuple(r.pack_sequence(s, enforce_sorted=False)),
    "pack unsorted": lambda r, s: r.pack_sequence(s),
    "pack sorted": lambda r, s: tuple(r.pack_sequence(sorted(s, key=len, reverse=True))),
    "unpack": lambda r, s: r.unpack_sequence(r.pack_sequence(s, enforce_sorted=False)),
    "total length": lambda r, s: r.pad_packed_sequence(r.pack_sequence(s, False), padding_value=9, total_length=7),
    "total length small": lambda r, s: r.pad_packed_sequence(r.pack_sequence(s, False), total_length=2),
    "too many lengths": lambda r, s: r.pack_padded_sequence(r.pad_sequence(s), [4, 3, 2, 2]),
    "length 0": lambda r, s: r.pack_padded_sequence(r.pad_sequence(s), [4, 3, 0]),
    "unpad": lambda r, s: r.unpad_sequence(r.pad_sequence(s), s[0].new_tensor([2, 4, 3]).long()),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name: str) -> None:
    arrays = [draw((n, 2), "float32", -1, 1, n) for n in (2, 4, 3)]
    outcomes = []
    for library in (ej, torch):
        try:
            outcomes.append(SEQUENCES[name](library.nn.utils.rnn, [library.tensor(a) for a in arrays]))
        except Exception as error:
            outcomes.append(error)
    ours, theirs = outcomes
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), ours
    else:
        same(ours, theirs)


ERRORS: dict[str, Callable[[Any], Any]] = {
    "dimensions": lambda t: t.nn.LSTM(3, 4)(t.ones(3)),
    "features": lambda t: t.nn.LSTM(3, 4)(t.ones(2, 2, 5)),
    "dtype": lambda t: t.nn.GRU(3, 4)(t.ones(2, 2, 3).double()),
    "state size": lambda t: t.nn.GRU(3, 4)(t.ones(2, 2, 3), t.ones(1, 3, 4)),
    "state rank": lambda t: t.nn.GRU(3, 4)(t.ones(2, 3), t.ones(1, 3, 4)),
    "no steps": lambda t: t.nn.GRU(3, 4)(t.ones(0, 2, 3)),
    "dropout": lambda t: t.nn.LSTM(3, 4, dropout=2),
    "hidden size": lambda t: t.nn.LSTM(3, 0),
    "hidden type": lambda t: t.nn.LSTM(3, 4.5),
    "layers": lambda t: t.nn.LSTM(3, 4, 0),
    "projection": lambda t: t.nn.LSTM(3, 4, proj_size=4),
    "projected GRU": lambda t: t.nn.GRU(3, 4, proj_size=2),
    "nonlinearity": lambda t: t.nn.RNN(3, 4, nonlinearity="sin"),
    "cell dimensions": lambda t: t.nn.LSTMCell(3, 4)(t.ones(2, 2, 3)),
    "cell features": lambda t: t.nn.GRUCell(3, 4)(t.ones(2, 5)),
    "cell state": lambda t: t.nn.RNNCell(3, 4)(t.ones(2, 3), t.ones(3, 4)),
    "cell nonlinearity": lambda t: t.nn.RNNCell(3, 4, nonlinearity="sin")(t.ones(2, 3)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    kinds = []
    for library in (ej, torch):
        with pytest.raises(Exception) as error:
            ERRORS[name](library)
        kinds.append(error.type)
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize("name", ["LSTM both", "GRU", "RNN relu", "LSTM projected"])
@pytest.mark.parametrize("packed", [False, True])
def test_jitted(name: str, packed: bool) -> None:
    network = NETWORKS[name](ej.nn)
    rnn = ej.nn.utils.rnn

    def step(x: Any) -> Any:
        if packed:
            out, final = network(rnn.pack_padded_sequence(x, [5, 5, 2, 1], network.batch_first))
            out = rnn.pad_packed_sequence(out, network.batch_first)[0]
        else:
            out, final = network(x)
        loss = total([out, *flat(final)])
        loss.backward()
        return loss

    x = ej.tensor(draw((4, 5, 3) if network.batch_first else (5, 4, 3), "float32", -1, 1, 1), requires_grad=True)
    bits = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (step, ej.jit(step)):
            for p in (x, *network.parameters()):
                p.grad = None
            loss = function(x)
            bits.append([array_of(t).tobytes() for t in (loss, x.grad, *(p.grad for p in network.parameters()))])
    assert bits[0] == bits[1]


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_without_gradients(name: str) -> None:
    """What only gradients want is not kept, eagerly or compiled; the results have the same bits."""
    network = NETWORKS[name](ej.nn)
    x = ej.tensor(draw((5, 4, 3), "float32", -1, 1, 1))
    jitted = ej.jit(lambda x: network(x))
    results = [network(x), jitted(x)]
    with ej.no_grad():
        results += [network(x), jitted(x)]
    assert len({b"".join(array_of(t).tobytes() for t in flat(result)) for result in results}) == 1


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_second_derivative(name: str) -> None:
    ours, theirs = both(name)
    grads = []
    for library, network in ((ej, ours.double()), (torch, theirs.double())):
        x = library.tensor(draw((3, 2, 3), "float64", -1, 1, 1), requires_grad=True)
        (first,) = library.autograd.grad(total(flat(network(x))), x, create_graph=True)
        first.square().sum().backward()
        grads.append([x.grad.numpy(), *(p.grad.numpy() for p in network.parameters())])
    for a, b in zip(*grads, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_other_lengths_compile_nothing_eagerly() -> None:
    from eagerjit.ops.recurrent_cells import CELLS as KINDS

    network = ej.nn.LSTM(3, 4)
    counts = []
    for steps in (4, 7, 9):
        network(ej.ones(steps, 2, 3))[0].sum().backward()
        counts.append(sum(len(p) for op in KINDS["LSTM"][1:3] for p in op.programs.values()))
    assert counts == [counts[0]] * 3


def test_results_may_be_overwritten() -> None:
    network = ej.nn.GRU(3, 4)
    expected = []
    for write in (False, True):
        network.zero_grad()
        out, final = network(ej.ones(3, 2, 3))
        loss = out.sum()
        if write:
            final.detach().zero_()
        loss.backward()
        expected.append(network.weight_hh_l0.grad.clone())
    assert ej.equal(*expected)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", ["GRU", "RNN", "RNN relu"])
def test_results_overwritten_with_a_history(name: str, jitted: bool) -> None:
    """A layer's gradient reads the states as they were, whatever is written over the results that show them."""
    ours, theirs = both(name)
    found = []
    for library, network in ((ej, ours), (torch, theirs)):
        def loss(x: Any, network: Any = network) -> Any:
            out, final = network(x)
            final.mul_(2)
            return (out[1:].mul_(3).square().sum() + final.sum())

        function = ej.jit(loss) if jitted and library is ej else loss
        function(library.tensor(draw((3, 2, 3), "float32", -1, 1, 0))).backward()
        found.append([array_of(p.grad) for p in network.parameters()])
    for mine, expected in zip(*found, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "LSTM projected"])
def test_a_state_of_another_dtype_is_refused(name: str, jitted: bool) -> None:
    """But for an LSTM's memory, which is brought to the dtype of the weights where it is narrower."""
    ours, theirs = (network.double() for network in both(name))

    def called(library: Any, network: Any, *kinds: str) -> Any:
        sizes = ((network.proj_size or network.hidden_size), network.hidden_size)
        layers = network.num_layers * (1 + network.bidirectional)
        parts = [library.zeros(layers, 2, n, dtype=getattr(library, k)) for n, k in zip(sizes, kinds, strict=False)]
        state = tuple(parts) if name.startswith("LSTM") else parts[0]
        shape = (2, 3, 3) if network.batch_first else (3, 2, 3)
        call = ej.jit(lambda x, s: network(x, s)) if jitted and library is ej else network
        return call(library.ones(*shape, dtype=library.float64), state)

    for library, network in ((ej, ours), (torch, theirs)):
        with pytest.raises(RuntimeError, match="must have the same dtype, but got Float and Double"):
            called(library, network, "float32", "float64")
    if name == "LSTM":
        found, expected = called(ej, ours, "float64", "float32"), called(torch, theirs, "float64", "float32")
        for mine, other in zip(flat(found), flat(expected), strict=True):
            same(mine, other)


def test_a_compiled_call_serves_all_lengths() -> None:
    network = ej.nn.LSTM(3, 4, num_layers=2)

    def step(x: Any) -> Any:
        network.zero_grad()
        out, (h, _) = network(x)
        loss = (out.square().sum() + h.sum()) * 0.5
        loss.backward()
        return loss

    compiled = ej.jit(step)
    for steps in (3, 9, 4, 20):
        x = ej.tensor(draw((steps, 2, 3), "float32", -1, 1, steps))
        found = []
        for function in (step, compiled):
            loss = function(x)
            found.append([array_of(t).tobytes() for t in (loss, *(p.grad for p in network.parameters()))])
        assert found[0] == found[1]
    assert len(compiled.variants) == 1


def test_over_examples() -> None:
    """vmap of a network over a batch of its own: the steps are recorded, for they are to be batched."""
    network = ej.nn.GRU(3, 4)
    x = ej.tensor(draw((5, 3, 2, 3), "float32", -1, 1, 1))
    found = ej.vmap(lambda t: network(t)[0])(x)
    expected = ej.stack([network(t)[0] for t in x])
    assert ej.allclose(found, expected, atol=1e-6)


def test_a_state_goes_from_step_to_step() -> None:
    """The state that a step returns has a history, whose values the step's own backward has freed: it is detached."""
    bits = []
    for wrap in (lambda f: f, ej.jit):
        ej.manual_seed(3)
        network, head = ej.nn.LSTM(3, 4, 2), ej.nn.Linear(4, 3)
        optimizer = ej.optim.SGD([*network.parameters(), *head.parameters()], lr=0.1)

        def step(x: Any, hidden: Any, network: Any = network, head: Any = head, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            out, hidden = network(x, tuple(h.detach() for h in hidden))
            loss = (head(out) - x).square().mean()
            loss.backward()
            optimizer.step()
            return loss, hidden

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function, hidden, losses = wrap(step), (ej.zeros(2, 2, 4), ej.zeros(2, 2, 4)), []
            for index in range(3):
                loss, hidden = function(ej.tensor(draw((5, 2, 3), "float32", -1, 1, index)), hidden)
                losses.append(array_of(loss).tobytes())
        assert hidden[0].requires_grad
        with pytest.raises(RuntimeError, match="second time"):
            hidden[0].sum().backward()
        bits.append([*losses, *(array_of(h).tobytes() for h in hidden)])
    assert bits[0] == bits[1]
