"""The real transactional producer in a simulated cluster: transactions over partitions, with offsets of a group, that are
committed or aborted, and those of a process that copies records from one topic to another, each once.

A commit whose outcome is not known is asked for again. What cannot be gone on with is aborted; a producer that was fenced,
or whose process has died, begins anew. `Told` keeps what all of them were told.
"""

from actors.client.errors import ClientError
from actors.client.operations import groups
from actors.client.operations.fetching import Fetched, Fetcher
from actors.client.operations.leaders import Part
from actors.client.operations.producing import Placed, Producer
from actors.client.operations.records import records
from tests.simulator.checkers.committed_transactions import Told
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.by_address.driven import Died, Driven
from tests.simulator.clients.by_address.writing import batch
from tests.simulator.clients.transactions.transactional import Plan
from tests.simulator.history import Attempt, History

STEP_MS, HASTY_MS = 15_000, 150
COPIED_MAX = 4


class Unwritten(Exception):
    """A batch was not written."""


class Transacting:
    """What a writer and a copier have in common."""

    def __init__(self, driven: Driven, history: History, told: Told, plan: Plan, group: str) -> None:
        self._driven = driven
        self._history = history
        self._told = told
        self._plan = plan
        self._group = group
        self._number = 0
        self._records = 0

    def _begins(self) -> str:
        self._number += 1
        return f"{self._driven.name}/{self._number}"

    async def _write(self, producer: Producer, name: str, wanted: dict[Part, list[str]]) -> None:
        """Write records of a transaction: `name:topic:partition:` and a text."""
        self._told.records[name] = {part: len(texts) for part, texts in wanted.items()}
        given = []
        for part, texts in wanted.items():
            values = []
            for one in texts:
                self._records += 1
                value = f"{name}:{part[0]}:{part[1]}:{one}".encode()
                self._history.attempt(value, Attempt(*part, self._driven.name, self._records, -1, True))
                values.append(value)
            cut = self._driven.random.randint(0, len(values))
            given += [(part, some) for some in (values[:cut], values[cut:]) if some]
        found = await self._driven.do(
            producer.send([(part, batch(self._driven, values)) for part, values in given]), STEP_MS
        )
        if not all(isinstance(one, Placed) for one in found):
            raise Unwritten

    async def _end(self, producer: Producer, name: str, commit: bool) -> bool:
        """Commit or abort. True: the producer can go on."""
        driven = self._driven
        while True:
            try:
                hasty = self._number % 3 == 0  # and does not know what came of it, when its time is over
                await driven.do(producer.commit() if commit else producer.abort(), HASTY_MS if hasty else STEP_MS)
            except Died:
                return False
            except ClientError as error:
                driven.world.say(driven.name, f"{name} not ended: {error}")
                if commit and producer.maybe_committed:
                    self._history.counts["by address: commits asked for again"] += 1
                    continue
                if not commit or not producer.in_transaction:
                    return False
                commit = False
                continue
            (self._told.committed if commit else self._told.aborted)[name] = None
            ended = "committed" if commit else "aborted"
            self._history.counts[f"by address: transactions {ended}"] += 1
            driven.done += 1
            return True


class TransactionalWriter(Transacting):
    """Writes to some partitions in each transaction, and the transaction's number as an offset of its group in some."""

    async def run(self) -> None:
        """Transactions, until the process stops."""
        driven = self._driven
        while not driven.stopping:
            producer = Producer(driven.config)
            while not driven.stopping:
                if not await self._transaction(producer):
                    break
                await driven.sleep(driven.random.randint(1, 2 * self._plan.pause_ms))

    async def _transaction(self, producer: Producer) -> bool:
        driven, random, told = self._driven, self._driven.random, self._told
        name = self._begins()
        topics = {topic: count for topic, count in self._plan.topics.items() if topic != self._plan.output}
        places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        random.shuffle(places)
        wanted = {
            part: [str(one) for one in range(random.choice((1, 1, 3)))] for part in places[: 1 + random.randrange(3)]
        }
        told.records[name] = {part: len(texts) for part, texts in wanted.items()}
        try:
            await driven.do(producer.begin(), STEP_MS)
            await self._write(producer, name, wanted)
            if not random.randrange(3):
                told.offsets.setdefault(self._group, {})[self._number] = name
                await driven.do(producer.send_offsets(self._group, {(next(iter(topics)), 0): self._number}), STEP_MS)
            if not random.randrange(15):
                await driven.sleep(random.choice((10, 1_000, 15_000)))
                driven.die()
                return False
            commit = random.randrange(4) > 0
        except Died:
            return False
        except (ClientError, Unwritten) as error:
            driven.world.say(driven.name, f"{name} failed: {error!r}")
            self._history.counts["by address: transactions that failed"] += 1
            if not producer.in_transaction:
                return False
            commit = False
        return await self._end(producer, name, commit)


class RealCopier(Transacting):
    """Copies every partition of a topic: a copy is `name:topic:partition:input partition:input offset`. Several have one
    transactional id and one group, as a process and its successor that know nothing of each other."""

    async def run(self, topic: str) -> None:
        """Transactions, until the process stops."""
        driven, random = self._driven, self._driven.random
        parts = [(topic, number) for number in range(self._plan.topics[topic])]
        while not driven.stopping:
            producer = Producer(driven.config)
            try:
                await driven.do(producer.begin(), STEP_MS)
                await driven.do(producer.abort(), STEP_MS)
                stored = await driven.do(groups.committed(self._group, parts, stable=True), STEP_MS)
                if any(isinstance(one, ClientError) for one in stored.values()):
                    continue
                positions = {part: stored[part].offset if part in stored else 0 for part in parts}
                while not driven.stopping and await self._copy(producer, positions):
                    await driven.sleep(random.randint(1, self._plan.pause_ms))
            except ClientError:
                pass
            await driven.sleep(random.choice((50, 500, 500, 8_000)))

    async def _copy(self, producer: Producer, positions: dict[Part, int]) -> bool:
        """Copy what is there of one partition, in one transaction. False: the producer cannot go on."""
        driven, random, plan = self._driven, self._driven.random, self._plan
        part = random.choice(list(positions))
        fetcher = Fetcher(driven.config, {part: positions[part]})
        found = await driven.do(fetcher.fetch(), STEP_MS)
        for one in found:
            if not isinstance(one, Fetched):
                raise Violation("nothing_is_lost_to_a_reader", f"{driven.name} is told {one}")
            taken = list(records(one))
            behind = one.next_offset
            if len(taken) > COPIED_MAX:
                taken, behind = taken[:COPIED_MAX], taken[COPIED_MAX - 1].offset + 1
            if not taken:
                positions[part] = behind
                continue
            name = self._begins()
            output = plan.output, random.randrange(plan.topics[plan.output])
            self._told.records[name] = {output: len(taken)}
            commit = random.randrange(5) > 0
            try:
                await driven.do(producer.begin(), STEP_MS)
                await self._write(producer, name, {output: [f"{part[1]}:{one.offset}" for one in taken]})
                await driven.do(producer.send_offsets(self._group, {part: behind}), STEP_MS)
                if not random.randrange(12):
                    await driven.sleep(random.choice((1_000, 15_000)))
            except Died:
                return False
            except (ClientError, Unwritten) as error:
                driven.world.say(driven.name, f"{name} failed: {error!r}")
                if not producer.in_transaction:
                    return False
                commit = False
            if not await self._end(producer, name, commit):
                return False
            if name in self._told.committed:
                positions[part] = behind
        return True
