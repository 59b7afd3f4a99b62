"""The exception that a checker of the raft world raises."""


class Violation(AssertionError):
    """A property does not hold: the checker's name and what it saw."""

    def __init__(self, checker: str, what: str) -> None:
        super().__init__(f"{checker}: {what}")
        self.checker = checker
