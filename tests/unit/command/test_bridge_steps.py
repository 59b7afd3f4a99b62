"""`rayft bridge --back` and `--finish`: the command writes what is wanted, and waits for the active controller's answer."""

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from actors.bridge import following, returning, znodes
from actors.bridge.asks import Make
from actors.command import bridge_steps as command
from actors.host.cluster_error import ClusterError
from actors.metadata.ops import BrokerGone, BrokerSet
from actors.ports.zookeeper import Multi, Reads, Rejected
from tests.unit.bridge.played import Bridge, add_topic, cluster, driving
from tests.unit.bridge.test_tokens import op


class Played:
    """A session of the command, with the ZooKeeper in memory."""

    def __init__(self, bridge: Bridge) -> None:
        self.zookeeper = bridge.zookeeper
        self.session = self.zookeeper.begin(lambda event: None)

    def read(self, reads: Sequence[Any]) -> Any:
        return self.zookeeper.answer(self.session, Reads(0, reads, False))

    def change(self, changes: Sequence[Any]) -> Any:
        result = self.zookeeper.answer(self.session, Multi(0, changes))
        if isinstance(result, Rejected):
            raise result
        return result


def ended(bridge: Bridge, wish: str, monkeypatch: pytest.MonkeyPatch, busy: bool = True) -> int:
    """The command, while the active controller works. `busy`: it has tokens to write all the time."""
    turns: list[int] = []

    def turn(seconds: float) -> None:
        turns.append(len(turns))
        assert len(turns) < 5, "the command waits for an answer that was given"
        bridge.follow()
        if busy and bridge.here.claim is not None:
            bridge.apply(op(id=f"t{len(bridge.image.tokens)}"))
            bridge.write("token", f"t{len(bridge.image.tokens) - 1}")

    monkeypatch.setattr(command.time, "sleep", turn)
    session: Any = Played(bridge)
    return command._end(session, wish)


def test_a_refusal_reaches_the_command_whatever_is_written_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = driving()
    bridge.apply(BrokerSet(4, 99, endpoints=tuple(bridge.here.endpoints)))
    with pytest.raises(ClusterError, match=r"brokers 4 are rayft's: stop them first"):
        ended(bridge, "back", monkeypatch)
    with pytest.raises(ClusterError, match=r"ZooKeeper is not let go: brokers 1, 2, 3 live with it"):
        ended(bridge, "finish", monkeypatch)
    bridge.apply(BrokerGone(4))
    assert ended(bridge, "back", monkeypatch) == 0, "an earlier refusal is no answer"
    assert bridge.zookeeper.get(znodes.CONTROLLER) is None


def test_what_is_wanted_changes_nothing_of_what_the_controller_has_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = driving()
    bridge.apply(op())
    bridge.write("token", "AAECAwQFBgcICQoLDA0ODw")
    session: Any = Played(bridge)
    read = session.read

    def behind(reads: Sequence[Any]) -> Any:
        found = read(reads)
        session.read = read
        bridge.apply(op(id="late"))
        bridge.write("token", "late")
        return found

    session.read = behind
    command._wish(session, "back")
    assert "late" in json.loads(bridge.zookeeper.get(znodes.BRIDGE) or b"")["wrote"][znodes.TOKEN_CHANGES]
    command._wish(session, None)
    assert bridge.zookeeper.get(znodes.WANTED) is None


@pytest.mark.parametrize("wish", ["back", "finish"])
def test_what_was_not_done_in_time_is_wanted_no_more(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = driving()
    monkeypatch.setattr(command, "WAIT_S", 0.5)
    monkeypatch.setattr(command, "AGAIN_S", 0.1)
    session: Any = Played(bridge)
    with pytest.raises(ClusterError, match="it is not wanted any more"):
        command._end(session, wish)
    assert bridge.zookeeper.get(znodes.WANTED) is None
    bridge.follow()
    assert bridge.zookeeper.get(znodes.CONTROLLER) is not None and bridge.here.claim is not None


class Clock:
    """Time passes where the command sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pause_s: float, turn: Callable[[], None]) -> None:
        self.now, self.pause_s, self.turn = 0.0, pause_s, turn
        monkeypatch.setattr(command.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(command.time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += self.pause_s
        self.turn()


def test_a_large_cluster_is_handed_back_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = cluster()
    for number in range(8):
        add_topic(zookeeper, f"t{number}", [[1, 2]])
    bridge = Bridge(zookeeper)
    bridge.take_over()
    bridge.watch()
    monkeypatch.setattr(returning, "PARTITIONS_AT_ONCE", 1)
    job = following.job(bridge.here, znodes.CONTROLLER)
    answer: list[Any] = [None]

    def until_the_next_portion() -> None:
        before = bridge.here.given_back
        with suppress(StopIteration):
            while bridge.here.given_back in (0, before):
                answer[0] = bridge._answer(job.send(answer[0]))
            while not isinstance(ask := job.send(answer[0]), Make):
                answer[0] = bridge._answer(ask)
            answer[0] = bridge._answer(ask)

    clock = Clock(monkeypatch, 0.6 * command.WAIT_S, until_the_next_portion)
    session: Any = Played(bridge)
    assert command._end(session, "back") == 0
    assert clock.now > 4 * command.WAIT_S and zookeeper.get(znodes.CONTROLLER) is None


@pytest.mark.parametrize("progress", [True, False])
def test_a_takeover_is_waited_for_as_long_as_the_log_grows(progress: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Played(driving())
    clock = Clock(monkeypatch, 0.6 * command.WAIT_S, lambda: None)
    monkeypatch.setattr(command, "_written", lambda made: int(clock.now) if progress else 7)
    made: Any = Namespace(directory=Path("over"), controllers=())

    def holds(note: Any, holder: int) -> bool:
        return clock.now > 5 * command.WAIT_S

    if progress:
        assert command._await(session, holds, made)["state"] == "driving"
        return
    with pytest.raises(ClusterError, match="with no progress for a minute"):
        command._await(session, holds, made)
    assert clock.now < 2 * command.WAIT_S


def test_what_is_wanted_goes_with_the_command() -> None:
    bridge = driving()
    session: Any = Played(bridge)
    command._wish(session, "back")
    bridge.zookeeper.end(session.session)
    assert bridge.zookeeper.get(znodes.WANTED) is None


def test_what_was_done_while_the_command_took_it_back_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = driving()
    monkeypatch.setattr(command, "WAIT_S", 0.5)
    session: Any = Played(bridge)
    command._wish(session, "back")
    change = session.change

    def late(changes: Sequence[Any]) -> Any:
        session.change = change
        bridge.follow()
        return change(changes)

    session.change = late
    assert not command._withdrawn(session, "back")
    assert bridge.zookeeper.get(znodes.CONTROLLER) is None and bridge.zookeeper.get(znodes.WANTED) == b"back"
