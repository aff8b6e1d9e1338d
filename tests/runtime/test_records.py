"""Classes of named fields whose methods come with the first instance: what dataclasses do."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from eagerjit.runtime.records import record, replace


@record(frozen=True)
class Point:
    """A place."""

    x: int
    y: int = 2
    tags: tuple[str, ...] = field(default_factory=tuple)

    def moved(self, by: int) -> Point:
        return replace(self, x=self.x + by)


@record
class Box:
    width: int
    height: int = 1


@record
class Shelf:
    books: list[int] = field(default_factory=list)


@record(eq=False)
class Door:
    width: int


@record
class Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


def test_values() -> None:
    point = Point(1)
    assert (point.x, point.y, point.tags) == (1, 2, ())
    assert point == Point(x=1, y=2) and point != Point(2) and hash(point) == hash(Point(1))
    assert repr(point) == "Point(x=1, y=2, tags=())" and point.moved(3).x == 4
    assert Point.__doc__ == "A place." and Point(1).tags is Point(2).tags
    assert Shelf().books == [] and Shelf().books is not Shelf().books and Shelf([1]).books == [1]


def test_values_may_be_checked() -> None:
    @record
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError(f"{self.number} is odd")

    assert Even(2).number == 2
    with pytest.raises(ValueError, match="3 is odd"):
        Even(3)


def test_what_is_fixed_stays() -> None:
    point = Point(1)
    for change in (lambda: setattr(point, "x", 2), lambda: setattr(point, "z", 2), lambda: delattr(point, "x")):
        with pytest.raises(FrozenInstanceError):
            change()
    assert point == Point(1)


def test_what_is_not_changes() -> None:
    box = Box(1)
    box.width = 3
    assert box == Box(3) and repr(box) == "Box(width=3, height=1)"
    with pytest.raises(AttributeError):
        box.depth = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        hash(box)


def test_options() -> None:
    assert Door(1) != Door(1) and len({Door(1), Door(1)}) == 2
    assert repr(Named("a")) == "<a>"


@pytest.mark.parametrize("one", [Point(1, 2, ("a",)), Box(3)])
def test_copies(one: Any) -> None:
    for made in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert made == one and made is not one


def test_matching_waits_for_no_instance() -> None:
    @record
    class Pair:
        first: int
        second: int

    def matches(value: object) -> bool:
        match value:
            case Pair(_, _):
                return True
        return False

    assert not matches(3) and matches(Pair(1, 2))


def test_wrong_calls() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'width'"):
        Box()  # type: ignore[call-arg]


def test_base_classes_are_refused() -> None:
    """Their methods would be lost."""

    class Base:
        def method(self) -> int:
            return 1

    with pytest.raises(TypeError, match="Derived is a record, which has no base classes"):

        @record
        class Derived(Base):
            x: int
