# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class FeatureLevelRecord(Message):
    name: str
    feature_level: int
    def __init__(self, *, name: str = ..., feature_level: int = ...) -> None: ...
