# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ConsumerGroupRegularExpressionKey(Message):
    group_id: str
    regular_expression: str
    def __init__(self, *, group_id: str = ..., regular_expression: str = ...) -> None: ...
