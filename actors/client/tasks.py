"""An operation that is under way: its generator, its deadline, and what it waits for."""

from typing import Any, Generic, TypeVar

from actors.client.asks import Ask, Steps
from actors.client.errors import ClientError

T = TypeVar("T")


class Task(Generic[T]):
    """One operation. `result()` once it is `done`."""

    def __init__(self, steps: Steps[T], deadline_us: int) -> None:
        self.deadline_us = deadline_us
        self.done = False
        self.stack: list[Steps[Any]] = [steps]
        """The operation, and what the client does in between for it."""
        self.parts: list[Pending] = []
        """The requests that it waits for."""
        self.alone = False
        """Whether it waits for one request, and not for a list."""
        self.wake_us: int | None = None
        """When its pause is over; None: it does not pause."""
        self.last_error: ClientError | None = None
        """What has gone wrong last, for the sentence at the deadline."""
        self._value: Any = None
        self.error: ClientError | None = None

    def result(self) -> T:
        """What the operation returned. Raises the ClientError with which it failed."""
        assert self.done, "the operation is under way"
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[no-any-return]

    def finish(self, value: Any, error: ClientError | None = None) -> None:
        """It is over."""
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
        """Which connection it waits for or was sent on."""
        self.conn: int | None = None
        """The connection that it is under way on; None: it is not sent."""
        self.found: Any = None
        """The reply or the ClientError; None: neither yet."""
