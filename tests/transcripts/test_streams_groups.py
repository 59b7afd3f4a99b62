"""Stories of streams groups (KIP-1071): how tasks pass from member to member."""

from pathlib import Path
from typing import Any

import pytest

from actors.broker.groups.kind import Committer
from actors.broker.groups.streams.answers import Endpoint, Served, StreamsBeat, Tasks
from actors.broker.groups.streams.state import OwnedTasks
from actors.broker.groups.streams.topology import Subtopology, Topology
from actors.wire.errors import ErrorCode
from tests.transcripts.driver import play, stories
from tests.unit.broker.groups.streams.world import World, subtopology


class Groups:
    """The commands of these stories. Tasks are written `0:0,1/1:0`, nothing as `-`; standby tasks behind a `+`."""

    def __init__(self) -> None:
        self.world = World()
        self.parts: list[Subtopology] = []
        self.epochs: dict[str, int] = {}
        self.open: set[int] = set()

    def commands(self) -> dict[str, Any]:
        names = (
            *(
                "topic",
                "group",
                "reads",
                "join",
                "beat",
                "leave",
                "wait",
                "show",
                "fail",
                "hold",
                "go",
                "move",
                "commit",
            ),
            *("stop", "records"),
        )
        return {name: getattr(self, name) for name in names}

    # ---- the world

    def group(self, **settings: str) -> str:
        """Settings of the group."""
        self.world.pace = self.world.pace._replace(**{name: int(value) for name, value in settings.items()})
        return ""

    def topic(self, name: str, size: str) -> str:
        """A topic comes, grows, or goes (0)."""
        self.world.topics.set(name, int(size))
        return ""

    def reads(self, id: str, *sources: str, **more: str) -> str:
        """A subtopology of the application that later members bring; the first one begins another application."""
        if id == "0":
            self.parts = []
        lists = {name: tuple(text.split(",")) for name, text in more.items() if name != "together"}
        self.parts.append(subtopology(id, *sources, together="together" in more, **lists))  # type: ignore[arg-type]
        return ""

    def wait(self, ms: str) -> str:
        self.world.pass_ms(int(ms))
        return self._late()

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

    def records(self) -> str:
        """The kinds of the records that were written since the last look."""
        return " ".join(map(str, self.world.kinds()))

    # ---- members

    def join(self, member: str, process: str = "", **more: str) -> str:
        given = self._given(more)
        topology = Topology(int(more.pop("version", "0")), tuple(self.parts))
        given |= {"process": process or member, "rebalance_ms": int(more.get("rebalance_ms", "60000"))}
        return self._told(self.world.beat(member, 0, {}, topology, **given))

    def beat(self, member: str, epoch: str, owned: str = "", **more: str) -> str:
        """Send a heartbeat. `owned`: what the member says that it has; left out: it does not say."""
        parts = None
        if owned:
            active, _, standby = owned.partition("+")
            parts = {"active": _tasks(active), "standby": _tasks(standby or "-"), "warmup": {}}
        return self._told(self.world.beat(member, int(epoch), parts, **self._given(more)))

    def leave(self, member: str, **more: str) -> str:
        return self._told(self.world.beat(member, -1, **self._given(more)))

    def stop(self, member: str, epoch: str) -> str:
        """The member asks for the end of the application."""
        return self._told(self.world.beat(member, int(epoch), shutdown=True))

    def commit(self, member: str, epoch: str, topic: str, partition: str) -> str:
        kind, group = self.world.machine.kinds.streams, self.world.group()
        error = kind.commit_error(group, Committer(member, None, int(epoch)), self.world.now)
        if error is ErrorCode.STALE_MEMBER_EPOCH and kind.held_since(group, member, int(epoch), topic, int(partition)):
            error = ErrorCode.NONE
        return error.name

    def _given(self, more: dict[str, str]) -> dict[str, Any]:
        given: dict[str, Any] = {"endpoint_epoch": int(more.get("knows", "0"))}
        if "at" in more:
            given["endpoint"] = Endpoint(more["at"], 80)
        return given

    # ---- what is seen

    def show(self) -> str:
        group = self.world.group()
        rows = [f"{group.state()} epoch={group.epoch} target={group.target_epoch}"]
        for id, member in sorted(group.members.items()):
            current = member.current
            parts = [f"  {id} {current.epoch} {current.state.name} has {_held(current.assigned)}"]
            if current.revoking.any():
                parts.append(f"gives up {_held(current.revoking)}")
            parts.append(f"target {_text(group.targets.get(id, Tasks()))}")
            rows.append(", ".join(parts))
        return "\n".join(rows)

    def _late(self) -> str:
        """Answers that had to wait."""
        there = sorted(self.open & self.world.answers.keys())
        self.open -= set(there)
        return "\n".join(self._answer(self.world.answer(ticket)) for ticket in there)

    def _told(self, ticket: int) -> str:
        if ticket not in self.world.answers:
            self.open.add(ticket)
            return "..."
        return self._answer(self.world.answer(ticket))

    def _answer(self, beat: StreamsBeat) -> str:
        if beat.error is not ErrorCode.NONE:
            return f"{beat.error.name}: {beat.message}" if beat.message else beat.error.name
        given = "" if beat.tasks is None else f" {_text(beat.tasks)}"
        lines = [f"epoch {beat.epoch}{given}"]
        lines += [f"  {status.name}: {text}" for status, text in beat.status]
        lines += [f"  make {one.name} with {one.partitions}" for one in beat.create]
        if beat.endpoints:
            lines += [f"  as of {beat.endpoint_epoch}: {_served(one)}" for one in beat.endpoints]
        return "\n".join(lines)


def _tasks(text: str) -> dict[str, tuple[int, ...]]:
    found = {}
    for part in text.split("/") if text != "-" else ():
        name, _, numbers = part.partition(":")
        found[name] = tuple(int(number) for number in numbers.split(","))
    return found


def _held(held: OwnedTasks) -> str:
    return _text(held.tasks())


def _text(tasks: Tasks) -> str:
    shown = [
        "/".join(f"{one}:{','.join(map(str, sorted(numbers)))}" for one, numbers in sorted(sets.items())) or "-"
        for sets in tasks
    ]
    assert shown.pop() == "-", "nobody has warm-up tasks"
    return "+".join(shown) if shown[1] != "-" else shown[0]


def _served(served: Served) -> str:
    roles = [" ".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in of) for of in served[1:]]
    return f"{served.endpoint.host} has {roles[0] or '-'}" + (f", copies {roles[1]}" if roles[1] else "")


@pytest.mark.parametrize("story", stories("streams_groups"), ids=lambda path: str(path.stem))
def test_story(story: Path, rewrite: bool) -> None:
    play(story, Groups().commands(), rewrite)
