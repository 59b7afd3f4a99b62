"""How the page's process holds memory: what a large table took goes back to the system once nobody looks at it.

This file alone decides that. A page is asked for large tables seldom, and lives beside brokers that want the memory. glibc
keeps freed blocks of up to 32 MiB, in an arena for each thread, and Arrow's own allocator keeps what it had: after forty
moves of the slider over a million partitions that was 90 MiB. Elsewhere than with glibc only Arrow's allocator is changed.
"""

import ctypes

import pyarrow as pa

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
LARGE_BYTES = 1 << 20
"""A block of this size goes back to the system when it is freed."""
ARENAS = 2


def hold_little() -> None:
    """Set this up for the process, before it has held anything large."""
    pa.set_memory_pool(pa.system_memory_pool())
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        libc.mallopt(M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Give what was freed in smaller blocks back to the system: some ms."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
