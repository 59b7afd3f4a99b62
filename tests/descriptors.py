"""How many files and sockets this process has open, for tests of what gives them back."""

import gc
import os


def opened() -> int:
    """How many descriptors are open."""
    return len(os.listdir("/proc/self/fd")) - 1  # without that of the folder itself


def settled() -> int:
    """How many are, when those of earlier tests that waited for the garbage collector are closed."""
    gc.collect()
    return opened()
