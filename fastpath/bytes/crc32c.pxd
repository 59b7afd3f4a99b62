"""CRC-32C for C callers: the checksum that every record batch carries (Castagnoli, as in RFC 3720)."""

from libc.stdint cimport uint8_t, uint32_t

# The CRC of the bytes that `value` covers followed by `size` bytes of `data`; start with 0. Uses the fastest way of
# this machine.
cdef uint32_t extend(uint32_t value, const uint8_t* data, size_t size) noexcept nogil

# The CRC of the last `size` bytes of some bytes whose CRC is `both`, where `first` is that of the bytes before them. Its cost
# does not depend on `size`.
cdef uint32_t second(uint32_t both, uint32_t first, size_t size) noexcept nogil
