from collections.abc import Callable, Collection

from fastpath.image.blocks import Block
from fastpath.image.columns import Columns

def elections(
    columns: Columns,
    usable: Collection[int],
    from_row: int,
    to_row: int,
    cost_max: int,
    unclean: Callable[[int], bool],
    aside: Callable[[int], bool] | None = ...,
) -> tuple[Block, list[int], int, int]: ...
