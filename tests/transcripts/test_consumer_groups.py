"""Stories of consumer groups (KIP-848): how partitions pass from member to member."""

from pathlib import Path
from typing import Any

import pytest

from actors.broker.groups import embedded
from actors.broker.groups.classic.state import Group as ClassicGroup
from actors.broker.groups.classic_requests import Joined, Synced
from actors.broker.groups.consumer.requests import ConsumerBeat
from actors.wire.errors import ErrorCode
from tests.transcripts.driver import play, stories
from tests.unit.broker.groups.consumer.world import World


class Groups:
    """The commands of these stories. Partitions are written `t:0,1/u:0`, nothing as `-`."""

    def __init__(self) -> None:
        self.world = World()
        self.open: set[int] = set()

    def commands(self) -> dict[str, Any]:
        names = (
            "topic",
            "interval",
            "join",
            "beat",
            "leave",
            "away",
            "wait",
            "show",
            "fail",
            "hold",
            "go",
            "move",
            "commit",
            "policy",
            "cjoin",
            "csync",
            "cbeat",
            "cleave",
        )
        return {name: getattr(self, name) for name in names}

    def topic(self, name: str, size: str) -> str:
        """A topic comes, grows, or goes (0)."""
        self.world.topics.set(name, int(size))
        return ""

    def interval(self, ms: str) -> str:
        self.world = World(interval_ms=int(ms))
        return ""

    def policy(self, policy: str, *more: str) -> str:
        """Begin a new world in which `group.consumer.migration.policy` is `policy`."""
        self.world = World(policy=policy)
        return ""

    def cjoin(self, member: str, *topics: str, owned: str = "-", instance: str | None = None, id: str = "") -> str:
        """A classic member joins. `id`: it has one already, else it gets its name as an id."""
        ticket = self.world.classic_join(
            id or member, *topics, owned=_partitions(owned), instance=instance, known=bool(id)
        )
        return self._told(ticket)

    def csync(self, member: str, generation: str, *assigned: str, instance: str | None = None) -> str:
        """A classic member asks for its assignment. `assigned`: member=partitions, of the leader of a classic group."""
        given = {one.partition("@")[0]: _partitions(one.partition("@")[2]) for one in assigned}
        return self._told(self.world.classic_sync(member, int(generation), given, instance))

    def cbeat(self, member: str, generation: str) -> str:
        return self.world.classic_heartbeat(member, int(generation)).name + self._behind()

    def cleave(self, *members: str) -> str:
        codes = self.world.classic_leave(*members)
        names = [codes.name] if isinstance(codes, ErrorCode) else [code.name for code in codes]
        return "\n".join(names) + self._behind()

    def _behind(self) -> str:
        late = self._late()
        return f"\nthen {late}" if late else ""

    def join(self, member: str, *topics: str, **more: str) -> str:
        given: dict[str, Any] = dict(more)
        if "rebalance_ms" in given:
            given["rebalance_ms"] = int(given["rebalance_ms"])
        ticket = self.world.beat(member, 0, {}, topics, **{"rebalance_ms": 60_000, **given})
        return self._told(ticket)

    def beat(self, member: str, epoch: str, owned: str = "", *topics: str, **more: str) -> str:
        """Send a heartbeat. `owned`: what the member says that it has; left out: it does not say."""
        parts = None if not owned else _partitions(owned)
        return self._told(self.world.beat(member, int(epoch), parts, topics or None, **more))  # type: ignore[arg-type]

    def leave(self, member: str, **more: str) -> str:
        return self._told(self.world.beat(member, -1, **more))  # type: ignore[arg-type]

    def away(self, member: str, instance: str) -> str:
        return self._told(self.world.beat(member, -2, instance=instance))

    def wait(self, ms: str) -> str:
        self.world.pass_ms(int(ms))
        return ""

    def hold(self) -> str:
        """Writes wait from now on."""
        self.world.held = True
        return ""

    def go(self) -> str:
        self.world.held = False
        self.world.drain()
        return self._late()

    def fail(self) -> str:
        """Writes that wait fail."""
        self.world.held = False
        self.world.drain(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._late()

    def move(self) -> str:
        """Another broker coordinates the group."""
        self.world = self.world.heir()
        return ""

    def commit(self, member: str, epoch: str, topic: str, partition: str) -> str:
        machine = self.world.machine
        error = machine.commit_error("g", member, None, int(epoch), self.world.now)
        if error is ErrorCode.STALE_MEMBER_EPOCH:
            held = machine.kinds.consumer.held_since(self.world.group(), member, int(epoch), topic, int(partition))
            error = ErrorCode.NONE if held else error
        return error.name

    def show(self) -> str:
        found = self.world.machine.find("g")
        if found is None:
            return "no group"
        if isinstance(found, ClassicGroup):
            return self._classic(found)
        group = self.world.group()
        rows = [f"{group.state()} epoch={group.epoch} target={group.target_epoch}"]
        for id, member in sorted(group.members.items()):
            current = member.current
            parts = [f"  {id} {current.epoch} {current.state.name} has {self._held(current.assigned)}"]
            if member.subscription.classic is not None:
                parts[0] = f"  {id} (classic){parts[0][2 + len(id) :]}"
            if current.revoking:
                parts.append(f"gives up {self._held(current.revoking)}")
            parts.append(f"target {self._held(group.targets.get(id, {}))}")
            rows.append(", ".join(parts))
        return "\n".join(rows)

    def _classic(self, group: ClassicGroup) -> str:
        rows = [f"classic {group.state.value} generation={group.generation} protocol={group.protocol}"]
        for id, member in sorted(group.members.items()):
            rows.append(f"  {id} {_named(embedded.Embedded().assignment(member.assignment))}")
        return "\n".join(rows)

    def _late(self) -> str:
        """Answers that had to wait."""
        there = sorted(self.open & self.world.answers.keys())
        self.open -= set(there)
        return "\n".join(self._text(self.world.answers[ticket]) for ticket in there)

    def _told(self, ticket: int) -> str:
        if ticket not in self.world.answers:
            self.open.add(ticket)
            return "..."
        self.open.discard(ticket)
        late = self._late()
        return self._text(self.world.answers[ticket]) + (f"\nthen {late}" if late else "")

    def _text(self, beat: ConsumerBeat | Joined | Synced) -> str:
        if beat.error is not ErrorCode.NONE:
            return beat.error.name
        if isinstance(beat, Synced):
            return f"has {_named(embedded.Embedded().assignment(beat.assignment))}"
        if isinstance(beat, Joined):
            leads = f" leads {','.join(sorted(id for id, _, _ in beat.members))}" if beat.members else ""
            return f"generation {beat.generation}{leads}"
        return self._beat(beat)

    def _beat(self, beat: ConsumerBeat) -> str:
        if beat.error is not ErrorCode.NONE:
            return beat.error.name
        given = "" if beat.assigned is None else f" {self._held(beat.assigned)}"
        return f"epoch {beat.epoch}{given}"

    def _held(self, held: Any) -> str:
        topics = self.world.topics
        shown = sorted((topics.name(topic) or "gone", sorted(partitions)) for topic, partitions in held.items())
        return "/".join(f"{name}:{','.join(map(str, numbers))}" for name, numbers in shown) or "-"


def _named(parts: Any) -> str:
    return "/".join(f"{name}:{','.join(map(str, sorted(numbers)))}" for name, numbers in sorted(parts.items())) or "-"


def _partitions(text: str) -> dict[str, tuple[int, ...]]:
    found = {}
    for part in text.split("/") if text != "-" else ():
        name, _, numbers = part.partition(":")
        found[name] = tuple(int(number) for number in numbers.split(","))
    return found


@pytest.mark.parametrize("story", stories("consumer_groups"), ids=lambda path: str(path.stem))
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Groups().commands(), rewrite)
