"""What is made of the values of a sequence, once for as long as they are in it."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """What `make` makes of each value of a tuple that grows at its end and loses its oldest values.

    Versions of a timeline share the values that did not change, so these are found by identity, at
    their place in the version before, which costs no more than a look at each. `make` gets a value,
    and what was made of the one that it replaces, None if it is new.
    """

    def __init__(self, make: Callable[[K, V | None], V]) -> None:
        self._make = make
        self._values: Sequence[K] = ()
        self._made: list[V] = []

    def of(self, values: Sequence[K]) -> list[V]:
        """Return what is made of each value; the list is not to be changed."""
        if values is not self._values:
            self._made = self._next(values) if values else []
            self._values = values
        return self._made

    def _next(self, values: Sequence[K]) -> list[V]:
        before, first = self._values, values[0]
        gone = next((number for number, each in enumerate(before) if each is first), 0)
        made = self._made[gone : gone + len(values)]
        for number, (value, old) in enumerate(zip(values, before[gone:], strict=False)):
            if value is not old:
                made[number] = self._make(value, made[number])
        made += [self._make(value, None) for value in values[len(made) :]]
        return made
