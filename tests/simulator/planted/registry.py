"""How a mistake is planted: patches that hold for the length of a run, under a name.

A mistake is a function without arguments that returns the patches; its name says what is wrong, its docstring what comes
of it. The rest of the node runs as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

Patch = AbstractContextManager[Any]
PLANTED: dict[str, Callable[[], Sequence[Patch]]] = {}


def mistake(plant: Callable[[], Sequence[Patch]]) -> Callable[[], Sequence[Patch]]:
    """Register a mistake under the name of its function."""
    PLANTED[plant.__name__.replace("_", " ")] = plant
    return plant


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
