"""CRC-32C at the speed of memory.

Three ways, chosen once at import by what the processor can do, so that no build needs -march:

avx512    four 64-byte accumulators folded with carry-less multiplication, 256 bytes a round
sse42     the crc32 instruction on three interleaved stripes (it starts one a cycle but takes three), joined by one
          carry-less multiplication a stripe
portable  eight tables, eight bytes a step; any processor

The arithmetic. Polynomials over GF(2) modulo P = 0x11EDC6F41, bits reflected: bit 31 of a 32-bit word is x^0. Moving a
CRC over n zero bytes multiplies it by x^(8n). A carry-less product of two reflected 32-bit words, fed through the crc32
instruction as 64 data bits, comes out multiplied by x^33 more, so the factor for n bytes is x^(8n - 33) mod P; folding a
128-bit accumulator over D bits multiplies its first half by x^(D + 31) and its second half by x^(D - 33). The factors
are computed at import by `power`, not typed in.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__) && defined(__GNUC__)
    #define RAYFT_X86 1
    #include <immintrin.h>
    #else
    #define RAYFT_X86 0
    #endif

    #define RAYFT_CRC_POLY 0x82F63B78u   /* P reflected, without its highest term */
    #define RAYFT_STRIPE_LONG 2048
    #define RAYFT_STRIPE_SHORT 128

    static uint32_t rayft_crc_table[8][256];
    static uint64_t rayft_fold_2048[2], rayft_fold_512[2], rayft_fold_128[2];   /* by bits: {first half, second half} */
    static uint64_t rayft_shift_long[2], rayft_shift_short[2];                  /* over two stripes, over one */

    static uint32_t rayft_crc_times(uint32_t a, uint32_t b)
    {
        uint32_t product = 0;
        for (int i = 31; i >= 0; i--) {
            if (a >> i & 1)
                product ^= b;
            b = b & 1 ? b >> 1 ^ RAYFT_CRC_POLY : b >> 1;
        }
        return product;
    }

    /* x^n mod P */
    static uint32_t rayft_crc_power(uint64_t n)
    {
        uint32_t result = 0x80000000u, square = 0x40000000u;
        for (; n; n >>= 1) {
            if (n & 1)
                result = rayft_crc_times(result, square);
            square = rayft_crc_times(square, square);
        }
        return result;
    }

    static void rayft_crc_prepare(void)
    {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++)
                crc = crc & 1 ? crc >> 1 ^ RAYFT_CRC_POLY : crc >> 1;
            rayft_crc_table[0][i] = crc;
        }
        for (int t = 1; t < 8; t++)
            for (int i = 0; i < 256; i++) {
                uint32_t before = rayft_crc_table[t - 1][i];
                rayft_crc_table[t][i] = before >> 8 ^ rayft_crc_table[0][before & 0xff];
            }
        rayft_fold_2048[0] = rayft_crc_power(2048 + 31), rayft_fold_2048[1] = rayft_crc_power(2048 - 33);
        rayft_fold_512[0] = rayft_crc_power(512 + 31), rayft_fold_512[1] = rayft_crc_power(512 - 33);
        rayft_fold_128[0] = rayft_crc_power(128 + 31), rayft_fold_128[1] = rayft_crc_power(128 - 33);
        rayft_shift_long[0] = rayft_crc_power(16 * RAYFT_STRIPE_LONG - 33);
        rayft_shift_long[1] = rayft_crc_power(8 * RAYFT_STRIPE_LONG - 33);
        rayft_shift_short[0] = rayft_crc_power(16 * RAYFT_STRIPE_SHORT - 33);
        rayft_shift_short[1] = rayft_crc_power(8 * RAYFT_STRIPE_SHORT - 33);
    }

    static uint32_t rayft_crc_portable(uint32_t value, const uint8_t* p, size_t n)
    {
        uint32_t crc = ~value;
        for (; n >= 8; n -= 8, p += 8) {
            uint32_t low = crc ^ (p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
            crc = rayft_crc_table[7][low & 0xff] ^ rayft_crc_table[6][low >> 8 & 0xff] ^
                  rayft_crc_table[5][low >> 16 & 0xff] ^ rayft_crc_table[4][low >> 24] ^
                  rayft_crc_table[3][p[4]] ^ rayft_crc_table[2][p[5]] ^ rayft_crc_table[1][p[6]] ^
                  rayft_crc_table[0][p[7]];
        }
        for (; n; n--)
            crc = crc >> 8 ^ rayft_crc_table[0][(crc ^ *p++) & 0xff];
        return ~crc;
    }

    #if RAYFT_X86
    #define RAYFT_SSE __attribute__((target("sse4.2,pclmul")))
    #define RAYFT_AVX __attribute__((target("sse4.2,pclmul,avx512f,avx512vl,vpclmulqdq")))

    static inline uint64_t rayft_load64(const uint8_t* p)
    {
        uint64_t word;
        memcpy(&word, p, 8);
        return word;
    }

    RAYFT_SSE static inline uint64_t rayft_crc_plain(uint64_t crc, const uint8_t* p, size_t n)
    {
        for (; n >= 8; n -= 8, p += 8)
            crc = _mm_crc32_u64(crc, rayft_load64(p));
        if (n & 4) {
            uint32_t word;
            memcpy(&word, p, 4);
            crc = _mm_crc32_u32((uint32_t)crc, word);
            p += 4;
        }
        if (n & 2) {
            uint16_t word;
            memcpy(&word, p, 2);
            crc = _mm_crc32_u16((uint32_t)crc, word);
            p += 2;
        }
        return n & 1 ? _mm_crc32_u8((uint32_t)crc, *p) : crc;
    }

    /* Three stripes of `stripe` bytes at once. The last word of the third takes the two moved CRCs along. */
    RAYFT_SSE static inline uint64_t rayft_crc_stripes(
        uint64_t a, const uint8_t* p, size_t stripe, const uint64_t shift[2])
    {
        const uint8_t* end = p + stripe - 8;
        uint64_t b = 0, c = 0;
        for (; p < end; p += 8) {
            a = _mm_crc32_u64(a, rayft_load64(p));
            b = _mm_crc32_u64(b, rayft_load64(p + stripe));
            c = _mm_crc32_u64(c, rayft_load64(p + 2 * stripe));
        }
        a = _mm_crc32_u64(a, rayft_load64(p));
        b = _mm_crc32_u64(b, rayft_load64(p + stripe));
        __m128i moved = _mm_xor_si128(
            _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)a), _mm_cvtsi64_si128((int64_t)shift[0]), 0),
            _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)b), _mm_cvtsi64_si128((int64_t)shift[1]), 0));
        return _mm_crc32_u64(c, rayft_load64(p + 2 * stripe) ^ (uint64_t)_mm_cvtsi128_si64(moved));
    }

    RAYFT_SSE static uint32_t rayft_crc_sse42(uint32_t value, const uint8_t* p, size_t n)
    {
        uint64_t crc = (uint32_t)~value;
        for (; n >= 3 * RAYFT_STRIPE_LONG; n -= 3 * RAYFT_STRIPE_LONG, p += 3 * RAYFT_STRIPE_LONG)
            crc = rayft_crc_stripes(crc, p, RAYFT_STRIPE_LONG, rayft_shift_long);
        for (; n >= 3 * RAYFT_STRIPE_SHORT; n -= 3 * RAYFT_STRIPE_SHORT, p += 3 * RAYFT_STRIPE_SHORT)
            crc = rayft_crc_stripes(crc, p, RAYFT_STRIPE_SHORT, rayft_shift_short);
        return ~(uint32_t)rayft_crc_plain(crc, p, n);
    }

    RAYFT_AVX static inline __m512i rayft_fold4(__m512i x, __m512i factor, __m512i next)
    {
        return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, factor, 0x00),
                                         _mm512_clmulepi64_epi128(x, factor, 0x11), next, 0x96);
    }

    RAYFT_AVX static inline __m128i rayft_fold1(__m128i x, __m128i factor, __m128i next)
    {
        return _mm_ternarylogic_epi64(_mm_clmulepi64_si128(x, factor, 0x00),
                                      _mm_clmulepi64_si128(x, factor, 0x11), next, 0x96);
    }

    RAYFT_AVX static uint32_t rayft_crc_avx512(uint32_t value, const uint8_t* p, size_t n)
    {
        if (n < 512)
            return rayft_crc_sse42(value, p, n);
        __m512i by_2048 = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)rayft_fold_2048));
        __m512i by_512 = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)rayft_fold_512));
        __m128i by_128 = _mm_loadu_si128((const __m128i*)rayft_fold_128);
        __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p),
                                     _mm512_inserti32x4(_mm512_setzero_si512(), _mm_cvtsi32_si128((int)~value), 0));
        __m512i b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
        for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
            a = rayft_fold4(a, by_2048, _mm512_loadu_si512(p));
            b = rayft_fold4(b, by_2048, _mm512_loadu_si512(p + 64));
            c = rayft_fold4(c, by_2048, _mm512_loadu_si512(p + 128));
            d = rayft_fold4(d, by_2048, _mm512_loadu_si512(p + 192));
        }
        a = rayft_fold4(rayft_fold4(rayft_fold4(a, by_512, b), by_512, c), by_512, d);
        for (; n >= 64; p += 64, n -= 64)
            a = rayft_fold4(a, by_512, _mm512_loadu_si512(p));
        __m128i x = _mm512_extracti32x4_epi32(a, 0);
        x = rayft_fold1(x, by_128, _mm512_extracti32x4_epi32(a, 1));
        x = rayft_fold1(x, by_128, _mm512_extracti32x4_epi32(a, 2));
        x = rayft_fold1(x, by_128, _mm512_extracti32x4_epi32(a, 3));
        uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x));
        crc = _mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(x, 1));
        return ~(uint32_t)rayft_crc_plain(crc, p, n);
    }

    static int rayft_has_sse42(void)
    {
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    }

    static int rayft_has_avx512(void)
    {
        return rayft_has_sse42() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("vpclmulqdq");
    }
    #else
    #define rayft_crc_sse42 rayft_crc_portable
    #define rayft_crc_avx512 rayft_crc_portable
    static int rayft_has_sse42(void) { return 0; }
    static int rayft_has_avx512(void) { return 0; }
    #endif
    """
    void prepare "rayft_crc_prepare"() nogil
    uint32_t times "rayft_crc_times"(uint32_t a, uint32_t b) noexcept nogil
    uint32_t power "rayft_crc_power"(uint64_t n) noexcept nogil
    uint32_t portable "rayft_crc_portable"(uint32_t value, const uint8_t* data, size_t size) noexcept nogil
    uint32_t sse42 "rayft_crc_sse42"(uint32_t value, const uint8_t* data, size_t size) noexcept nogil
    uint32_t avx512 "rayft_crc_avx512"(uint32_t value, const uint8_t* data, size_t size) noexcept nogil
    int has_sse42 "rayft_has_sse42"()
    int has_avx512 "rayft_has_avx512"()

