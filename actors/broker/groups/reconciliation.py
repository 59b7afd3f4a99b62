"""The way of one member to its target assignment as a table: what consumer and streams groups have in common (KIP-848,
KIP-1071).

A kind has a table of its own, with a row for each state of a member: what is done under which condition. This file alone
decides how such a table is read, and what may be asked of any kind.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar


class AnyCurrent(Protocol):
    """The state of a member on its way."""

    @property
    def epoch(self) -> int: ...
    @property
    def state(self) -> Any: ...


class AnyQuestion(Protocol):
    """One member and the target that it is to reach."""

    @property
    def current(self) -> Any: ...
    @property
    def target_epoch(self) -> int: ...


Q = TypeVar("Q", bound=AnyQuestion)
C = TypeVar("C")
Row = Sequence[tuple[Callable[[Q], bool], Callable[[Q], C]]]
"""The steps of one state of a member, each with the condition for it; the first that holds counts."""


class Fenced(Exception):
    """The member must give up everything and join anew. Its text is for the member."""


def next_step(steps: Mapping[Any, Row[Q, C]], question: Q, stays: C) -> C:
    """The next state of the member; `stays` where nothing can be done yet. Raises Fenced."""
    for condition, step in steps[question.current.state]:
        if condition(question):
            return step(question)
    return stays


def always(question: AnyQuestion) -> bool:
    """True: the condition of the last row of a table."""
    return True


def behind(question: AnyQuestion) -> bool:
    """Whether the target assignment is of another epoch than the member."""
    return bool(question.current.epoch != question.target_epoch)
