"""Tensors without elements, written in place."""

from __future__ import annotations

import eagerjit as torch


def test_an_empty_tensor_is_added_to_itself() -> None:
    for x in (torch.zeros(4, 0, 3), torch.zeros(3, 0, 4).transpose(0, 2)):
        view = x[:2]
        assert view.add_(view) is view
        assert view._version == 1