ctypedef uint32_t (*Way)(uint32_t value, const uint8_t* data, size_t size) noexcept nogil

cdef enum:
    GIL_BYTES = 64 * 1024       # releasing the GIL does not pay for shorter work

prepare()
cdef Way _best = avx512 if has_avx512() else sse42 if has_sse42() else portable


cdef uint32_t extend(uint32_t value, const uint8_t* data, size_t size) noexcept nogil:
    return _best(value, data, size)


cdef uint32_t second(uint32_t both, uint32_t first, size_t size) noexcept nogil:
    return both ^ times(power(8 * <uint64_t>size), first)


cdef uint32_t _run(Way way, object data, uint32_t value) except? 0:
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len < GIL_BYTES:
        value = way(value, <const uint8_t*>view.buf, view.len)
    else:
        with nogil:
            value = way(value, <const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def crc32c(data, uint32_t value=0):
    return _run(_best, data, value)


def second_part(uint32_t both, uint32_t first, size_t size):
    return second(both, first, size)


def ways():
    return ("avx512",) * has_avx512() + ("sse42",) * has_sse42() + ("portable",)


def crc32c_by(str way, data, uint32_t value=0):
    if way not in ways():
        raise ValueError(f"no way {way!r} to compute a CRC-32C here; there are {', '.join(ways())}")
    return _run(avx512 if way == "avx512" else sse42 if way == "sse42" else portable, data, value)
