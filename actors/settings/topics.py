"""Settings of a topic by name, and what they come to for one topic.

This file alone decides which settings a topic may override, and which node's setting gives the default of each: the first of
its `synonyms` that is given counts.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from actors.settings.keys import BOOLEAN, INT, LIST, LONG, MAX_LONG, Check, ConfigKey, at_least, key
from actors.settings.nodes import BROKER_CONFIGS, FLUSH_MS, JITTER, RETENTION, ROLL, UNIT_MS

_PAIR = re.compile("([0-9]+:[0-9]+)?")
_THROTTLED = Check(
    "* or partition:broker pairs separated by commas",
    lambda value: value == ("*",) or all(map(_PAIR.fullmatch, value)),
)
_NO_REMOTE = Check("false: there is no remote storage", lambda value: value is False)


def _topic(name: str, synonym: str | tuple[str, ...], default: Any = None) -> ConfigKey:
    """A topic setting that is a node's setting under another name. It has the node's type, check and default."""
    synonyms = (synonym,) if isinstance(synonym, str) else synonym
    setting = BROKER_CONFIGS[synonyms[0]]
    default = setting.default if default is None else default
    return setting._replace(name=name, default=default, dynamic="topic", synonyms=synonyms)


_ROWS: tuple[ConfigKey, ...] = (
    _topic("cleanup.policy", "log.cleanup.policy"),
    _topic("compression.type", "compression.type"),
    _topic("compression.gzip.level", "compression.gzip.level"),
    _topic("compression.lz4.level", "compression.lz4.level"),
    _topic("compression.zstd.level", "compression.zstd.level"),
    _topic("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    _topic("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    _topic("flush.messages", "log.flush.interval.messages"),
    key("flush.ms", LONG, MAX_LONG, at_least(0), "Time between two syncs.", "topic", FLUSH_MS),
    key("follower.replication.throttled.replicas", LIST, (), _THROTTLED,
        "Replicas that fetch at follower.replication.throttled.rate while out of sync: * or partition:broker pairs.",
        "topic"),
    key("leader.replication.throttled.replicas", LIST, (), _THROTTLED,
        "Leaders that send at leader.replication.throttled.rate to replicas not in sync: * or partition:broker pairs.",
        "topic"),
    _topic("index.interval.bytes", "log.index.interval.bytes"),
    _topic("local.retention.bytes", "log.local.retention.bytes"),
    _topic("local.retention.ms", "log.local.retention.ms"),
    _topic("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    _topic("max.message.bytes", "message.max.bytes"),
    _topic("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    _topic("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    _topic("message.timestamp.type", "log.message.timestamp.type"),
    _topic("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    _topic("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    _topic("min.insync.replicas", "min.insync.replicas"),
    _topic("preallocate", "log.preallocate"),
    key("internal.segment.bytes", INT, None, at_least(14), "Before segment.bytes when set; for tests.", "topic"),
    key("remote.storage.enable", BOOLEAN, False, _NO_REMOTE, "Only false: there is no remote storage.", "topic",
        (), False),
    key("remote.log.copy.disable", BOOLEAN, False, None,
        "Accepted, does nothing here: there is no remote storage.", "topic", (), False),
    key("remote.log.delete.on.disable", BOOLEAN, False, None,
        "Accepted, does nothing here: there is no remote storage.", "topic", (), False),
    _topic("retention.bytes", "log.retention.bytes"),
    key("retention.ms", LONG, 604_800_000, at_least(-1), "Age at which records go; -1 keeps all.", "topic", RETENTION),
    _topic("segment.bytes", "log.segment.bytes"),
    _topic("segment.index.bytes", "log.index.size.max.bytes"),
    _topic("segment.jitter.ms", JITTER, 0),
    _topic("segment.ms", ROLL, 604_800_000),
    _topic("unclean.leader.election.enable", "unclean.leader.election.enable"),
)  # fmt: skip
TOPIC_CONFIGS: dict[str, ConfigKey] = {row.name: row for row in _ROWS}
UNCLEAN = "unclean.leader.election.enable"
"""The setting with an effect that no replica reads: the controller takes it from the metadata."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of one topic that its replicas read, typed: `retention.ms` is `.retention_ms`, and so on for all
    rows with an effect, save UNCLEAN."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_ms: int

    @property
    def compact(self) -> bool:
        """Whether cleanup.policy names compact."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is rolled: what is in the last one is never compacted, so max.compaction.lag.ms
        counts."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @property
    def delete(self) -> bool:
        """Whether cleanup.policy names delete."""
        return "delete" in self.cleanup_policy


def topic_settings(overrides: Mapping[str, str], node: Callable[[str], tuple[bool, Any]]) -> TopicSettings:
    """The settings of a topic: its own `overrides` (as text), else the node's, else the default.

    `node(name)` answers (whether it is given, typed value) for a setting of BROKER_CONFIGS. Raises ConfigError.
    """
    values: dict[str, Any] = {}
    for name, setting in TOPIC_CONFIGS.items():
        if name in overrides:
            values[name] = _parsed(name, overrides[name])
        else:
            values[name] = inherited(setting, node)
    if (small := values.pop("internal.segment.bytes")) is not None:
        values["segment.bytes"] = small
    del values[UNCLEAN]
    return TopicSettings(**{n.replace(".", "_"): v for n, v in values.items() if TOPIC_CONFIGS[n].effect})


@lru_cache(maxsize=512)
def _parsed(name: str, text: str) -> Any:
    """The typed value of a topic's setting. All partitions of a topic ask for the same one, and a list may be long."""
    return TOPIC_CONFIGS[name].parse(text)


def inherited(setting: ConfigKey, node: Callable[[str], tuple[bool, Any]]) -> Any:
    """The value of a topic setting without an override: the first of its synonyms that is given, in the topic's
    unit."""
    for synonym in setting.synonyms:
        given, value = node(synonym)
        if given and value is not None:
            unit = UNIT_MS.get(synonym.rpartition(".")[2], 1)
            return value * unit if unit > 1 and value >= 0 else value
    return setting.default
