"""Copy on write: a list and a map whose old generations stay readable, from any thread, while the owner writes on.

This file alone decides when a page may be written in place. A page carries the generation in which it was made. If a
generation was taken that can still see the page, it is copied before the next write. The old copy is freed when its
last reader is gone.

Rules: taking a generation costs one reference for each page, never a copy of content. Only the owner writes, and it
holds the GIL while it does. Frozen copies never change.
"""

cdef enum:
    SHARDS = 1024


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


cdef class PagedList:
    """A list of any values in pages of 4,096. An index never written reads as None."""

    def __init__(self, Generations generations):
        self.pages = []
        self.stamps = []
        self.generations = generations
        self.size = 0

    def __len__(self):
        return self.size

    cpdef object get(self, Py_ssize_t index):
        """The value at `index`. Raises IndexError outside [0, len)."""
        if index < 0 or index >= self.size:
            raise IndexError(index)
        return (<list>self.pages[index >> PAGE_BITS])[index & (PAGE - 1)]

    cpdef int put(self, Py_ssize_t index, object value) except -1:
        """Replace the value at `index`."""
        cdef Py_ssize_t page = index >> PAGE_BITS
        if index < 0 or index >= self.size:
            raise IndexError(index)
        if <long>self.stamps[page] <= self.generations.pinned:
            self.pages[page] = list(<list>self.pages[page])
            self.stamps[page] = self.generations.current
        (<list>self.pages[page])[index & (PAGE - 1)] = value
        return 0

    cpdef Py_ssize_t append(self, object value) except -1:
        """Add a value at the end. Returns its index."""
        cdef Py_ssize_t index = self.size
        if index & (PAGE - 1) == 0:
            self.pages.append([None] * PAGE)
            self.stamps.append(self.generations.current)
        self.size = index + 1
        self.put(index, value)
        return index

    cpdef PagedList frozen(self):
        """The list as it is now. Take a generation before, and release it when the copy is not used any more."""
        cdef PagedList copy = PagedList.__new__(PagedList)
        copy.pages = list(self.pages)
        copy.stamps = self.stamps
        copy.generations = None
        copy.size = self.size
        return copy

    cpdef PagedList thawed(self, Generations generations):
        """A list that can be written, over the pages of this frozen one. `generations`: the owner's, of which one is
        taken, so that each page is copied before its first write."""
        cdef PagedList copy = PagedList.__new__(PagedList)
        copy.pages = list(self.pages)
        copy.stamps = [0] * len(self.pages)
        copy.generations = generations
        copy.size = self.size
        return copy

    def differing(self, PagedList older):
        """How many pages are not those of a frozen copy that was made earlier."""
        cdef Py_ssize_t i, known = len(older.pages)
        return sum([i >= known or self.pages[i] is not older.pages[i] for i in range(len(self.pages))])


cdef class PagedMap:
    """A dictionary in 1,024 shards. `put(key, None)` removes a key. The order of iteration has no meaning."""

    def __init__(self, Generations generations):
        self.shards = [None] * SHARDS
        self.stamps = [-1] * SHARDS
        self.generations = generations
        self.size = 0

    def __len__(self):
        return self.size

    cpdef object get(self, object key):
        """The value, or None."""
        shard = self.shards[hash(key) & (SHARDS - 1)]
        if shard is None:
            return None
        return (<dict>shard).get(key)

    cpdef int put(self, object key, object value) except -1:
        """Set one key, or remove it with None. Removing a key that does not exist does nothing."""
        cdef Py_ssize_t at = hash(key) & (SHARDS - 1)
        cdef dict shard
        if self.shards[at] is None:
            if value is None:
                return 0
            self.shards[at] = {}
            self.stamps[at] = self.generations.current
        elif <long>self.stamps[at] <= self.generations.pinned:
            self.shards[at] = dict(<dict>self.shards[at])
            self.stamps[at] = self.generations.current
        shard = <dict>self.shards[at]
        self.size -= len(shard)
        if value is None:
            shard.pop(key, None)
        else:
            shard[key] = value
        self.size += len(shard)
        return 0

    def items(self):
        """All (key, value) pairs. Their order has no meaning."""
        for shard in self.shards:
            if shard is not None:
                yield from (<dict>shard).items()

    cpdef PagedMap frozen(self):
        """The map as it is now. Take a generation before, and release it when the copy is not used any more."""
        cdef PagedMap copy = PagedMap.__new__(PagedMap)
        copy.shards = list(self.shards)
        copy.stamps = self.stamps
        copy.generations = None
        copy.size = self.size
        return copy

    cpdef PagedMap thawed(self, Generations generations):
        """A map that can be written, over the shards of this frozen one; as `PagedList.thawed`."""
        cdef PagedMap copy = PagedMap.__new__(PagedMap)
        copy.shards = list(self.shards)
        copy.stamps = [0] * SHARDS
        copy.generations = generations
        copy.size = self.size
        return copy

    def differing(self, PagedMap older):
        """How many entries lie in shards that are not those of a frozen copy that was made earlier."""
        cdef Py_ssize_t i
        found = 0
        for i in range(SHARDS):
            if self.shards[i] is not None and self.shards[i] is not older.shards[i]:
                found += len(<dict>self.shards[i])
        return found
