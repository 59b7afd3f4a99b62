"""A thread that makes files durable and never needs the GIL.

A Python thread that waits for the disk must get the GIL before it can report the result, and against a busy loop that
takes a switch interval or two. This thread takes its jobs from a queue behind a lock, calls fdatasync, and reports
results through a descriptor that the loop polls beside its sockets.

This file alone decides how syncs are joined, and in which order files become durable. The thread takes every job that
waits, and syncs each file among them once. So the next sync covers whatever was written while one sync ran, however many
jobs asked for it. Files are synced in the order in which the jobs name them, a file of several jobs where it is named
first. What rests upon another file, as new records do upon a cut in front of them, is named behind it. Where the sync of
a file fails, its job goes no further: what is named behind it must not be durable without it. Results keep the order of the
jobs.

A job may have runs of files, as when many logs are made durable at once. Runs do not rest upon each other: a team of up to
64 threads takes them, one after the other in each run. They wait for the same few transactions of the file system's
journal, each of which takes all that is there. A run ends where the sync of a file fails, and the others go on. The files
behind the runs wait for all of them. Jobs wait for each other. The team is there for the time of a job.

It also decides how a large file goes to the device: in pieces of 8 MiB, each awaited, and then one fdatasync. So a sync
of another file that comes meanwhile waits for a piece and not for the whole file: the file system's journal writes out
all data of its transaction, and that would be the whole file.

Linux has calls of its own for these things: an eventfd, sync_file_range. Elsewhere the descriptor is that of a pipe, a file goes
to the device whole, and a sync is F_FULLFSYNC where there is one (macOS, whose fsync stops at the device's cache) or fsync.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport bsearch, calloc, free, qsort
from libc.string cimport memset

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_attr_t:
        pass
    int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*) noexcept nogil, void*)
    int pthread_join(pthread_t, void**)
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_destroy(pthread_mutex_t*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_cond_init(pthread_cond_t*, void*)
    int pthread_cond_destroy(pthread_cond_t*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)
    int pthread_cond_signal(pthread_cond_t*)
    int pthread_cond_broadcast(pthread_cond_t*)
    int pthread_attr_init(pthread_attr_t*)
    int pthread_attr_destroy(pthread_attr_t*)
    int pthread_attr_setstacksize(pthread_attr_t*, size_t)

cdef extern from "<signal.h>" nogil:
    ctypedef struct sigset_t:
        pass
    int SIG_SETMASK
    int sigfillset(sigset_t*)
    int pthread_sigmask(int, const sigset_t*, sigset_t*)

cdef extern from "<unistd.h>" nogil:
    int close(int)

cdef extern from "<sys/stat.h>" nogil:
    struct stat_t "stat":
        int64_t st_size
        uint64_t st_ino
    int fstat(int, stat_t*)

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <sys/eventfd.h>
    static int open_event(int ends[2]) {
        return ends[0] = ends[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    static void set_event(int end) { eventfd_write(end, 1); }
    static void clear_event(int end) { eventfd_t ignored; eventfd_read(end, &ignored); }
    static int sync_data(int fd) { return fdatasync(fd); }
    static int write_piece(int fd, int64_t begin, int64_t size) {
        unsigned int whole = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
        return sync_file_range(fd, begin, size, whole) == 0 ? 0 : errno;
    }
    #else
    static int open_event(int ends[2]) {
        int i;
        if (pipe(ends) != 0) return -1;
        for (i = 0; i < 2; i++) { fcntl(ends[i], F_SETFD, FD_CLOEXEC); fcntl(ends[i], F_SETFL, O_NONBLOCK); }
        return 0;
    }
    static void set_event(int end) { while (write(end, "", 1) < 0 && errno == EINTR) {} }  /* full: it is set */
    static void clear_event(int end) { char ignored[512]; while (read(end, ignored, sizeof ignored) > 0) {} }
    static int sync_data(int fd) {
    #ifdef F_FULLFSYNC
        if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
        if (errno == EIO || errno == EINTR) return -1;
    #endif
        return fsync(fd);
    }
    static int write_piece(int fd, int64_t begin, int64_t size) { return ENOSYS; }
    #endif
    """
    int open_event(int*)
    void set_event(int)
    void clear_event(int)
    int sync_data(int)
    int write_piece(int, int64_t, int64_t)
    int EDQUOT, EIO, ENOSPC

