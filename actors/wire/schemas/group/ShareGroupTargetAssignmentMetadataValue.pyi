# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(self, *, assignment_epoch: int = ..., assignment_timestamp: int = ...) -> None: ...
