"""The settings of a share group that concern its share partitions (KIP-932, KIP-1106).

They are those that the group coordinator knows of every group; this file alone names the ones that count here. They are
asked for each time, since they may change while the group is there."""

from collections.abc import Callable, Mapping
from typing import Any

from actors.broker.groups.share.delivery.share_partition import ShareLimits
from actors.settings.groups import OffsetReset, offset_reset

SettingsOf = Callable[[str], Mapping[str, Any]]
"""A function that returns every setting of a group, by its id."""
LATEST = OffsetReset("latest", None)


class ShareSettings:
    """The settings of groups that bound their records in flight, and say where they begin."""

    def __init__(self, settings_of: SettingsOf) -> None:
        self._settings_of = settings_of

    def limits(self, group: str) -> ShareLimits:
        """The bounds of a group's records in flight."""
        of = self._settings_of(group)
        return ShareLimits(
            lock_duration_ms=of["share.record.lock.duration.ms"],
            delivery_limit=of["share.delivery.count.limit"],
            in_flight_max=of["share.partition.max.record.locks"],
            renewals=of["share.renew.acknowledge.enable"],
            committed_only=of["share.isolation.level"] == "read_committed",
        )

    def begins(self, group: str) -> OffsetReset:
        """The place where a share partition begins that has not begun."""
        return offset_reset(self._settings_of(group)["share.auto.offset.reset"]) or LATEST
