"""Stories of a transaction coordinator: its table of states, its epochs, and the races of KIP-890."""

from pathlib import Path
from typing import Any

import pytest

from actors.broker.transactions import records
from actors.broker.transactions.coordinator import Added, Coordinator, Ending, Producer, TransactionSettings
from actors.broker.transactions.rules import End, Init
from actors.broker.transactions.state import NO_TIMEOUT_MS, Transaction
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.transcripts.driver import play, stories

WALL_MS = 1_600_000_000_000
TIMEOUT_MS = 60_000


class Transactions:
    """The commands of these stories. One partition of the topic; each write is committed at once, unless `hold` has
    been said."""

    def __init__(self) -> None:
        self.ms = 0
        self.next_id = 1000
        self.ids_left = 1 << 30
        self.version = 2
        self.epoch = 0
        self.log: list[records.Record] = []
        self.held = False
        self.on = True
        self.endings: dict[str, Ending] = {}
        self.fresh()

    def fresh(self) -> None:
        self.machine = Coordinator(
            TransactionSettings(1, 900_000, 3_600_000, 10_000, 60_000, self.on), self.take, lambda: self.version
        )

    def commands(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in (
                "lead", "load", "lose", "level", "init", "add", "verify", "end", "marked", "hold", "commit", "fail",
                "wait", "show", "log_has", "forge", "ids", "raise_epoch", "two_phase",
                "days",
            )
        }  # fmt: skip

    def now(self) -> Now:
        return Now(self.ms, WALL_MS + self.ms)

    def take(self) -> int | None:
        if not self.ids_left:
            return None
        self.ids_left -= 1
        self.next_id += 1
        return self.next_id - 1

    # ---- leadership

    def lead(self) -> str:
        """Become the leader and load everything."""
        self.machine.gained(0, self.epoch)
        return self.load()

    def load(self) -> str:
        """Another broker becomes the leader, in a new epoch, and loads what is committed."""
        self.epoch += 1
        self.endings = {}
        self.fresh()
        self.machine.gained(0, self.epoch)
        strange = self.machine.load(0, self.epoch, self.log)
        self.machine.loaded(0, self.epoch)
        return "\n".join([*strange, *self.told()])

    def lose(self) -> str:
        """Another broker leads the partition; this one still runs."""
        self.machine.lost(0)
        return "\n".join(self.told())

    def level(self, version: str) -> str:
        """`transaction.version` of the cluster."""
        self.version = int(version)
        return ""

    def ids(self, left: str) -> str:
        """Let this coordinator have so many producer ids."""
        self.ids_left = int(left)
        return ""

    def two_phase(self, switch: str) -> str:
        """`transaction.two.phase.commit.enable`, from the next coordinator on."""
        self.on = switch == "on"
        return ""

    # ---- requests

    def init(
        self,
        id: str,
        timeout: str = str(TIMEOUT_MS),
        pid: str = "-1",
        epoch: str = "-1",
        two_phase: str = "",
        keep: str = "",
    ) -> str:
        request = Init(int(timeout), int(pid), int(epoch), bool(two_phase), bool(keep))
        self.machine.init(id, 1, request, self.now())
        return "\n".join(self.told())

    def add(self, id: str, pid: str, epoch: str, *partitions: str, v: str = "2", patient: str = "") -> str:
        named = frozenset((one.split("-")[0], int(one.split("-")[1])) for one in partitions)
        self.machine.add(id, 1, int(pid), int(epoch), named, int(v), self.now(), patient=bool(patient))
        return "\n".join(self.told())

    def verify(self, id: str, pid: str, epoch: str, *partitions: str) -> str:
        named = [(one.split("-")[0], int(one.split("-")[1])) for one in partitions]
        found = self.machine.verify(id, int(pid), int(epoch), named)
        return found.name if isinstance(found, ErrorCode) else " ".join(code.name for code in found)

    def end(self, id: str, pid: str, epoch: str, how: str, v: str = "2") -> str:
        self.machine.end(id, 1, End(int(pid), int(epoch), how == "commit", int(v)), self.now())
        return "\n".join(self.told())

    def marked(self, id: str) -> str:
        """Each partition has its marker."""
        self.machine.marked(self.endings.pop(id), self.now())
        return "\n".join(self.told())

    # ---- writes and time

    def hold(self) -> str:
        """From now on writes stay on their way."""
        self.held = True
        return ""

    def commit(self) -> str:
        """Commit the writes that are on their way."""
        self.held = False
        return "\n".join(self.told())

    def fail(self, error: str, kept: str = "") -> str:
        """Let the writes that are on their way fail; `kept=yes`: the log has them all the same."""
        writes, self.machine.writes, self.held = self.machine.writes, [], False
        for write in writes:
            if kept:
                self.log += write.records
            self.machine.written(write.token, ErrorCode[error], self.now())
        return "\n".join(self.told())

    def wait(self, seconds: str) -> str:
        """Time passes, a second at a time."""
        lines = []
        for _ in range(int(seconds)):
            self.ms += 1000
            if self.ms >= self.machine.deadline_ms():
                self.machine.tick(self.now())
                lines += self.told()
        return "\n".join(lines)

    def days(self, number: str) -> str:
        """Days pass at once, and then a minute."""
        self.ms += int(number) * 86_400_000
        return self.wait("60")

    def forge(self, id: str, version: str) -> str:
        """The log has a value of a version that nobody here knows."""
        self.log.append((records.key(id), int(version).to_bytes(2, "big") + b"later"))
        return ""

    def raise_epoch(self, id: str, epoch: str) -> str:
        """The log says that the client that has an id has that epoch."""
        transaction = self.machine.shards[0].entries[id].transaction
        field = "next_epoch" if transaction.kept else "producer_epoch"
        self.log.append(records.record(id, transaction._replace(**{field: int(epoch)}), 1))
        return ""

    # ---- what is seen

    def show(self, id: str) -> str:
        found = self.machine.describe(id)
        return found.name if isinstance(found, ErrorCode) else _shown(found)

    def log_has(self, id: str) -> str:
        """The last record of an id."""
        value = next((value for key, value in reversed(self.log) if key == records.key(id)), b"")
        if value is None:
            return "a tombstone"
        line = records.read(records.key(id), value) if value else None
        if line is None:
            return "nothing"
        return f"version {value[1]} {_shown(line.transaction)}" if line.transaction is not None else line.strange

    def told(self) -> list[str]:
        lines = []
        while self.machine.answers or self.machine.endings or (self.machine.writes and not self.held):
            answers, self.machine.answers = self.machine.answers, []
            lines += [_verdict(verdict) for _, verdict in answers]
            endings, self.machine.endings = self.machine.endings, []
            for ending in endings:
                self.endings[ending.entry.id] = ending
                word = "commit" if ending.commit else "abort"
                transaction = ending.transaction
                where = " ".join(f"{topic}-{number}" for topic, number in sorted(transaction.partitions)) or "nowhere"
                lines.append(
                    f"markers: {word} {ending.entry.id} producer {transaction.producer_id} epoch "
                    f"{transaction.producer_epoch} coordinator {ending.shard.epoch} to {where}"
                )
            if self.held:
                continue
            writes, self.machine.writes = self.machine.writes, []
            for write in writes:
                self.log += write.records
                self.machine.written(write.token, ErrorCode.NONE, self.now())
        for shard in self.machine.shards.values():
            shard.check()
        return lines


def _verdict(verdict: Producer | Added) -> str:
    if isinstance(verdict, Producer) and verdict.error is ErrorCode.NONE:
        kept = f", kept {verdict.ongoing_id} epoch {verdict.ongoing_epoch}" if verdict.ongoing_id >= 0 else ""
        return f"producer {verdict.id} epoch {verdict.epoch}{kept}"
    return verdict.error.name


def _shown(transaction: Transaction) -> str:
    where = " ".join(f"{topic}-{number}" for topic, number in sorted(transaction.partitions))
    more = f" previous {transaction.previous_id}" if transaction.previous_id >= 0 else ""
    more += f" next {transaction.next_id}" if transaction.next_id >= 0 else ""
    more += f" epoch {transaction.next_epoch}" if transaction.next_epoch >= 0 else ""
    more += " without a timeout" if transaction.timeout_ms == NO_TIMEOUT_MS else ""
    shown = (
        f"{transaction.state.shown} producer {transaction.producer_id} epoch {transaction.producer_epoch}{more} {where}"
    )
    return shown.rstrip()


@pytest.mark.parametrize("story", stories("transactions"), ids=lambda path: path.stem)
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Transactions().commands(), rewrite)
