"""What members of a share group are told fits together (KIP-932).

The clients report what they asked and were told. Between a question and its answer anything may have happened, so two facts
are compared only where their order is certain. Rules:

1. A record whose acceptance or rejection was answered is acquired by no request that was sent afterwards.
2. A record has one holder at a time: while a member's session, its lock and the leadership last, and it has said nothing of
   the record, nobody else acquires it. The leader's own share partition and session say whether they are still the same.
3. Delivery counts rise by deliveries: an acquisition counts more than the one before it in that share partition, more than a
   release that was answered before it was asked for, and not more than the limit.
4. In the end every record was accepted or rejected by somebody, answered or not, or was delivered about as often as the
   limit says: answers that were lost count too.
"""

from typing import Any

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.delivery.share_sessions import SessionOwner
from tests.simulator.checkers.hooks import Violation
from tests.simulator.cluster import Cluster
from tests.simulator.world import World

Key = tuple[bytes, int]
NEVER_US = 1 << 62
ROUNDED_MS = 2
"""A node sees whole milliseconds."""
LOST_MAX = 3
"""How many answers to the last deliveries of a record may be lost."""


class _Fact:
    """The state of one record, as far as members were told. `holder` is asked for by `token`: the share partition and
    the session, as objects."""

    __slots__ = ("asked", "count", "done_us", "heard_us", "holder", "released", "released_us", "token", "until_us")

    def __init__(self) -> None:
        self.done_us = NEVER_US
        self.asked = False
        """Somebody has tried to accept or reject it."""
        self.released, self.released_us = 0, NEVER_US
        self.holder = ""
        self.token: Any = None
        self.count = 0
        self.heard_us = 0
        self.until_us = 0


class SharedRecords:
    """The records of one share group."""

    def __init__(self, world: World, cluster: Cluster, group: str, delivery_limit: int) -> None:
        self.group = group
        self.facts: dict[Key, dict[int, _Fact]] = {}
        self.ids: dict[str, str] = {}
        """Session of a member at a broker -> the member's id, where that is another name."""
        self._world = world
        self._cluster = cluster
        self._limit = delivery_limit

    def acquired(
        self, member: str, broker: str, key: Key, first: int, last: int, count: int, asked_us: int, lock_ms: int
    ) -> None:
        """A member was told that it has records. `asked_us`: when it sent the request."""
        facts, token = self.facts.setdefault(key, {}), self._token(broker, key, member)
        for offset in range(first, last + 1):
            fact = facts.setdefault(offset, _Fact())
            what = f"{self.group}: {member} acquires offset {offset} of {key[0].hex()[:4]}-{key[1]} at {broker}"
            if asked_us > fact.done_us:
                raise Violation("acknowledged_share_records_stay_done", f"{what}, which is done")
            if count > self._limit or (asked_us > fact.released_us and count <= fact.released):
                raise Violation("delivery_counts_are_right", f"{what} for the {count}. time, after {fact.released}")
            share, session = fact.token or (None, None)
            if share is not None and share is token[0] and asked_us >= fact.heard_us:
                if count <= fact.count:
                    raise Violation("delivery_counts_are_right", f"{what} for the {count}. time, after {fact.count}")
                locked = fact.holder not in ("", member) and self._world.time_us < fact.until_us
                if locked and self._session(broker, fact.holder) is session:
                    raise Violation("one_holder_at_a_time", f"{what}, which {fact.holder} has")
            fact.holder, fact.count = member, count
            fact.token = token if _has(token[0], self._id(member), offset) else None
            fact.heard_us, fact.until_us = self._world.time_us, asked_us + (lock_ms - ROUNDED_MS) * 1000

    def says(self, member: str, key: Key, first: int, last: int, *, final: bool) -> None:
        """A member is about to say something of records: others may have them from now on. `final`: they are done."""
        for fact in self._of(key, first, last):
            fact.asked = fact.asked or final
            if fact.holder == member:
                fact.holder = ""

    def done(self, key: Key, first: int, last: int) -> None:
        """Note the answer that these records are accepted or rejected."""
        for fact in self._of(key, first, last):
            fact.done_us = min(fact.done_us, self._world.time_us)

    def released(self, key: Key, first: int, last: int, count: int) -> None:
        """Note the answer that these records are given back, after so many deliveries."""
        for fact in self._of(key, first, last):
            fact.released, fact.released_us = max(fact.released, count), self._world.time_us

    def gone(self, member: str) -> None:
        """A member has lost its sessions, or ends them."""
        for facts in self.facts.values():
            for fact in facts.values():
                if fact.holder == member:
                    fact.holder = ""

    def judge(self, key: Key, end: int) -> None:
        """All below `end` is done, as the leader has it."""
        facts = self.facts.get(key, {})
        for offset in range(end):
            fact = facts.get(offset)
            if fact is None or not (fact.asked or fact.count >= self._limit - LOST_MAX):
                told = "was given to nobody" if fact is None else f"is done after {fact.count} deliveries"
                raise Violation("every_record_is_shared_out", f"{self.group}: offset {offset} of {key[1]} {told}")

    def _of(self, key: Key, first: int, last: int) -> list[_Fact]:
        facts = self.facts.setdefault(key, {})
        return [facts[offset] for offset in range(first, last + 1) if offset in facts]

    def _token(self, broker: str, key: Key, member: str) -> tuple[Any, Any]:
        node = self._cluster.brokers[int(broker[1:])].node
        if node is None or node.broker is None:
            return None, None
        held = node.broker.shares.find(SharePartitionKey(self.group, *key))
        return held, self._session(broker, member)

    def _session(self, broker: str, member: str) -> Any:
        node = self._cluster.brokers[int(broker[1:])].node
        return (
            None
            if node is None
            else node.broker.shares.sessions.by_owner.get(SessionOwner(self.group, self._id(member)))
        )

    def _id(self, member: str) -> str:
        return self.ids.get(member, member)


def _has(held: Any, member: str, offset: int) -> bool:
    """Whether a member has a record in the leader's share partition."""
    window = held.share.window if held is not None else None
    for batch in window.covering(offset, offset) if window is not None else ():
        if any(run.member == member for run in batch.within(offset, offset)):
            return True
    return False
