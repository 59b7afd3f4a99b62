from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastpath.image.name_order import NameOrder
from fastpath.image.views import View

COMPACT_FROM: int
DESCRIBED: int

class TopicAnswers:
    count: int
    left: int
    looked: int
    def __init__(
        self, version: int, alive: Iterable[int], reachable: Iterable[int], internal: Iterable[str], no_listener: int
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def codes(self) -> list[tuple[int, int]]: ...
    def take(self) -> bytes: ...
    def put(self, topic: bytes) -> None: ...
    def begin(self, view: View, name: str, row: int, operations: int, first: int = 0, most: int = -1) -> int: ...
    def go_on(self, most: int) -> int: ...
    def along(
        self,
        view: View,
        order: NameOrder,
        first: str,
        until: str | None,
        most: int,
        operations: int | None,
        literal: Mapping[str, Mapping[Any, Any]] | None = None,
        whoever: tuple[Any, ...] = (),
        ruled: int | None = None,
        judge: Callable[[str], int | None] | None = None,
    ) -> str | None: ...
