/* Files by POSIX calls and Linux's nameless files (open(2), O_TMPFILE). See file.h. */
#define _GNU_SOURCE /* O_TMPFILE, sync_file_range */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum ingot_status ig_file_map_open(const char *path, struct ig_mapping *out_mapping, int *out_descriptor,
                                   struct ingot_error *error) {
    /* O_NONBLOCK: a named pipe is refused below instead of waiting for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return IG_ERR(error, INGOT_IO, "cannot open '%s': %s", path, strerror(errno));
    struct stat info;
    enum ingot_status status = INGOT_OK;
    void *data = NULL;
    if (fstat(fd, &info) != 0) {
        status = IG_ERR(error, INGOT_IO, "cannot read '%s': %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = IG_ERR(error, INGOT_IO, "cannot read '%s': not a regular file", path);
    } else if ((uintmax_t)info.st_size > SIZE_MAX) {
        status = IG_ERR(error, INGOT_IO, "cannot map '%s': too large for this machine", path);
    } else if (info.st_size > 0) {
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) status = IG_ERR(error, INGOT_IO, "cannot map '%s': %s", path, strerror(errno));
    }
    if (status != INGOT_OK) {
        close(fd);
        return status;
    }
    *out_mapping = (struct ig_mapping){data, data ? (size_t)info.st_size : 0};
    *out_descriptor = fd;
    return INGOT_OK;
}

enum ingot_status ig_file_map(const char *path, struct ig_mapping *out_mapping, struct ingot_error *error) {
    int descriptor = -1;
    IG_TRY(ig_file_map_open(path, out_mapping, &descriptor, error));
    close(descriptor); /* a mapping does not need it */
    return INGOT_OK;
}

enum ingot_status ig_file_map_zeros(size_t size, struct ig_mapping *out_mapping, struct ingot_error *error) {
    void *memory = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : NULL;
    if (memory == MAP_FAILED)
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "cannot map %zu bytes: %s", size, strerror(errno));
    *out_mapping = (struct ig_mapping){memory, size};
    return INGOT_OK;
}

enum ingot_status ig_file_map_private(int descriptor, size_t offset, size_t size, void **out_memory,
                                      struct ingot_error *error) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, (off_t)offset);
    if (memory == MAP_FAILED)
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "cannot map %zu bytes of a file: %s", size, strerror(errno));
    *out_memory = memory;
    return INGOT_OK;
}

void ig_file_unmap_private(void *memory, size_t size) {
    if (memory) munmap(memory, size);
}

void ig_file_unmap(struct ig_mapping *mapping) {
    if (mapping->data) munmap((void *)(uintptr_t)mapping->data, mapping->size);
    *mapping = (struct ig_mapping){NULL, 0};
}

void ig_file_prefetch(const void *data, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data & ~(page - 1);
    if (size > 0) (void)madvise((void *)begin, (uintptr_t)data + size - begin, MADV_WILLNEED);
}

/* ---- Writing ---- */

/* Room for ".tmp-", a process id, a number and the terminator. */
#define SUFFIX_SIZE 40u
/* Bytes after which the system is told to begin writing to the disk: that the last sync waits for little. */
#define WRITE_BEHIND ((uint64_t)32 << 20)

static void forget(struct ig_file_writer *writer) {
    if (writer->fd >= 0) close(writer->fd);
    if (writer->path) {
        size_t length = strlen(writer->path);
        ig_release(writer->allocator, writer->temporary, length + SUFFIX_SIZE);
        ig_release(writer->allocator, writer->path, length + 1);
    }
    *writer = (struct ig_file_writer){.fd = -1};
}

/* The folder of a path, to be opened; a path that is too long for it fails elsewhere. */
static int open_folder(const char *path, int flags) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 1;
    if (length >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, slash ? path : ".", length);
    folder[length] = '\0';
    return open(folder, flags | O_CLOEXEC, 0666);
}

/* The name under which /proc has a file that is open. */
static void name_of_open(int fd, char out_name[32]) {
    snprintf(out_name, 32, "/proc/self/fd/%d", fd);
}

/* A file without a name, which ends with the process; -1 where the file system or the lack of /proc, by which it gets
 * its name in the end, does not allow it. */
static int create_nameless(const char *path) {
    char name[32];
    int fd = open_folder(path, O_TMPFILE | O_WRONLY);
    if (fd < 0) return -1;
    name_of_open(fd, name);
    if (access(name, F_OK) == 0) return fd;
    close(fd);
    return -1;
}

/* Gives the open file `fd` a name, or creates the file if `fd` is negative: the first name of a numbered series that is
 * free. Not mkstemp, which would make the finished file readable by its owner only. Returns the descriptor; -1: see
 * errno. */
