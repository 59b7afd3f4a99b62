"""How a mistake is planted: patches that hold for the length of a run, under a name.

A mistake is a function without arguments that returns the patches; its name says what is wrong, its docstring what comes
of it. The rest of the node runs as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

Patch = AbstractContextManager[Any]
Plant = Callable[[], Sequence[Patch]]
PLANTED: dict[str, Plant] = {}
HUNTED_IN: dict[str, str] = {}
"""Mistake -> the kind of world (`worlds.py`) that it is hunted in."""


def mistake(world: str = "rough") -> Callable[[Plant], Plant]:
    """Register a mistake under the name of its function."""

    def register(plant: Plant) -> Plant:
        name = plant.__name__.replace("_", " ")
        PLANTED[name], HUNTED_IN[name] = plant, world
        return plant

    return register


def instead(owner: Any, name: str, replacement: Any) -> Patch:
    """`owner.name` is `replacement` meanwhile."""
    return patch.object(owner, name, replacement)


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The mistake of that name is in the source meanwhile."""
    with ExitStack() as stack:
        for one in PLANTED[name]():
            stack.enter_context(one)
        yield
