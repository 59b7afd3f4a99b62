from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from fastpath.bytes.byte_builder import Rooms

CONTROL_SLOT: int
CODES: dict[str, int]

Plan = tuple[int, int, bool, int, bytes | None, Any, tuple[Any, ...], tuple[Any, ...]]
Rows = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int16]]
Column = tuple[int, int, NDArray[np.uint8], NDArray[np.int32] | None, NDArray[np.uint8] | None]

class BadRecord(ValueError):
    """A record that cannot be read. `batch`: index of its batch; `offset`: that of the record; `reason`: a sentence."""

    batch: int
    offset: int
    reason: str

class Program:
    """The plans that decode records, by (slot, version): tuples (code, column, nullable, tag, fallback, element,
    children, tagged)."""

    columns: int
    released: bool
    def __init__(self, plans: dict[tuple[int, int], Plan], columns: int, released: bool) -> None: ...

def decode(
    program: Program,
    data: Buffer,
    headers: NDArray[np.void],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    rooms: Rooms | None = None,
) -> tuple[dict[int, Rows], dict[int, Column]]:
    """Typed columns of the records of some batches; the .pyx has shapes and dtypes. Raises BadRecord. Runs without the
    GIL."""
