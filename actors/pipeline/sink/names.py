"""The transactional ids of a sink: its driver's, those of its tasks, and whose an id is.

    rayft-sink/SINK                              the driver's
    rayft-sink/SINK/OPENING/WORKER/NUMBER        a task attempt's: the opening of its run, the process, a count
    rayft-sink/SINK@LEDGER...                    where the ledger has another name than usual

This file alone decides them. Rules:

1. Sinks of two ledgers are two sinks, whatever their sinkId: neither fences what the other one has open.
2. A process counts its ids anew with each opening of a sink, so there are about as many as tasks run at once, and none is
   used twice within an opening. What an opening left open is over when the next one begins.
3. It never goes back: a task attempt of an older opening gets no id, which might be one that the newer opening has in use.
   What is counted belongs to one sink of one cluster, as a process may write to several.
"""

from actors.pipeline.sink.values import LEDGER, Grant, SinkFailed

FAMILY = "rayft-sink"


def _own(sink: str, ledger: str) -> str:
    return f"{FAMILY}/{sink}" if ledger == LEDGER else f"{FAMILY}/{sink}@{ledger}"


def driver_id(sink: str, ledger: str = LEDGER) -> str:
    """The transactional id of a sink's driver."""
    return _own(sink, ledger)


def task_id(sink: str, base: int, worker: str, slot: int, ledger: str = LEDGER) -> str:
    """The transactional id of a task attempt: the `slot`-th one of a process that writes for an opening."""
    return f"{_own(sink, ledger)}/{base}/{worker}/{slot}"


def base_of(id: str, sink: str, ledger: str = LEDGER) -> int | None:
    """The opening with which a transactional id of the sink's tasks begins; None: it is none of them."""
    head, _, rest = id.partition(f"{_own(sink, ledger)}/")
    number = rest.partition("/")[0]
    return int(number) if not head and number.isascii() and number.isdigit() and len(number) < 19 else None


class Ids:
    """The transactional ids of one process."""

    def __init__(self, worker: str) -> None:
        """`worker`: the name of the process, which no other one has."""
        self.worker = worker
        self._next: dict[tuple[str, str, str], tuple[int, int]] = {}
        """(Cluster, ledger, sink) -> (the newest opening, the number of the next id)."""

    def take(self, grant: Grant, run: str) -> str:
        """The next id for an opening of a sink. Raises SinkFailed if there was a newer opening."""
        key = grant.cluster, grant.ledger, grant.sink
        opening, slot = self._next.get(key, (grant.opening, 0))
        if grant.opening < opening:
            raise SinkFailed(
                f"sink {grant.sink}: a task attempt of opening {grant.opening} comes when this process has written for "
                f"opening {opening}: it is not needed any more; if the ledger was deleted, begin the job in new processes"
            )
        slot = slot if opening == grant.opening else 0
        self._next[key] = grant.opening, slot + 1
        return task_id(grant.sink, grant.base_of(run), self.worker, slot, grant.ledger)
