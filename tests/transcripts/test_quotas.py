"""Stories of client quotas: which clients share a rate, how long clients wait, and what is left of their tokens."""

from pathlib import Path
from typing import Any

import pytest

from actors.metadata.ops import EntitySet
from actors.quotas.accounts import Accounts
from actors.quotas.buckets import TokenBucket
from actors.quotas.levels import MUTATION, PRODUCER, QuotaLimits, canonical
from actors.quotas.rates import Rate, Window
from tests.transcripts.driver import play, stories

DEFAULT = "<default>"


class Quotas:
    """The commands of these stories. `set user=U client=C key=value`; `send USER CLIENT BYTES`; `make USER CLIENT
    PARTITIONS`."""

    def __init__(self) -> None:
        self.ms = 0
        self.stored: dict[Any, EntitySet] = {}
        self.window = Window(11, 1000)
        self.rates = Accounts(lambda: Rate(self.window))
        self.buckets = Accounts(lambda: TokenBucket(self.window))

    def commands(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("set", "remove", "who", "send", "make", "wait")}

    def set(self, key: str, value: str, **entity: str) -> str:
        name = _entity(entity)
        fields = (("entity", name), ("key", key), ("value", float(value)), ("remove", False))
        self.stored[name, key] = EntitySet("quota", (name, key), fields)
        return ""

    def remove(self, key: str, **entity: str) -> str:
        del self.stored[_entity(entity), key]
        return ""

    def who(self, user: str, client_id: str = "") -> str:
        """The user and the client id that share the quota of a producer."""
        limit = QuotaLimits(self.stored.values()).find(PRODUCER, user, client_id)
        if limit is None:
            return "no quota"
        shared = [f"{kind} {name}" for kind, name in zip(("user", "client id"), limit.charged, strict=True) if name]
        return f"{limit.bound:g} for {' and '.join(shared)}"

    def send(self, user: str, client_id: str, size: str) -> str:
        limit = QuotaLimits(self.stored.values()).find(PRODUCER, user, client_id)
        if limit is None:
            return "not measured"
        rate = self.rates.get(limit.charged, limit.bound, self.ms).measure
        rate.record(int(size), self.ms)
        return f"{rate.measure(self.ms):.0f} B/s, wait {rate.throttle_ms(limit.bound, self.ms)} ms"

    def make(self, user: str, client_id: str, partitions: str) -> str:
        limit = QuotaLimits(self.stored.values()).find(MUTATION, user, client_id)
        if limit is None:
            return "not measured"
        bucket = self.buckets.get(limit.charged, limit.bound, self.ms).measure
        if bucket.refill(limit.bound, self.ms) < 0:
            return f"refused, wait {bucket.throttle_ms(limit.bound, self.ms)} ms"
        bucket.take(int(partitions), limit.bound, self.ms)
        return f"made, {bucket.refill(limit.bound, self.ms):g} tokens are left"

    def wait(self, ms: str) -> str:
        self.ms += int(ms)
        return ""


def _entity(entity: dict[str, str]) -> Any:
    types = {"user": "user", "client": "client-id"}
    return canonical((types[type], None if name == DEFAULT else name) for type, name in entity.items())


@pytest.mark.parametrize("story", stories("quotas"), ids=lambda path: path.stem)
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Quotas().commands(), rewrite)
