"""The settings of topics and brokers, quotas and SCRAM credentials in /config, between znodes and ops.

This file alone decides which znode holds which settings, and how a credential or a quota is written as a setting.
Rules:

1. An entity path such as `topics/orders`, `users/alice/clients/app` or `users/<default>` names one znode below /config
   and what it is about. Names of users and client ids are percent-encoded there.
2. Settings of topics and brokers are kept as they are, also those that rayft does not know: the way back loses none.
3. What is written is what Apache Kafka 2.8 parses: byte rates are whole numbers.
4. A user's znode holds its quotas and its SCRAM credentials. A setting of it that is neither is left where it is.
"""

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from actors.authentication.scram import Mechanism
from actors.bridge.znodes import CONFIG, BadZnode, field, fields, sanitized, shown, written
from actors.controller.configs import BROKER, TOPIC
from actors.controller.principals.scram_credentials import KIND as SCRAM
from actors.metadata.image import Image
from actors.metadata.ops import ConfigSet, EntityGone, EntitySet, Op
from actors.ports.zookeeper import Znode
from actors.quotas.levels import (
    CLIENT_ID,
    CONNECTION,
    CONSUMER,
    IP,
    MUTATION,
    PRODUCER,
    REQUEST,
    USER,
    Entity,
    canonical,
)

DEFAULT = "<default>"
TYPES = {"topics": TOPIC, "brokers": BROKER}
PARTS = {"users": USER, "clients": CLIENT_ID, "ips": IP}
WHOLE = (PRODUCER, CONSUMER, CONNECTION)
"""Quotas that Apache Kafka 2.8 parses as whole numbers."""
QUOTAS = (PRODUCER, CONSUMER, REQUEST, MUTATION, CONNECTION)
MECHANISMS = {mechanism.sasl_name: mechanism for mechanism in Mechanism}
PATH = re.compile(r"(topics|brokers|clients|ips)/[^/]+|users/[^/]+(/clients/[^/]+)?")
"""The entity paths that have settings. /config/changes has notifications, and no settings."""
VALUE_BYTES_MAX = 0x7FFF

Settings = dict[str, str]


def path_of(entity: str) -> str:
    """The path of an entity's znode."""
    return f"{CONFIG}/{entity}"


def is_entity(entity: str) -> bool:
    """Whether a text is an entity path of a kind that is taken over."""
    return PATH.fullmatch(entity) is not None


def is_left_over(entity: str, topics: Collection[str]) -> bool:
    """Whether `entity` names a topic that is not among `topics`, so that its settings are left over: it was deleted, or
    is not taken over yet."""
    kind, _, name = entity.partition("/")
    return kind == "topics" and name not in topics


def settings(path: str, znode: Znode | None) -> Settings:
    """The settings in a znode; empty if there is no znode. Raises BadZnode."""
    if znode is None or not znode.data:
        return {}
    found = field(path, fields(path, znode), "config", dict, {})
    for name, value in found.items():
        if not isinstance(value, str) or len(value.encode()) > VALUE_BYTES_MAX:
            raise BadZnode(path, f"has a value of {shown(name)} that is not text of at most {VALUE_BYTES_MAX} bytes")
    return found  # type: ignore[no-any-return]


def data(found: Settings, by: str | None = None) -> bytes:
    """The content of the znode with these settings. `by` names its writer."""
    return written(version=1, config=found, **({} if by is None else {"by": by}))


def here(image: Image, entity: str) -> Settings:
    """The settings of an entity as the image has them."""
    kind, _, name = entity.partition("/")
    if kind in TYPES:
        return dict(image.config(TYPES[kind], "" if name == DEFAULT else name))
    named = parts(entity)
    found = {
        key: _written(key, float(str(dict(op.fields)["value"])))
        for key in QUOTAS
        if (op := image.entity("quota", (named, key))) is not None
    }
    if len(named) == 1 and named[0][0] == USER and named[0][1] is not None:
        for text, mechanism in MECHANISMS.items():
            if (op := image.entity(SCRAM, (named[0][1], int(mechanism)))) is not None:
                found[text] = _credential_text(dict(op.fields))
    return found


def differences(image: Image, entity: str, wanted: Settings) -> list[Op]:
    """The ops that give an entity of the image these settings. Raises BadZnode."""
    have = here(image, entity)
    kind, _, name = entity.partition("/")
    ops: list[Op] = []
    for key in sorted({*have, *wanted}):
        value = wanted.get(key)
        if value == have.get(key):
            continue
        if kind in TYPES:
            ops.append(ConfigSet(TYPES[kind], "" if name == DEFAULT else name, key, value))
        elif key in MECHANISMS:
            ops.append(_credential(entity, key, value))
        elif key in QUOTAS:
            ops += _quota(entity, key, value, have.get(key))
    return ops


