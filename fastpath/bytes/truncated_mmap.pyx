"""Mapped files that are truncated while they are read.

The kernel ends a process with SIGBUS when it reads a page of a mapped file that lies behind the file's present end.
This file alone decides what happens instead. `guard` puts a page of zeros in its place, and the read goes on. `pages`
counts such pages, so that a caller can throw away what it made of them. Any other cause of SIGBUS ends the process as
before.
"""

from posix.mman cimport MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_PRIVATE, PROT_READ, mmap
from posix.signal cimport SA_NODEFER, SA_SIGINFO, sigaction, sigaction_t, sigemptyset, siginfo_t
from posix.unistd cimport _SC_PAGESIZE, sysconf
from libc.signal cimport SIG_DFL, SIGBUS, signal
from libc.stdint cimport uintptr_t

cdef extern from "<signal.h>" nogil:
    const int BUS_ADRERR

cdef long page_bytes = sysconf(_SC_PAGESIZE)
cdef volatile long replaced = 0


cdef void on_bus(int number, siginfo_t* info, void* context) noexcept nogil:
    """Async-signal-safe: one system call. Anything but a missing page of a file ends the process, as without this
    handler."""
    global replaced
    cdef uintptr_t page
    if info.si_code == BUS_ADRERR:
        page = <uintptr_t>info.si_addr
        page -= page % <uintptr_t>page_bytes
        if mmap(<void*>page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED:
            replaced = replaced + 1
            return
    signal(SIGBUS, SIG_DFL)


def guard():
    """From now on, in this process, missing pages of mapped files read as zeros and are counted. Raises OSError."""
    cdef sigaction_t wanted
    wanted.sa_sigaction = on_bus
    wanted.sa_flags = SA_SIGINFO | SA_NODEFER
    sigemptyset(&wanted.sa_mask)
    if sigaction(SIGBUS, &wanted, NULL) != 0:
        raise OSError("no handler of SIGBUS can be set")


def pages():
    """How many pages were missing so far."""
    return replaced
