from typing import Any

from fastpath.messages.plan import Plan

REFERENCE_SIZE: int

class Encoded:
    count: int
    parts: list[Any]
    codes: list[tuple[int, int]]
    def __init__(self, count: int, parts: list[Any], codes: list[tuple[int, int]]) -> None: ...
    def __len__(self) -> int: ...

def encode(plan: Plan, message: Any, prefix: bytes = b"") -> bytes: ...
def encode_parts(
    plan: Plan, message: Any, prefix: bytes = b"", framed: bool = False
) -> list[bytes | bytearray | memoryview]: ...
