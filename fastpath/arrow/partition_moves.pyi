import numpy as np
from numpy.typing import NDArray

from fastpath.image.columns import Columns

LEADER: int
SMALLER: int
LARGER: int
REPLICAS: int

class Moves:
    def of(self, columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.uint8]]: ...

Ids = tuple[int, ...]

def writes(columns: Columns, row: int) -> list[tuple[int, int, Ids, int, Ids]]: ...
def made(columns: Columns, row: int) -> int: ...
