"""The paths of Apache Kafka's znodes, and the JSON that is in them.

This file alone decides how a znode's bytes become a value and which sentence says that they cannot. Rules:

1. A znode that cannot be read raises `BadZnode`, whose text names the path and says what is wrong there.
2. A field that this code does not know is left alone: later releases add some.
3. What is written has the fields that Apache Kafka 2.8 writes, in compact JSON.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from actors.ports.zookeeper import Change, Create, Write, Znode

CLUSTER_ID = "/cluster/id"
CONTROLLER, CONTROLLER_EPOCH = "/controller", "/controller_epoch"
BROKER_IDS, TOPICS = "/brokers/ids", "/brokers/topics"
CONFIG, CONFIG_CHANGES = "/config", "/config/changes"
PRODUCER_IDS = "/latest_producer_id_block"
FEATURE = "/feature"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN, PREFERRED = "/admin/reassign_partitions", "/admin/preferred_replica_election"
LOG_DIR_EVENTS, ISR_CHANGES = "/log_dir_event_notification", "/isr_change_notification"
TOKEN_ROOT = "/delegation_token"
TOKENS, TOKEN_CHANGES = "/delegation_token/tokens", "/delegation_token/token_changes"
RULES, RULE_CHANGES = "/kafka-acl", "/kafka-acl-changes"
PREFIXED, PREFIXED_CHANGES = "/kafka-acl-extended/prefixed", "/kafka-acl-extended-changes"
MIGRATION = "/migration"
"""The znode of KIP-866: it exists if a KRaft cluster of Apache Kafka has begun to take this one over."""
BRIDGE = "/rayft_bridge"
"""The znode of rayft in which the bridge notes what it has done."""
OURS = "rayft"
"""The value of the field `by` in what rayft has written."""
WANTED = "/rayft_bridge/wanted"
"""The znode with what the operator asks for, `back` or `finish`. Without it the bridge drives."""
CLAIMED = "/rayft_bridge/claimed"
"""The znode with the controller epoch that rayft has claimed last."""
AGREED = "/rayft_bridge/agreed"
"""The znode over the bases: what both sides said when they agreed last (`bases.py`)."""
REFUSED = "/rayft_bridge/refused"
"""The znode with the reason why the request of the operator is not done, until the operator asks again."""
SHOWN_BYTES = 60
JSON_BYTES_MAX = 16 << 20
"""The most bytes of JSON that are read. ZooKeeper's own bound (jute.maxbuffer) is 1 MiB by default."""


class BadZnode(ValueError):
    """A znode does not hold what it must. The text is one sentence, which names the path."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"znode {path}: {reason}")
        self.path = path


def fields(path: str, znode: Znode) -> dict[str, Any]:
    """The JSON object in a znode. Raises BadZnode."""
    if len(znode.data) > JSON_BYTES_MAX:
        raise BadZnode(path, f"has {len(znode.data)} bytes, more than any release of Apache Kafka writes")
    try:
        text = znode.data.decode()
        found = json.loads(text)
        if "\\u" in text:  # half of a surrogate pair is JSON, and no text that could be written anywhere
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise BadZnode(path, "is no JSON" + _quoted(path, znode.data)) from None
    if not isinstance(found, dict):
        raise BadZnode(path, "holds no JSON object" + _quoted(path, znode.data))
    return found


def field(path: str, found: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """One field of a JSON object. `default`: its value if it may be missing. Raises BadZnode."""
    value = found.get(name)
    if value is None and default is not None:
        return default
    if value is None:
        raise BadZnode(path, f"lacks the field {name}")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadZnode(path, f"has {shown(value)} as {name}, which must be {_NOUN[kind]}")
    return value


def number(path: str, text: Any, what: str, most: int = (1 << 31) - 1) -> int:
    """A number from 0 to `most`, written as a number or as text. Raises BadZnode."""
    digits = str(text) if isinstance(text, int | str) and not isinstance(text, bool) else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19) or int(digits) > most:
        raise BadZnode(path, f"has {shown(text)} as {what}, which must be a number from 0 to {most}")
    return int(digits)


def written(**found: Any) -> bytes:
    """The JSON of an object as Apache Kafka writes it."""
    return json.dumps(found, separators=(",", ":")).encode()


def put(path: str, data: bytes, before: Znode | None) -> Change:
    """The change after which a znode holds `data`, whether it is there before or not, and whatever others have written
    since."""
    return Create(path, data) if before is None else Write(path, data)


def sanitized(name: str) -> str:
    """A name as Apache Kafka writes it where not every character may stand: percent-encoded. `unquote` is the opposite."""
    return quote(name, safe="-_.").replace("~", "%7E")


def shown(value: Any) -> str:
    """A value for a sentence, cut if it is long."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else json.dumps(value, default=str)
    return repr(text if len(text) <= SHOWN_BYTES else text[:SHOWN_BYTES] + "...")


def _quoted(path: str, data: bytes) -> str:
    """The content of a znode for a sentence; nothing if it may hold credentials or passwords."""
    return "" if path.startswith((f"{CONFIG}/", TOKENS)) else f": {shown(data)}"


def child(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


_NOUN = {dict: "an object", list: "a list", str: "text", int: "a number"}
