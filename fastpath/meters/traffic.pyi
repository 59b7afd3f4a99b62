CRC: int
MAGIC: int
SEQUENCE: int
UNKEYED: int

class Traffic:
    """The counters of one topic; `whole` has those of all topics, those that are gone among them (None: it is that)."""

    whole: Traffic | None
    messages_in: int
    bytes_in: int
    bytes_out: int
    bytes_rejected: int
    produces: int
    failed_produces: int
    fetches: int
    failed_fetches: int
    replication_bytes_in: int
    replication_bytes_out: int
    reassignment_bytes_in: int
    reassignment_bytes_out: int
    unkeyed: int
    wrong_magic: int
    wrong_crc: int
    wrong_sequence: int
    def __init__(self, whole: Traffic | None = None) -> None: ...
    def produced(self, size: int, messages: int) -> None: ...
    def refused(self, size: int) -> None: ...
    def wrong(self, what: int) -> None: ...
    def fetched(self, size: int, failed: bool, by_replica: bool, reassigned: bool) -> None: ...
    def replicated(self, size: int, reassigned: bool) -> None: ...