cdef int64_t PIECE = 8 << 20

cdef enum:
    NOT_SYNCED, IN_SYNC, SYNCED         # the states of a file
    TEAM_MAX = 64                       # threads of a team; they wait, and take no time of a processor
    STACK_BYTES = 256 << 10


cdef int _by_fd(const void* a, const void* b) noexcept nogil:
    return (<const File*>a).fd - (<const File*>b).fd


cdef int _write_back(int fd, Team* team) noexcept nogil:
    """Write a large file to the device piece by piece. Returns the errno of a lost write; 0 also if the file has no
    such call."""
    cdef stat_t found
    cdef Flushed* known
    cdef int64_t position = 0
    cdef int error
    if fstat(fd, &found) != 0 or found.st_size <= PIECE:
        return 0
    known = &team.flushed[found.st_ino % FLUSHED]
    pthread_mutex_lock(&team.lock)
    if known.inode == found.st_ino:
        position = known.size
    pthread_mutex_unlock(&team.lock)
    while found.st_size - position > PIECE:
        error = write_piece(fd, position, PIECE)
        if error:
            return error if error in (EIO, ENOSPC, EDQUOT) else 0
        position += PIECE
    pthread_mutex_lock(&team.lock)
    known.inode, known.size = found.st_ino, found.st_size
    pthread_mutex_unlock(&team.lock)
    return 0


cdef int _sync(int fd, Team* team) noexcept nogil:
    cdef int error = _write_back(fd, team)
    if error:
        return error
    while sync_data(fd) != 0:
        if errno != EINTR:
            return errno
    return 0


cdef File* _files(Job* jobs, size_t* count) noexcept nogil:
    """Every file of the jobs once, by descriptor. NULL: there is no memory for that."""
    cdef size_t named = 0, n = 0, i
    cdef Job* job = jobs
    cdef File* files
    while job != NULL:
        named += job.count
        job = job.next
    files = <File*>calloc(max(named, <size_t>1), sizeof(File))
    if files == NULL:
        return NULL
    job = jobs
    while job != NULL:
        for i in range(<size_t>job.count):
            files[n].fd = job.fds[i]
            n += 1
        job = job.next
    qsort(files, n, sizeof(File), _by_fd)
    named, n = n, 0
    for i in range(named):
        if i == 0 or files[i].fd != files[n - 1].fd:
            files[n].fd = files[i].fd
            n += 1
    count[0] = n
    return files


cdef int _sync_once(int fd, Team* team) noexcept nogil:
    """Sync a file unless that was done, or wait for the thread that does it. Returns what came of it."""
    cdef File wanted
    cdef File* found = NULL
    cdef int error
    wanted.fd = fd
    pthread_mutex_lock(&team.lock)
    if team.files != NULL:              # else there was no memory to join them: each is synced as often as it is named
        found = <File*>bsearch(&wanted, team.files, team.count, sizeof(File), _by_fd)
        while found.state == IN_SYNC:
            team.waiting += 1
            pthread_cond_wait(&team.synced, &team.lock)
            team.waiting -= 1
        if found.state == SYNCED:
            error = found.error
            pthread_mutex_unlock(&team.lock)
            return error
        found.state = IN_SYNC
    team.syncs += 1
    pthread_mutex_unlock(&team.lock)
    error = _sync(fd, team)
    if found != NULL:
        pthread_mutex_lock(&team.lock)
        found.state, found.error = SYNCED, error
        if team.waiting:
            pthread_cond_broadcast(&team.synced)
        pthread_mutex_unlock(&team.lock)
    return error


cdef int _sync_run(int run, Team* team) noexcept nogil:
    """Sync the files of a run in their order, up to one that fails; its errno."""
    cdef Job* job = team.job
    cdef int i, error
    for i in range(job.ends[run - 1] if run else 0, job.ends[run]):
        error = _sync_once(job.fds[i], team)
        if error:
            job.failed[run], job.errors[run] = i, error
            return error
    return 0


cdef void* _take_runs(void* argument) noexcept nogil:
    """Sync runs of the team's job until all are taken."""
    cdef Team* team = <Team*>argument
    cdef int run
    while True:
        pthread_mutex_lock(&team.lock)
        run = team.next
        team.next += 1
        pthread_mutex_unlock(&team.lock)
        if run >= team.job.runs:
            return NULL
        _sync_run(run, team)


