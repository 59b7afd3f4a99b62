"""How much memory a node keeps for its peers, owner by owner.

Whoever keeps something whose size peers decide says here, under a name, how many bytes that are now. Each owner has a bound
of its own and decides what happens at it (docs/operations.md); this file alone decides that all of them are shown together,
so that an operator sees who has the memory. Nothing is added up before somebody asks.
"""

from collections.abc import Callable, Iterator


class Ledger:
    """The owners of a node."""

    def __init__(self) -> None:
        self._owners: dict[str, Callable[[], int]] = {}

    def owner(self, name: str, bytes_kept: Callable[[], int]) -> None:
        """`bytes_kept()`: how much is kept under that name now. It looks at numbers, and walks over nothing."""
        assert name not in self._owners, f"{name} has an owner"
        self._owners[name] = bytes_kept

    def kept(self) -> Iterator[tuple[str, int]]:
        """Each owner, and how many bytes it keeps."""
        for name, bytes_kept in self._owners.items():
            yield name, bytes_kept()
