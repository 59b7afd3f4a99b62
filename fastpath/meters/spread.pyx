# cython: auto_pickle=False
"""How values are spread: their number, their sum, and quantiles of the newest.

This file alone decides what is kept of a value: the count of a bucket. There are sixteen buckets for each power of two, so a
quantile is off by 3% at most, and adding costs the same however many values there are. Two windows take turns: a quantile is
that of the last minute or two, also where nothing was added since: there are none then. Nothing falls out of `count` and `total`.
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

    cdef void join(self, Spread other, int64_t at_ns) noexcept:
        """Add the values of another one with the same shift, of which those of its windows that are not over by now."""
        cdef int i
        self.count += other.count
        self.total += other.total
        self.since_ns = at_ns
        if at_ns - other.since_ns < 2 * other.window_ns:
            for i in range(BUCKETS):
                self.buckets[self.now][i] += other.buckets[other.now][i]
        if at_ns - other.since_ns < other.window_ns:
            for i in range(BUCKETS):
                self.buckets[self.now][i] += other.buckets[other.now ^ 1][i]

    def add(self, int64_t value, int64_t at_ns):
        """Add one value; below 0 it counts as 0. `at_ns`: now, by a clock that does not go back."""
        self.note(value, at_ns)

    def quantiles(self, tuple shares, int64_t at_ns):
        """[(share, the value below which that part of the newest values lies)], for ascending shares. Empty if nothing was
        added in the last two windows. `at_ns`: now."""
        cdef int64_t total = 0, seen = 0, wanted
        cdef int64_t age = at_ns - self.since_ns
        cdef uint32_t* newest = self.buckets[self.now]
        cdef uint32_t* before = self.buckets[self.now ^ 1]
        cdef bint both = age < self.window_ns
        cdef int i = 0
        if self.count == 0 or age >= 2 * self.window_ns:
            return []
        for i in range(BUCKETS):
            total += newest[i] + (before[i] if both else 0)
        if total == 0:
            return []
        found = []
        i = -1
        for share in shares:
            wanted = <int64_t>(<double>share * total)
            if wanted >= total:
                wanted = total - 1
            while seen <= wanted:
                i += 1
                seen += newest[i] + (before[i] if both else 0)
            found.append((share, middle_of(i) << self.shift))
        return found
