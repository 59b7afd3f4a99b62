import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def scan(
    data: Buffer, pos: int, end: int, crc: bool = True, records_max: int = ..., bytes_max: int = ...
) -> tuple[NDArray[np.void], int, str | None]:
    """Headers of the batches in `[pos, end)` as an array of HEADER_DTYPE. Returns (headers, next position, fault or
    None).

    Stops after the batch that reaches `records_max` or `bytes_max`, at `end`, or at a batch that is not sound. In that
    case `fault` is a sentence, and the next position is that of the batch. `crc`: check CRCs. Runs without the GIL.
    """

def resync(data: Buffer, pos: int, end: int) -> int:
    """The first position from `pos` on where a sound batch starts (header and CRC); `end` when there is none."""
