from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS: tuple[str, ...]
WIDTH: int

def read(partitions: list[Any], first: int, end: int) -> tuple[NDArray[np.int64], int]: ...
