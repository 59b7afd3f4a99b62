import numpy as np
from numpy.typing import NDArray

from fastpath.image.views import View

Rows = NDArray[np.int64]

def troubled(view: View) -> tuple[Rows, Rows, Rows]: ...
def missing(view: View, rows: Rows) -> tuple[Rows, NDArray[np.int32]]: ...
def places(view: View, rows: Rows) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]: ...
