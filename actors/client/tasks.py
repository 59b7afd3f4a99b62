"""An operation that is under way: its generator, its deadline, and what it waits for."""

from typing import Any, Generic, TypeVar

from actors.client.asks import Ask, Steps
from actors.client.errors import ClientError

T = TypeVar("T")


class Task(Generic[T]):
    """An operation that is under way. `result()` once it is `done`."""

    def __init__(self, steps: Steps[T], deadline_us: int) -> None:
        self.deadline_us = deadline_us
        self.done = False
        self.stack: list[Steps[Any]] = [steps]
        """The generators of the operation, and of what the client does in between for it."""
        self.parts: list[Pending] = []
        """The requests that the operation waits for."""
        self.alone = False
        """Whether the operation waits for one request, and not for a list."""
        self.wake_us: int | None = None
        """The time when its pause is over; None: it does not pause."""
        self.last_error: ClientError | None = None
        """The error that was met last, for the sentence at the deadline."""
        self._value: Any = None
        self.error: Exception | None = None

    def result(self) -> T:
        """The value that the operation returned. Raises the ClientError with which it failed, or what else it raised."""
        assert self.done, "the operation is under way"
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[no-any-return]

    def finish(self, value: Any, error: Exception | None = None) -> None:
        """End the operation with a value, or an error."""
        self.done, self._value, self.error = True, value, error
        self.parts = []
        self.wake_us = None


class Pending:
    """One request of a task, from the asking to the reply."""

    __slots__ = ("ask", "attempts", "conn", "found", "not_before_us", "place", "task")

    def __init__(self, task: Task[Any], ask: Ask) -> None:
        self.task = task
        self.ask = ask
        self.attempts = 0
        self.not_before_us = 0
        self.place: Any = None
        """The connection that the request waits for or was sent on, by its place."""
        self.conn: int | None = None
        """The connection that the request is under way on; None: it is not sent."""
        self.found: Any = None
        """The reply or the ClientError; None: there is none yet."""
