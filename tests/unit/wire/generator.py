"""Random messages, made from the schemas: every field of a version gets a value that its type allows.

`pick` may narrow the values of a field (a foreign codec may know fewer error codes than an int16 can hold).
"""

import random
from collections.abc import Callable
from typing import Any

from actors.wire.schema import Field, Schema

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
WORDS = ("", "t", "topic-1", "größe", "主题", "a" * 64, "b" * 127, "c" * 128, "d" * 300, "\U0001f642")

Pick = Callable[[Field, random.Random], Any]
NOTHING = object()


def nothing(_field: Field, _random: random.Random) -> Any:
    """No narrowing."""
    return NOTHING


def random_message(cls: type[Any], version: int, rng: random.Random, pick: Pick = nothing) -> Any:
    """A message of `cls` with every field of `version` set, the others at their defaults."""
    described: Schema = cls.__schema__
    values = {}
    for field, child in zip(cls.__struct__.fields, cls.__layout__.children, strict=True):
        if version not in field.versions:
            continue
        if field.tag >= 0 and version not in described.head.flexible:
            continue
        values[field.attribute] = _value(field, child.cls if child else None, version, rng, pick)
    return cls(**values)


def _value(field: Field, child: type[Any] | None, version: int, rng: random.Random, pick: Pick) -> Any:
    if version in field.nullable and rng.random() < 0.25:
        return None
    if field.tag >= 0 and field.type == "struct" and not field.array:
        # A tagged struct at its defaults is absent, so an instance must differ from them.
        made = random_message(child, version, rng, pick) if rng.random() < 0.5 else None  # type: ignore[arg-type]
        return None if made is not None and version not in field.nullable and made == child() else made  # type: ignore[misc]
    if field.array:
        return [_scalar(field, child, version, rng, pick) for _ in range(rng.choice((0, 1, 2, 3)))]
    return _scalar(field, child, version, rng, pick)


def _scalar(field: Field, child: type[Any] | None, version: int, rng: random.Random, pick: Pick) -> Any:
    if field.type == "struct":
        assert child is not None
        return random_message(child, version, rng, pick)
    narrowed = pick(field, rng)
    if narrowed is not NOTHING:
        return narrowed
    if field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        return rng.choice((0, 1, low, high, rng.randint(low, high), rng.randint(max(low, -200), min(high, 200))))
    if field.type == "bool":
        return rng.random() < 0.5
    if field.type == "float64":
        return rng.choice((0.0, 1.5, -1e300, rng.random()))
    if field.type == "string":
        return rng.choice(WORDS)
    if field.type == "uuid":
        return rng.choice((bytes(16), rng.randbytes(16)))
    return rng.randbytes(rng.choice((0, 1, 100, 127, 128, 5000)))
