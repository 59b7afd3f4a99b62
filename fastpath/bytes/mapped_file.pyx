"""A mapped file that another process may truncate while it is read.

The kernel ends a process with SIGBUS when it reads a page of a mapped file that lies behind the file's present end. This
file alone decides what happens instead: a page of zeros takes the place of the missing page, the read goes on, and the
mapping counts the page in `missing`, so that its reader can throw away what it made of those bytes.

Rules:

1. Only pages of a `MappedFile` are replaced. Any other SIGBUS goes to the handler that was there before, or ends the
   process as it would have.
2. The handler makes one system call and takes no lock, as a signal handler must. It finds a mapping in a list to whose
   front entries are added and from which none is ever removed: the entry of a mapping that is closed is used again.
3. The list is changed under the GIL alone. An entry is filled before its `begin` is set, and `begin` is cleared before
   its pages are unmapped.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.signal cimport SIG_DFL, SIG_IGN, SIGBUS, raise_, signal
from libc.stdint cimport uint8_t, uintptr_t
from libc.stdlib cimport calloc
from posix.mman cimport (
    MADV_DONTNEED, MADV_SEQUENTIAL, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_PRIVATE, MAP_SHARED, PROT_READ, madvise, mmap,
    munmap,
)
from posix.signal cimport SA_NODEFER, SA_SIGINFO, sigaction, sigaction_t, sigemptyset, siginfo_t
from posix.unistd cimport _SC_PAGESIZE, close, dup, sysconf

import os

cdef extern from "<signal.h>" nogil:
    const int BUS_ADRERR

ctypedef void (*Informed)(int, siginfo_t*, void*) noexcept nogil
ctypedef void (*Plain)(int) noexcept nogil

cdef struct Entry:
    uintptr_t begin     # of the first page; 0: the entry is free
    uintptr_t end       # after the last page
    long missing        # how many pages were replaced
    Entry* next

cdef long page_bytes = sysconf(_SC_PAGESIZE)
cdef Entry* entries = NULL
cdef sigaction_t before
"""The handler of SIGBUS that was there when this one was set."""
cdef bint handed = False
"""Whether a signal is with that handler now."""


cdef inline Py_ssize_t whole_pages(Py_ssize_t size) noexcept nogil:
    return (size + page_bytes - 1) // page_bytes * page_bytes


cdef Entry* entry_of(uintptr_t address) noexcept nogil:
    cdef Entry* one = entries
    while one != NULL:
        if one.begin and one.begin <= address < one.end:
            return one
        one = one.next
    return NULL


cdef void on_bus(int number, siginfo_t* info, void* context) noexcept nogil:
    global handed
    cdef uintptr_t page = <uintptr_t>info.si_addr
    cdef Entry* of
    page -= page % <uintptr_t>page_bytes
    if info.si_code == BUS_ADRERR:
        of = entry_of(page)
        if of != NULL and mmap(
            <void*>page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0
        ) != MAP_FAILED:
            of.missing += 1
            return
    if before.sa_handler == SIG_IGN and info.si_code <= 0:
        return  # another process has sent it
    if handed or before.sa_handler == SIG_DFL or before.sa_handler == SIG_IGN:
        # A handler that was set behind this one, as Python's faulthandler, gives the signal back to it.
        signal(SIGBUS, SIG_DFL)
        raise_(SIGBUS)
        return
    handed = True
    if before.sa_flags & SA_SIGINFO:
        (<Informed><void*>before.sa_sigaction)(number, info, context)
    else:
        (<Plain><void*>before.sa_handler)(number)
    handed = False


cdef int guard() except -1:
    """See to it that this file's handler is the one of SIGBUS, whatever has been set since the last call."""
    global before
    cdef sigaction_t wanted, found
    if sigaction(SIGBUS, NULL, &found) != 0:
        raise OSError("the handler of SIGBUS cannot be read")
    if found.sa_flags & SA_SIGINFO and found.sa_sigaction == on_bus:
        return 0
    before = found
    wanted.sa_sigaction = on_bus
    wanted.sa_flags = SA_SIGINFO | SA_NODEFER
    sigemptyset(&wanted.sa_mask)
    if sigaction(SIGBUS, &wanted, NULL) != 0:
        raise OSError("no handler of SIGBUS can be set")
    return 0


cdef Entry* free_entry() except NULL:
    global entries
    cdef Entry* one = entries
    while one != NULL:
        if not one.begin:
            return one
        one = one.next
    one = <Entry*>calloc(1, sizeof(Entry))
    if one == NULL:
        raise MemoryError
    one.next = entries
    entries = one
    return one


cdef class MappedFile:
    """The bytes that a file had when it was mapped, as a read-only buffer, read in order."""

    cdef uint8_t* _data
    cdef Py_ssize_t _size
    cdef int _descriptor
    cdef Entry* _entry

    def __cinit__(self, int descriptor, Py_ssize_t size):
        cdef void* found
        self._descriptor = -1
        if size <= 0:
            raise ValueError(f"{size} bytes cannot be mapped")
        guard()
        self._entry = free_entry()
        self._descriptor = dup(descriptor)
        if self._descriptor < 0:
            raise OSError(f"descriptor {descriptor} cannot be kept")
        found = mmap(NULL, size, PROT_READ, MAP_SHARED, self._descriptor, 0)
        if found == MAP_FAILED:
            raise OSError(f"{size} bytes of descriptor {descriptor} cannot be mapped")
        self._data, self._size = <uint8_t*>found, size
        self._entry.missing = 0
        self._entry.end = <uintptr_t>found + whole_pages(size)
        self._entry.begin = <uintptr_t>found
        madvise(found, size, MADV_SEQUENTIAL)

    def __dealloc__(self):
        if self._data != NULL:
            self._entry.begin = 0
            munmap(self._data, self._size)
        if self._descriptor >= 0:
            close(self._descriptor)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self._data, self._size, True, flags)

    def __len__(self):
        return self._size

    @property
    def missing(self):
        return self._entry.missing

    def file_size(self):
        return os.fstat(self._descriptor).st_size

    def forget(self, Py_ssize_t begin, Py_ssize_t end):
        begin, end = whole_pages(begin), end - end % page_bytes
        if 0 <= begin < end <= self._size:
            madvise(self._data + begin, end - begin, MADV_DONTNEED)
