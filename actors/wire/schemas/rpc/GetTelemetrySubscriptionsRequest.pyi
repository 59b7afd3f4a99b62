# Versions 0 to 0. Made from the schemas by "make schemas".
from actors.wire.messages import Buffer
from fastpath.messages.layout import Message

class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: bytes
    def __init__(self, *, client_instance_id: Buffer = ...) -> None: ...
