"""Quotas of users, client ids and addresses. KIP-546, KIP-612.

Setting and removing quotas twice changes nothing, so both are asked again when an answer was lost.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from actors.client.asks import AnyNode, Ask, Controller, Steps
from actors.client.errors import ClientError, refused
from actors.client.operations.each import decided, each
from actors.wire.messages import message

TYPES = ("user", "client-id", "ip")
Entity = tuple[tuple[str, str | None], ...]
"""The (type, name) pairs of an entity, in the order of types; the name None: all that have no quota of their own."""
EXACT, DEFAULT = 0, 1


def named(entity: Entity) -> str:
    """An entity in words: `user alice, client-id <default>`."""
    return ", ".join(f"{type} {'<default>' if name is None else name}" for type, name in entity)


def ordered(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The entity of some pairs, user first. Types that only later releases know come last."""
    return tuple(sorted(parts, key=lambda one: (TYPES.index(one[0]) if one[0] in TYPES else len(TYPES), one[0])))


def describe(parts: Entity = (), *, strict: bool = False) -> Steps[dict[Entity, dict[str, float]]]:
    """The quotas of each entity that has these parts; without parts of all. `strict`: not of those that have other parts
    too. Raises ClientError."""
    kind = message("DescribeClientQuotasRequest")
    components = [
        kind.ComponentData(entity_type=type, match_type=DEFAULT if name is None else EXACT, match=name)
        for type, name in parts
    ]
    request = kind(components=components, strict=strict)
    told = yield from decided(
        Ask(AnyNode(), "DescribeClientQuotas", lambda version: request), lambda one: one.error_code
    )
    if told.error_code:
        raise refused("quotas", told.error_code, told.error_message)
    return {
        ordered((part.entity_type, part.entity_name) for part in one.entity): {of.key: of.value for of in one.values}
        for one in told.entries or ()
    }


def alter(
    changes: Mapping[Entity, Mapping[str, float | None]], *, validate_only: bool = False
) -> Steps[dict[Entity, ClientError | None]]:
    """Set quotas, or remove those whose value is None. Returns each entity's error or None."""
    kind = message("AlterClientQuotasRequest")

    def entry(entity: Entity) -> Any:
        return kind.EntryData(
            entity=[kind.EntityData(entity_type=type, entity_name=name) for type, name in entity],
            ops=[
                kind.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                for key, value in changes[entity].items()
            ],
        )

    def ask(some: list[Entity]) -> Ask:
        request = kind(entries=[entry(one) for one in some], validate_only=validate_only)
        return Ask(Controller(), "AlterClientQuotas", lambda version: request)

    def outcomes(reply: Any) -> Any:
        for one in reply.message.entries:
            entity = ordered((part.entity_type, part.entity_name) for part in one.entity)
            yield entity, one.error_code, one.error_message

    return (yield from each("quotas of", changes, ask, outcomes, named=named))
