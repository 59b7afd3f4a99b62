"""What an operator does by address in a simulated cluster: topics made, deleted and made again, leaders elected, partitions
moved, settings changed, groups listed. What was told to be done is seen in the cluster."""

from collections.abc import Callable

from actors.client.errors import ClientError
from actors.client.operations import cluster, configs, groups, offsets, placement, topics
from actors.client.operations.leaders import Part
from actors.metadata.image import Image
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.by_address.driven import Driven
from tests.simulator.history import History

OPERATION_MS = 15_000


class Operator:
    """An operator with the real client."""

    def __init__(self, driven: Driven, history: History, image: Callable[[], Image], brokers: list[int]) -> None:
        self._driven = driven
        self._history = history
        self._image = image
        """Gives what the quorum has committed."""
        self._brokers = brokers

    async def run(self, parts: list[Part], pause_ms: int) -> None:
        """Operate until the process stops. `parts`: the partitions of topics that stay."""
        driven, random = self._driven, self._driven.random
        while not driven.stopping:
            work = random.choice((self._elect, self._elect, self._move, self._configure, self._look, self._look))
            try:
                await work(parts)
                driven.done += 1
            except ClientError as error:
                driven.world.say(driven.name, f"not done: {error}")
                self._history.counts["by address: operations that failed"] += 1
            await driven.sleep(random.randint(1, 2 * pause_ms))

    async def _elect(self, parts: list[Part]) -> None:
        await self._driven.do(placement.elect(parts if self._driven.random.randrange(2) else None), OPERATION_MS)

    async def _move(self, parts: list[Part]) -> None:
        """The same brokers in another order, so that another one is preferred; and it is elected."""
        driven, random = self._driven, self._driven.random
        part = random.choice(parts)
        image = self._image()
        row = image.partition(image.topic(part[0]), part[1])
        replicas = [int(one) for one in image.replicas(row)]
        random.shuffle(replicas)
        await driven.do(placement.move({part: replicas}), OPERATION_MS)
        await driven.do(placement.elect([part]), OPERATION_MS)

    async def _configure(self, parts: list[Part]) -> None:
        driven, topic = self._driven, self._driven.random.choice(parts)[0]
        resource = configs.Kind.TOPIC, topic
        value = str(driven.random.randint(1, 1000) * 1000 + 100_000_000)
        found = await driven.do(configs.alter({resource: {"retention.ms": (configs.Op.SET, value)}}), OPERATION_MS)
        if any(found.values()):
            return
        told = (await driven.do(configs.describe([resource]), OPERATION_MS))[resource]
        if not isinstance(told, ClientError):
            self._history.counts["by address: settings changed"] += 1

    async def _look(self, parts: list[Part]) -> None:
        driven = self._driven
        await driven.do(cluster.describe_cluster(), OPERATION_MS)
        await driven.do(groups.list_groups(), OPERATION_MS)
        ends = await driven.do(offsets.list_offsets(parts), OPERATION_MS)
        for part, one in ends.items():
            if isinstance(one, ClientError):
                raise Violation("topics_that_stay_are_there", f"{driven.name} is told of {part}: {one}")

    async def churn(self, name: str, pause_ms: int) -> None:
        """Make a topic, delete it, and make it again under the same name, until the process stops. `name`: of the topic."""
        driven, random = self._driven, self._driven.random
        self._history.deleted[name] = None
        while not driven.stopping:
            made = await self._asked(topics.create([topics.NewTopic(name, 1 + random.randrange(2), 3)]), name)
            if made:
                self._sees(name, True)
                await driven.sleep(random.randint(1, 2 * pause_ms))
            if await self._asked(topics.delete([name]), name):
                self._sees(name, False)
            await driven.sleep(random.choice((1, 10, 500)))

    async def _asked(self, steps: object, name: str) -> bool:
        """Whether it was told that this was done."""
        try:
            error = (await self._driven.do(steps, OPERATION_MS))[name]  # type: ignore[arg-type, var-annotated]
        except ClientError as failed:
            error = failed
        if error is None:
            self._driven.done += 1
            self._history.counts["by address: topics made or deleted"] += 1
            return True
        self._driven.world.say(self._driven.name, f"{name}: {error}")
        return False

    def _sees(self, name: str, there: bool) -> None:
        """Nobody else makes or deletes this topic."""
        if (self._image().topic(name) >= 0) is not there:
            raise Violation(
                "what_was_told_is_done", f"{name} was told to be {'made' if there else 'deleted'}, and is not"
            )
