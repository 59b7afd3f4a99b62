from typing import Any

class WireError(ValueError):
    path: str
    reason: str
    position: int
    def __init__(self, path: str, reason: str, position: int) -> None: ...

FIXED: dict[str, int]
PLAIN: dict[str, int]
COMPACT: dict[str, int]
LEAST: tuple[int, ...]
REFERENCE_SIZE: int

class Layout:
    cls: type[Any]
    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    children: tuple[Layout | None, ...]
    def __init__(
        self,
        cls: type[Any],
        names: tuple[str, ...],
        defaults: tuple[Any, ...],
        children: tuple[Layout | None, ...],
    ) -> None: ...

class Message:
    __layout__: Layout
    def __init__(self, **values: Any) -> None: ...

Step = tuple[int, int, bool, int, int, Plan | None]

class Plan:
    layout: Layout
    fields: tuple[Step, ...]
    tags: tuple[Step, ...]
    least: int
    def __init__(self, layout: Layout, flexible: bool, fields: tuple[Step, ...], tags: tuple[Step, ...]) -> None: ...

def decode(plan: Plan, data: bytes | bytearray | memoryview, pos: int = 0) -> tuple[Any, int]: ...
def encode(plan: Plan, message: Any, prefix: bytes = b"") -> bytes: ...
def encode_parts(
    plan: Plan, message: Any, prefix: bytes = b"", framed: bool = False
) -> list[bytes | bytearray | memoryview]: ...
