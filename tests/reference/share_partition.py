"""A share partition record by record: what is said of each offset, and nothing else. No runs, no batches, no window.

It does not decide who gets what. It is told what the product decided, and knows whether that may be."""

FINAL = ("acknowledged", "archived")


class SlowSharePartition:
    def __init__(self, start: int, delivery_limit: int) -> None:
        self.start = start
        self.delivery_limit = delivery_limit
        self.states: dict[int, str] = {}
        self.counts: dict[int, int] = {}
        self.holders: dict[int, str] = {}
        self.locks_ms: dict[int, int] = {}
        self.writing: set[int] = set()

    def acquired(self, member: str, first: int, last: int, count: int, lock_ms: int) -> None:
        for offset in range(first, last + 1):
            assert offset >= self.start, f"{offset} is below {self.start}"
            assert self.states.get(offset, "available") == "available", f"{offset} is {self.states[offset]}"
            assert offset not in self.writing
            self.counts[offset] = self.counts.get(offset, 0) + 1
            assert self.counts[offset] == count, (
                f"{offset} is delivered for the {self.counts[offset]}th time, not {count}"
            )
            assert count <= self.delivery_limit
            self.states[offset], self.holders[offset], self.locks_ms[offset] = "acquired", member, lock_ms

    def may_acknowledge(self, member: str, first: int, last: int) -> bool:
        return all(
            self.states.get(offset) == "acquired" and self.holders[offset] == member and offset not in self.writing
            for offset in range(max(first, self.start), last + 1)
        )

    def begin(self, first: int, last: int) -> None:
        self.writing |= set(range(first, last + 1))

    def end(self, first: int, last: int, state: str) -> None:
        """`state`: what the records were to become; `acquired`: the write has failed."""
        for offset in range(first, last + 1):
            if offset in self.writing:
                self.writing.discard(offset)
                if state != "acquired":
                    self._become(offset, state)

    def held(self, member: str) -> list[int]:
        return [
            offset
            for offset, holder in self.holders.items()
            if holder == member and self.states[offset] == "acquired" and offset not in self.writing
        ]

    def expire(self, now_ms: int) -> list[int]:
        expired = sorted(
            offset
            for offset, state in self.states.items()
            if state == "acquired" and offset not in self.writing and self.locks_ms[offset] <= now_ms
        )
        for offset in expired:
            self._become(offset, "available")
        return expired

    def log_starts_at(self, start: int) -> None:
        if start > self.start:
            self.start = start
            for offset, state in self.states.items():
                if offset < start and state == "available":
                    self.states[offset] = "archived"

    def _become(self, offset: int, state: str) -> None:
        spent = self.counts[offset] >= self.delivery_limit or offset < self.start
        self.states[offset] = "archived" if state == "available" and spent else state
        del self.holders[offset], self.locks_ms[offset]

    def first_undone(self) -> int:
        offset = self.start
        while self.states.get(offset) in FINAL:
            offset += 1
        return offset

    def complete(self) -> int:
        """Done, from the start on."""
        return sum(1 for offset, state in self.states.items() if offset >= self.start and state in FINAL)
