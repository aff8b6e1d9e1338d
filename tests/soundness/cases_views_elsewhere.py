"""Views that no longer lie in what they view: one of the two was given other memory, before the recording or later."""

from __future__ import annotations

import types

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, RIGHT, case


def given_other_memory(jit, change, body):
    """Calls that find a tensor and a view of it, of which one gets other memory after 0, 1 and 2 calls."""
    for when in range(3):
        base = torch.arange(4.0)
        found = types.SimpleNamespace(base=base, view=base.reshape(2, 2), row=base[1:3])
        f = jit(lambda found=found: body(found.base, found.view, found.row))
        for calls in range(4):
            if calls == when:
                change(found.base, found.view)
            yield f(), found.base, found.view, found.row


def read(base, view, row):
    return view + base.reshape(2, 2), row * 2


def write_view(base, view, row):
    view[0, 1] += 0.5
    return base * 1, view * 1, row * 1


def write_base(base, view, row):
    base[1] += 0.5
    return base * 1, view * 1, row * 1


def view_by_data(base, view):
    view.data = torch.zeros(2, 2)


def view_turned(base, view):
    view.data = base.data.reshape(2, 2).t()


def base_by_data(base, view):
    base.data = torch.zeros(4)


def base_by_part(base, view):
    base.data = torch.zeros(8)[2:6]


def view_set(base, view):
    view.set_(torch.zeros(2, 2))


def base_set(base, view):
    base.set_(torch.zeros(4))


for change in (view_by_data, view_turned, base_by_data, base_by_part, view_set, base_set):
    for body in (read, write_view, write_base):

        def run(jit, change=change, body=body):
            yield from given_other_memory(jit, change, body)

        run.__name__ = f"memory_of_a_{change.__name__}_{body.__name__}"
        # Views that lie in each other's memory by another way than that by which they were made are not written.
        strange = body is not read if change is view_turned else body is write_view and change.__name__[:4] == "base"
        case(run, outcome=FELL_BACK if strange else RIGHT)


@case
def a_buffer_made_as_a_view_is_converted(jit):
    model = torch.nn.Linear(2, 2)
    model.register_buffer("count", torch.arange(4.0).reshape(2, 2))
    model.register_buffer("row", torch.arange(3.0).expand(1, -1))

    def step(x):
        model.count[0] += 0.5
        return x + model.count + model.row[:, :2]

    f = jit(step)
    for convert in (model.double, model.half, model.float, model.double):
        convert()
        for _ in range(2):
            yield f(torch.ones(2, 2, dtype=model.weight.dtype)), model.count, model.row
