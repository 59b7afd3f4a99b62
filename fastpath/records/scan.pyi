import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def scan(
    data: Buffer,
    pos: int,
    end: int,
    crc: bool = True,
    records_max: int = ...,
    bytes_max: int = ...,
    into: Buffer | None = None,
) -> tuple[NDArray[np.void], int, str | None]:
    """Headers of the batches in `[pos, end)` as an array of HEADER_DTYPE. Returns (headers, next position, fault or
    None).

    Stops after the batch that reaches `records_max` or `bytes_max`, at `end`, or at a batch that is not sound. In that
    case `fault` is a sentence, and the next position is that of the batch. `crc`: check CRCs. Runs without the GIL.
    `into`: a writable buffer into which the batches are copied, one behind the other, before they are checked, so that
    what is decoded later is what was checked. The scan stops in front of a batch for which there is no room.

    ValueError: `[pos, end)` does not lie within the data.
    """

def resync(data: Buffer, pos: int, end: int) -> int:
    """The first position from `pos` on where a sound batch starts (header and CRC); `end` when there is none. The work
    is in proportion to the bytes, whatever they are. Raises ValueError if `[pos, end)` does not lie within the data."""
