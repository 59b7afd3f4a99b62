# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ShareGroupMetadataValue(Message):
    epoch: int
    metadata_hash: int
    def __init__(self, *, epoch: int = ..., metadata_hash: int = ...) -> None: ...
