"""How a member loses the records that it has acquired without having acknowledged them (KIP-932).

This file alone decides what becomes of records whose lock has lasted too long, and of those of a member whose session has
ended. Rules:

1. They are available again, or archived where they were delivered as often as they may be, or lie below the start by now.
2. When a lock ends, others may have the records at once; that is written afterwards, so that nobody waits for a
   disk.
3. When a session ends, others have the records once that is written, as after an acknowledgement.
"""

from actors.broker.groups.share.delivery.delivery_states import Event, after
from actors.broker.groups.share.delivery.in_flight import NEVER_MS, DeliveryChange, InFlightBatch, InFlightRun
from actors.broker.groups.share.delivery.in_flight_window import Window


def expire(window: Window, now_ms: int, delivery_limit: int) -> tuple[DeliveryChange | None, int]:
    """Make records available at once that were locked for too long; it is written afterwards. Returns what is to be
    written, and when the next lock ends (NEVER_MS: there is none)."""
    change, due_ms = DeliveryChange(), NEVER_MS
    for batch in window.batches:
        for run in _held(window, batch):
            if run.lock_ms > now_ms:
                due_ms = min(due_ms, run.lock_ms)
                continue
            run.become(after(run.state, Event.EXPIRE, spent=_spent(window, run, delivery_limit)))
            change.add(run.first, run.last, run.state, run.count)
        batch.join()
    if not change.batches:
        return None, due_ms
    window.look()
    return change, due_ms


def give_back(window: Window, member: str, delivery_limit: int) -> DeliveryChange | None:
    """Give the records of a member whose session has ended to others, once that is written. Returns what is to be
    written; None: the member has none."""
    change = DeliveryChange()
    for batch in window.batches:
        for run in _held(window, batch, member):
            run.target = after(run.state, Event.END_SESSION, spent=_spent(window, run, delivery_limit))
            run.change = change
            change.add(run.first, run.last, run.target, run.count)
    return change if change.batches else None


def _held(window: Window, batch: InFlightBatch, member: str | None = None) -> list[InFlightRun]:
    """What one member has of a batch, or anybody has; no run reaches over the start."""
    found = [run for run in batch.runs if run.held and (member is None or run.member == member)]
    if found and batch.first < window.start <= batch.last:
        batch.cut(window.start, batch.last)
        found = [run for run in batch.runs if run.held and (member is None or run.member == member)]
    return found


def _spent(window: Window, run: InFlightRun, delivery_limit: int) -> bool:
    return run.count >= delivery_limit or run.last < window.start
