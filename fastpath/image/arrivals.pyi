from collections.abc import Iterator

from fastpath.image.blocks import Block
from fastpath.image.copy_on_write import PagedList
from fastpath.image.name_order import NameOrder
from fastpath.image.row_table import RowTable

class Arrivals:
    names: list[str]
    topic_ids: list[bytes]
    begins: list[int]
    block: Block

    def __len__(self) -> int: ...
    def one_by_one(self) -> Iterator[tuple[str, bytes, Block | None]]: ...
    def named(
        self,
        by_id: RowTable,
        by_name: RowTable,
        names: PagedList,
        order: NameOrder | None,
        first: int,
    ) -> None: ...
