# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class SnapshotHeaderRecord(Message):
    version: int
    last_contained_log_timestamp: int
    def __init__(self, *, version: int = ..., last_contained_log_timestamp: int = ...) -> None: ...
