from typing import Any

from fastpath.meters.spread import Spread

class Door:
    """What has come through one listener, and left through it."""

    opened: int
    closed: int
    expired: int
    logins: int
    failed_logins: int
    requests: int
    bytes_in: int
    responses: int
    bytes_out: int

class Timing:
    """The times of one request, in ns of one clock; 0: not yet. A place in a connection's order is one of these."""

    arrived_ns: int
    began_ns: int
    local_ns: int
    answered_ns: int
    left_ns: int
    size: int
    version: int
    meter: RequestTimes | None
    door: Door | None
    connection: Any
    parts: Any
    def handled(self, since_ns: int, spent_ns: int) -> None: ...
    def arrived(self, at_ns: int, version: int, size: int, meter: RequestTimes | None, door: Door) -> None: ...

class RequestTimes:
    """The requests of one API."""

    total: Spread
    queue: Spread
    local: Spread
    remote: Spread
    response_queue: Spread
    send: Spread
    size: Spread
    consumer: RequestTimes | None
    follower: RequestTimes | None
    waiting: int
    def __init__(self, fetches: bool = False) -> None: ...
    def answered(self, message: Any) -> None: ...
    def whole(self, at_ns: int) -> RequestTimes: ...
    def by_version(self) -> list[tuple[int, int]]: ...
    def by_code(self) -> list[tuple[int, int]]: ...

def note_all(timings: list[Any], sent_ns: int) -> None: ...
