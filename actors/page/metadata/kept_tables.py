"""Tables that were made lately, within a bound of memory.

This file alone decides which ones stay: the last ones that were asked for, COUNT_MAX of BYTES_MAX together. A table that is
larger than that by itself is made anew each time, so nobody should ask for it often. An empty one has no bytes, and its
Python objects some thousand.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import pyarrow as pa

BYTES_MAX = 96 << 20
COUNT_MAX = 256


class KeptTables:
    """Tables by a key. Its methods may be called from any thread."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def table(self, key: Hashable, make: Callable[[], pa.Table]) -> pa.Table:
        """The table of a key, which is made if it is not kept. Raises what `make` raises."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = make()
        if made.nbytes > self._bytes_max:
            return made
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._bytes += made.nbytes
            while len(self._kept) > COUNT_MAX or self._bytes > self._bytes_max:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return made

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    @property
    def bytes(self) -> int:
        """What the kept tables take, bytes."""
        return self._bytes
