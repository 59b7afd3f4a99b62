"""A consumer group at rest (KIP-848): most groups of a broker are settled, and their members only say that they are
there.

This file alone decides what is kept of such a group's members, so that ten thousand groups take little more memory than
their records. Rules:

1. What the members have said of themselves and what they hold is one string of bytes. Whoever wants to see it takes the
   whole group up again (`state.ConsumerGroup`).
2. An ordinary heartbeat, a commit, and the question for the group's state are answered without that: for them a member's
   place, its session and a hash of what it says each time are kept beside.
3. A large group is not kept like that: to take it up again would hold up the loop.
"""

import pickle
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

MEMBERS_MAX = 200
"""The most members of a group at rest. To take up one of that size takes one or two milliseconds."""


class RepeatedWords(NamedTuple):
    """The words that a member repeats with each heartbeat, whether they have changed or not."""

    instance_id: str | None
    client_id: str
    client_host: str


class Rest:
    """The state that is kept of the members of a group at rest. Invariant: `due_ms` and `said` have one entry for each
    of `places`.

    `places`: member id -> place, in the order in which they joined. `due_ms`: when each one's session ends (int64).
    `said`: a hash of its `RepeatedWords` (int64). `topics`: all that some member names. `content`: whatever else there is of
    each."""

    __slots__ = ("content", "due_ms", "places", "said", "topics")

    def __init__(
        self,
        ids: Iterable[str],
        due_ms: Iterable[int],
        said: Iterable[RepeatedWords],
        topics: Sequence[str],
        content: Any,
    ) -> None:
        self.places = {id: place for place, id in enumerate(ids)}
        self.due_ms = array("q", due_ms)
        self.said = array("q", map(hash, said))
        self.topics = tuple(topics)
        self.content = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)

    def heard(self, id: str, said: RepeatedWords, due_ms: int) -> bool:
        """Take a heartbeat of a member: its session ends later. Returns False if there is no such member, or it says
        something new."""
        place = self.places.get(id)
        if place is None or self.said[place] != hash(said):
            return False
        self.due_ms[place] = due_ms
        return True

    def first_due_ms(self) -> int:
        """The time when the first session ends."""
        return min(self.due_ms)

    def opened(self) -> Any:
        """The content as objects."""
        return pickle.loads(self.content)
