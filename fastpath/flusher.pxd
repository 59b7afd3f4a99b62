"""The flusher's queue in C. `lock` guards all fields but `thread` and `event`."""

from libc.stdint cimport int64_t, uint64_t

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass

cdef struct Job:
    Job* next
    int64_t token
    int error                   # errno of the first file that failed; 0: durable
    int count
    int* fds                    # after the struct, in the same allocation

cdef enum:
    FLUSHED = 1024

cdef struct Flushed:            # the size of a file when it was synced last; a wrong value costs time only
    uint64_t inode
    int64_t size

cdef struct Queue:
    pthread_mutex_t lock
    pthread_cond_t wake         # something in `todo`, or `stopping`
    pthread_t thread
    Job* todo
    Job** todo_end
    Job* done
    Job** done_end
    uint64_t syncs              # fdatasync calls so far
    bint stopping
    Flushed[FLUSHED] flushed    # by inode modulo FLUSHED; used by the thread alone
    int[2] event                # readable while `done` may hold something; what makes it so. An eventfd is both


cdef class Flusher:
    cdef Queue* _queue          # NULL once closed

    cdef Queue* _open(self) except NULL
    cdef int _stop(self) noexcept