static int name_temporary(struct ig_file_writer *writer, int fd) {
    char open_name[32];
    if (fd >= 0) name_of_open(fd, open_name);
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        int result = fd;
        snprintf(writer->temporary, strlen(writer->path) + SUFFIX_SIZE, "%s.tmp-%ld-%u", writer->path, (long)getpid(),
                 attempt);
        if (fd < 0) {
            result = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        } else if (linkat(AT_FDCWD, open_name, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW) != 0) {
            result = -1;
        }
        if (result >= 0 || errno != EEXIST) {
            writer->is_named = result >= 0;
            return result;
        }
    }
    return -1;
}

enum ingot_status ig_file_writer_open(struct ig_file_writer *writer, const char *path,
                                      const struct ingot_allocator *allocator, struct ingot_error *error) {
    *writer = (struct ig_file_writer){.fd = -1, .allocator = allocator};
    struct stat info;
    /* Renaming onto a device or a pipe would replace it. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return IG_ERR(error, INGOT_IO, "cannot write '%s': it exists and is not a regular file", path);
    }
    size_t length = strlen(path);
    writer->path = ig_allocate(allocator, length + 1, 1);
    if (!writer->path) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    memcpy(writer->path, path, length + 1);
    writer->temporary = ig_allocate(allocator, length + SUFFIX_SIZE, 1);
    if (!writer->temporary) {
        forget(writer);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    }
    writer->fd = create_nameless(path);
    if (writer->fd < 0) writer->fd = name_temporary(writer, -1);
    if (writer->fd < 0) {
        enum ingot_status status =
            IG_ERR(error, INGOT_IO, "cannot create '%s': %s", writer->temporary, strerror(errno));
        forget(writer);
        return status;
    }
    return INGOT_OK;
}

static enum ingot_status write_at(struct ig_file_writer *writer, uint64_t offset, const void *data, size_t size,
                                  struct ingot_error *error) {
    const char *bytes = data;
    while (size > 0) {
        /* One call moves at most 2 GiB on Linux; smaller pieces cost nothing. */
        size_t piece = size < (size_t)1 << 30 ? size : (size_t)1 << 30;
        ssize_t done = pwrite(writer->fd, bytes, piece, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            return IG_ERR(error, INGOT_IO, "cannot write '%s': %s", writer->path, strerror(done < 0 ? errno : ENOSPC));
        }
        bytes += done;
        offset += (uint64_t)done;
        size -= (size_t)done;
    }
    return INGOT_OK;
}

enum ingot_status ig_file_writer_write(struct ig_file_writer *writer, const void *data, size_t size,
                                       struct ingot_error *error) {
    IG_TRY(write_at(writer, writer->written, data, size, error));
    writer->written += size;
    if (writer->written - writer->begun >= WRITE_BEHIND) {
        /* Only a hint: what goes wrong is reported by the sync. */
        (void)sync_file_range(writer->fd, (off_t)writer->begun, (off_t)(writer->written - writer->begun),
                              SYNC_FILE_RANGE_WRITE);
        writer->begun = writer->written;
    }
    return INGOT_OK;
}

enum ingot_status ig_file_writer_patch(struct ig_file_writer *writer, uint64_t offset, const void *data, size_t size,
                                       struct ingot_error *error) {
    if (offset > writer->written || size > writer->written - offset) {
        return IG_ERR(error, INGOT_INTERNAL, "cannot patch '%s' beyond what was written", writer->path);
    }
    return write_at(writer, offset, data, size, error);
}

/* Makes the rename itself durable. Some file systems cannot sync a folder: not worth failing for. */
static void sync_folder(const char *path) {
    int fd = open_folder(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

/* A nameless file gets the target's name at once, if that is free: then nothing is left behind, whenever the process
 * ends. A link cannot replace a file, so otherwise it gets a temporary name first, for as long as a rename takes. */
static enum ingot_status take_name(struct ig_file_writer *writer, struct ingot_error *error) {
    char open_name[32];
    if (!writer->is_named) {
        name_of_open(writer->fd, open_name);
        if (linkat(AT_FDCWD, open_name, AT_FDCWD, writer->path, AT_SYMLINK_FOLLOW) == 0) return INGOT_OK;
        if (errno != EEXIST || name_temporary(writer, writer->fd) < 0) {
            return IG_ERR(error, INGOT_IO, "cannot create '%s': %s", writer->path, strerror(errno));
        }
    }
    if (rename(writer->temporary, writer->path) != 0) {
        return IG_ERR(error, INGOT_IO, "cannot rename '%s' to '%s': %s", writer->temporary, writer->path,
                      strerror(errno));
    }
    writer->is_named = false;
    return INGOT_OK;
}

enum ingot_status ig_file_writer_commit(struct ig_file_writer *writer, struct ingot_error *error) {
    if (fsync(writer->fd) != 0) {
        return IG_ERR(error, INGOT_IO, "cannot write '%s': %s", writer->path, strerror(errno));
    }
    IG_TRY(take_name(writer, error));
    sync_folder(writer->path);
    forget(writer);
    return INGOT_OK;
}

void ig_file_writer_abort(struct ig_file_writer *writer) {
    if (writer->is_named) unlink(writer->temporary);
    forget(writer);
}
