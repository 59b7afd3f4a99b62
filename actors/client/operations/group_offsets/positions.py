"""Where a group of any kind reads on: one question for what its coordinator keeps in two ways (KIP-211, KIP-932)."""

from typing import Any, NamedTuple

from actors.client.asks import Steps
from actors.client.errors import ClientError
from actors.client.operations.groups import SHARE, committed, share_offsets
from actors.client.operations.leaders import Part


class Position(NamedTuple):
    """Where a group reads on in a partition."""

    offset: int
    """What is committed; of a share group, its start offset."""
    lag: int | None
    """What the coordinator counts that is left to read; None: it does not tell, and the end of the log is to be asked."""

    def behind(self, end: int | None) -> int | None:
        """The lag, where the log ends at this offset; None: neither is known."""
        if self.lag is not None or end is None:
            return self.lag
        return max(0, end - self.offset)


def positions(group: str, type: str) -> Steps[dict[Part, Any]]:
    """The position in each partition, as `Position`, or its ClientError. Partitions without one are left out. `type`: the
    kind of the group, as it is listed. Raises ClientError."""
    found: dict[Part, Any] = {}
    if type == SHARE:
        for part, one in (yield from share_offsets(group)).items():
            if isinstance(one, ClientError):
                found[part] = one
            elif one[0] >= 0:
                found[part] = Position(one[0], one[1] if one[1] >= 0 else None)
        return found
    for part, one in (yield from committed(group)).items():
        found[part] = one if isinstance(one, ClientError) else Position(one.offset, None)
    return found
