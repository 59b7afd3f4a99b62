"""A reader of logs that lose what was acknowledged: it keeps what it was given, but for what it is told is lost.

In the end it holds what the log holds, record for record. So a cut that the client does not notice is found, also where the
log has grown again behind it (KIP-320), and so is one that is seen only after a new beginning at a committed offset.
"""

from actors.client.errors import ClientError
from actors.client.operations import groups
from actors.client.operations.fetching import Diverged, Failed, Fetched, Fetcher, OutOfRange
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import EARLIEST, LATEST, Found, list_offsets
from actors.client.operations.records import records
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.by_address.driven import Died, Driven
from tests.simulator.history import History

READ_MS = 20_000


class Auditor:
    """Reads partitions, with a group or without one."""

    def __init__(self, driven: Driven, history: History, parts: list[Part], group: str | None) -> None:
        self.held: dict[Part, dict[int, bytes]] = {part: {} for part in parts}
        """What was given and is not known to be lost: by partition, value by offset."""
        self.position: dict[Part, int] = dict.fromkeys(parts, 0)
        self._epochs: dict[Part, int] = dict.fromkeys(parts, -1)
        self._highest: dict[Part, int] = dict.fromkeys(parts, 0)
        """The highest position that there was, by partition."""
        self._driven = driven
        self._history = history
        self._group = group

    async def run(self) -> None:
        """Read until the process stops. With a group it dies now and then, and goes on where the group was."""
        driven = self._driven
        while not driven.stopping:
            fetcher = Fetcher(driven.config, {})
            try:
                if self._group is not None:
                    await self._begin(self._group)
                for part, offset in self.position.items():
                    fetcher.seek(*part, offset, self._epochs[part])
                await self._read(fetcher)
            except Died:
                pass
            except ClientError as error:
                driven.world.say(driven.name, f"begins anew: {error}")

    async def _begin(self, group: str) -> None:
        """Forget what is behind the offsets of the group."""
        told = await self._driven.do(groups.committed(group, list(self.held), stable=True), READ_MS)
        for part in self.held:
            one = told.get(part)
            if isinstance(one, ClientError):
                raise one
            offset, epoch = (one.offset, one.leader_epoch) if one is not None else (0, -1)
            if offset > self._highest[part]:
                raise Violation(
                    "commits_what_was_given", f"{group} is at {offset} of {part}, {self._highest} was given"
                )
            self._cut(part, offset)
            self._epochs[part] = epoch

    async def _read(self, fetcher: Fetcher) -> None:
        driven, random = self._driven, self._driven.random
        while not driven.stopping:
            for one in await driven.do(fetcher.fetch(), READ_MS):
                part = one.topic, one.partition
                if isinstance(one, Fetched):
                    self._take(part, one)
                elif isinstance(one, Failed):
                    raise Violation("topics_that_stay_are_there", f"{driven.name} is told of {part}: {one.error}")
                else:
                    await self._lost(fetcher, part, one)
            driven.done += 1
            if self._group is not None and not random.randrange(3):
                await self._commit(self._group)
            if self._group is not None and not driven.hurries and not random.randrange(60):
                driven.die()
                return
            await driven.sleep(3 if driven.hurries else random.choice((0, 1, 50, 400, 3_000)))

    def _take(self, part: Part, fetched: Fetched) -> None:
        held = self.held[part]
        for record in records(fetched):
            if record.offset in held:
                raise Violation(
                    "nothing_is_given_twice", f"{self._driven.name} is given {record.offset} of {part} again"
                )
            held[record.offset] = record.value or b""
            self._history.counts["by address: records read"] += 1
        self.position[part], self._epochs[part] = fetched.next_offset, fetched.leader_epoch
        self._highest[part] = max(self._highest[part], fetched.next_offset)
        self._driven.reached[part] = fetched.next_offset

    async def _lost(self, fetcher: Fetcher, part: Part, told: OutOfRange | Diverged) -> None:
        """What is lost is taken out, and read on is behind that."""
        if isinstance(told, Diverged):
            self._history.counts["by address: cuts told by an epoch"] += 1
            offset = told.end_offset
        else:
            self._history.counts["by address: cuts told by an offset"] += 1
            first = (await self._driven.do(list_offsets([part], EARLIEST), READ_MS))[part]
            last = (await self._driven.do(list_offsets([part], LATEST), READ_MS))[part]
            if not isinstance(first, Found) or not isinstance(last, Found):
                raise ClientError("the ends of the log are not told")
            offset = min(max(told.offset, first.offset), last.offset)
        self._cut(part, offset)
        fetcher.seek(*part, offset)

    def _cut(self, part: Part, offset: int) -> None:
        self.position[part], self._epochs[part] = offset, -1
        self._driven.reached[part] = offset
        self.held[part] = {one: value for one, value in self.held[part].items() if one < offset}

    async def _commit(self, group: str) -> None:
        offsets = {part: groups.Committed(offset, self._epochs[part], "") for part, offset in self.position.items()}
        await self._driven.do(groups.commit(group, offsets), READ_MS)
