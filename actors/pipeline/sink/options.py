"""The options of a sink, as those of Spark's own kafka sink where it has one, and the `Target` that they make.

This file alone decides their names, and which contradict each other. Rules:

1. `kafka.bootstrap.servers`, `topic` and `includeHeaders` are Spark's own; `kafka.NAME` is the setting NAME of a client. The
   option `topic` counts before the column.
2. A sink writes each row once unless `delivery` says otherwise, and for that it has a `sinkId`, under which its ledger knows
   it over restarts.
3. With `kafka.transaction.two.phase.commit.enable` tasks' transactions have no timeout (KIP-939): none can end between the
   decision and the commit.
4. A setting that would contradict that is refused by its name. So is an option that nobody knows, with the nearest one.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.arrow.writing import LARGE
from actors.client.properties import TWO_PHASE, client_config
from actors.pipeline.sink.names import FAMILY
from actors.pipeline.sink.values import LEDGER
from actors.settings.keys import ConfigError

KAFKA = "kafka."
BOOTSTRAP = "kafka.bootstrap.servers"
ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
SINK_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
NAMES = (
    "topic", "includeHeaders", "includeTimestamp", "delivery", "sinkId", "batchId", "firstBatch", "ledger",
    "acceptLostBatch",
)  # fmt: skip
IDLE = ("checkpointLocation", "queryName")
"""Options that Spark itself reads, and passes on."""
BATCH_MAX = (1 << 63) - 1
DEFAULTS = {"transaction.timeout.ms": "900000", "allow.auto.create.topics": "false"}
"""A task's transaction is open until all tasks have ended: as long as brokers allow it, unless they are told otherwise."""
REFUSED = {
    "transactional.id": "it is made of sinkId, one for each task attempt",
    "interceptor.classes": "there are no classes of Java here",
    **dict.fromkeys(
        ("key.serializer", "value.serializer"), "keys and values are bytes or text: encode them with Spark's functions"
    ),
}
"""Settings of a client that no sink takes, and why."""
FIXED = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}
"""Settings that have one value, which each row once needs."""


class Target(NamedTuple):
    """A sink, as its options describe it."""

    settings: dict[str, Any]
    """The client's settings by Kafka's names. They may hold secrets."""
    topic: str | None = None
    """The topic of all rows; None: each row's column says it."""
    headers: bool = True
    timestamp: bool = False
    """Whether the column timestamp is written, instead of the time of writing."""
    sink: str = ""
    """The sink's id; empty: rows may be written more than once."""
    ledger: str = LEDGER
    batch: int | None = None
    """The number of the batch that a job writes; None: the next one."""
    accepted: int = -1
    """A batch whose lost rows the user goes on without; -1: none."""
    first: int = 0
    """The batch with which a query begins to write here."""

    def __repr__(self) -> str:
        return f"Target({self.topic}, {self.sink or AT_LEAST_ONCE})"


def target(options: Mapping[str, str]) -> Target:
    """The sink that options in text describe. Raises ValueError with one sentence."""
    given, own = _given(options)
    delivery = given.get("delivery", ONCE).strip().lower()
    if delivery not in (ONCE, AT_LEAST_ONCE):
        raise ValueError(f"option delivery: write {ONCE} or {AT_LEAST_ONCE}")
    once = delivery == ONCE
    if once and "sinkId" not in given:
        raise ValueError(
            f"option sinkId is missing: name the sink, so that each row is written once over restarts, or write "
            f"delivery={AT_LEAST_ONCE}"
        )
    for name in ("sinkId", "batchId", "firstBatch", "ledger", "acceptLostBatch"):
        if name in given and not once:
            raise ValueError(f"option {name} means nothing with delivery={AT_LEAST_ONCE}: drop one of them")
    sink = given.get("sinkId", "")
    if once and not SINK_ID.fullmatch(sink):
        raise ValueError("option sinkId: write up to 100 letters, digits, dots, dashes and underscores")
    return Target(
        _settings(own, once),
        given.get("topic"),
        _flag("includeHeaders", given, True),
        _flag("includeTimestamp", given, False),
        sink,
        given.get("ledger", LEDGER),
        _number("batchId", given, None),
        _number("acceptLostBatch", given, -1),
        _number("firstBatch", given, 0),
    )  # fmt: skip


def _given(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options under the names of this file, and the client's settings."""
    names = {name.lower(): name for name in (*NAMES, *IDLE)}
    given: dict[str, str] = {}
    own: dict[str, str] = {}
    for spelt, text in options.items():
        low = spelt.lower()
        into, name = (own, low.removeprefix(KAFKA)) if low.startswith(KAFKA) else (given, names.get(low, ""))
        if not name:
            if low == "path":
                raise ValueError(
                    "option path: a sink writes to topics by address: write kafka.bootstrap.servers and topic"
                )
            near = difflib.get_close_matches(low, names, n=1, cutoff=0.6)
            wanted = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(sorted(NAMES))}."
            raise ValueError(f"a sink has no option {spelt}: {wanted}")
        if name in into:
            raise ValueError(f"option {spelt} is given twice")
        into[name] = text
    return given, own


def _settings(own: Mapping[str, str], once: bool) -> dict[str, Any]:
    """The settings of the client. Raises ValueError."""
    if "bootstrap.servers" not in own:
        raise ValueError(f"option {BOOTSTRAP} is missing: write the address of a broker, as in localhost:9092")
    for name, text in own.items():
        if name in REFUSED:
            raise ValueError(f"option {KAFKA}{name} is not supported: {REFUSED[name]}")
        if once and name in FIXED and text.strip().lower() not in FIXED[name]:
            raise ValueError(
                f"option {KAFKA}{name}={text} contradicts delivery={ONCE}: leave it out, or write delivery={AT_LEAST_ONCE}"
            )
    found = {**LARGE, **DEFAULTS, **own}
    if own.get(TWO_PHASE, "").strip().lower() == "true" and "transaction.timeout.ms" not in own:
        del found["transaction.timeout.ms"]
    try:
        client_config({**found, "transactional.id": FAMILY} if once else found)
    except ConfigError as error:
        raise ValueError(f"options {KAFKA}*: {error}") from None
    return found


def _flag(name: str, given: Mapping[str, str], default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name}: write true or false")
    return text == "true"


def _number(name: str, given: Mapping[str, str], default: Any) -> Any:
    text = given.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= BATCH_MAX):
        raise ValueError(f"option {name}: write a number from 0 on")
    return int(text)
