from fastpath.messages.layout import Layout

class WireError(ValueError):
    path: str
    reason: str
    position: int
    def __init__(self, path: str, reason: str, position: int) -> None: ...

class TooManyEntries(WireError): ...

PLAIN: dict[str, int]
COMPACT: dict[str, int]
LEAST: tuple[int, ...]

Step = tuple[int, int, bool, int, int, Plan | None]

class Plan:
    layout: Layout
    fields: tuple[Step, ...]
    tags: tuple[Step, ...]
    least: int
    def __init__(self, layout: Layout, flexible: bool, fields: tuple[Step, ...], tags: tuple[Step, ...]) -> None: ...
