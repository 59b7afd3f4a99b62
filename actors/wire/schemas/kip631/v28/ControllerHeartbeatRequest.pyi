# Versions 0 to 0. Made from the schemas by "make schemas".
from fastpath.messages.layout import Message

class ControllerHeartbeatRequest(Message):
    class Feature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
        ) -> None: ...

    controller_id: int
    last_snapshot_offset: int
    features: list[ControllerHeartbeatRequest.Feature]
    def __init__(
        self,
        *,
        controller_id: int = ...,
        last_snapshot_offset: int = ...,
        features: list[ControllerHeartbeatRequest.Feature] = ...,
    ) -> None: ...
