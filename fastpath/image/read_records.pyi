from typing_extensions import Buffer

from fastpath.image.arrivals import Arrivals
from fastpath.image.blocks import Block

class CorruptRecord(ValueError):
    offset: int
    reason: str
    def __init__(self, offset: int, reason: str) -> None: ...

def expand(
    data: Buffer, pos: int = 0, released: bool = False, together: bool = False
) -> list[tuple[int, int, int, Block | Arrivals | bytes]]: ...
def topic_fields(body: bytes) -> tuple[str, bytes, bool] | None: ...
