"""Who is read on, who waits and who must go when frames that are not whole yet hold memory."""

from actors.host.net.unfinished_frames import ORDINARY_BYTES_MAX, SLOW_MS, STALLED_MS, FrameRoom

MIB = 1 << 20
LARGE = ORDINARY_BYTES_MAX + 1


class Frame:
    """Remembers whether it was let in."""

    def __init__(self) -> None:
        self.moved_ms = 0
        self.inside = self.paused = False

    def let_in(self) -> None:
        self.inside = True

    def held_up(self) -> bool:
        return self.paused


def asked(room: FrameRoom, *sizes: int) -> list[Frame]:
    frames = []
    for size in sizes:
        frames.append(Frame())
        frames[-1].inside = room.ask(frames[-1], size, 0)
    return frames


def test_what_finds_no_room_waits_in_line() -> None:
    room = FrameRoom(40 * MIB)
    first, second, third, small = asked(room, 15 * MIB, 10 * MIB, 4 * MIB, MIB)
    assert [one.inside for one in (first, second, third)] == [True, False, False], "a smaller one does not overtake"
    assert small.inside, "large frames delay large ones only"
    room.leave(first, 5)
    assert second.inside and third.inside and second.moved_ms == 5
    assert room.held == 15 * MIB
    for one in (second, third, small):
        room.leave(one, 6)
    assert room.held == 0 and not room.waits()


def test_a_frame_that_is_larger_than_the_room_is_let_in_alone() -> None:
    room = FrameRoom(20 * MIB)
    giant, other = asked(room, 90 * MIB, LARGE)
    assert giant.inside and not other.inside
    room.leave(giant, 1)
    assert other.inside


def test_one_that_leaves_the_line_lets_the_next_in() -> None:
    room = FrameRoom(20 * MIB)
    first, giant, third = asked(room, 5 * MIB, 9 * MIB, 3 * MIB)
    assert first.inside and not giant.inside and not third.inside
    room.leave(giant, 1)
    assert third.inside


def test_one_that_stalls_or_is_slow_is_late_only_while_others_wait() -> None:
    room = FrameRoom(20 * MIB)
    stalled, slow, busy = asked(room, 3 * MIB, 3 * MIB, 4 * MIB)
    now_ms = SLOW_MS + 3000 + 1
    slow.moved_ms = busy.moved_ms = now_ms
    assert not list(room.late(now_ms))
    asked(room, 9 * MIB)
    assert [one for one, _ in room.late(STALLED_MS + 1)] == [stalled]
    assert [one for one, _ in room.late(now_ms)] == [stalled, slow], "a larger frame may take longer"
    stalled.paused = True
    assert [one for one, _ in room.late(now_ms)] == [slow], "nobody is late whom this side does not read"
