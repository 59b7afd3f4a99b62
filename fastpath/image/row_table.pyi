from collections.abc import Hashable, Iterable

class RowTable:
    """Rows by name or by id, all keys of a table of one type."""

    def __len__(self) -> int: ...
    def __contains__(self, key: Hashable) -> bool: ...
    def get(self, key: Hashable, otherwise: int = -1) -> int:
        """The row of a key; `otherwise`: it is not there."""
    def put(self, key: Hashable, row: int) -> None:
        """Set the row of a key, or take the key out: -1. Raises ValueError below -1, MemoryError."""
    def make_room(self, more: int, most: int) -> bool:
        """Get as many slots as `more` keys will need, looking at `most` slots; whether there was work to do. Raises
        MemoryError."""
    def has_any(self, keys: Iterable[Hashable]) -> bool:
        """Whether one of the keys is there."""
