# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class PartitionRecord(Message):
    partition_id: int
    topic_id: bytes
    replicas: list[int]
    isr: list[int]
    removing_replicas: list[int]
    adding_replicas: list[int]
    leader: int
    leader_epoch: int
    leader_recovery_state: int
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    directories: list[bytes]
    def __init__(
        self,
        *,
        partition_id: int = ...,
        topic_id: Buffer = ...,
        replicas: list[int] = ...,
        isr: list[int] = ...,
        removing_replicas: list[int] = ...,
        adding_replicas: list[int] = ...,
        leader: int = ...,
        leader_epoch: int = ...,
        leader_recovery_state: int = ...,
        eligible_leader_replicas: list[int] | None = ...,
        last_known_elr: list[int] | None = ...,
        directories: list[Buffer] = ...,
    ) -> None: ...
