from typing_extensions import Buffer

def crc32c(data: Buffer, value: int = 0) -> int:
    """The CRC-32C of `data`, continuing from `value` (the CRC of what came before, 0 at the start). Contiguous bytes,
    read-only or not; the GIL is released for large ones. Raises OverflowError when `value` is not 32 bits."""

def second_part(both: int, first: int, size: int) -> int:
    """The CRC-32C of the last `size` bytes of some bytes whose CRC is `both`, where `first` is the CRC of the bytes
    before them. Its cost does not depend on `size`. Raises OverflowError when a CRC is not 32 bits."""

def ways() -> tuple[str, ...]:
    """The implementations that this machine can run, fastest first: "avx512", "sse42", "portable"."""

def crc32c_by(way: str, data: Buffer, value: int = 0) -> int:
    """The CRC-32C by the named implementation, for tests and benches; otherwise as `crc32c`. Raises ValueError when
    this machine cannot run it."""
