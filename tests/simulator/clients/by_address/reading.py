"""The real fetcher in a simulated cluster: without a group, with offsets of a group, and of committed records alone.

What a reader is given goes to the checkers: it is what is committed at that offset, and nothing is left out or comes twice.
"""

from actors.arrow.following import Followed
from actors.client.errors import ClientError
from actors.client.operations import groups
from actors.client.operations.fetching import Diverged, Failed, Fetched, Fetcher, OutOfRange
from actors.client.operations.leaders import Part
from actors.client.operations.records import records
from tests.simulator.checkers.committed_transactions import CommittedTransactions
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.by_address.driven import Died, Driven
from tests.simulator.clients.by_address.writing import known
from tests.simulator.history import History

READ_MS = 20_000


async def read(driven: Driven, history: History, parts: list[Part]) -> None:
    """Read partitions from their beginning until the process stops, again and again. A topic that is deleted or made anew is
    told, and read no more: never is a record of another topic given for one of it."""
    while not driven.stopping:
        try:
            metadata = await driven.do(known(sorted({topic for topic, _ in parts})))
        except ClientError:
            continue
        ids = {topic: metadata.topics[topic].id for topic, _ in parts if topic in metadata.topics}
        there = [part for part in parts if part[0] in ids]
        if not there:
            await driven.sleep(100)
        fetcher = Fetcher(driven.config, dict.fromkeys(there, 0), ids)
        end_us = driven.world.time_us + driven.random.randint(2_000, 30_000) * 1000
        while not driven.stopping and there and (driven.hurries or driven.world.time_us < end_us):
            try:
                told = await driven.do(fetcher.fetch(), READ_MS)
            except ClientError as error:
                driven.world.say(driven.name, f"begins anew: {error}")
                history.counts["by address: reads that failed"] += 1
                break
            for one in told:
                if isinstance(one, Fetched):
                    wanted = one.offset
                    for record in records(one):
                        assert record.value is not None
                        id = ids[one.topic]
                        history.consumed(driven.name, id, one.partition, record.offset, record.value, wanted)
                        history.counts["by address: records read"] += 1
                        wanted = record.offset + 1
                    _reached(driven, (one.topic, one.partition), one.next_offset)
                else:
                    _lost(driven, history, one)
                    there = [part for part in there if part != (one.topic, one.partition)]
            driven.done += 1
            await driven.sleep(3 if driven.hurries else driven.random.choice((0, 1, 50, 400)))


def _reached(driven: Driven, part: Part, offset: int) -> None:
    driven.reached[part] = max(offset, driven.reached.get(part, 0))


def _lost(driven: Driven, history: History, told: Failed | OutOfRange | Diverged) -> None:
    """What is told of a topic that stays would be records that are lost."""
    if told.topic not in history.deleted:
        raise Violation("nothing_is_lost_to_a_reader", f"{driven.name} is told {told}")
    history.counts["by address: deleted topics told"] += 1


async def read_committed(driven: Driven, history: History, checker: CommittedTransactions, parts: list[Part]) -> None:
    """Read committed records from the beginning until the process stops."""
    fetcher = Fetcher(driven.config, dict.fromkeys(parts, 0))
    while not driven.stopping:
        try:
            told = await driven.do(fetcher.fetch(), READ_MS)
        except ClientError as error:
            driven.world.say(driven.name, f"did not read: {error}")
            history.counts["by address: reads that failed"] += 1
            continue
        for one in told:
            if not isinstance(one, Fetched):
                raise Violation("nothing_is_lost_to_a_reader", f"{driven.name} is told {one}")
            for record in records(one):
                checker.read(driven.name, (one.topic, one.partition), record)
                history.counts["by address: committed records read"] += 1
            _reached(driven, (one.topic, one.partition), one.next_offset)
        driven.done += 1
        await driven.sleep(3 if driven.hurries else driven.random.choice((0, 1, 50, 400)))


class Follower:
    """What `rayft.follow` does with a group: it commits what it was given, dies, and goes on where it had committed."""

    def __init__(self, driven: Driven, history: History, group: str, parts: list[Part]) -> None:
        self._driven = driven
        self._history = history
        self._group = group
        self._parts = parts
        self._given: dict[Part, int] = {}
        """The offset behind what was given, by partition: nothing behind it may ever be committed."""
        self._id = b""

    async def run(self, topic: str) -> None:
        """Follow the topic, until the process stops."""
        driven, random = self._driven, self._driven.random
        while not driven.stopping:
            followed = Followed([topic], "earliest", self._group, ["partition", "offset", "value"])
            try:
                self._id = (await driven.do(known([topic]))).topics[topic].id
                await self._follow(followed, driven.world.time_us + random.randint(1_000, 20_000) * 1000)
            except Died:
                pass
            except ClientError as error:
                driven.world.say(driven.name, f"begins anew: {error}")
                self._history.counts["by address: follows that failed"] += 1

    async def _follow(self, followed: Followed, end_us: int) -> None:
        driven, random = self._driven, self._driven.random
        first = True
        floors = {part: self._history.floor(self._group, *part) for part in self._parts}
        while not driven.stopping and (driven.hurries or driven.world.time_us < end_us):
            nodes = await driven.do(followed.prepare(driven.config), READ_MS)
            if first:
                first = False
                for part in self._parts:
                    self._history.fetched(self._group, *part, followed.committed.get(part, -1), floors[part])
            for told in await driven.all([followed.fetch(node) for node in nodes], READ_MS) if nodes else ():
                followed.take(told)
            while (found := followed.give()) is not None:
                rows = found.to_pylist()
                part = self._parts[0][0], rows[0]["partition"]
                wanted = rows[0]["offset"]
                if wanted > max(self._given.get(part, 0), followed.committed.get(part, 0)):
                    raise Violation("nothing_is_left_out", f"{driven.name} is given {wanted} of {part}, {self._given}")
                for row in rows:
                    self._history.consumed(driven.name, self._id, part[1], row["offset"], row["value"], wanted)
                    wanted = row["offset"] + 1
                self._given[part] = max(self._given.get(part, 0), wanted)
                _reached(driven, part, wanted)
                if not random.randrange(3):
                    await self._commit(followed)
                if not random.randrange(40):
                    driven.die()
                    return
            driven.done += 1
            await driven.sleep(3 if driven.hurries else random.choice((0, 10, 300)))
        await self._commit(followed)

    async def _commit(self, followed: Followed) -> None:
        wanted = {part: one for part, one in followed.positions.items() if followed.committed.get(part) != one}
        for part, offset in wanted.items():
            if offset > self._given.get(part, 0):
                raise Violation("commits_what_was_given", f"{self._driven.name}: {offset} of {part}, {self._given}")
            self._history.commits(self._group, *part, offset)
        await self._driven.do(followed.commit(), READ_MS)
        for part, offset in wanted.items():
            self._history.committed(self._group, *part, offset)


async def committed(driven: Driven, history: History, group: str, parts: list[Part]) -> None:
    """Ask again and again for what a group has committed."""
    while not driven.stopping:
        floors = {part: history.floor(group, *part) for part in parts}
        try:
            told = await driven.do(groups.committed(group, parts, stable=True), READ_MS)
        except ClientError:
            continue
        for part in parts:
            one = told.get(part)
            if not isinstance(one, ClientError):
                history.fetched(group, *part, one.offset if one is not None else -1, floors[part])
        driven.done += 1
        await driven.sleep(driven.random.randint(50, 1_500))
