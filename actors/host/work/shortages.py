"""The meaning of a lack of descriptors, of memory or of threads.

This file alone decides that. A lack says nothing about a disk and is over when something is given back, so it is never an
error of a device and never ends a node:

1. A thread beside the loop waits until what it needs is there (`LocalDisk.taken`).
2. The loop waits for nothing. It closes descriptors that it can open again, then takes one that was kept for it
   (`descriptors.Reserve`). Where neither helps, the one operation is refused as on a full disk, with `DiskFull`:
   nothing of it has been done, and the caller may ask again. A sync whose files cannot be opened yet waits
   (`syncs.py`).
"""

import errno

NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
SHORT = NO_DESCRIPTOR | {errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS}
"""Errors of system calls that say that something is lacking for now."""
AGAIN_S = 0.02
"""How long in s to wait before a call that lacked something is tried again."""
