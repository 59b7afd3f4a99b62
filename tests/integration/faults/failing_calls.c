/* Lets calls of a process to its file system fail: a library for LD_PRELOAD.
 *
 * Calls that change something below one directory are counted, and those with given numbers fail. What is counted and what
 * fails stands in a file that `failing_calls.py` shares with this process, so both change while the process runs.
 *
 * Only what goes through the C library is seen. A system call of its own, io_uring and stores into mapped files are not.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { RENAME, SYNC, WRITE, OPEN, UNLINK, TRUNCATE, MKDIR, KINDS };

#define CALLS 4096
#define PATH_BYTES 124

struct call {
    uint32_t kind;
    char path[PATH_BYTES]; /* its end, where it is longer */
};

struct control {
    _Atomic uint32_t armed;
    uint32_t kinds;        /* a bit for each that is counted */
    uint32_t first;        /* number of the first call that fails, from 1; 0: none does */
    uint32_t last;
    uint32_t number;       /* errno */
    uint32_t partial;      /* the first is made by half if it writes, as where room ends */
    _Atomic uint32_t count;
    _Atomic uint32_t failed;
    char directory[1024];  /* absolute, without links */
    struct call calls[CALLS];
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILING_CALLS");
    if (path == NULL) return;
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    int fd = real(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found != MAP_FAILED) control = found;
}

/* The absolute path of `name` in the directory `at`. */
static int whole(int at, const char *name, char *found) {
    if (name[0] == '/' || at == AT_FDCWD) return snprintf(found, PATH_MAX, "%s", name) < PATH_MAX;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t size = readlink(link, found, PATH_MAX - 1);
    if (size < 0) return 0;
    found[size] = 0;
    return name[0] == 0 || snprintf(found + size, PATH_MAX - size, "/%s", name) < PATH_MAX - size;
}

/* What a call does: 0: as it wants, 1: by half, -1: it fails, and errno says with what. */
static int step(enum kind kind, int at, const char *name) {
    struct control *c = control;
    if (c == NULL || !atomic_load(&c->armed) || !(c->kinds >> kind & 1)) return 0;
    int saved = errno;
    char path[PATH_MAX];
    size_t size = strlen(c->directory);
    if (!whole(at, name, path) || strncmp(path, c->directory, size) || (path[size] != '/' && path[size] != 0)) {
        errno = saved;
        return 0;
    }
    uint32_t number = atomic_fetch_add(&c->count, 1) + 1;
    if (number <= CALLS) {
        struct call *call = &c->calls[number - 1];
        const char *rest = path + size;
        size_t length = strlen(rest);
        if (length >= PATH_BYTES) rest += length - PATH_BYTES + 1;
        snprintf(call->path, PATH_BYTES, "%s", rest);
        call->kind = kind;
    }
    errno = saved;
    if (c->first == 0 || number < c->first || number > c->last) return 0;
    if (c->partial && number == c->first && kind == WRITE) return 1;
    atomic_fetch_add(&c->failed, 1);
    errno = (int)c->number;
    return -1;
}

#define REAL(result, name, ...)                                  \
    static result (*real)(__VA_ARGS__);                          \
    if (real == NULL) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

/* ---- names */

#define RENAMES(name, parameters, types, arguments, at, old)      \
    int name parameters {                                        \
        REAL(int, name, types);                                  \
        return step(RENAME, at, old) < 0 ? -1 : real arguments;  \
    }
#define T(...) __VA_ARGS__
RENAMES(rename, (const char *old, const char *new), T(const char *, const char *), (old, new), AT_FDCWD, old)
RENAMES(renameat, (int a, const char *old, int b, const char *new), T(int, const char *, int, const char *),
        (a, old, b, new), a, old)
RENAMES(renameat2, (int a, const char *old, int b, const char *new, unsigned flags),
        T(int, const char *, int, const char *, unsigned), (a, old, b, new, flags), a, old)

#define ONE(kind, name, parameters, types, arguments, at, path)   \
    int name parameters {                                        \
        REAL(int, name, types);                                  \
        return step(kind, at, path) < 0 ? -1 : real arguments;   \
    }
