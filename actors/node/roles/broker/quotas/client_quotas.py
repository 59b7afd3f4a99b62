"""Client quotas at a broker: what is charged to whom, and for how long a client must wait (KIP-13, 124, 612).

This file alone decides what counts. Which quota a client has is decided in `quotas/levels.py`, what a rate is in
`quotas/rates.py`; when a request is charged, and that its connection is muted, in `api/throttling.py`. Rules:

1. Without quotas nothing is measured. A client without a quota is not measured either.
2. Producers are charged the bytes of their requests, consumers the bytes of the answers, everybody the time for which a
   request keeps the node's thread, as a percentage of that thread. Work in other threads is not counted.
3. An answer with records that is over the quota is not given: what it was charged is taken back, and the consumer asks again
   later. The first answer after all samples are empty is given whatever its size: a batch larger than the quota of the
   whole window would never be read else.
4. Throttle times for bytes have no bound, those for time and for connections are one sample at most.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.calls import Call
from actors.node.runtime.runtime import Runtime
from actors.quotas.accounts import Account, Accounts
from actors.quotas.levels import CONSUMER, PRODUCER, REQUEST, Charged, QuotaLimits, user_of
from actors.quotas.rates import Rate, Window

KIND = "quota"
"""The name of quotas in the metadata, among users, rules and tokens."""
PERCENT_A_NS = 100 / 1_000_000_000
"""The percentage that a nanosecond of the thread adds to a rate."""


class ThrottleVerdict(NamedTuple):
    """The answer to a consumer's request, under its quota."""

    throttle_ms: int
    withheld: bool
    """Whether the answer is given without records."""


class ClientQuotas:
    """The quotas of a cluster, and the rates of those clients of this broker that have one."""

    def __init__(self, runtime: Runtime, requests: RequestChannel, cache: MetadataCache) -> None:
        value = runtime.config.value
        self._runtime = runtime
        self._requests = requests
        self._cache = cache
        self.window = Window(value("quota.window.num"), 1000 * value("quota.window.size.seconds"))
        self.limits = QuotaLimits()
        self.active = False
        """Whether a user or a client id has a quota: then requests are charged."""
        self.spent_ns: Callable[[], int] = lambda: 0
        """A function that says how long the request that runs has kept the thread; set by the dispatcher, while
        `active`."""
        self.accounts = {key: Accounts(lambda: Rate(self.window)) for key in (PRODUCER, CONSUMER, REQUEST)}
        self._addresses = Accounts(lambda: Rate(self.window))
        self._changed = False

    def changed(self) -> None:
        """Note that the metadata has other quotas."""
        self._changed = True

    def refresh(self) -> None:
        """Read the quotas anew if they have changed; once a turn, whatever their number."""
        if self._changed:
            self._changed = False
            self.limits = QuotaLimits(self._cache.image.every(KIND))
            self.active = self.limits.of_clients
            self._requests.delay_of = self._connected if self.limits.of_addresses else None

    # ---- what is charged

    def produced(self, call: Call, size: int) -> int:
        """Charge a producer's bytes. Returns how long it has to wait."""
        account = self._account(PRODUCER, call)
        return 0 if account is None else self._charge(account, size)

    def worked(self, call: Call, *, enforced: bool = True) -> int:
        """Charge the time of the request that runs. Returns how long its client has to wait."""
        account = self._account(REQUEST, call)
        if account is None:
            return 0
        throttle_ms = self._charge(account, self.spent_ns() * PERCENT_A_NS)
        return min(throttle_ms, self.window.sample_ms) if enforced else 0

    def fetched(self, call: Call, size: int) -> ThrottleVerdict:
        """Charge a consumer the bytes of an answer, and the time of its request. Returns whether it gets the answer."""
        time_ms, bytes_ms, withheld = self.worked(call), 0, False
        account = self._account(CONSUMER, call)
        if account is not None:
            now_ms = self._runtime.now.mono_ms
            idle = account.measure.measure(now_ms) <= 0
            bytes_ms = self._charge(account, size)
            withheld = time_ms > 0 or (bytes_ms > 0 and not idle)
            if withheld:
                account.measure.record(-size, now_ms)
        return ThrottleVerdict(max(time_ms, bytes_ms), withheld or time_ms > 0)

    def room(self, call: Call) -> float:
        """The number of bytes above which one answer is over the quota for certain."""
        limit = self.limits.find(CONSUMER, user_of(call.principal), call.client_id)
        if limit is None:
            return math.inf
        return limit.bound * (self.window.samples - 1) * self.window.sample_ms / 1000

    def _connected(self, host: str) -> int:
        """Charge a connection to its address. Returns how long it waits before it is closed, 0: it is served."""
        bound = self.limits.connections_of(host)
        if bound is None:
            return 0
        now_ms = self._runtime.now.mono_ms
        rate = self._addresses.get(Charged("", host), bound, now_ms).measure
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(int(bound), now_ms), self.window.sample_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return throttle_ms

    def _account(self, key: str, call: Call) -> Account[Rate] | None:
        limit = self.limits.find(key, user_of(call.principal), call.client_id)
        if limit is None:
            return None
        return self.accounts[key].get(limit.charged, limit.bound, self._runtime.now.mono_ms)

    def _charge(self, account: Account[Rate], value: float) -> int:
        now_ms = self._runtime.now.mono_ms
        account.measure.record(value, now_ms)
        throttle_ms = account.measure.throttle_ms(account.bound, now_ms)
        if throttle_ms:
            account.throttled.record(throttle_ms, now_ms)
        return throttle_ms
