"""Directories of whole clusters as crashes leave them: a world is stopped under faults, and all of its disks become files.

A world of `simulation.py` runs with its clients and faults. Every second or so all disks are copied as they are: of nodes
that run, that were killed, or that have lost power, in the middle of whatever they were doing. The checkers of the world
know what was committed by then, and `judge` compares that with rows that somebody has read from the files.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fastpath.records import batch as batches
from tests.simulator.clients.topics import recreate
from tests.simulator.simulation import Simulation

CONTROL = 0x20
COLUMNS = ("partition", "offset", "key", "value")
BETWEEN_MS = (50, 1_500)
"""Virtual time between two copies."""
DEAD_MS = 6_000
"""How long a broker works that is killed then."""
AGAIN_MS = 3_000
"""How long a topic lives that is deleted and made again all the time, about."""


class Row(NamedTuple):
    """A record, as somebody was shown it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Crashed(Simulation):
    """A world that is looked at under faults, `looks` times, and then just ends."""

    def __init__(
        self, seed: int, looks: int, look: Callable[["Crashed"], None], first_ms: int = 0, *, dead: bool = False
    ) -> None:
        """`first_ms` is how long faults last before the first look. `dead`: the only fault is that a broker is killed
        in the middle of its work and stays away: what it has not been told is what it would be asked about."""
        super().__init__(seed)
        self._first_ms, self._dead = first_ms, dead
        self._looks, self._look = looks, look

    def _run(self) -> None:
        choose = random.Random(f"crashes {self.seed}")
        self.cluster.start()
        assert self._until(self.cluster.ready, 30_000)
        self._create()
        self._work()
        client = self._client("again")
        client.spawn(recreate(client, "again", AGAIN_MS, 3))
        if self._dead:
            self.world.run_for(DEAD_MS)
            choose.choice(list(self.cluster.brokers.values())).kill()
        else:
            self.faults.begin()
            self.strangers.begin()
        self.world.run_for(self._first_ms)
        for _ in range(self._looks):
            self.world.run_for(choose.randint(*BETWEEN_MS))
            self._look(self)

    def write(self, root: Path) -> None:
        """All disks as directories, `<node>-<number of the disk>`; one that is away too: it may have the only copy."""
        processes = (*self.cluster.controllers.values(), *self.cluster.brokers.values())
        disks = [
            (f"{process.name}-{number}", disk) for process in processes for number, disk in enumerate(process.disks)
        ]
        if self.faults.directories._away is not None:
            process, away = self.faults.directories._away
            disks.append((f"{process.name}-away", away))
        for name, disk in disks:
            for path, inode in disk.files.items():
                to = root / name / path
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(inode.data)

    def rotten(self, path: str) -> bool:
        """Whether a file below what was written is of a replica of which a bit has flipped."""
        node, directory = path.split("/")[-3:-1]
        return (node.rpartition("-")[0], directory) in self.faults.rotten

    # ---- what was committed

    def topics(self) -> dict[str, bytes]:
        """Topic -> id, of those that are there by the committed metadata, without those of coordinators."""
        image = self.metadata.image
        names = {image.topic_name(row): topic for topic, row in image.topic_rows()}
        return {name: topic for name, topic in names.items() if not name.startswith("__")}

    def judge(self, topic: str, topic_id: bytes, rows: Sequence[Row]) -> Iterator[str]:
        """Faults in what was shown of a topic, in sentences."""
        places = [(row.partition, row.offset) for row in rows]
        if places != sorted(set(places)):
            yield f"{topic}: offsets come twice, or out of order"
        if topic in self.compacted.topics:
            yield from self._judge_keys(topic, topic_id, rows)
        else:
            yield from self._judge_all(topic, topic_id, rows)

    def _judge_all(self, topic: str, topic_id: bytes, rows: Sequence[Row]) -> Iterator[str]:
        for (of, partition), committed in self.data.partitions.items():
            if of != topic_id:
                continue
            shown = {row.offset: (row.key, row.value) for row in rows if row.partition == partition}
            purged = self.history.purged.get((of, partition), 0)
            known: set[int] = set()
            for _, content in committed.batches.values():
                (header,) = batches.headers(content)
                known.update(range(header.base_offset, header.last_offset + 1))
                for record in [] if header.attributes & CONTROL else batches.records(content):
                    found = shown.get(record.offset)
                    if found is None and record.offset >= purged:
                        yield f"{topic}-{partition}: {record.value!r} is committed at {record.offset} and is not shown"
                    elif found is not None and found != (record.key, record.value):
                        yield f"{topic}-{partition}: {found} is shown at {record.offset}, committed is {record.value!r}"
            for offset, (_, value) in shown.items():
                attempt = self.history.attempts.get(value or b"")
                invented = attempt is not None and (attempt.topic, attempt.partition) != (topic, partition)
                if invented or (offset < committed.end and offset not in known and not committed.hides(offset)):
                    yield f"{topic}-{partition}: {value!r} is shown at {offset}, which was never committed there"

    def _judge_keys(self, topic: str, topic_id: bytes, rows: Sequence[Row]) -> Iterator[str]:
        for (of, partition), committed in self.compacted.partitions.items():
            if of != topic_id:
                continue
            shown = {row.offset: (row.key, row.value) for row in rows if row.partition == partition}
            for offset, found in shown.items():
                one = committed.by_offset.get(offset)
                if offset < committed.end and (one is None or found != (one.key, one.value)):
                    yield f"{topic}-{partition}: {found} is shown at {offset}, committed there is {one}"
            for key, written in committed.by_key.items():
                last = written[-1]
                if last.value is not None and last.offset >= committed.start and last.offset not in shown:
                    yield f"{topic}-{partition}: {key!r} was last written at {last.offset}, which is not shown"