ONE(UNLINK, unlink, (const char *path), T(const char *), (path), AT_FDCWD, path)
ONE(UNLINK, rmdir, (const char *path), T(const char *), (path), AT_FDCWD, path)
ONE(UNLINK, remove, (const char *path), T(const char *), (path), AT_FDCWD, path)
ONE(UNLINK, unlinkat, (int at, const char *path, int flags), T(int, const char *, int), (at, path, flags), at, path)
ONE(MKDIR, mkdir, (const char *path, mode_t mode), T(const char *, mode_t), (path, mode), AT_FDCWD, path)
ONE(MKDIR, mkdirat, (int at, const char *path, mode_t mode), T(int, const char *, mode_t), (at, path, mode), at, path)

/* ---- open files */

ONE(SYNC, fsync, (int fd), T(int), (fd), fd, "")
ONE(SYNC, fdatasync, (int fd), T(int), (fd), fd, "")
ONE(SYNC, sync_file_range, (int fd, off64_t from, off64_t size, unsigned flags), T(int, off64_t, off64_t, unsigned),
    (fd, from, size, flags), fd, "")
ONE(TRUNCATE, ftruncate, (int fd, off_t size), T(int, off_t), (fd, size), fd, "")
ONE(TRUNCATE, ftruncate64, (int fd, off64_t size), T(int, off64_t), (fd, size), fd, "")
ONE(TRUNCATE, truncate, (const char *path, off_t size), T(const char *, off_t), (path, size), AT_FDCWD, path)

#define ALLOCATES(name, type)                                     \
    int name(int fd, type from, type size) {                     \
        REAL(int, name, int, type, type);                        \
        return step(WRITE, fd, "") < 0 ? errno : real(fd, from, size); \
    }
ALLOCATES(posix_fallocate, off_t)
ALLOCATES(posix_fallocate64, off64_t)

#define OPENS(name)                                               \
    int name(const char *path, int flags, ...) {                 \
        REAL(int, name, const char *, int, ...);                 \
        va_list rest;                                            \
        va_start(rest, flags);                                   \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                            \
        return step(OPEN, AT_FDCWD, path) < 0 ? -1 : real(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)
#define OPENS_AT(name)                                            \
    int name(int at, const char *path, int flags, ...) {         \
        REAL(int, name, int, const char *, int, ...);            \
        va_list rest;                                            \
        va_start(rest, flags);                                   \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                            \
        return step(OPEN, at, path) < 0 ? -1 : real(at, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

DIR *opendir(const char *path) {
    REAL(DIR *, opendir, const char *);
    return step(OPEN, AT_FDCWD, path) < 0 ? NULL : real(path);
}

#define WRITES(name, parameters, types, arguments, halves)        \
    ssize_t name parameters {                                    \
        REAL(ssize_t, name, types);                              \
        int done = step(WRITE, fd, "");                          \
        if (done < 0) return -1;                                 \
        if (done > 0) {                                          \
            halves;                                              \
        }                                                        \
        return real arguments;                                   \
    }
WRITES(write, (int fd, const void *data, size_t size), T(int, const void *, size_t), (fd, data, size),
       size = (size + 1) / 2)
WRITES(pwrite, (int fd, const void *data, size_t size, off_t at), T(int, const void *, size_t, off_t), (fd, data, size, at),
       size = (size + 1) / 2)
WRITES(pwrite64, (int fd, const void *data, size_t size, off64_t at), T(int, const void *, size_t, off64_t),
       (fd, data, size, at), size = (size + 1) / 2)

#define HALF                                                      \
    struct iovec first = parts[0];                               \
    first.iov_len = (first.iov_len + 1) / 2;                     \
    parts = &first;                                              \
    count = 1
WRITES(writev, (int fd, const struct iovec *parts, int count), T(int, const struct iovec *, int), (fd, parts, count),
       HALF; return real(fd, parts, count))
WRITES(pwritev, (int fd, const struct iovec *parts, int count, off_t at), T(int, const struct iovec *, int, off_t),
       (fd, parts, count, at), HALF; return real(fd, parts, count, at))
WRITES(pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), T(int, const struct iovec *, int, off64_t),
       (fd, parts, count, at), HALF; return real(fd, parts, count, at))
WRITES(pwritev2, (int fd, const struct iovec *parts, int count, off_t at, int flags),
       T(int, const struct iovec *, int, off_t, int), (fd, parts, count, at, flags),
       HALF; return real(fd, parts, count, at, flags))
WRITES(pwritev64v2, (int fd, const struct iovec *parts, int count, off64_t at, int flags),
       T(int, const struct iovec *, int, off64_t, int), (fd, parts, count, at, flags),
       HALF; return real(fd, parts, count, at, flags))
