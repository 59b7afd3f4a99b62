from collections.abc import Callable, Collection

from fastpath.image.blocks import Block
from fastpath.image.columns import Columns

def departures(
    columns: Columns,
    leaving: Collection[int],
    usable: Collection[int],
    from_row: int,
    cost_max: int,
    one_epoch: bool,
    aside: Collection[int] = ...,
    judges_last: Callable[[int], bool] | None = ...,
) -> tuple[Block, list[int], int, int]: ...
