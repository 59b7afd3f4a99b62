"""The quota of a client, and the clients that share it (KIP-257).

This file alone decides in which order the quotas of users and client ids are looked up, and what is charged together. Rules:

1. The first row of `LEVELS` for which a quota is set counts, for each key (`producer_byte_rate` and so on) by itself.
2. A level that has a client id, named or by default, gives every client id a rate of its own; a level without one is shared
   by all client ids of the user. In the same way for users.
3. A client id that is empty or absent is none: levels with a client id do not apply to it, as with Apache Kafka.
4. Names are compared up to `NAME_CHARACTERS_MAX` characters. Client ids that are equal so far count as one: a client
   chooses its id, and what is kept of it has a bound.
5. Quotas of addresses (`ip`, KIP-612) are looked up by address, else by default.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from actors.authorization.addresses import address
from actors.metadata.ops import EntitySet

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER, CONSUMER, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATION, CONNECTION = "controller_mutation_rate", "connection_creation_rate"
NAME_CHARACTERS_MAX = 512

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) by type; the name None: the default of that type."""


class EntityPart(Enum):
    """What a level says of the user or of the client id."""

    NAMED = "named"
    DEFAULT = "default"
    ABSENT = "absent"


class Level(NamedTuple):
    """One row of the order in which quotas are looked up."""

    user: EntityPart
    client_id: EntityPart


NAMED, DEFAULT, ABSENT = EntityPart.NAMED, EntityPart.DEFAULT, EntityPart.ABSENT
LEVELS = (
    Level(NAMED, NAMED),
    Level(NAMED, DEFAULT),
    Level(NAMED, ABSENT),
    Level(DEFAULT, NAMED),
    Level(DEFAULT, DEFAULT),
    Level(DEFAULT, ABSENT),
    Level(ABSENT, NAMED),
    Level(ABSENT, DEFAULT),
)
"""The levels of quotas, the strongest first."""


class Charged(NamedTuple):
    """The name under which a rate is shared. A part that the quota's level does not name is empty."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """The quota of a client: `bound` is the highest rate, in the unit of its key."""

    charged: Charged
    bound: float


def canonical(entity: Iterable[tuple[str, str | None]]) -> Entity:
    """The parts of an entity in the order of their types. If a type is named twice, the last one counts."""
    return tuple(sorted(dict(entity).items()))


def user_of(principal: str) -> str:
    """The name of a principal `Type:name`; quotas know users by name alone."""
    return principal.partition(":")[2]


class QuotaLimits:
    """All quotas of a cluster."""

    def __init__(self, stored: Iterable[EntitySet] = ()) -> None:
        """`stored` are the quotas of a metadata image."""
        self.by_entity: dict[Entity, dict[str, float]] = {}
        """Each entity's quotas, by key. Read only."""
        for op in stored:
            fields = dict(op.fields)
            entity, key, value = fields["entity"], fields["key"], fields["value"]
            assert isinstance(entity, tuple) and isinstance(key, str) and isinstance(value, float)
            self.by_entity.setdefault(canonical(entity), {})[key] = value
        self._levels: dict[str, tuple[Level, ...]] = {}
        """For each key the levels at which some entity has a quota, the strongest first."""
        for key in {key for values in self.by_entity.values() for key in values}:
            used = {_level(entity) for entity, values in self.by_entity.items() if key in values}
            self._levels[key] = tuple(level for level in LEVELS if level in used)
        addresses = [dict(entity) for entity in self.by_entity if entity and entity[0][0] == IP]
        self._addresses = {
            _address(entity[IP]): self.by_entity[canonical(entity.items())].get(CONNECTION) for entity in addresses
        }

    @property
    def of_clients(self) -> bool:
        """Whether a user or a client id has a quota."""
        return any(self._levels.values())

    @property
    def of_addresses(self) -> bool:
        """Whether an address has a quota, or all have one by default."""
        return bool(self._addresses)

    def find(self, key: str, user: str, client_id: str | None) -> Limit | None:
        """The quota `key` of a client; None: it has none."""
        levels = self._levels.get(key)
        if not levels:
            return None
        user, client_id = user[:NAME_CHARACTERS_MAX], (client_id or "")[:NAME_CHARACTERS_MAX]
        for level in levels:
            if level.client_id is not ABSENT and not client_id:
                continue
            values = self.by_entity.get(_entity(level, user, client_id))
            if values is not None and key in values:
                charged = Charged("" if level.user is ABSENT else user, "" if level.client_id is ABSENT else client_id)
                return Limit(charged, values[key])
        return None

    def connections_of(self, host: str) -> float | None:
        """How many connections a second an address may open; None: as many as it likes."""
        bound = self._addresses.get(_address(host))
        return self._addresses.get(None) if bound is None else bound


def _address(text: str | None) -> str | None:
    return None if text is None else address(text) or text


def _level(entity: Entity) -> Level | None:
    names: Mapping[str, str | None] = dict(entity)
    if IP in names:
        return None

    def part(of: str) -> EntityPart:
        return ABSENT if of not in names else DEFAULT if names[of] is None else NAMED

    return Level(part(USER), part(CLIENT_ID))


def _entity(level: Level, user: str, client_id: str) -> Entity:
    entity: list[tuple[str, str | None]] = []
    if level.client_id is not ABSENT:
        entity.append((CLIENT_ID, client_id if level.client_id is NAMED else None))
    if level.user is not ABSENT:
        entity.append((USER, user if level.user is NAMED else None))
    return tuple(entity)
