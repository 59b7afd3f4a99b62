# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class KRaftVersionRecord(Message):
    version: int
    k_raft_version: int
    def __init__(self, *, version: int = ..., k_raft_version: int = ...) -> None: ...