def merged(there: Settings, have: Settings, entity: str) -> Settings:
    """The settings that the znode has to hold when the image has `have`: those that are not taken over stay."""
    if entity.partition("/")[0] in TYPES:
        return have
    kept = {key: value for key, value in there.items() if key not in QUOTAS and key not in MECHANISMS}
    return kept | have


def same(there: Settings, have: Settings) -> bool:
    """Whether the znode says the same already. Numbers may be written in several ways."""
    return {key: plain(key, value) for key, value in there.items()} == {k: plain(k, v) for k, v in have.items()}


def parts(entity: str) -> Entity:
    """The entity that a quota's path is about: (type, name) by type, the name None for the default."""
    words = entity.split("/")
    return canonical(
        (PARTS[kind], None if name == DEFAULT else unquote(name))
        for kind, name in zip(words[::2], words[1::2], strict=True)
    )


def entity_of(op: Op) -> str | None:
    """The entity path of the settings that an op changes; None: it changes no settings."""
    if isinstance(op, ConfigSet):
        kind = next((kind for kind, number in TYPES.items() if number == op.resource_type), None)
        return None if kind is None else f"{kind}/{op.resource_name or DEFAULT}"
    if not isinstance(op, EntitySet | EntityGone):
        return None
    if op.kind == SCRAM:
        return f"users/{sanitized(str(op.key[0]))}"
    return quota_path(op.key[0]) if op.kind == "quota" else None  # type: ignore[arg-type]


def quota_path(entity: Entity) -> str:
    """The entity path of a quota."""
    names = {type: DEFAULT if name is None else sanitized(name) for type, name in entity}
    return "/".join(f"{kind}/{names[type]}" for kind, type in PARTS.items() if type in names)


def every(image: Image) -> Iterator[str]:
    """The entity paths that have settings in the image."""
    seen: dict[str, None] = {}
    for (type, name), _ in image.configs.items():
        kind = next((kind for kind, number in TYPES.items() if number == type), None)
        if kind is not None:
            seen[f"{kind}/{name or DEFAULT}"] = None
    for op in image.every("quota"):
        seen[quota_path(op.key[0])] = None  # type: ignore[arg-type]
    for op in image.every(SCRAM):
        seen[f"users/{sanitized(str(op.key[0]))}"] = None
    yield from seen


def _quota(entity: str, key: str, text: str | None, before: str | None) -> list[Op]:
    named = parts(entity)
    if text is None:
        return [EntityGone("quota", (named, key))]
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise BadZnode(path_of(entity), f"has {shown(text)} as {key}, which must be a number above 0")
    if before is not None and float(before) == value:
        return []
    return [EntitySet("quota", (named, key), (("entity", named), ("key", key), ("value", value), ("remove", False)))]


def _credential(entity: str, key: str, text: str | None) -> Op:
    """The op for a credential in the form `salt=...,stored_key=...,server_key=...,iterations=8192`, the first three in
    base64."""
    user, mechanism = parts(entity)[0][1], int(MECHANISMS[key])
    if text is None:
        return EntityGone(SCRAM, (user, mechanism))
    given = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored, server = (
            base64.b64decode(given[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(given["iterations"])
        if user is None or not 0 < iterations < 1 << 31 or not (salt and stored and server):
            raise ValueError
    except (KeyError, ValueError, binascii.Error):
        raise BadZnode(path_of(entity), f"has a credential as {key} that cannot be read") from None  # it is a secret
    return EntitySet(
        SCRAM,
        (user, mechanism),
        (
            ("name", user),
            ("mechanism", mechanism),
            ("salt", salt),
            ("stored_key", stored),
            ("server_key", server),
            ("iterations", iterations),
        ),
    )


def _credential_text(kept: Mapping[str, Any]) -> str:
    encoded = {name: base64.b64encode(kept[name]).decode() for name in ("salt", "stored_key", "server_key")}
    return ",".join(f"{name}={value}" for name, value in encoded.items()) + f",iterations={kept['iterations']}"


def _written(key: str, value: float) -> str:
    """The text of a quota as the oldest broker can parse it: one that fails ends the thread that hears of changed
    settings. A small quota is not rounded to zero: zero lets nothing pass, and counts as no quota in the log."""
    return str(max(1, int(value))) if key in WHOLE else _number(value)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def plain(key: str, value: str) -> str:
    """The form under which a value is compared, whichever way it is written."""
    if key not in QUOTAS:
        return value
    try:
        found = float(value)
        return str(int(found)) if key in WHOLE else _number(found)
    except (ValueError, OverflowError):
        return value
