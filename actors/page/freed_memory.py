"""How the page's process holds memory: what a large table took goes back to the system once nobody looks at it.

This file alone decides that. A page is asked for large tables seldom, and lives beside brokers that want the memory. glibc
keeps freed blocks of up to 32 MiB, in an arena for each thread, and Arrow's own allocator keeps what it had: after forty
moves of the slider over a million partitions that was 90 MiB. Elsewhere than with glibc only Arrow's allocator is changed,
which has to be chosen before Arrow is loaded: its own takes 4 MiB at once.
Arrow imports pandas, if it is installed, to see whether what an array is made of is a pandas object: 40 MiB and a third of a
second, and the page has none. What a log is read into is not kept from one reading to the next.
"""

import ctypes
import os
import sys
from importlib.abc import MetaPathFinder

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
LARGE_BYTES = 1 << 20
"""A block of this size goes back to the system when it is freed."""
ARENAS = 1


def hold_little() -> None:
    """Set this up for the process, before Arrow is loaded."""
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    _leave_pandas_out()
    _keep_no_blocks()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        libc.mallopt(M_ARENA_MAX, ARENAS)


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _leave_pandas_out() -> None:
    """Let Arrow look for pandas now, where it finds none: it looks once. Others may import it later all the same."""
    import pyarrow as pa

    nowhere = _NoPandas()
    sys.meta_path.insert(0, nowhere)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(nowhere)


def _keep_no_blocks() -> None:
    from actors.replay.logs.chunks import BLOCKS

    BLOCKS.keep(0)


def give_back() -> None:
    """Give what was freed in smaller blocks back to the system: some ms."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
