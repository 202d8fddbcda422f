/* Files by POSIX calls. See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum ingot_status ig_file_map(const char *path, struct ig_mapping *out_mapping, struct ingot_error *error) {
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
    close(fd); /* a mapping does not need its descriptor */
    if (status == INGOT_OK) *out_mapping = (struct ig_mapping){data, data ? (size_t)info.st_size : 0};
    return status;
}

void ig_file_unmap(struct ig_mapping *mapping) {
    if (mapping->data) munmap((void *)(uintptr_t)mapping->data, mapping->size);
    *mapping = (struct ig_mapping){NULL, 0};
}

/* ---- Writing ---- */

/* Room for ".tmp-", a process id, a number and the terminator. */
#define SUFFIX_SIZE 40u

static void forget(struct ig_file_writer *writer) {
    if (writer->fd >= 0) close(writer->fd);
    if (writer->path) {
        size_t length = strlen(writer->path);
        ig_release(writer->allocator, writer->temporary, length + SUFFIX_SIZE);
        ig_release(writer->allocator, writer->path, length + 1);
    }
    *writer = (struct ig_file_writer){.fd = -1};
}

/* Creates the first free name of a numbered series. Not mkstemp, which would make the finished file readable by its
 * owner only. */
static int create_temporary(struct ig_file_writer *writer) {
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        snprintf(writer->temporary, strlen(writer->path) + SUFFIX_SIZE, "%s.tmp-%ld-%u", writer->path, (long)getpid(),
                 attempt);
        int fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
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
    writer->fd = create_temporary(writer);
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
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 1;
    if (length >= sizeof folder) return;
    memcpy(folder, slash ? path : ".", length);
    folder[length] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

enum ingot_status ig_file_writer_commit(struct ig_file_writer *writer, struct ingot_error *error) {
    if (fsync(writer->fd) != 0) {
        return IG_ERR(error, INGOT_IO, "cannot write '%s': %s", writer->path, strerror(errno));
    }
    int fd = writer->fd;
    writer->fd = -1;
    if (close(fd) != 0) return IG_ERR(error, INGOT_IO, "cannot write '%s': %s", writer->path, strerror(errno));
    if (rename(writer->temporary, writer->path) != 0) {
        return IG_ERR(error, INGOT_IO, "cannot rename '%s' to '%s': %s", writer->temporary, writer->path,
                      strerror(errno));
    }
    sync_folder(writer->path);
    forget(writer);
    return INGOT_OK;
}

void ig_file_writer_abort(struct ig_file_writer *writer) {
    if (writer->temporary) unlink(writer->temporary);
    forget(writer);
}
