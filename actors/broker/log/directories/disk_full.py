"""Log directories without room: when the shortage begins, and when it is over.

This file alone decides both. The shortage begins with the first append that is refused. It is over once an append has
found room and none was refused for `CALM_MS`: on a file system that is nearly full, small appends succeed and large
ones do not.
"""

from actors.ports import Disk

CALM_MS = 5000
FAR_MS = 1 << 62


class _Lack:
    """The shortage of one directory without room."""

    __slots__ = ("found", "refused_ms")

    def __init__(self, mono_ms: int) -> None:
        self.refused_ms = mono_ms
        self.found = False
        """Whether an append has found room since the last one that was refused."""


class FullDisks:
    """The directories of one broker that lack room."""

    def __init__(self) -> None:
        self.lacks: dict[Disk, _Lack] = {}
        """The shortage of each directory that has one. It is only read from outside, in every turn."""

    def refused(self, disk: Disk, mono_ms: int) -> bool:
        """Note that an append found no room. Returns whether the shortage is new."""
        news = disk not in self.lacks
        self.lacks[disk] = _Lack(mono_ms)
        return news

    def taken(self, disk: Disk) -> None:
        """Note that an append found room."""
        if disk in self.lacks:
            self.lacks[disk].found = True

    def over(self, mono_ms: int) -> list[Disk]:
        """The directories that have room again. Each is returned once."""
        calm = [disk for disk, lack in self.lacks.items() if lack.found and mono_ms >= lack.refused_ms + CALM_MS]
        for disk in calm:
            del self.lacks[disk]
        return calm

    def deadline_ms(self) -> int:
        """Monotonic time at which `over` may have news."""
        return min((lack.refused_ms + CALM_MS for lack in self.lacks.values() if lack.found), default=FAR_MS)
