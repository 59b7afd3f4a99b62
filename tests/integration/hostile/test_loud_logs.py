"""Peers that make a node log the same line again and again; the log is often on the disk of the records.

Before lines were counted, each of the 3,000 bad frames was a line of its own in the log: 462,000 bytes in 3 s, now 341.
"""

import time
from pathlib import Path

from tests.integration.hostile.scene import Peer, Scene, framed

FRAMES = 3_000
LINES_MAX = 50


def test_bad_frames_by_the_thousand_are_a_few_lines_in_the_log(small: Scene) -> None:
    (path,) = Path(small.cluster.dir).glob("broker*.log")
    before = len(path.read_text().splitlines())

    def attack() -> None:
        for _ in range(FRAMES):
            with Peer(small.brokers()[0]) as peer:
                peer.send(framed(b"\x7f\xff" * 10))
                assert peer.closed()

    cost = small.measured(attack)
    end = time.monotonic() + 20
    while "more in" not in path.read_text() and time.monotonic() < end:
        time.sleep(0.2)
    lines = path.read_text().splitlines()[before:]
    assert any("closed the connection" in line for line in lines), "the first is told at once"
    assert any("more in" in line and "closed the connection" in line for line in lines), "and how many there were"
    assert len(lines) < LINES_MAX, lines[-3:]
    assert not cost.lost and not cost.broken, cost