cdef int _sync_job(Job* job, Team* team) noexcept nogil:
    """Sync the files of a job: runs beside each other, then what is behind them, unless one has failed."""
    cdef pthread_t[TEAM_MAX] threads
    cdef pthread_attr_t attributes
    cdef sigset_t every, before
    cdef int started = 0, failed = 0, i
    team.job, team.next = job, 0
    if job.runs > 1:
        sigfillset(&every)              # signals are for the threads that run Python
        pthread_sigmask(SIG_SETMASK, &every, &before)
        pthread_attr_init(&attributes)
        pthread_attr_setstacksize(&attributes, STACK_BYTES)
        while started < min(job.runs, <int>TEAM_MAX) - 1:
            if pthread_create(&threads[started], &attributes, _take_runs, team) != 0:
                break                   # those that are there do it
            started += 1
        pthread_attr_destroy(&attributes)
        pthread_sigmask(SIG_SETMASK, &before, NULL)
    _take_runs(team)
    for i in range(started):
        pthread_join(threads[i], NULL)
    for i in range(job.runs):
        failed |= job.failed[i] >= 0
    if not failed:
        _sync_run(job.runs, team)
    return 0


cdef uint64_t _sync_all(Job* jobs, Flushed* flushed) noexcept nogil:
    """Sync every file of the jobs once, in the order in which they are named, and note what has failed. Returns the
    number of syncs."""
    cdef Team team
    cdef Job* job = jobs
    team.count = 0
    team.files = _files(jobs, &team.count)
    team.flushed = flushed
    team.waiting, team.syncs = 0, 0
    pthread_mutex_init(&team.lock, NULL)
    pthread_cond_init(&team.synced, NULL)
    while job != NULL:
        _sync_job(job, &team)
        job = job.next
    pthread_cond_destroy(&team.synced)
    pthread_mutex_destroy(&team.lock)
    free(team.files)
    return team.syncs


cdef void* _run(void* argument) noexcept nogil:
    cdef Queue* queue = <Queue*>argument
    cdef Job* jobs
    cdef Job** end
    cdef uint64_t syncs
    while True:
        pthread_mutex_lock(&queue.lock)
        while queue.todo == NULL and not queue.stopping:
            pthread_cond_wait(&queue.wake, &queue.lock)
        jobs, end = queue.todo, queue.todo_end
        queue.todo, queue.todo_end = NULL, &queue.todo
        pthread_mutex_unlock(&queue.lock)
        if jobs == NULL:
            return NULL
        syncs = _sync_all(jobs, queue.flushed)
        pthread_mutex_lock(&queue.lock)
        queue.done_end[0] = jobs
        queue.done_end = end
        queue.syncs += syncs
        pthread_mutex_unlock(&queue.lock)
        set_event(queue.event[1])


cdef void _free_jobs(Job* job) noexcept:
    cdef Job* next
    while job != NULL:
        next = job.next
        PyMem_RawFree(job)
        job = next


cdef int _start(Queue* queue) noexcept nogil:
    """Start the thread with all signals blocked, so that the threads that run Python get them. errno of
    pthread_create."""
    cdef sigset_t every, before
    cdef int error
    sigfillset(&every)
    pthread_sigmask(SIG_SETMASK, &every, &before)
    error = pthread_create(&queue.thread, NULL, _run, queue)
    pthread_sigmask(SIG_SETMASK, &before, NULL)
    return error


cdef void _close_event(Queue* queue) noexcept nogil:
    close(queue.event[0])
    if queue.event[1] != queue.event[0]:
        close(queue.event[1])


