"""Functions that only plan: they check their arguments and say what to call, which native code then knows by heart."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature
from typing import Any

from eagerjit.runtime import layout, mode
from eagerjit.runtime.answers import Answers
from eagerjit.runtime.binding import bound
from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.native.agreed import MAX_PARAMETERS, OTHER
from eagerjit.runtime.once import lock
from eagerjit.runtime.parameters import parameters

MOST_NUMBERS = 6
"""Numbers given one by one that native code looks at."""

OF_RANKS = 1
"""The kind of a function whose plans are the same for all sizes."""

Plan = tuple[Callable[..., Any] | None, tuple[Any, ...]]
"""What to call, and the arguments; None gives the only argument itself."""


class Planned(OpCall):
    """A function as users call it, from one that gives the plan: what is called for arguments like these.

    The plan may depend on the sizes, dtype and layout of tensors, on whether their gradient is recorded, and on the
    other arguments, of which native code knows None, bools, strings, numbers, dtypes, devices and tuples of these; not
    on values of tensors nor on anything that changes. Its parameters can all be passed by position; after those that
    have names, `*more` may be some numbers. `called` is what carries out the plan in Python where that checks more.
    `of_ranks`: the plan does not depend on sizes.
    """

    __slots__ = ()

    def __init__(
        self, plan: Callable[..., Plan], called: Callable[..., Any] | None = None, of_ranks: bool = False
    ):
        names, defaults, more, _ = parameters(plan)
        self._named = len(names)
        if more:
            names += tuple([f"{more}{i}" for i in range(MOST_NUMBERS)])
            defaults += (None,) * MOST_NUMBERS
        super().__init__(plan.__name__, called or self._call, self._learn, names, defaults)
        self.__doc__, self.__module__, self.__wrapped__ = plan.__doc__, plan.__module__, plan
        self._plan, self._kind = plan, OF_RANKS if of_ranks else 0

    @property
    def __signature__(self) -> Signature:
        """The plan's, which returns what a call of this does not."""
        return super().__signature__.replace(return_annotation=Signature.empty)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if layout.serves("planned_call"):
            with lock:
                self._answers = Answers(self)
                self._call_natively("planned_call")
        return self.slow(*args, **kwargs)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return carried_out(self._plan(*args, **kwargs))

    def _learn(self, key: bytes, arguments: tuple[Any, ...]) -> Any:
        """Plan the call, keep the plan if it is one for all arguments like these, and carry it out."""
        numbers = [x for x in arguments[self._named :] if x is not None]
        try:
            plan = self._plan(*arguments[: self._named], *numbers)
        except Exception:
            return self.slow(*arguments[: self._named], *numbers)  # which knows what is wrong
        if not mode.casting():
            apart = _told_apart(arguments)
            self._keep(key, apart, plan if apart is arguments else self._plan(*apart[: self._named], *numbers))
        return carried_out(plan)

    def _keep(self, key: bytes, arguments: tuple[Any, ...], plan: Plan) -> None:
        """Keep a plan, if it says which of the arguments is given where."""
        function, given = plan
        tensors = [i for i, a in enumerate(arguments) if _holds_tensors(a)]
        positions = {id(arguments[i]): i for i in tensors}
        rest = [x for x in given if id(x) not in positions]
        if len(positions) < len(tensors) or len(given) > MAX_PARAMETERS or any(map(_holds_tensors, rest)):
            return
        own = sum(positions.get(id(x), OTHER) << 4 * i for i, x in enumerate(given))
        others = (None if id(x) in positions else x for x in given)
        options = tuple(a for a in arguments if id(a) not in positions)  # the key has their addresses
        with lock:
            self._answers.keep(key, (function, own, *others), options)


def carried_out(plan: Plan) -> Any:
    """What a plan comes to."""
    function, given = plan
    return given[0] if function is None else function(*given)


def _told_apart(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments; others like it for a tensor that is given again, since a plan says not which of them it means."""
    tensors = [a for a in arguments if isinstance(a, bound.tensor_types)]
    if len(set(map(id, tensors))) == len(tensors):
        return arguments
    seen: set[int] = set()
    apart = []
    for argument in arguments:
        again = id(argument) in seen and isinstance(argument, bound.tensor_types)
        apart.append(argument.detach().requires_grad_(argument.requires_grad) if again else argument)
        seen.add(id(argument))
    return tuple(apart)


def _holds_tensors(thing: Any) -> bool:
    if isinstance(thing, (tuple, list)):
        return any(map(_holds_tensors, thing))
    return isinstance(thing, bound.tensor_types)
