"""What a standby tells the active controller, and when (KIP-631, ControllerHeartbeat; A48)."""

from types import SimpleNamespace
from typing import Any

from actors.node.net.channels import ChannelError
from actors.node.roles.controller.heartbeats import ControllerHeartbeats
from actors.ports import Now

INTERVAL_MS = 2_000


class Standby:
    """The heartbeats of one controller, and what they ask of the others."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, Any]] = []
        self.taken: list[Any] = []
        self.role: Any = SimpleNamespace(
            active=False,
            image="an image",
            options=SimpleNamespace(heartbeat_ms=lambda level: INTERVAL_MS),
            committed_level=2,
            me=1002,
            snapshotting=SimpleNamespace(offset=-1, take=self.taken.append),
        )
        channels: Any = SimpleNamespace(controller=self._controller)
        self.heartbeats = ControllerHeartbeats(channels, SimpleNamespace(), self.role)  # type: ignore[arg-type]

    def _controller(self, name: str, request: Any, then: Any, **more: Any) -> None:
        self.asked.append((name, request, then))

    def at(self, mono_ms: int) -> None:
        self.heartbeats.tick(Now(mono_ms, 0))

    def answer(self, reply: Any) -> None:
        self.asked[-1][2](reply)


def told(start: bool = False, code: int = 0) -> Any:
    return SimpleNamespace(error_code=code, start_snapshot=start)


def test_r631_120_it_reports_its_id_and_its_newest_snapshot_at_every_interval() -> None:
    standby = Standby()
    for number, offset in enumerate((-1, -1, 700, 700, 900)):
        standby.role.snapshotting.offset = offset
        for early_ms in (0, 1, INTERVAL_MS - 1):
            standby.at(number * INTERVAL_MS + early_ms)
        assert len(standby.asked) == number + 1
        name, request, _ = standby.asked[-1]
        assert (name, request.controller_id, request.last_snapshot_offset) == ("ControllerHeartbeat", 1002, offset)
        assert standby.heartbeats.deadline_ms() == (number + 1) * INTERVAL_MS
        standby.answer(told())


def test_r631_120_one_report_at_a_time_and_a_lost_one_is_followed_by_another() -> None:
    standby = Standby()
    for number in range(3):
        standby.at(number * INTERVAL_MS)
    assert len(standby.asked) == 1, "it waits for the answer"
    standby.answer(ChannelError("lost", "the controller is gone"))
    standby.at(3 * INTERVAL_MS)
    assert len(standby.asked) == 2


def test_a_snapshot_begins_when_the_answer_says_so_and_this_controller_is_still_a_standby() -> None:
    standby = Standby()
    for number, (reply, active) in enumerate(((told(True, 41), False), (told(), False), (told(True), True))):
        standby.at(number * INTERVAL_MS)
        standby.role.active = active
        standby.answer(reply)
        standby.role.active = False
    assert standby.taken == []
    standby.at(3 * INTERVAL_MS)
    standby.answer(told(True))
    assert standby.taken == ["an image"]
