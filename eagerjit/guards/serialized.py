"""Containers of numbers and strings as bytes, which are compared at once."""

from __future__ import annotations

import marshal
from typing import Any

_KINDS = (int, float, str, bool, type(None), complex)


def text_of(value: Any) -> bytes | None:
    """Containers of numbers and strings as bytes, the same where all classes, bits and orders are; None for others."""
    try:
        return marshal.dumps(value, 2) if _is_text(value) else None
    except (ValueError, RecursionError):
        return None


def has_text(value: Any, text: bytes | None) -> bool:
    """Whether `text_of` a value is this."""
    try:
        return marshal.dumps(value, 2) == text
    except ValueError:
        return False


def _is_text(value: Any) -> bool:
    """Whether there is nothing but containers, numbers and strings: the order of sets is not in their bytes, those of
    all that is an array are the same as of `bytes`, and what has a class of the program's has none."""
    kind = type(value)
    if kind is dict:
        return all(map(_is_text, (*value, *value.values())))
    return all(map(_is_text, value)) if kind in (list, tuple) else kind in _KINDS