cdef Job* _job(int64_t token, list fds, list ends) except NULL:
    """A job, whose memory the caller frees."""
    cdef Py_ssize_t i, count = len(fds), runs = len(ends)
    cdef int end = 0
    cdef Job* job = <Job*>PyMem_RawMalloc(sizeof(Job) + (count + 3 * (runs + 1)) * sizeof(int))
    if job == NULL:
        raise MemoryError
    job.next, job.token, job.count, job.runs = NULL, token, <int>count, <int>runs
    job.fds = <int*>(job + 1)
    job.ends = job.fds + count
    job.failed = job.ends + runs + 1
    job.errors = job.failed + runs + 1
    try:
        for i in range(count):
            job.fds[i] = fds[i]
        for i in range(runs):
            job.ends[i] = ends[i]
            if not end <= job.ends[i] <= count:
                raise ValueError("runs end in ascending order, and where there are files")
            end = job.ends[i]
    except BaseException:
        PyMem_RawFree(job)
        raise
    job.ends[runs] = <int>count
    for i in range(runs + 1):
        job.failed[i] = -1
        job.errors[i] = 0
    return job


cdef tuple _failures(Job* job):
    cdef int i
    return tuple([(job.failed[i], job.errors[i]) for i in range(job.runs + 1) if job.failed[i] >= 0])


def sync_beside(fds):
    cdef list given = list(fds), found
    cdef Job* job = _job(0, given, list(range(1, len(given) + 1)))
    cdef Flushed* flushed = <Flushed*>calloc(FLUSHED, sizeof(Flushed))
    cdef int i
    if flushed == NULL:
        PyMem_RawFree(job)
        raise MemoryError
    with nogil:
        _sync_all(job, flushed)
    found = [job.errors[i] for i in range(job.runs)]
    free(flushed)
    PyMem_RawFree(job)
    return found


cdef class Flusher:
    def __cinit__(self):
        cdef Queue* queue = <Queue*>PyMem_RawMalloc(sizeof(Queue))
        if queue == NULL:
            raise MemoryError
        queue.todo, queue.todo_end = NULL, &queue.todo
        queue.done, queue.done_end = NULL, &queue.done
        queue.syncs = 0
        memset(queue.flushed, 0, sizeof(queue.flushed))
        queue.stopping = False
        if open_event(queue.event) < 0:
            error = errno
            PyMem_RawFree(queue)
            raise OSError(error, "no descriptor for the flusher")
        pthread_mutex_init(&queue.lock, NULL)
        pthread_cond_init(&queue.wake, NULL)
        error = _start(queue)
        if error:
            _close_event(queue)
            PyMem_RawFree(queue)
            raise OSError(error, "no thread for the flusher")
        self._queue = queue

    def __dealloc__(self):
        self._stop()

    cdef Queue* _open(self) except NULL:
        if self._queue == NULL:
            raise ValueError("the flusher is closed")
        return self._queue

    cdef int _stop(self) noexcept:
        cdef Queue* queue = self._queue
        if queue == NULL:
            return 0
        self._queue = NULL
        with nogil:
            pthread_mutex_lock(&queue.lock)
            queue.stopping = True
            pthread_cond_signal(&queue.wake)
            pthread_mutex_unlock(&queue.lock)
            pthread_join(queue.thread, NULL)
            _close_event(queue)
        pthread_cond_destroy(&queue.wake)
        pthread_mutex_destroy(&queue.lock)
        _free_jobs(queue.done)
        PyMem_RawFree(queue)
        return 0

    @property
    def syncs(self):
        cdef Queue* queue = self._open()
        pthread_mutex_lock(&queue.lock)
        cdef uint64_t syncs = queue.syncs
        pthread_mutex_unlock(&queue.lock)
        return syncs

    def fileno(self):
        return self._open().event[0]

    def submit(self, int64_t token, fds, ends=()):
        cdef Queue* queue = self._open()
        cdef Job* job = _job(token, list(fds), list(ends))
        pthread_mutex_lock(&queue.lock)         # the thread holds it for a few stores only, so the GIL is not released
        queue.todo_end[0] = job
        queue.todo_end = &job.next
        pthread_cond_signal(&queue.wake)
        pthread_mutex_unlock(&queue.lock)

    def drain(self):
        cdef Queue* queue = self._open()
        cdef Job* job
        cdef Job* first
        cdef list results = []
        clear_event(queue.event[0])             # before results are taken: later ones make it readable again
        pthread_mutex_lock(&queue.lock)
        first = queue.done
        queue.done, queue.done_end = NULL, &queue.done
        pthread_mutex_unlock(&queue.lock)
        job = first
        while job != NULL:
            results.append((job.token, _failures(job)))
            job = job.next
        _free_jobs(first)
        return results

    def close(self):
        self._stop()
