from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

class Extra(NamedTuple):
    removing: tuple[int, ...] | None = ()
    adding: tuple[int, ...] | None = ()
    recovery: int | None = 0
    elr: tuple[int, ...] | None = ()
    last_known_elr: tuple[int, ...] | None = ()

class State(NamedTuple):
    topic_id: bytes
    number: int
    replicas: tuple[int, ...] | None = None
    isr: tuple[int, ...] | None = None
    leader: int = -2
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: tuple[bytes, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    recovery: int | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None

NOTHING: Extra

class Block:
    count: int
    topics_count: int
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[State]: ...
    def append(
        self,
        topic_id: bytes,
        number: int,
        replicas: Sequence[int] | None = None,
        isr: Collection[int] | None = None,
        leader: int = -2,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: Sequence[bytes] | None = None,
        extra: Extra | None = None,
    ) -> None: ...
    def extend(self, other: Block) -> None: ...
    def set_extra(self, index: int, extra: Extra) -> None: ...
    def topic_ids(self) -> list[bytes]: ...
    def extra(self, index: int) -> Extra | None: ...
    def state(self, index: int) -> State: ...
    def part(self, begin: int, end: int) -> Block: ...
