# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class AlterIsrResponse(Message):
    class TopicData(Message):
        topic: str
        partitions: list[AlterIsrResponse.PartitionData]
        def __init__(self, *, topic: str = ..., partitions: list[AlterIsrResponse.PartitionData] = ...) -> None: ...

    class PartitionData(Message):
        partition_id: int
        error_code: int
        def __init__(self, *, partition_id: int = ..., error_code: int = ...) -> None: ...

    error_code: int
    topics: list[AlterIsrResponse.TopicData]
    def __init__(self, *, error_code: int = ..., topics: list[AlterIsrResponse.TopicData] = ...) -> None: ...
