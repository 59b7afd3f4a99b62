"""The settings that the rules of consumer groups read, by name, out of the broker's and the groups' own."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actors.broker.groups.consumer.migration import Migration
from actors.broker.groups.consumer.state import TYPE
from actors.broker.groups.member_groups import GroupConfig, SettingsOf


class ConsumerGroupSettings(NamedTuple):
    """The broker's settings of consumer groups, `group.consumer.*`. `config`: of a group, by its name, as its own
    settings have it."""

    size_max: int
    assignors: Sequence[str]
    regex_refresh_ms: int
    config: Callable[[str], GroupConfig]
    migration: Migration = Migration()

    @classmethod
    def of(cls, value: Callable[[str], Any], settings_of: SettingsOf) -> "ConsumerGroupSettings":
        """The settings, taken out of the broker's settings by name, and of those of groups."""
        return cls(
            size_max=value("group.consumer.max.size"),
            assignors=value("group.consumer.assignors"),
            regex_refresh_ms=value("group.consumer.regex.refresh.interval.ms"),
            config=lambda group: GroupConfig.of(TYPE, settings_of(group)),
            migration=Migration.of(value),
        )
