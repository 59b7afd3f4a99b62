"""What random histories of groups have in common: processes that start, crash, restart and leave, a log that is slow or
fails, and coordinators that take over.

`make test` runs the seeds from 0 on, `make sim` fresh ones: `python -m tests.histories`.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from actors.wire.errors import ErrorCode

PROCESSES_MAX = 6
AWAY = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""The coordinator is not there: ask again."""


class History:
    """One history, by its seed. After each step `check` is called, and in the end all has to come to rest."""

    STEPS = 200
    ROUNDS_MAX = 200
    CHOICES: ClassVar[Sequence[tuple[Callable[[Any], None], int]]]
    """What may happen, with its weight."""

    world: Any
    processes: list[Any]

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.numbers = iter(range(1_000_000))
        self.failed = False
        """A write has failed since the last one that did not: the log is behind what is in memory."""
        self._read_at: tuple[object, ...] = ()
        self._read: Any = None

    def run(self) -> None:
        """All of it. Raises AssertionError."""
        choices, weights = zip(*self.CHOICES, strict=True)
        for _ in range(self.STEPS):
            self.draw.choices(choices, weights)[0](self)
            self.check()
        self.let_go()
        for _ in range(self.ROUNDS_MAX):
            for process in self.processes:
                process.step()
            self.pass_round()
            self.check()
            if self.rests():
                return
        raise AssertionError(f"it does not come to rest: {self.shown()}")

    # ---- what a kind of group says

    def process(self) -> Any:
        """A new process."""
        raise NotImplementedError

    def check(self) -> None:
        """What holds after each step."""
        raise NotImplementedError

    def pass_round(self) -> None:
        """The time in which each process is heard once."""
        raise NotImplementedError

    def read(self) -> Any:
        """What another one has that reads the log now."""
        raise NotImplementedError

    def rests(self) -> bool:
        """Whether everybody has what he should."""
        raise NotImplementedError

    def shown(self) -> str:
        """What it looks like, for a history that fails."""
        raise NotImplementedError

    def as_read(self, *others: object) -> Any:
        """What `read` says. It is asked again once the log has grown, or one of the others that it depends on is
        different: most steps write nothing, and to read the whole log is most of what a history costs."""
        at = (len(self.world.log), *others)
        if at != self._read_at:
            self._read_at, self._read = at, self.read()
        return self._read

    # ---- what may happen

    def let_go(self) -> None:
        """Nothing is held up any more."""
        self.world.held = False
        self.world.drain()

    def step(self) -> None:
        if self.processes:
            self.draw.choice(self.processes).step()

    def another(self) -> None:
        if len(self.processes) < PROCESSES_MAX:
            self.processes.append(self.process())

    def restart(self) -> None:
        """A process crashes and starts again. A static one has its instance id still."""
        if self.processes:
            self.draw.choice(self.processes).begin()

    def hold(self) -> None:
        """Writes are slow from now on."""
        self.world.held = True


def found(history: Callable[[int], History], tried: range = range(40)) -> bool:
    """Whether some history shows a mistake."""
    for seed in tried:
        try:
            history(seed).run()
        except AssertionError:
            return True
    return False
