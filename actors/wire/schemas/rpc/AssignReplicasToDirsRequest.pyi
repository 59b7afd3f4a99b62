# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class AssignReplicasToDirsRequest(Message):
    class DirectoryData(Message):
        id: bytes
        topics: list[AssignReplicasToDirsRequest.TopicData]
        def __init__(self, *, id: Buffer = ..., topics: list[AssignReplicasToDirsRequest.TopicData] = ...) -> None: ...

    class TopicData(Message):
        topic_id: bytes
        partitions: list[AssignReplicasToDirsRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_id: Buffer = ...,
            partitions: list[AssignReplicasToDirsRequest.PartitionData] = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        def __init__(self, *, partition_index: int = ...) -> None: ...

    broker_id: int
    broker_epoch: int
    directories: list[AssignReplicasToDirsRequest.DirectoryData]
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
        directories: list[AssignReplicasToDirsRequest.DirectoryData] = ...,
    ) -> None: ...
