# Versions 1 to 1. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ProducerSnapshot(Message):
    class ProducerEntry(Message):
        producer_id: int
        epoch: int
        last_sequence: int
        last_offset: int
        offset_delta: int
        timestamp: int
        coordinator_epoch: int
        current_txn_first_offset: int
        def __init__(
            self,
            *,
            producer_id: int = ...,
            epoch: int = ...,
            last_sequence: int = ...,
            last_offset: int = ...,
            offset_delta: int = ...,
            timestamp: int = ...,
            coordinator_epoch: int = ...,
            current_txn_first_offset: int = ...,
        ) -> None: ...

    crc: int
    producer_entries: list[ProducerSnapshot.ProducerEntry]
    def __init__(self, *, crc: int = ..., producer_entries: list[ProducerSnapshot.ProducerEntry] = ...) -> None: ...
