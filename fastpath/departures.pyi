from collections.abc import Collection

from fastpath.block import Block
from fastpath.columns import Columns

def departures(
    columns: Columns, broker: int, usable: Collection[int], from_row: int, rows_max: int
) -> tuple[Block, list[int], int]: ...
