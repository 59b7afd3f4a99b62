from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from fastpath.bytes.byte_builder import Owned

KINDS: dict[str, int]
OPS: dict[str, int]
PLACES: dict[str, int]
NO_ID: int
NO_SCHEMA: int
REASONS: dict[int, str]

class ValueColumns:
    """The columns of one schema while values fill them. The first is that of a value as a whole, and has nulls."""

    missing: int
    """The schema id for which `decode` has no plan; -1: it has all."""

    def __init__(self, columns: Sequence[tuple[int, int, bool, int, int]], kids: Sequence[int]) -> None:
        """`columns`: (one of KINDS, bytes of a value, whether it has nulls, place of its first child in `kids`, their
        number)."""

    def add(
        self,
        id: int,
        nodes: Sequence[tuple[int, int, int, int, int, int]],
        kids: Sequence[int],
        table: Sequence[int],
        constants: bytes,
        parts_a_byte: int = 16,
        places: int = 0,
    ) -> None:
        """Take the plan of a schema id. `nodes`: (one of OPS, column or -1, place of its first child in `kids`, how many,
        size, place in `table` or `constants`), the root first; none: the schema cannot be used. `parts_a_byte`: how many
        values, which have no bytes themselves, a byte may stand for; `places`: for where the fields of messages stand. Plans
        are trusted. Raises
        ValueError for an id that is known."""

    def forget(self, id: int) -> None:
        """Have no plan of a schema id, so that it is `missing` when a value has it."""

    def decode(
        self,
        offsets: NDArray[np.int32],
        data: Buffer,
        present: NDArray[np.uint8] | None,
        first: int,
        end: int,
        has_guids: bool = False,
    ) -> int:
        """Read the values of the rows from `first` to in front of `end`. `offsets`: one more than there are rows;
        `present`: a byte a row; None: no value is null; `has_guids`: numbers from 2^31 on, which no registry gives, are
        those of GUIDs (`actors/arrow/values/header_ids.py`), and not of values without an id. Returns the row to go on
        from: it is less than `end` where a plan is `missing`, or where the columns are to be `taken` first. Raises
        ValueError for rows outside of the buffers."""

    def taken(
        self,
    ) -> tuple[list[tuple[int, Owned | None, Owned | None, Owned | None]], NDArray[np.int32], NDArray[np.int32]]:
        """The columns as they were filled (rows, validity as a byte a row, offsets int32, data), then the rows that could
        not be read and the reason of each, of REASONS. They are empty afterwards. The memory of the columns belongs to this
        object, and is filled again when it is free."""
