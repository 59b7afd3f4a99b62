"""How the world reports events to the checkers.

A checker is an object with a `name` and some of the methods below. It is called for the events for which it has a
method, and raises `Violation`. It is incremental: it looks at what has changed, never at everything.

    turned(process)                                              after every turn of a node
    ended(process)                                               before a process ends, however it does
    lost_disk(process)                                           after it has ended: all that it had written is gone
    acknowledged(topic, topic_id, partition, offset, values, acks)
    consumed(consumer, topic_id, partition, offset, value, wanted)
    committed(group, topic, partition, offset)                   an offset of a group
    fetched(group, topic, partition, offset, floor)
    record(topic, topic_id, partition, header, record)           a record is committed for the first time
    batch(topic_id, partition, header, marker)                   a transactional batch is committed for the first time
    metadata(image, batch)                                       a metadata batch is committed for the first time
    changed(process, partition, before)                          a replica has changed; `before` is its old Standing
    begins(topic_id, partition, offset)                          a client was told where a partition begins
    unserved(topic_id, partition, offset, broker, asked_us)      a broker, asked then, told a consumer: out of range
    served(consumer, topic_id, partition, stated, epoch, offset) a consumer that stated its leader epoch was given a batch
    compared(consumer, topic_id, partition, position, epoch, end) it was told where the epoch of its position ends
    created(topic, topic_id)                                     a topic's creation was acknowledged
    deleted(topic, topic_id)                                     its deletion was
    identified(client, producer_id)                              a producer was given its id
    sent(link, sender, frame)                                    a node sends a frame
    asked(link, process, frame)                                  a request reaches a node
    answered(link, process, frame)                               an answer leaves a node
    owns(group, topic, partition, member, time_us)               a member of a consumer group was given a partition
    released(group, topic, partition, member)                    it has let go of it
    left(group, topic, member)                                   it has let go of everything
    alive(group, topic, member, broker, asked_us, session_ms)    a broker, asked then, says that it is still a member
    finish()                                                     the cluster is healthy again and quiet
"""

from collections.abc import Callable, Sequence
from typing import Any

EVENTS = (
    "turned", "ended", "lost_disk", "acknowledged", "consumed", "committed", "fetched", "record", "batch", "metadata",
    "changed", "begins", "unserved", "served", "compared", "created", "deleted", "identified", "sent", "asked",
    "answered", "owns", "released", "left", "alive", "finish",
)  # fmt: skip


class Violation(AssertionError):
    """A property does not hold; `checker` names it."""

    def __init__(self, checker: str, text: str) -> None:
        super().__init__(f"{checker}: {text}")
        self.checker = checker


class Hooks:
    """The methods of all checkers by event."""

    turned: list[Callable[..., None]]
    ended: list[Callable[..., None]]
    lost_disk: list[Callable[..., None]]
    acknowledged: list[Callable[..., None]]
    consumed: list[Callable[..., None]]
    committed: list[Callable[..., None]]
    fetched: list[Callable[..., None]]
    record: list[Callable[..., None]]
    batch: list[Callable[..., None]]
    metadata: list[Callable[..., None]]
    changed: list[Callable[..., None]]
    begins: list[Callable[..., None]]
    unserved: list[Callable[..., None]]
    served: list[Callable[..., None]]
    compared: list[Callable[..., None]]
    created: list[Callable[..., None]]
    deleted: list[Callable[..., None]]
    identified: list[Callable[..., None]]
    sent: list[Callable[..., None]]
    asked: list[Callable[..., None]]
    answered: list[Callable[..., None]]
    owns: list[Callable[..., None]]
    released: list[Callable[..., None]]
    left: list[Callable[..., None]]
    alive: list[Callable[..., None]]
    finish: list[Callable[..., None]]

    def __init__(self) -> None:
        for event in EVENTS:
            setattr(self, event, [])

    def add(self, checkers: Sequence[Any]) -> None:
        """Add checkers, which are called in this order for the events for which they have a method."""
        for checker in checkers:
            for event in EVENTS:
                method = getattr(checker, event, None)
                if method is not None:
                    getattr(self, event).append(method)
