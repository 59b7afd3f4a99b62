"""Copy on write: pages whose old generations stay readable, from any thread, while the owner writes on; a list and a map of
them.

This file alone decides when a page may be written in place. A page carries the generation in which it was made. If a
generation was taken that can still see the page, it is copied before the next write. The old copy is freed when its
last reader is gone.

Rules: taking a generation costs one reference for each page, never a copy of content. Only the owner writes, and it
holds the GIL while it does. Frozen copies never change.
"""

cimport cython

cdef enum:
    SHARDS = 1024                       # pages of a map


cdef class Generations:
    """The generations that are being read.

    Invariant: pinned == max(live, default=-1) < current.
    """

    def __init__(self):
        self.current = 0
        self.pinned = -1
        self.live = []

    def take(self):
        """Start a new generation. Returns the number of the one that is now fixed."""
        cdef long taken = self.current
        self.live.append(taken)
        self.pinned = taken
        self.current = taken + 1
        return taken

    def release(self, long taken):
        """End the reading of generation `taken`. Raises ValueError when it is not live."""
        self.live.remove(taken)
        self.pinned = max(self.live) if self.live else -1


cdef class Pages:
    """Pages of one owner, or of one generation of them. What is in a page is the subclass's."""

    def __init__(self, Generations generations):
        self.pages = []
        self.stamps = []
        self.generations = generations

    def __len__(self):
        return self.size

    cdef object copied(self, object page):
        """A copy of a page."""
        raise NotImplementedError

    cdef object writable(self, Py_ssize_t number):
        """A page that may be written: a copy, if a generation that is read can see it."""
        if <long>self.stamps[number] <= self.generations.pinned:
            self.pages[number] = self.copied(self.pages[number])
            self.stamps[number] = self.generations.current
        return self.pages[number]

    cdef int insert(self, Py_ssize_t number, object page) except -1:
        """Put a page that nobody has seen before the one of that number, or behind all."""
        self.pages.insert(number, page)
        self.stamps.insert(number, self.generations.current)
        return 0

    cpdef object frozen(self):
        """All of it as it is now. Take a generation before, and release it when the copy is not used any more."""
        cdef Pages copy = type(self).__new__(type(self))
        copy.pages = list(self.pages)
        copy.stamps = self.stamps
        copy.size = self.size
        return copy

    cpdef object thawed(self, Generations generations):
        """A copy that can be written, over the pages of this frozen one. `generations`: the owner's, of which one is taken,
        so that each page is copied before its first write."""
        cdef Pages copy = self.frozen()
        copy.stamps = [0] * len(self.pages)
        copy.generations = generations
        return copy

    def let_go(self, Py_ssize_t most):
        """Drop up to `most` pages of a frozen copy, of which nothing is read any more. What only this copy has of them is
        freed. Returns whether pages are left."""
        assert self.generations is None, "only a frozen copy is let go of"
        self.size = 0
        del self.pages[max(0, <Py_ssize_t>len(self.pages) - most):]
        return len(self.pages) > 0

    def differing(self, Pages older):
        """How many pages are not those of a frozen copy that was made earlier."""
        cdef Py_ssize_t i, known = len(older.pages)
        return sum([i >= known or self.pages[i] is not older.pages[i] for i in range(len(self.pages))])


@cython.final
cdef class PagedList(Pages):
    """A list of any values in pages of 4,096. An index never written reads as None."""

    cdef object copied(self, object page):
        return list(<list>page)

    cpdef object get(self, Py_ssize_t index):
        """The value at `index`. Raises IndexError outside [0, len)."""
        if index < 0 or index >= self.size:
            raise IndexError(index)
        return (<list>self.pages[index >> PAGE_BITS])[index & (PAGE - 1)]

    cpdef int put(self, Py_ssize_t index, object value) except -1:
        """Replace the value at `index`."""
        if index < 0 or index >= self.size:
            raise IndexError(index)
        (<list>self.writable(index >> PAGE_BITS))[index & (PAGE - 1)] = value
        return 0

    cpdef Py_ssize_t append(self, object value) except -1:
        """Add a value at the end. Returns its index."""
        cdef Py_ssize_t index = self.size
        if index & (PAGE - 1) == 0:
            self.insert(index >> PAGE_BITS, [None] * PAGE)
        self.size = index + 1
        self.put(index, value)
        return index


@cython.final
cdef class PagedMap(Pages):
    """A dictionary in 1,024 pages, None where nothing ever was. `put(key, None)` removes a key. The order of iteration has no
    meaning."""

    def __init__(self, Generations generations):
        super().__init__(generations)
        self.pages = [None] * SHARDS
        self.stamps = [-1] * SHARDS

    cdef object copied(self, object page):
        return {} if page is None else dict(<dict>page)

    cpdef object get(self, object key):
        """The value, or None."""
        shard = self.pages[hash(key) & (SHARDS - 1)]
        if shard is None:
            return None
        return (<dict>shard).get(key)

    cpdef int put(self, object key, object value) except -1:
        """Set one key, or remove it with None. Removing a key that does not exist does nothing."""
        cdef Py_ssize_t at = hash(key) & (SHARDS - 1)
        cdef dict shard
        if self.pages[at] is None and value is None:
            return 0
        shard = <dict>self.writable(at)
        self.size -= len(shard)
        if value is None:
            shard.pop(key, None)
        else:
            shard[key] = value
        self.size += len(shard)
        return 0

    def items(self):
        """All (key, value) pairs. Their order has no meaning."""
        for shard in self.pages:
            if shard is not None:
                yield from (<dict>shard).items()

    def differing(self, Pages older):
        """How many entries lie in pages that are not those of a frozen copy that was made earlier."""
        cdef Py_ssize_t i
        found = 0
        for i in range(SHARDS):
            if self.pages[i] is not None and self.pages[i] is not older.pages[i]:
                found += len(<dict>self.pages[i])
        return found
