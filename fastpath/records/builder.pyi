from collections.abc import Iterable

class Builder:
    """Builds one record batch. After `build` any further use is a ValueError."""

    count: int
    """The number of records so far."""

    def __init__(
        self,
        base_offset: int = 0,
        epoch: int = -1,
        attributes: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        timestamp_ms: int = 0,
    ) -> None:
        """`attributes` are the 16 bits; a codec in bits 0-2 compresses. `timestamp_ms`: that of records without their
        own."""

    @property
    def size(self) -> int:
        """The bytes so far, header included, before compression."""

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[bytes, bytes | None]] = (),
    ) -> None:
        """Add a record at the next offset. Raises OverflowError past 2 GiB, TypeError unless key and value are bytes or
        None; then nothing is added."""

    def build(self) -> bytearray:
        """The finished batch, CRC included. Raises ValueError without a record."""
