"""How many partitions a client may have made and deleted (KIP-599): the active controller keeps count.

This file alone decides what is charged, and when a request is refused. Rules:

1. A topic that is made or deleted costs as many tokens as it has partitions; more partitions of a topic cost as many as
   there are more. A request that is only validated is charged too, as with Apache Kafka.
2. Only requests of clients are charged, and these come in Envelopes.
3. A client that owes tokens is refused, topic by topic, if its request is of a version that knows
   THROTTLING_QUOTA_EXCEEDED. Older ones are done all the same. Either way the answer says how long to wait, and the broker
   that passed the request on reads nothing of the client for so long.
4. The tokens are soft state: with a new active controller every bucket is full again.
"""

from collections.abc import Callable, Iterable, Iterator

from actors.metadata.ops import EntitySet
from actors.quotas.accounts import Account, Accounts
from actors.quotas.buckets import TokenBucket
from actors.quotas.levels import MUTATION, Charged, QuotaLimits, user_of
from actors.quotas.rates import Window

Charge = Callable[[int], bool]
"""Charges a client for so many partitions; False: the client may not have them made or deleted now."""


def free(partitions: int) -> bool:
    """The charge of a client without a quota."""
    return True


class Mutations:
    """The buckets of all clients that have a quota."""

    def __init__(self) -> None:
        self._limits: QuotaLimits | None = None
        self._accounts: Accounts[TokenBucket] | None = None

    def newest(self, most: int, now_ms: int) -> Iterator[tuple[Charged, Account[TokenBucket]]]:
        """(name, account) of the clients that were charged last."""
        return iter(()) if self._accounts is None else self._accounts.newest(most, now_ms)

    def changed(self) -> None:
        """Note that the quotas have changed, so that they are read again."""
        self._limits = None

    def quota(
        self,
        stored: Callable[[], Iterable[EntitySet]],
        window: Window,
        principal: str,
        client_id: str | None,
        now_ms: int,
        *,
        strict: bool,
    ) -> "MutationQuota | None":
        """The quota that a request is charged with; None: its client has no quota. `stored`: the quotas of the image,
        read when they have changed."""
        if self._limits is None:
            self._limits = QuotaLimits(stored())
        limit = self._limits.find(MUTATION, user_of(principal), client_id)
        if limit is None:
            return None
        if self._accounts is None:
            self._accounts = Accounts(lambda: TokenBucket(window))
        return MutationQuota(self._accounts.get(limit.charged, limit.bound, now_ms), now_ms, strict)


class MutationQuota:
    """The quota of one request."""

    def __init__(self, account: Account[TokenBucket], now_ms: int, strict: bool) -> None:
        self._account = account
        self._now_ms = now_ms
        self._strict = strict
        self.throttle_ms = 0
        """How many ms the client of the request should wait."""

    def charge(self, partitions: int) -> bool:
        """Take tokens for so many partitions. False: none were taken, as the client owes some, and its request is of a
        version that knows the error."""
        bucket, bound, now_ms = self._account.measure, self._account.bound, self._now_ms
        owes = bucket.refill(bound, now_ms) < 0
        if not (owes and self._strict):
            bucket.take(partitions, bound, now_ms)
        if owes or not self._strict:
            self.throttle_ms = bucket.throttle_ms(bound, now_ms)
        return not (owes and self._strict)
