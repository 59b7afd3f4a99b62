"""The options of a read by address, as Spark's own kafka source has them, and the `Query` that they make.

This file alone decides the names of the options, and which contradict each other. Rules:

1. Names, meanings, defaults and precedence are those of Spark's kafka source, so that a job changes `format("kafka")` alone.
   `columns` is rayft's own: only these are built; `valueFormat` and its like are arguments of `rayft.read`.
   `kafka.NAME` is the setting NAME of a client (`actors/client/properties.py`).
2. A setting that would contradict how a query reads is refused, as Spark refuses it. So is an option that nobody knows, with
   the nearest one: a misspelt one would otherwise read something else.
3. Options of Spark's own client that mean nothing here (`IDLE`) are taken, and checked no further.
4. A batch ignores the options of a stream, as Spark's does. A stream refuses those that say where a batch ends.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.arrow.values.asked import BYTES, Asked
from actors.client.operations.leaders import Part
from actors.client.properties import ClientConfig, client_config
from actors.pipeline.offset_maps import EARLIEST, LATEST, numbers, parts
from actors.replay.columns.record_columns import COLUMNS, schema
from actors.settings.keys import ConfigError

LARGE = {"max.partition.fetch.bytes": "4194304", "fetch.max.bytes": "16777216"}
"""What is asked for at once, unless the options say otherwise."""
BOOTSTRAP = "kafka.bootstrap.servers"
KAFKA = "kafka."
CHOICES = ("subscribe", "subscribePattern", "assign")
REFUSED = {
    "auto.offset.reset": "where a query begins is said by startingOffsets",
    "enable.auto.commit": "positions are in the query's checkpoint, and kafka.group.id commits them for monitors",
    "interceptor.classes": "there are no classes of Java here",
    **dict.fromkeys(
        ("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
        "keys and values are bytes, or columns by a schema registry: write valueFormat, or decode them in Spark",
    ),
}
"""Settings of a client that a query does not take, and why."""
IDLE = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix")
"""Options of Spark's own client: this one tries again until default.api.timeout.ms, and reads without a group."""
DURATION = re.compile(r"\s*(\d{1,15})\s*(us|ms|s|m|min|h|d)?\s*", re.IGNORECASE)
DURATIONS_MS = {"us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Topics(NamedTuple):
    """What is read: some topics, those whose names fit a pattern, or some partitions."""

    names: tuple[str, ...] = ()
    pattern: "re.Pattern[str] | None" = None
    parts: frozenset[Part] = frozenset()


class Place(NamedTuple):
    """Where a query begins or ends: one of a word, offsets, a time and times."""

    option: str
    """The option that said so, for errors."""
    word: str = ""
    """The word earliest or latest."""
    offsets: dict[Part, int] | None = None
    """Offsets, or LATEST or EARLIEST."""
    time_ms: int | None = None
    times_ms: dict[Part, int] | None = None
    or_latest: bool = False
    """Whether a time behind the last record means the end."""


class Query(NamedTuple):
    """A read by address, as its options describe it."""

    settings: dict[str, str]
    """The client's settings by Kafka's names. They may hold secrets."""
    topics: Topics
    starting: Place
    ending: Place
    columns: tuple[str, ...] = COLUMNS
    fail_on_data_loss: bool = True
    partitions_min: int | None = None
    """The fewest pieces that a read is cut into."""
    records_max: int | None = None
    """The most offsets of a piece."""
    trigger_max: int | None = None
    """The most offsets of a turn of a stream."""
    trigger_min: int | None = None
    """The fewest offsets of a turn, unless `delay_max_ms` have passed since the last."""
    delay_max_ms: int = 900_000
    asked: Asked = BYTES
    """How keys and values are read."""
    group: str = ""
    """The group under which a stream commits offsets; empty: none."""

    def __repr__(self) -> str:
        return f"Query({self.topics}, from {self.starting.option})"

    @property
    def config(self) -> ClientConfig:
        """The settings of the client."""
        return client_config(self.settings)


def is_by_address(options: Mapping[str, str]) -> bool:
    """Whether options are those of topics by address, and not of files. Raises ValueError for a mixture."""
    lower = {name.lower(): name for name in options}
    own = [name for low, name in lower.items() if low.startswith(KAFKA) or low in map(str.lower, CHOICES)]
    others = [name for low, name in lower.items() if low in ("path", "shared")]
    if own and others:
        raise ValueError(
            f"{own[0]} reads topics by address and {others[0]} reads what lies here: leave one of them out"
        )
    return bool(own)


def query(options: Mapping[str, str], stream: bool | None) -> Query:
    """The query that options in text describe. `stream`: whether it is a stream; None: not known yet, and what one of the
    two refuses is not refused. Raises ValueError with one sentence."""
    given = _given(options)
    settings = _settings({name: text for name, text in given.items() if name.startswith(KAFKA)}, given)
    values: dict[str, Any] = {}
    for name, text in given.items():
        row = _ROWS.get(name.lower())
        if row is not None and row.attribute:
            try:
                values[row.attribute] = row.parse(text)
            except ValueError as error:
                raise ValueError(f"option {name}: {error}") from None
    asked = Asked(**{name: values.pop(name) for name in Asked._fields if name in values})
    columns = values.pop("columns", None)
    headers = values.pop("headers", False)
    if columns is None:
        columns = (*COLUMNS, "headers") if headers else COLUMNS
    elif headers and "headers" not in columns:
        raise ValueError("includeHeaders=true contradicts columns, which leaves headers out: drop one of them")
    return Query(
        settings=settings,
        topics=_topics(given),
        starting=_starting(given, stream),
        ending=_ending(given, stream),
        columns=columns,
        asked=asked,
        group=settings.get("group.id", ""),
        **values,
    )


# ---- names


def _given(options: Mapping[str, str]) -> dict[str, str]:
    """The options under the names of this file. Raises ValueError for one that nobody knows, or that stands twice."""
    found: dict[str, str] = {}
    for spelt, text in options.items():
        low = spelt.lower()
        name = low if low.startswith(KAFKA) else _NAMES.get(low)
        if name is None:
            near = difflib.get_close_matches(low, _NAMES, n=1, cutoff=0.6)
            wanted = f"did you mean {_NAMES[near[0]]}?" if near else f"there are {', '.join(sorted(_NAMES.values()))}."
            raise ValueError(f"a read by address has no option {spelt}: {wanted}")
        if name in found:
            raise ValueError(f"option {name} is given twice")
        found[name] = text
    return found


def _settings(kafka: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings of the client. Raises ValueError."""
    own = {name.removeprefix(KAFKA): text for name, text in kafka.items()}
    for name in own:
        if name in REFUSED:
            raise ValueError(f"option {KAFKA}{name} is not supported: {REFUSED[name]}")
    if "bootstrap.servers" not in own:
        raise ValueError(f"option {BOOTSTRAP} is missing: write the address of a broker, as in localhost:9092")
    if "kafkaConsumer.pollTimeoutMs" in given:
        own.setdefault("default.api.timeout.ms", given["kafkaConsumer.pollTimeoutMs"])
    settings = {**LARGE, **own}
    try:
        client_config(settings)
    except ConfigError as error:
        raise ValueError(f"options {KAFKA}*: {error}") from None
    return settings


# ---- values


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.strip().lower() == "true"


def _count(text: str) -> int:
    if not (text.isascii() and text.strip().isdigit() and 0 < int(text[:20]) < 1 << 63):
        raise ValueError("write a number above 0")
    return int(text)


def _duration(text: str) -> int:
    found = DURATION.fullmatch(text)
    if found is None:
        raise ValueError("write a time such as 15m or 30s")
    return round(int(found[1]) * DURATIONS_MS[(found[2] or "ms").lower()])


def _columns(text: str) -> tuple[str, ...]:
    found = tuple(one.strip() for one in text.split(",") if one.strip())
    if not found or len(set(found)) < len(found):
        raise ValueError("write some columns, each once")
    schema(found)
    return found


def _schema(text: str) -> int | str:
    """A schema: an id, a subject, or subject:version."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else text


class _Row(NamedTuple):
    """One option: which attribute of a query it is, and how its text is read; empty: it is read by other code."""

    name: str
    attribute: str = ""
    parse: Callable[[str], Any] = str


OPTIONS = (
    _Row("columns", "columns", _columns),
    _Row("includeHeaders", "headers", _flag),
    _Row("valueFormat", "value_format"),
    _Row("keyFormat", "key_format"),
    _Row("schemaRegistry", "schema_registry"),
    _Row("valueSchema", "value_schema", _schema),
    _Row("keySchema", "key_schema", _schema),
    _Row("onError", "on_error"),
    _Row("failOnDataLoss", "fail_on_data_loss", _flag),
    _Row("minPartitions", "partitions_min", _count),
    _Row("maxRecordsPerPartition", "records_max", _count),
    _Row("maxOffsetsPerTrigger", "trigger_max", _count),
    _Row("minOffsetsPerTrigger", "trigger_min", _count),
    _Row("maxTriggerDelay", "delay_max_ms", _duration),
    *(_Row(name) for name in CHOICES),
    *(_Row(name) for name in ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")),
    *(_Row(name) for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")),
    _Row("startingOffsetsByTimestampStrategy"),
    _Row("kafkaConsumer.pollTimeoutMs"),
    *(_Row(name) for name in IDLE),
)
_NAMES = {row.name.lower(): row.name for row in OPTIONS}
_ROWS = {row.name.lower(): row for row in OPTIONS}


def _topics(given: Mapping[str, str]) -> Topics:
    """What is read. Raises ValueError unless exactly one option says so."""
    chosen = [name for name in CHOICES if name in given]
    if len(chosen) != 1:
        said = f"options {' and '.join(chosen)} contradict each other" if chosen else "no option says what is read"
        raise ValueError(f"{said}: write one of {', '.join(CHOICES)}")
    (name,) = chosen
    if name == "assign":
        return Topics(parts=parts(name, given[name]))
    if name == "subscribe":
        names = tuple(dict.fromkeys(one.strip() for one in given[name].split(",") if one.strip()))
        if not names:
            raise ValueError("option subscribe: write the names of topics, with commas between them")
        return Topics(names=names)
    try:
        return Topics(pattern=re.compile(given[name]))
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"option subscribePattern is no regular expression that is known here: {error}") from None


# ---- places


def _starting(given: Mapping[str, str], stream: bool | None) -> Place:
    strategy = given.get("startingOffsetsByTimestampStrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ValueError("option startingOffsetsByTimestampStrategy: write error or latest")
    place = _place(given, "starting", "latest" if stream else "earliest")
    if stream is False and (place.word == "latest" or LATEST in (place.offsets or {}).values()):
        raise ValueError("startingOffsets: a batch cannot begin at latest, where there is nothing yet: write earliest")
    return place._replace(or_latest=strategy == "latest")


def _ending(given: Mapping[str, str], stream: bool | None) -> Place:
    names = [name for name in given if name.startswith("ending")]
    if stream and names:
        raise ValueError(f"option {names[0]}: a stream has no end: leave it out, or make it a batch")
    place = _place(given, "ending", "latest")
    if place.word == "earliest" or EARLIEST in (place.offsets or {}).values():
        raise ValueError("endingOffsets: a batch cannot end at earliest: write latest or offsets")
    return place._replace(or_latest=True)


def _place(given: Mapping[str, str], which: str, default: str) -> Place:
    """The place that options say, in Spark's order: a time, times, offsets."""
    time, times, offsets = f"{which}Timestamp", f"{which}OffsetsByTimestamp", f"{which}Offsets"
    if time in given:
        text = given[time].strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 15):
            raise ValueError(f"option {time}: write milliseconds since 1970")
        return Place(time, time_ms=int(text))
    if times in given:
        return Place(times, times_ms=numbers(times, given[times], 0))
    text = given.get(offsets, default).strip()
    if text.lower() in ("earliest", "latest"):
        return Place(offsets, word=text.lower())
    return Place(offsets, offsets=numbers(offsets, text, EARLIEST))
