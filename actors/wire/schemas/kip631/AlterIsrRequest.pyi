# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class AlterIsrRequest(Message):
    class TopicData(Message):
        topic: str
        partitions: list[AlterIsrRequest.PartitionData]
        topic_id: bytes
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[AlterIsrRequest.PartitionData] = ...,
            topic_id: Buffer = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_id: int
        leader: int
        leader_epoch: int
        isr: list[int]
        current_zk_version: int
        isr_broker_epochs: list[int]
        def __init__(
            self,
            *,
            partition_id: int = ...,
            leader: int = ...,
            leader_epoch: int = ...,
            isr: list[int] = ...,
            current_zk_version: int = ...,
            isr_broker_epochs: list[int] = ...,
        ) -> None: ...

    broker_id: int
    broker_epoch: int
    topics: list[AlterIsrRequest.TopicData]
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
        topics: list[AlterIsrRequest.TopicData] = ...,
    ) -> None: ...
