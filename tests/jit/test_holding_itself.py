"""Containers that hold themselves: such calls run eagerly, after one warning."""

import pytest

import eagerjit as torch
from eagerjit.compiled.fallback import JitWarning

KNOWN: list = [2.0]


def endless_list():
    found: list = [3.0]
    found.append(found)
    return found


def endless_dict():
    found: dict = {"scale": 3.0}
    found["self"] = found
    return found


@pytest.mark.parametrize("make", [endless_list, endless_dict])
def test_an_argument(make):
    @torch.jit
    def work(x, options):
        return x * options[0 if type(options) is list else "scale"]

    options, x = make(), torch.ones(2)
    with pytest.warns(JitWarning, match="holds itself"):
        assert work(x, options).tolist() == [3.0, 3.0]
    assert work(x, options).tolist() == [3.0, 3.0]
    assert work(x, options=options).tolist() == [3.0, 3.0]


def test_a_global_that_begins_to_hold_itself():
    @torch.jit
    def work(x):
        return x * KNOWN[0]

    assert work(torch.ones(2)).tolist() == [2.0, 2.0]
    KNOWN.append(KNOWN)
    try:
        with pytest.warns(JitWarning, match="holds itself"):
            assert work(torch.ones(2)).tolist() == [2.0, 2.0]
        KNOWN[0] = 5.0
        assert work(torch.ones(2)).tolist() == [5.0, 5.0]
    finally:
        KNOWN[:] = [2.0]


def test_one_made_inside_is_a_result():
    @torch.jit
    def work(x):
        found = [x * 2]
        found.append(found)
        return found

    found = work(torch.ones(2))
    assert found[1] is found and found[0].tolist() == [2.0, 2.0]


def test_what_a_module_holds_begins_to_hold_itself():
    module = torch.nn.Linear(2, 2)
    module.table = {"scale": 2.0}

    @torch.jit
    def work(x):
        module.table.update(module.table)
        return module(x)

    expected = module(torch.ones(2)).tolist()
    assert work(torch.ones(2)).tolist() == expected
    module.table["self"] = module.table
    module.name = "another"
    with pytest.warns(JitWarning, match="holds itself"):
        assert work(torch.ones(2)).tolist() == expected


def test_a_dictionary_that_a_function_changes_begins_to_hold_itself():
    table, others = {"scale": 2.0}, {"shift": 1.0}

    @torch.jit
    def work(x):
        table.update(others)
        return x * 2

    assert work(torch.ones(2)).tolist() == [2.0, 2.0]
    table["self"] = table
    others["scale"] = 3.0
    with pytest.warns(JitWarning, match="holds itself"):
        assert work(torch.ones(2)).tolist() == [2.0, 2.0]
    assert table == {"scale": 3.0, "shift": 1.0, "self": table}
