"""Every message of every schema, the drafts' and the records' too, against the slow twin of the codec."""

import random
from typing import Any

import pytest

from actors.wire.errors import WireError
from actors.wire.messages import FOLDERS, decode, decode_exact, encode, head, message, names
from tests.reference import wire as twin
from tests.rows import rows
from tests.unit.wire.generator import random_message

CASES = sorted(
    {
        (name, version)
        for prefix in FOLDERS
        for name in names(prefix)
        for version in range(head(name).versions.first, head(name).versions.last + 1)
    }
)


def as_dict(made: Any, version: int, flexible: bool) -> dict[str, Any]:
    """A message as the twin wants it: without what its version lacks, and without tags at their defaults."""
    found: dict[str, Any] = {}
    fresh = type(made)()
    for field in type(made).__struct__.fields:
        if version not in field.versions:
            continue
        value = getattr(made, field.attribute)
        if flexible and version in field.tagged and value == getattr(fresh, field.attribute):
            continue
        if field.type == "struct" and value is not None:
            value = (
                [as_dict(one, version, flexible) for one in value] if field.array else as_dict(value, version, flexible)
            )
        found[field.name] = value
    return found


@rows(CASES)
def test_same_bytes_and_same_values(name: str, version: int) -> None:
    cls = message(name)
    rng = random.Random(f"{name} {version}")
    flexible = version in head(name).flexible
    for _ in range(8):
        made = random_message(cls, version, rng)
        encoded = encode(made, version)
        assert encoded == twin.encode(cls.__schema__, as_dict(made, version, flexible), version)
        decoded = decode_exact(cls, version, encoded)
        assert decoded == made
        assert as_dict(decoded, version, flexible) == twin.decode(cls.__schema__, encoded, version)
        entries = twin.entries(cls.__schema__, encoded, version)
        assert decode(cls, version, encoded, 0, entries)[0] == made
        if entries:
            with pytest.raises(WireError, match=f"more than {entries - 1} entries"):
                decode(cls, version, encoded, 0, entries - 1)
