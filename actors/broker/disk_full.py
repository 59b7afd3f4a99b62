"""Log directories without room: when the shortage begins, and when it is over.

This file alone decides both. The shortage begins with the first append that is refused. It is over once an append has
found room and none was refused for `CALM_MS`: on a file system that is nearly full, small appends succeed and large
ones do not.
"""

from actors.ports import Disk

CALM_MS = 5000
FAR_MS = 1 << 62


class _Lack:
    """A directory without room."""

    __slots__ = ("found", "refused_ms")

    def __init__(self, mono_ms: int) -> None:
        self.refused_ms = mono_ms
        self.found = False
        """Whether an append has found room since."""


class FullDisks:
    """The directories of one broker that lack room."""

    def __init__(self) -> None:
        self._lacks: dict[Disk, _Lack] = {}

    def __bool__(self) -> bool:
        """Whether any directory lacks room."""
        return bool(self._lacks)

    def refused(self, disk: Disk, mono_ms: int) -> bool:
        """An append found no room. Returns whether the directory had room until now."""
        news = disk not in self._lacks
        self._lacks[disk] = _Lack(mono_ms)
        return news

    def taken(self, disk: Disk) -> None:
        """An append found room."""
        if disk in self._lacks:
            self._lacks[disk].found = True

    def over(self, mono_ms: int) -> list[Disk]:
        """Directories that have room again. Each is returned once."""
        calm = [disk for disk, lack in self._lacks.items() if lack.found and mono_ms >= lack.refused_ms + CALM_MS]
        for disk in calm:
            del self._lacks[disk]
        return calm

    def deadline_ms(self) -> int:
        """Monotonic time at which `over` may return a directory."""
        return min((lack.refused_ms + CALM_MS for lack in self._lacks.values() if lack.found), default=FAR_MS)
