class Counts:
    def get(self, broker: int) -> tuple[int, int, int]: ...
    used: int
    partitions: int
    leaderless: int
    unpreferred: int
    elections: int
    unclean: int
    def copy(self) -> Counts: ...
    def all(self) -> dict[int, tuple[int, int, int]]: ...
