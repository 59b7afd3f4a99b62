"""Big-endian integers in bytes, as Kafka writes them everywhere: in requests, record batches and index files.

This file alone decides how such a number is read and written. Positions need no alignment. Reads are not checked: the
caller must know that the bytes are there. Each function becomes one or two instructions.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        #define RAYFT_BIG_ENDIAN(bits, n) (n)
    #else
        #define RAYFT_BIG_ENDIAN(bits, n) __builtin_bswap##bits(n)
    #endif
    #define RAYFT_ENDIAN(bits, type, name) \\
        static inline type rayft_load_##name(const uint8_t* p) { \\
            uint##bits##_t n; memcpy(&n, p, sizeof n); return (type)RAYFT_BIG_ENDIAN(bits, n); \\
        } \\
        static inline void rayft_store_##name(uint8_t* p, type value) { \\
            uint##bits##_t n = RAYFT_BIG_ENDIAN(bits, (uint##bits##_t)value); memcpy(p, &n, sizeof n); \\
        }
    RAYFT_ENDIAN(16, int16_t, int16)
    RAYFT_ENDIAN(16, uint16_t, uint16)
    RAYFT_ENDIAN(32, int32_t, int32)
    RAYFT_ENDIAN(32, uint32_t, uint32)
    RAYFT_ENDIAN(64, int64_t, int64)
    """
    int16_t load_int16 "rayft_load_int16"(const uint8_t* p) noexcept nogil
    uint16_t load_uint16 "rayft_load_uint16"(const uint8_t* p) noexcept nogil
    int32_t load_int32 "rayft_load_int32"(const uint8_t* p) noexcept nogil
    uint32_t load_uint32 "rayft_load_uint32"(const uint8_t* p) noexcept nogil
    int64_t load_int64 "rayft_load_int64"(const uint8_t* p) noexcept nogil
    void store_int16 "rayft_store_int16"(uint8_t* p, int16_t value) noexcept nogil
    void store_int32 "rayft_store_int32"(uint8_t* p, int32_t value) noexcept nogil
    void store_uint32 "rayft_store_uint32"(uint8_t* p, uint32_t value) noexcept nogil
    void store_int64 "rayft_store_int64"(uint8_t* p, int64_t value) noexcept nogil
