"""Entities (access rules, quotas, credentials, tokens, controllers) between their records and `EntitySet`.

This file alone decides the key of each kind, and how a message becomes an immutable value: lists and structs as tuples, a
struct as its values in the order of its fields.
"""

from typing import TYPE_CHECKING, Any

from actors.metadata.ops import EntityGone, EntitySet

if TYPE_CHECKING:
    from actors.wire.schemas.kip631.extensions import (
        ClientQuotaRecord,
    )

KEYS: dict[str, tuple[str, ...]] = {
    "acl": (
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    ),
    "acl_id": ("id",),
    "quota": ("entity", "key"),
    "scram": ("name", "mechanism"),
    "token": ("token_id",),
    "controller": ("controller_id",),
    "zk_migration": (),
}
"""Kind -> the fields that name an entity. The drafts' access rules have no id, so the whole rule is the key (A36)."""


def frozen(value: Any) -> Any:
    """A field's value in an immutable form."""
    if isinstance(value, list):
        return tuple(frozen(one) for one in value)
    if hasattr(type(value), "__layout__"):
        return tuple(frozen(getattr(value, name)) for name in type(value).__layout__.names)
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def entity_set(kind: str, body: Any) -> EntitySet:
    """The op that a record of this kind stands for."""
    fields = tuple((name, frozen(getattr(body, name))) for name in type(body).__layout__.names)
    return EntitySet(kind, key_of(kind, body), fields)


def entity_gone(kind: str, body: Any) -> EntityGone:
    """The op that the removal record of this kind stands for."""
    return EntityGone(kind, key_of(kind, body))


def key_of(kind: str, body: Any) -> tuple[object, ...]:
    """The key of the entity that a record is about."""
    return tuple(frozen(getattr(body, name)) for name in KEYS[kind])


def quota(body: "ClientQuotaRecord") -> EntitySet | EntityGone:
    """The op of a quota record. The same record type sets a quota and removes it."""
    return entity_gone("quota", body) if body.remove else entity_set("quota", body)


def body_of(cls: type[Any], op: EntitySet | EntityGone) -> Any:
    """The record of class `cls` that stands for `op`."""
    given: dict[str, Any] = (
        dict(op.fields) if isinstance(op, EntitySet) else dict(zip(KEYS[op.kind], op.key, strict=True))
    )
    if op.kind == "quota":
        struct = cls.EntityData
        given["entity"] = [struct(entity_type=type_, entity_name=name) for type_, name in given["entity"]]
        given["remove"] = isinstance(op, EntityGone)
    return cls(**{name: list(value) if isinstance(value, tuple) else value for name, value in given.items()})
