"""Which version of a request two sides speak: the highest that both have. KIP-35, KIP-511.

A version that Kafka calls unstable is only taken where nothing older will do.
"""

from collections.abc import Mapping
from typing import Any

from actors.client.errors import Unspoken
from actors.wire import framing

SOFTWARE = "rayft"
Spoken = Mapping[int, tuple[int, int]]
"""The lowest and the highest version of each API that a server speaks."""


def spoken(reply: Any) -> Spoken:
    """The versions in an ApiVersions answer. Raises Unspoken if a range is upside down."""
    found = {row.api_key: (row.min_version, row.max_version) for row in reply.api_keys}
    for key, (low, high) in found.items():
        if low > high:
            raise Unspoken(f"it says that it speaks versions {low} to {high} of API {key}, which is no range")
    return found


def choose(name: str, theirs: Spoken, lowest: int = 0, highest: int = 1 << 15) -> int:
    """The version in which to send to a server. Raises Unspoken, with the end of a sentence that begins with the
    server."""
    row = framing.rpc(name)
    ours = row.versions if lowest > row.advertised[-1] else row.advertised
    if row.key not in theirs:
        raise Unspoken(f"does not speak {name}: it needs a newer Kafka, or one that has it enabled")
    low, high = theirs[row.key]
    last = min(high, ours[-1], highest)
    if last < max(low, ours[0], lowest):
        needed = f"{max(ours[0], lowest)} to {min(ours[-1], highest)}"
        raise Unspoken(f"speaks versions {low} to {high} of {name}, and versions {needed} are needed here")
    return last


def speaks(name: str, theirs: Spoken) -> bool:
    """Whether client and server have a version of a request in common."""
    try:
        choose(name, theirs)
    except Unspoken:
        return False
    return True
