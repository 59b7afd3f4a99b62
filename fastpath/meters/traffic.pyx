# cython: auto_pickle=False
"""What comes into the topics of a broker and leaves them, counted: of one topic, and of all of them in the same call.

This file alone keeps those sums. What of them has which name is said where they are shown.
"""

CRC, MAGIC, SEQUENCE, UNKEYED = range(4)
"""What is wrong with records."""


cdef class Traffic:
    """The counters of one topic; `whole` has those of all topics, those that are gone among them (None: it is that)."""

    def __cinit__(self, Traffic whole=None):
        self.whole = whole

    def produced(self, int64_t size, int64_t messages):
        """Count a batch or several that were appended for a producer."""
        cdef Traffic each = self
        while each is not None:
            each.produces += 1
            each.bytes_in += size
            each.messages_in += messages
            each = each.whole

    def refused(self, int64_t size):
        """Count a partition of a Produce that was answered with an error. `size`: bytes that were too many; else 0."""
        cdef Traffic each = self
        while each is not None:
            each.produces += 1
            each.failed_produces += 1
            each.bytes_rejected += size
            each = each.whole

    def wrong(self, int what):
        """Count records that were refused for what is wrong with them: CRC, MAGIC, SEQUENCE or UNKEYED."""
        cdef Traffic each = self
        while each is not None:
            if what == 0:
                each.wrong_crc += 1
            elif what == 1:
                each.wrong_magic += 1
            elif what == 2:
                each.wrong_sequence += 1
            else:
                each.unkeyed += 1
            each = each.whole

    def fetched(self, int64_t size, bint failed, bint by_replica, bint reassigned):
        """Count a partition of the answer to a Fetch. `reassigned`: by a replica that is being added."""
        cdef Traffic each = self
        while each is not None:
            each.fetches += 1
            each.failed_fetches += failed
            if by_replica:
                each.replication_bytes_out += size
                each.reassignment_bytes_out += size if reassigned else 0
            else:
                each.bytes_out += size
            each = each.whole

    def replicated(self, int64_t size, bint reassigned):
        """Count what this broker has taken in from a leader."""
        cdef Traffic each = self
        while each is not None:
            each.replication_bytes_in += size
            each.reassignment_bytes_in += size if reassigned else 0
            each = each.whole
