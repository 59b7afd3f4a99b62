from collections.abc import Collection

from fastpath.image.blocks import Block
from fastpath.image.columns import Columns

def departures(
    columns: Columns,
    broker: int,
    usable: Collection[int],
    from_row: int,
    rows_max: int,
    one_epoch: bool,
    aside: Collection[int] = ...,
) -> tuple[Block, list[int], int]: ...
