from typing import Any

from fastpath.messages.plan import Plan

def decode(
    plan: Plan, data: bytes | bytearray | memoryview, pos: int = 0, entries_max: int = -1
) -> tuple[Any, int]: ...
def decode_counted(
    plan: Plan, data: bytes | bytearray | memoryview, pos: int = 0, entries_max: int = -1
) -> tuple[Any, int, int]: ...
