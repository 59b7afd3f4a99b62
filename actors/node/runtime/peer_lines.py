"""The bound on the lines of the log that peers cause, so that none of them hides what is said of others, or of the
node.

This file alone decides that. Rules:

1. In an interval a principal has LINES_A_PRINCIPAL lines about what it is denied, a host LINES_A_HOST about its connections,
   and all together LINES_MAX: less than half of what the host writes of a level (`host/work/log_repeats.py`).
2. The same line comes LINES_THE_SAME times at most: a client that tries again and again with a wrong password hides nothing
   of the others on its host.
3. What is left out is counted, and told when the interval is over: each source on a line of its own, up to SOURCES_TOLD.
4. A line is cut at CHARACTERS_MAX: most of its words are the peer's.
"""

from collections import Counter
from collections.abc import Callable

INTERVAL_MS = 10_000
LINES_A_PRINCIPAL = 10
LINES_A_HOST = 60
LINES_MAX = 140
LINES_THE_SAME = 3
SOURCES_TOLD = 10
SOURCES_MAX = 1_000
CHARACTERS_MAX = 1_000
SOURCE_CHARACTERS_MAX = 100
"""The most characters of a source in the line that says how much was left out."""
REST = "others"
"""The name that stands for the sources behind the first SOURCES_MAX of an interval."""


class PeerLines:
    """The lines about peers in the present interval."""

    def __init__(self, now_ms: Callable[[], int], at: Callable[[int, Callable[[], None]], object]) -> None:
        """`now_ms` is the monotonic clock. `at(ms, function)` has the function called at that time."""
        self._now_ms, self._at = now_ms, at
        self._since_ms = -INTERVAL_MS
        self._written: Counter[str] = Counter()
        """How many lines of each source were written in the interval."""
        self._same: Counter[str] = Counter()
        """How often each line was written in the interval. Invariant: at most LINES_MAX lines."""
        self._left_out: Counter[str] = Counter()
        """How many lines of each source were not written. Invariant: while there are some, they are told at the
        interval's end."""

    def of_principal(self, write: Callable[[str], None], principal: str, text: str) -> None:
        """Write a line about a principal, or count it. `write`: the log's, at some level."""
        self._tell(write, principal, text, LINES_A_PRINCIPAL)

    def of_host(self, write: Callable[[str], None], host: str, text: str) -> None:
        """Write a line about a connection of a host, or count it. `write`: the log's, at some level."""
        self._tell(write, host, text, LINES_A_HOST)

    def _tell(self, write: Callable[[str], None], source: str, text: str, most: int) -> None:
        now_ms = self._now_ms()
        if now_ms - self._since_ms >= INTERVAL_MS:
            self._since_ms = now_ms
            self._written.clear()
            self._same.clear()
        text = text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}..."
        if source not in self._written and len(self._written) >= SOURCES_MAX:
            source = REST
        room = self._written[source] < most and self._written.total() < LINES_MAX
        if room and self._same[text] < LINES_THE_SAME:
            self._written[source] += 1
            self._same[text] += 1
            write(text)
            return
        if not self._left_out:
            self._at(self._since_ms + INTERVAL_MS, lambda: self._tell_left_out(write))
        if source not in self._left_out and len(self._left_out) >= SOURCES_MAX:
            source = REST
        self._left_out[source] += 1

    def _tell_left_out(self, write: Callable[[str], None]) -> None:
        left_out, self._left_out = self._left_out, Counter()
        told = left_out.most_common(SOURCES_TOLD)
        for source, count in told:
            write(f"{count} more lines about {source[:SOURCE_CHARACTERS_MAX]} in {INTERVAL_MS // 1000} s")
        if len(left_out) > len(told):
            count = left_out.total() - sum(count for _, count in told)
            write(f"{count} more lines about {len(left_out) - len(told)} other peers in {INTERVAL_MS // 1000} s")
