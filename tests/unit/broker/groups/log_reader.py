"""Coordinators that read the log of another one, in a test that has it read again and again."""

from typing import Any

from actors.broker.coordinators.coordination import Coordination
from actors.broker.groups.coordinator import Coordinator
from actors.broker.groups.kinds import GroupSettings
from actors.broker.groups.share.persistence.share_coordinator import ShareStateCoordinator

Said = dict[tuple[bytes | None, bytes | None], Any]
"""Key and value of a record -> what they say."""


class Reader(Coordination[Any]):
    """It looks up what the bytes of a record say where another one has read them before it: that is half of what a reading
    costs. All the rest is as in any coordinator, and each record is taken in anew."""

    said: Said

    def _read(self, key: bytes | None, value: bytes | None) -> Any | None:
        if (key, value) not in self.said:
            self.said[key, value] = super()._read(key, value)  # type: ignore[safe-super]
        return self.said[key, value]


class LogReader(Reader, Coordinator):
    """One of groups."""


def successor(settings: GroupSettings, topics: Any, said: Said | None) -> Coordinator:
    """A coordinator that has read nothing yet. `said`: what those before it have decoded of the log; None: nothing."""
    if said is None:
        return Coordinator(settings, topics)
    found = LogReader(settings, topics)
    found.said = said
    return found


class ShareLogReader(Reader, ShareStateCoordinator):
    """One of the states of share partitions."""
