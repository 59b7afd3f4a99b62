"""AlterClientQuotas (49): quotas of users, client ids and addresses, checked before they are written (KIP-546).

This file alone decides which quotas are legal. Rules:

1. Entities are checked one by one. All changes of an entity are made, or none.
2. A quota is for a user, a client id, both, or an address, each by name or by default. Addresses are not combined with the
   others, and have quotas of their own: `KEYS` and `ADDRESS_KEYS`.
3. Only what changes is written. A quota that is removed and was not set is no error.
4. Every broker keeps all quotas and looks at a few of them for each request, so their number and the length of names have
   bounds.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.addresses import address
from actors.controller.configs import ChangeRefused
from actors.controller.state import Result, State
from actors.metadata.ops import EntityGone, EntitySet
from actors.ports import Now, Random
from actors.quotas.levels import (
    CLIENT_ID,
    CONNECTION,
    CONSUMER,
    IP,
    MUTATION,
    NAME_CHARACTERS_MAX,
    PRODUCER,
    REQUEST,
    USER,
    Entity,
    canonical,
)
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterClientQuotasRequest

QUOTAS_MAX = 10_000
"""The most values of quotas: each key of each entity is one."""


class QuotaRange(NamedTuple):
    """The values that a quota may have, which are all above 0."""

    whole: bool = False
    most: float = math.inf
    kind: str = "DOUBLE"
    """The name of the type in errors."""


LONG, INT, DOUBLE = QuotaRange(True, (1 << 63) - 1, "LONG"), QuotaRange(True, (1 << 31) - 1, "INT"), QuotaRange()
KEYS = {PRODUCER: LONG, CONSUMER: LONG, REQUEST: DOUBLE, MUTATION: DOUBLE}
ADDRESS_KEYS = {CONNECTION: INT}
FRACTION_MAX = 1e-6


def alter_client_quotas(state: State, request: "AlterClientQuotasRequest", now: Now, random: Random) -> Result:
    """Carry out an AlterClientQuotasRequest. Errors by entity: 42 INVALID_REQUEST, 44 POLICY_VIOLATION."""
    kind = message("AlterClientQuotasResponse")
    reply = kind()
    ops: list[Any] = []
    room = None
    judged: dict[Entity, Any] = {}
    for entry in request.entries:
        entity = canonical((part.entity_type, part.entity_name) for part in entry.entity)
        if entity in judged:
            judged[entity].error_code = int(ErrorCode.INVALID_REQUEST)
            judged[entity].error_message = f"Ignoring duplicate entity {_shown(entity)}"
            continue
        code, text = ErrorCode.NONE, None
        try:
            changes = _changes(state, entity, entry.ops)
            added = sum(isinstance(op, EntitySet) and state.image.entity("quota", op.key) is None for op in changes)
            if added:
                room = QUOTAS_MAX - state.image.count("quota") if room is None else room
                if added > room:
                    raise ChangeRefused(ErrorCode.POLICY_VIOLATION, f"There may be {QUOTAS_MAX} quotas at most.")
                room -= added
            ops += changes
        except ChangeRefused as refused:
            code, text = refused.code, refused.text
        judged[entity] = kind.EntryData(
            error_code=int(code),
            error_message=text,
            entity=[kind.EntityData(entity_type=type, entity_name=name) for type, name in entity],
        )
        reply.entries.append(judged[entity])
    return Result(() if request.validate_only else ops, reply)


def _changes(state: State, entity: Entity, wanted: Any) -> list[EntitySet | EntityGone]:
    """The ops of one entity. Raises ChangeRefused."""
    keys = _keys(entity)
    named: set[str] = set()
    changes: list[EntitySet | EntityGone] = []
    for one in wanted:
        if one.key in named:
            raise _invalid(f"Duplicate quota key {one.key} not updating quota for this entity {_shown(entity)}")
        named.add(one.key)
        present = state.image.entity("quota", (entity, one.key))
        if one.remove:
            if present is not None:
                changes.append(EntityGone("quota", (entity, one.key)))
            continue
        _check_value(keys, one.key, one.value)
        if present is None or dict(present.fields)["value"] != one.value:
            fields = (("entity", entity), ("key", one.key), ("value", one.value), ("remove", False))
            changes.append(EntitySet("quota", (entity, one.key), fields))
    return changes


def _keys(entity: Entity) -> dict[str, QuotaRange]:
    """The quotas that an entity may have. Raises ChangeRefused."""
    names = dict(entity)
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for type, name in entity:
        if type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {type}")
        if name == "":
            raise _invalid(f"Empty {type} not supported")
        if name is not None and len(name) > NAME_CHARACTERS_MAX:
            raise _invalid(f"The name of a {type} has {NAME_CHARACTERS_MAX} characters at most.")
    if IP not in names:
        return KEYS
    if len(names) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    if names[IP] is not None and address(names[IP] or "") is None:
        raise _invalid(f"{names[IP]} is not a valid IP address.")
    return ADDRESS_KEYS


def _check_value(keys: dict[str, QuotaRange], name: str, value: float) -> None:
    key = keys.get(name)
    if key is None:
        raise _invalid(f"Invalid configuration key {name}")
    if math.isnan(value) or value <= 0:
        raise _invalid(f"Quota {name} must be greater than 0")
    if value > key.most or math.isinf(value):
        raise _invalid(f"Proposed value for {name} is too large for a {key.kind}.")
    if key.whole and value % 1.0 > FRACTION_MAX:
        raise _invalid(f"{name} cannot be a fractional value.")


def _invalid(text: str) -> ChangeRefused:
    return ChangeRefused(ErrorCode.INVALID_REQUEST, text)


def _shown(entity: Entity) -> str:
    return "ClientQuotaEntity(entries={" + ", ".join(f"{type}={name}" for type, name in entity) + "})"
