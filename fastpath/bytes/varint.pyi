from typing_extensions import Buffer

class VarintError(ValueError):
    """A number whose bytes end too early, or that is longer than its type. `position`: where the number starts, in
    bytes."""

    position: int
    reason: str
    def __init__(self, position: int, reason: str) -> None: ...

def encode_uvarint(value: int) -> bytes:
    """1 to 5 bytes. OverflowError outside `[0, 2**32)`."""

def encode_varint(value: int) -> bytes:
    """1 to 5 bytes, zigzag. OverflowError outside 32 signed bits."""

def encode_varlong(value: int) -> bytes:
    """1 to 10 bytes, zigzag. OverflowError outside 64 signed bits."""

def decode_uvarint(data: Buffer, pos: int = 0) -> tuple[int, int]:
    """(value, position after it). VarintError when the bytes end too early, above 32 bits, or when `pos` is outside the
    buffer."""

def decode_varint(data: Buffer, pos: int = 0) -> tuple[int, int]:
    """(value, position after it). VarintError when the bytes end too early, above 32 bits, or when `pos` is outside the
    buffer."""

def decode_varlong(data: Buffer, pos: int = 0) -> tuple[int, int]:
    """(value, position after it). VarintError when the bytes end too early, above 64 bits, or when `pos` is outside the
    buffer."""
