"""The accounts of clients that have a quota: for each its rate or its tokens, and how long it was made to wait.

This file alone decides how much of this there is. Rules:

1. An account that was not charged for `IDLE_MS` is forgotten, as Apache Kafka forgets a sensor.
2. There are `ACCOUNTS_MAX` accounts of a key at most. A client that invents a new client id with each request pushes out
   those that were charged longest ago: they begin anew, with nothing counted against them. Memory has a bound; a client
   whose ids have a quota each gains nothing by it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from actors.quotas.levels import Charged
from actors.quotas.rates import Average

ACCOUNTS_MAX = 10_000
IDLE_MS = 3_600_000

M = TypeVar("M")
"""The measure of an account: a rate or a bucket."""


class Account(Generic[M]):
    """The account of one client, or of all that share a quota."""

    __slots__ = ("bound", "charged_ms", "measure", "throttled")

    def __init__(self, measure: M) -> None:
        self.measure = measure
        self.bound = 0.0
        """The quota at the newest charge."""
        self.charged_ms = 0
        self.throttled = Average()
        """Milliseconds of throttle time in the answers to throttled charges."""


class Accounts(Generic[M]):
    """Accounts of one key, those charged longest ago first."""

    def __init__(self, begin: Callable[[], M]) -> None:
        """`begin` makes the measure of a new account."""
        self._begin = begin
        self._by_name: OrderedDict[Charged, Account[M]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: Charged, bound: float, now_ms: int) -> Account[M]:
        """The account of that name, which is charged now with the quota `bound`."""
        account = self._by_name.get(name)
        if account is None:
            self._forget(now_ms)
            account = self._by_name[name] = Account(self._begin())
        else:
            self._by_name.move_to_end(name)
        account.bound, account.charged_ms = bound, now_ms
        return account

    def newest(self, most: int, now_ms: int) -> Iterator[tuple[Charged, Account[M]]]:
        """(name, account) of the `most` accounts charged last, without those that are idle."""
        for count, (name, account) in enumerate(reversed(self._by_name.items())):
            if count == most or now_ms - account.charged_ms >= IDLE_MS:
                return
            yield name, account

    def _forget(self, now_ms: int) -> None:
        while self._by_name:
            oldest = next(iter(self._by_name.values()))
            if len(self._by_name) < ACCOUNTS_MAX and now_ms - oldest.charged_ms < IDLE_MS:
                return
            self._by_name.popitem(last=False)
