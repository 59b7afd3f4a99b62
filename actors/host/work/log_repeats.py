"""The rule for lines of a log that repeat: which are written, and how the others are reported.

A peer or a fault can cause the same line thousands of times a second, and the log is often on the disk that holds the
records. Lines that differ in numbers only (addresses, ports, offsets, ids) are of one *kind*. Rules:

1. The first line of a kind is written at once. So are lines of the same kind with other words, up to TEXTS_MAX of them.
2. Any further line of the kind is counted. When INTERVAL_S are over since the first line of the kind, one line says how
   many were counted and shows the newest.
3. At most LINES_MAX lines of one level are written in an interval, however many kinds there are. The rest is counted
   together: a peer that can choose the words of a line can make any number of kinds.
4. Memory is bounded by KINDS_MAX kinds. The memory for each text is bounded too.
"""

import re

INTERVAL_S = 10.0
TEXTS_MAX = 8
LINES_MAX = 300
KINDS_MAX = 1000
SHOWN_CHARACTERS_MAX = 500
_NUMBERS = re.compile(r"\d+")


class RepeatedLine:
    """Lines that differ in numbers only, within one interval."""

    __slots__ = ("count", "newest", "since_s", "texts")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.texts: set[int] = set()
        """Hashes of the texts that were written."""
        self.count = 0
        """How many lines were not written."""
        self.newest = ""
        """The last line that was not written, shortened."""


class Repeats:
    """The repeats of one log. Times are seconds of a monotonic clock. `level` is any number."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[int, str], RepeatedLine] = {}
        """The kinds of this interval, by (level, kind). Invariant: ordered by `since_s`, since an interval begins when
        its kind is added."""
        self._written: dict[int, tuple[float, int]] = {}
        """(start of the present interval, number of lines written in it) of each level."""
        self._others: dict[int, int] = {}
        """The number of lines of each level that rule 3 or 4 kept back."""
        self._others_since_s = 0.0

    def admits(self, level: int, text: str, now_s: float) -> bool:
        """Whether the line should be written; if not, it is counted. Call `due` first."""
        name = (level, _NUMBERS.sub("#", text[:SHOWN_CHARACTERS_MAX]))
        kind = self._kinds.get(name)
        if kind is None:
            if len(self._kinds) >= KINDS_MAX or not self._has_room(level, now_s):
                if not self._others:
                    self._others_since_s = now_s
                self._others[level] = self._others.get(level, 0) + 1
                return False
            kind = self._kinds[name] = RepeatedLine(now_s)
        mark = hash(text)
        if mark in kind.texts or len(kind.texts) >= TEXTS_MAX or not self._has_room(level, now_s):
            kind.count += 1
            kind.newest = text[:SHOWN_CHARACTERS_MAX]
            return False
        kind.texts.add(mark)
        self._write(level, now_s)
        return True

    def due(self, now_s: float) -> list[tuple[int, str]]:
        """(level, line) for the counted lines that must be reported now."""
        return self._told(now_s - INTERVAL_S, now_s)

    def all(self, now_s: float) -> list[tuple[int, str]]:
        """(level, line) for all counted lines, because the log ends."""
        return self._told(now_s, now_s)

    @property
    def counting(self) -> bool:
        """Whether counted lines are still to be reported."""
        return bool(self._others) or any(kind.count for kind in self._kinds.values())

    def _told(self, until_s: float, now_s: float) -> list[tuple[int, str]]:
        lines = []
        for name, kind in list(self._kinds.items()):
            if kind.since_s > until_s:
                break
            del self._kinds[name]
            if kind.count:
                lines.append(
                    (name[0], f"{kind.count} more in {now_s - kind.since_s:.0f} s like this one: {kind.newest}")
                )
        if self._others and self._others_since_s <= until_s:
            seconds = now_s - self._others_since_s
            lines += [
                (level, f"{count} more lines of other kinds in {seconds:.0f} s")
                for level, count in self._others.items()
            ]
            self._others.clear()
        return lines

    def _has_room(self, level: int, now_s: float) -> bool:
        since_s, count = self._written.get(level, (now_s, 0))
        return now_s - since_s >= INTERVAL_S or count < LINES_MAX

    def _write(self, level: int, now_s: float) -> None:
        since_s, count = self._written.get(level, (now_s, 0))
        if now_s - since_s >= INTERVAL_S:
            since_s, count = now_s, 0
        self._written[level] = since_s, count + 1
