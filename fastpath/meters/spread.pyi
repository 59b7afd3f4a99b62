WINDOW_NS: int

class Spread:
    """The values that were added, by their size."""

    count: int
    total: int
    def __init__(self, shift: int = 0, window_ns: int = ...) -> None: ...
    def add(self, value: int, at_ns: int) -> None: ...
    def quantiles(self, shares: tuple[float, ...], at_ns: int) -> list[tuple[float, int]]: ...
