"""How a mistake is planted: named patches that hold for the length of a run.

A mistake is a function without arguments that returns the patches. Its name says what is wrong, and its docstring what
the consequence is. The rest of the node runs as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

Patch = AbstractContextManager[Any]
Plant = Callable[[], Sequence[Patch]]
PLANTED: dict[str, Plant] = {}
HUNTED_IN: dict[str, str] = {}
"""Mistake -> the kind of world (`worlds.py`) in which it is hunted."""


def mistake(world: str = "rough") -> Callable[[Plant], Plant]:
    """Register a mistake under the name of its function."""

    def register(plant: Plant) -> Plant:
        name = plant.__name__.replace("_", " ")
        PLANTED[name], HUNTED_IN[name] = plant, world
        return plant

    return register


def instead(owner: Any, name: str, replacement: Any) -> Patch:
    """A patch that sets `owner.name` to `replacement`."""
    return patch.object(owner, name, replacement)


@contextmanager
def planted(name: str) -> Iterator[None]:
    """A context in which the mistake of that name is in the source."""
    with ExitStack() as stack:
        for one in PLANTED[name]():
            stack.enter_context(one)
        yield
