# cython: auto_pickle=False
"""How values are spread: their number, their sum, and quantiles of the newest.

This file alone decides what is kept of a value: the count of a bucket. There are sixteen buckets for each power of two, so a
quantile is off by 3% at most, and adding costs the same however many values there are. Two windows take turns: a quantile is
that of the last minute or two. Nothing falls out of `count` and `total`.
"""

from libc.string cimport memset

cdef extern from *:
    """
    static inline int rayft_log2(unsigned long long value) { return 63 - __builtin_clzll(value); }
    """
    int rayft_log2(unsigned long long) noexcept nogil

WINDOW_NS = 60_000_000_000


cdef inline int bucket_of(int64_t value) noexcept nogil:
    cdef int power
    if value < STEPS:
        return <int>value if value > 0 else 0
    power = rayft_log2(<unsigned long long>value)
    if power >= POWERS + 3:
        return BUCKETS - 1
    return (power - 3) * STEPS + <int>((value >> (power - 4)) & (STEPS - 1))


cdef inline int64_t middle_of(int bucket) noexcept nogil:
    cdef int power
    if bucket < STEPS:
        return bucket
    power = bucket // STEPS + 3
    return (<int64_t>(STEPS + bucket % STEPS) << (power - 4)) + ((<int64_t>1 << (power - 4)) >> 1)


cdef class Spread:
    """The values that were added, by their size."""

    def __cinit__(self, int shift=0, int64_t window_ns=WINDOW_NS):
        self.shift = shift
        self.window_ns = window_ns

    cdef void note(self, int64_t value, int64_t at_ns) noexcept:
        """Add one value; below 0 it counts as 0."""
        cdef int64_t age = at_ns - self.since_ns
        if value < 0:
            value = 0
        if age >= self.window_ns:
            self.now ^= 1
            memset(self.buckets[self.now], 0, sizeof(self.buckets[0]))
            if age >= 2 * self.window_ns:
                memset(self.buckets[self.now ^ 1], 0, sizeof(self.buckets[0]))
            self.since_ns = at_ns
        self.count += 1
        self.total += value
        self.buckets[self.now][bucket_of(value >> self.shift)] += 1

    cdef void join(self, Spread other) noexcept:
        """Add the values of another one with the same shift."""
        cdef int i
        self.count += other.count
        self.total += other.total
        for i in range(BUCKETS):
            self.buckets[0][i] += other.buckets[0][i] + other.buckets[1][i]

    def add(self, int64_t value, int64_t at_ns):
        """Add one value; below 0 it counts as 0. `at_ns`: now, by a clock that does not go back."""
        self.note(value, at_ns)

    def quantile(self, double share):
        """The value below which `share` of the newest values lie; 0 before there is one."""
        cdef int64_t seen = 0, wanted
        cdef int i
        for i in range(BUCKETS):
            seen += self.buckets[0][i] + self.buckets[1][i]
        if seen == 0:
            return 0
        wanted = <int64_t>(share * seen)
        if wanted >= seen:
            wanted = seen - 1
        seen = 0
        for i in range(BUCKETS):
            seen += self.buckets[0][i] + self.buckets[1][i]
            if seen > wanted:
                return middle_of(i) << self.shift
        return 0
