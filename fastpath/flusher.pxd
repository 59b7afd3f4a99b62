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
    int count
    int runs                    # how many runs there are; the files behind the last one are one more
    int* fds                    # after the struct, in the same allocation, as are the others
    int* ends                   # of each run and of what is behind them, in `fds`
    int* failed                 # the place in `fds` of the file with which each of these ended; below zero: durable
    int* errors                 # and its errno

cdef enum:
    FLUSHED = 1024

cdef struct Flushed:            # the size of a file when it was synced last; a wrong value costs time only
    uint64_t inode
    int64_t size

cdef struct File:
    int fd
    int state
    int error                   # what came of it

cdef struct Team:               # the threads that sync the files of one job; `lock` guards what follows `flushed`
    pthread_mutex_t lock
    pthread_cond_t synced       # a file of which another thread waits
    Job* job
    File* files                 # each file of the jobs that were taken together, by descriptor; NULL: no memory for them
    size_t count
    Flushed* flushed
    int next                    # the run that a thread takes next
    int waiting                 # threads that wait for `synced`
    uint64_t syncs

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
    Flushed[FLUSHED] flushed    # by inode modulo FLUSHED; used by the thread and its team alone
    int[2] event                # readable while `done` may hold something; what makes it so. An eventfd is both


cdef class Flusher:
    cdef Queue* _queue          # NULL once closed

    cdef Queue* _open(self) except NULL
    cdef int _stop(self) noexcept
