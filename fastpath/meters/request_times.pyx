# cython: auto_pickle=False
"""How long the requests of an API take, from their frame to their last byte, and how they were answered.

This file alone decides what the parts of a request's time are, as Apache Kafka names them: queue (until it begins), local
(while it is handled), remote (while it waits for others, and between its slices), response queue (while its answer waits for
an earlier one), send (until the host has handed it to the kernel). Their sum is the total. Where nobody has looked at the
clock when an answer became known, since what it waited for came within a turn, the rest of that turn counts as remote.
"""

from fastpath.meters.error_codes cimport count

NS_SHIFT = 6
LENGTH_BYTES = 4


cdef class Door:
    """What has come through one listener, and left through it."""


cdef class Timing:
    """The times of one request, in ns of one clock; 0: not yet. A place in a connection's order is one of these."""

    def arrived(self, int64_t at_ns, int version, int size, RequestTimes meter, Door door):
        """Note when a request came, and through which listener. `meter` None: its API is not served."""
        self.arrived_ns = at_ns
        self.version = version
        self.size = size
        self.meter = meter
        self.door = door
        door.requests += 1
        door.bytes_in += size + LENGTH_BYTES


    def handled(self, int64_t since_ns, int64_t spent_ns):
        """Note that the node's thread has worked on the request from `since_ns` on. If its answer is known now, that is
        when it became known."""
        if not self.began_ns:
            self.began_ns = since_ns
        self.local_ns += spent_ns
        if self.parts is not None and not self.answered_ns:
            self.answered_ns = since_ns + spent_ns


cdef class RequestTimes:
    """The requests of one API."""

    def __cinit__(self, bint fetches=False):
        """`fetches`: those of consumers and of followers are counted apart, and together only when somebody asks."""
        self.total = Spread(NS_SHIFT)
        self.queue = Spread(NS_SHIFT)
        self.local = Spread(NS_SHIFT)
        self.remote = Spread(NS_SHIFT)
        self.response_queue = Spread(NS_SHIFT)
        self.send = Spread(NS_SHIFT)
        self.size = Spread()
        if fetches:
            self.consumer, self.follower = RequestTimes(), RequestTimes()

    cdef void note(self, Timing timing, int64_t sent_ns) noexcept:
        cdef int64_t began = timing.began_ns or timing.arrived_ns, handled, local, left
        cdef int64_t answered = timing.answered_ns or timing.left_ns or sent_ns
        cdef RequestTimes part
        if self.consumer is not None:
            part = self.follower if timing.connection.replica else self.consumer
            part.note(timing, sent_ns)
            return
        left = timing.left_ns if timing.left_ns > answered else answered
        handled = answered - began
        local = timing.local_ns if timing.local_ns < handled else handled
        self.total.note(sent_ns - timing.arrived_ns, sent_ns)
        self.queue.note(began - timing.arrived_ns, sent_ns)
        self.local.note(local, sent_ns)
        self.remote.note(handled - local, sent_ns)
        self.response_queue.note(left - answered, sent_ns)
        self.send.note(sent_ns - left, sent_ns)
        self.size.note(timing.size, sent_ns)
        if 0 <= timing.version < VERSIONS:
            self.versions[timing.version] += 1

    cdef void join(self, RequestTimes part, int64_t at_ns) noexcept:
        cdef int i
        self.total.join(part.total, at_ns)
        self.queue.join(part.queue, at_ns)
        self.local.join(part.local, at_ns)
        self.remote.join(part.remote, at_ns)
        self.response_queue.join(part.response_queue, at_ns)
        self.send.join(part.send, at_ns)
        self.size.join(part.size, at_ns)
        for i in range(VERSIONS):
            self.versions[i] += part.versions[i]
        for i in range(CODES):
            self.codes[i] += part.codes[i]

    def whole(self, int64_t at_ns):
        """All requests of the API as of now: those that are counted apart, together."""
        cdef RequestTimes whole, part
        if self.consumer is None:
            return self
        whole = RequestTimes()
        for part in (self, self.consumer, self.follower):
            whole.join(part, at_ns)
        return whole

    def answered(self, message):
        """Count the error codes of an answer, that of the whole and those of its parts; 0 counts too."""
        count(message, self.codes, CODES)

    def by_version(self):
        """(version, number of requests) of each version that has come."""
        return [(i, self.versions[i]) for i in range(VERSIONS) if self.versions[i]]

    def by_code(self):
        """(error code, how often it was answered) of each code that was answered."""
        return [(i - 1, self.codes[i]) for i in range(CODES) if self.codes[i]]


def note_all(list timings, int64_t sent_ns):
    """Note requests whose answers have been sent, and forget them."""
    cdef Timing timing
    for timing in timings:
        if timing.meter is not None:
            timing.meter.note(timing, sent_ns)
        if timing.door is not None and timing.parts:
            timing.door.responses += 1
            for part in timing.parts:
                timing.door.bytes_out += len(part)
    timings.clear()
