"""A log under lines that repeat: the first is there at once, the rest is counted, nothing is without bounds."""

import io
from logging import ERROR, WARNING

import pytest

from actors.host.work.journal import Journal
from actors.host.work.log_repeats import KINDS_MAX, LINES_MAX, SHOWN_CHARACTERS_MAX, TEXTS_MAX, Repeats


class Scene:
    """A journal with a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.stream = io.StringIO()
        self.journal = Journal(self.stream, lambda: self.now_s)

    @property
    def lines(self) -> list[str]:
        """What stands in the log, without the times."""
        return [line[24:] for line in self.stream.getvalue().splitlines()]


def test_a_line_that_repeats_is_written_once_and_counted() -> None:
    scene = Scene()
    for _ in range(21_000):
        scene.journal.warning("a job failed: EIO")
    assert scene.lines == ["WARN  a job failed: EIO"], "the first stands there at once"
    scene.now_s += 9.9
    scene.journal.settle()
    assert len(scene.lines) == 1
    scene.now_s += 0.2
    scene.journal.settle()
    assert scene.lines[1:] == ["WARN  20999 more in 10 s like this one: a job failed: EIO"]
    scene.now_s += 60
    scene.journal.settle()
    scene.journal.warning("a job failed: EIO")
    assert scene.lines[2:] == ["WARN  a job failed: EIO"], "a new interval begins with the line itself"


def test_lines_that_differ_in_numbers_only_are_of_one_kind() -> None:
    scene = Scene()
    for port in range(5_000):
        scene.journal.warning(f"closed the connection of 127.0.0.1:{port}")
    assert scene.lines == [f"WARN  closed the connection of 127.0.0.1:{port}" for port in range(TEXTS_MAX)]
    scene.now_s += 10
    scene.journal.settle()
    counted = 5_000 - TEXTS_MAX
    assert scene.lines[-1] == f"WARN  {counted} more in 10 s like this one: closed the connection of 127.0.0.1:4999"


def test_events_that_do_not_repeat_are_all_there_and_in_order() -> None:
    scene = Scene()
    scene.journal.info("controller 1 is active in epoch 3")
    scene.journal.info("the lease of broker 1 has ended")
    scene.journal.info("the lease of broker 2 has ended")
    scene.journal.error("the lease of broker 2 has ended")
    assert scene.lines == [
        "INFO  controller 1 is active in epoch 3",
        "INFO  the lease of broker 1 has ended",
        "INFO  the lease of broker 2 has ended",
        "ERROR the lease of broker 2 has ended",
    ]


@pytest.mark.long
def test_who_can_choose_the_words_of_lines_fills_no_disk_and_no_memory() -> None:
    repeats, written = Repeats(), 0
    for second in range(60):
        for number in range(2_000):
            word = f"{second}-{number}".translate(str.maketrans("0123456789", "abcdefghij"))
            written += repeats.admits(WARNING, f"topic {word} is not made {'x' * 10_000}", float(second))
        written += len(repeats.due(float(second)))
    assert written <= 6 * (LINES_MAX + KINDS_MAX // 10)
    assert len(repeats._kinds) <= KINDS_MAX
    assert all(len(text) <= SHOWN_CHARACTERS_MAX + 10 for _, text in repeats._kinds)


def test_other_levels_are_heard_beside_one_that_is_loud() -> None:
    repeats = Repeats()
    words = ["".join(chr(97 + digit) for digit in (n // 676, n // 26 % 26, n % 26)) for n in range(2 * LINES_MAX)]
    assert sum(repeats.admits(WARNING, word, 1.0) for word in words) == LINES_MAX
    assert repeats.admits(ERROR, "no room is left", 1.0)
    assert (WARNING, f"{LINES_MAX} more lines of other kinds in 10 s") in repeats.due(11.0)
    assert repeats.admits(WARNING, "once more", 11.0)


def test_what_was_counted_is_told_before_the_log_ends() -> None:
    scene = Scene()
    for _ in range(3):
        scene.journal.warning("again")
    scene.now_s += 2
    scene.journal.end()
    scene.journal.info("process 7 ends")
    assert scene.lines == ["WARN  again", "WARN  2 more in 2 s like this one: again", "INFO  process 7 ends"]
