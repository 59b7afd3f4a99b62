from typing_extensions import Buffer

class VarintError(ValueError):
    """The bytes of a number end too early, or it is longer than its type. `position`: where the number starts, in
    bytes."""

    position: int
    reason: str
    def __init__(self, position: int, reason: str) -> None: ...

def encode_uvarint(value: int) -> bytes:
    """The 1 to 5 bytes of an unsigned number. Raises OverflowError outside `[0, 2**32)`."""

def encode_varint(value: int) -> bytes:
    """The 1 to 5 bytes of a number, zigzag. Raises OverflowError outside 32 signed bits."""

def encode_varlong(value: int) -> bytes:
    """The 1 to 10 bytes of a number, zigzag. Raises OverflowError outside 64 signed bits."""

def decode_uvarint(data: Buffer, pos: int = 0) -> tuple[int, int]:
    """(value, position after it). Raises VarintError when the bytes end too early, above 32 bits, or when `pos` is
    outside the buffer."""

def decode_varint(data: Buffer, pos: int = 0) -> tuple[int, int]:
    """(value, position after it). Raises VarintError when the bytes end too early, above 32 bits, or when `pos` is
    outside the buffer."""

def decode_varlong(data: Buffer, pos: int = 0) -> tuple[int, int]:
    """(value, position after it). Raises VarintError when the bytes end too early, above 64 bits, or when `pos` is
    outside the buffer."""
