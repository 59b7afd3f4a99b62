"""A share coordinator of one partition without a broker around it, and its log."""

from collections.abc import Callable

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.persistence.share_coordinator import (
    ShareStateCoordinator,
    ShareStateSettings,
    ShareStateVerdict,
)
from actors.broker.groups.share.persistence.share_state import Batch, ShareState
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.unit.broker.groups.log_reader import Said, ShareLogReader

TOPIC, OTHER = bytes(range(16)), b"\7" * 16
KEY = SharePartitionKey("g", TOPIC, 0)
NONE, FAILED = ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE


class World:
    """A coordinator of one partition, and its log. A write ends when `settle` is called."""

    def __init__(self, updates: int = 3, cold_ms: int = 1_000) -> None:
        self.topics = {TOPIC: 2, OTHER: 1}
        self.log: list[Record] = []
        self.now = Now(1, 1_000)
        self.settings = ShareStateSettings(1, updates, cold_ms)
        self.load()

    def load(self, said: Said | None = None) -> list[str]:
        """A new leader reads the log. `said`: what those before it have decoded of it."""
        kind = ShareStateCoordinator if said is None else ShareLogReader
        self.machine = machine = kind(self.settings, lambda id, number: number < self.topics.get(id, 0))
        if isinstance(machine, ShareLogReader) and said is not None:
            machine.said = said
        machine.gained(0, 1)
        strange: list[str] = []
        for offset, one in enumerate(self.log):
            machine.loading_from(0, 1, offset)
            strange += machine.load(0, 1, [one])
        machine.loaded(0, 1, self.topics.__contains__)
        self.check()
        return strange

    def check(self) -> None:
        for shard in self.machine.shards.values():
            shard.check()

    def settle(self, error: ErrorCode = NONE, *, appended: bool = True) -> list[Record]:
        """All that was begun ends; the records."""
        found: list[Record] = []
        while self.machine.writes:
            writes, self.machine.writes = self.machine.writes, []
            for write in writes:
                self.machine.appending(write.token, len(self.log))
                if appended:
                    self.log += write.records
                found += write.records
            for write in writes:
                self.machine.written(write.token, error, self.now)
                self.check()
        return found

    def ask(self, begin: Callable[..., None], *arguments: object) -> list[ShareStateVerdict]:
        told: list[ShareStateVerdict] = []
        begin(*arguments, told.append)
        return told

    def initialize(self, key: SharePartitionKey = KEY, state_epoch: int = 0, start: int = 0) -> list[ShareStateVerdict]:
        return self.ask(lambda then: self.machine.initialize(key, state_epoch, start, then, self.now))

    def read(self, leader_epoch: int = -1, key: SharePartitionKey = KEY) -> list[ShareStateVerdict]:
        return self.ask(lambda then: self.machine.read(key, leader_epoch, then, self.now))

    def write(
        self,
        batches: list[Batch],
        start: int = -1,
        leader_epoch: int = -1,
        state_epoch: int = -1,
        key: SharePartitionKey = KEY,
    ) -> list[ShareStateVerdict]:
        return self.ask(
            lambda then: self.machine.write(key, state_epoch, leader_epoch, start, 1, batches, then, self.now)
        )

    def delete(self, key: SharePartitionKey = KEY) -> list[ShareStateVerdict]:
        return self.ask(lambda then: self.machine.delete(key, then))

    def summary(self, key: SharePartitionKey = KEY) -> list[ShareStateVerdict]:
        return self.ask(lambda then: self.machine.summary(key, then))

    def state(self) -> ShareState:
        told = self.read()
        self.settle()
        assert told[0].error is NONE
        return told[0].state
