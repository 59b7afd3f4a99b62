from collections.abc import Sequence

from typing_extensions import Buffer

class Array:
    """An Arrow array of bytes, of lists or of numbers, as its buffers say. Its memory is kept."""

    def __init__(
        self,
        form_name: str,
        rows: int,
        first: int = 0,
        valid: Buffer | None = None,
        places: Buffer | None = None,
        pieces: Sequence[Buffer | None] = (),
        width: int = 0,
    ) -> None:
        """`form_name`: small or large for offsets of 32 or 64 bits in `places` (of bytes, or of lists, which have no
        pieces), view for 16 bytes a row there, fixed for values of `width` bytes in the only piece, null for nothing at
        all. `first`: the place of row 0 in the buffers. Raises ValueError if a buffer is too short for so many rows,
        KeyError for another form."""

    def __len__(self) -> int: ...
    def bytes_at(self, row: int) -> bytes | None:
        """The value of a row of bytes, for tests. Raises IndexError, and ValueError if it lies outside of the buffers."""
