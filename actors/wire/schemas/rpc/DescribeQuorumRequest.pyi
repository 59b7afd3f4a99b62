# Versions 0 to 2. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class DescribeQuorumRequest(Message):
    class TopicData(Message):
        topic_name: str
        partitions: list[DescribeQuorumRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[DescribeQuorumRequest.PartitionData] = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        def __init__(self, *, partition_index: int = ...) -> None: ...

    topics: list[DescribeQuorumRequest.TopicData]
    def __init__(self, *, topics: list[DescribeQuorumRequest.TopicData] = ...) -> None: ...
