/* Files of entries in a folder; see disk.h. disk_list.c lists and evicts, disk_archive.c exports and imports. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "cache/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache/disk_files.h"
#include "cache/entry.h"

/* ---- Names ------------------------------------------------------------------------------------------------------- */

void ig_disk_name(const struct ig_cache_id *id, char out_name[IG_DISK_NAME]) {
    char digits[33];
    ig_hash128_print(id->key, digits);
    snprintf(out_name, IG_DISK_NAME, "%.2s/%s.%s", digits, digits, ig_cache_kind_name(id->kind));
}

/* ---- Files that have no name yet --------------------------------------------------------------------------------- */

/* Writers hold a lock on a file with a temporary name, so that others can tell when nobody writes it any more. */
static int create_named(const struct ig_disk *d, const char *shard, char name[IG_DISK_NAME]) {
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, IG_DISK_NAME, "%s/" IG_DISK_TEMPORARY "%ld-%u", shard, (long)getpid(), i);
        int fd = openat(d->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) continue;
        if (fd < 0) return -1;
        struct stat info;
        /* Somebody who took it for a dead one's may have removed it before the lock. */
        if (ig_disk_lock_temporary(fd) && fstat(fd, &info) == 0 && info.st_nlink > 0) return fd;
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* Opens a new file in the folder's part `shard`, made if it is missing. `name` gets its temporary name; empty: none. */
static int create(const struct ig_disk *d, const char *shard, char name[IG_DISK_NAME]) {
    *name = '\0';
    if (mkdirat(d->fd, shard, 0777) != 0 && errno != EEXIST) return -1;
    int fd = d->has_no_unnamed ? -1 : openat(d->fd, shard, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd >= 0 || errno == EACCES || errno == EROFS || errno == ENOSPC || errno == EDQUOT) return fd;
    return create_named(d, shard, name);
}

enum ingot_status ig_disk_new(struct ig_disk *d, const struct ig_cache_id *id, struct ig_disk_file *out_file,
                              struct ingot_error *error) {
    struct ig_disk_file f = {.id = *id};
    ig_disk_name(id, f.name);
    char shard[3] = {f.name[0], f.name[1], '\0'};
    f.fd = create(d, shard, f.temporary);
    if (f.fd < 0) return IG_ERR(error, INGOT_IO, "cannot create a file in '%s': %s", d->folder, strerror(errno));
    *out_file = f;
    return INGOT_OK;
}

void ig_disk_drop(struct ig_disk *d, struct ig_disk_file *f) {
    if (*f->temporary) unlinkat(d->fd, f->temporary, 0);
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

static int give_name(const struct ig_disk *d, const struct ig_disk_file *f) {
    if (*f->temporary) return renameat(d->fd, f->temporary, d->fd, f->name);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", f->fd);
    return linkat(AT_FDCWD, path, d->fd, f->name, AT_SYMLINK_FOLLOW);
}

static void touch(int fd) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    clock_gettime(CLOCK_REALTIME, &times[1]); /* finer than UTIME_NOW */
    futimens(fd, times);
}

enum ingot_status ig_disk_keep(struct ig_disk *d, struct ig_disk_file *f, uint64_t size, struct ingot_error *error) {
    touch(f->fd);
    int failure = give_name(d, f) == 0 ? 0 : errno;
    if (failure == 0) *f->temporary = '\0';
    if (failure == ENOENT && !*f->temporary) d->has_no_unnamed = true; /* there is no /proc: the next one has a name */
    ig_disk_drop(d, f);
    if (failure == 0) return ig_disk_account(d, size, error);
    if (failure == EEXIST) return INGOT_OK; /* somebody else was faster: entries of one key are alike */
    return IG_ERR(error, INGOT_IO, "cannot create '%s/%s': %s", d->folder, f->name, strerror(failure));
}

/* ---- The level --------------------------------------------------------------------------------------------------- */

static enum ig_cache_answer damaged(const struct ig_disk *d, const char *name, struct ingot_error *error) {
    char reason[INGOT_ERROR_MESSAGE_SIZE];
    if (error->status != INGOT_BAD_ENGINE) {
        ig_error_prefix(error, "cannot read '%s/%s'", d->folder, name);
        return IG_CACHE_TROUBLE;
    }
    snprintf(reason, sizeof reason, "%s", error->message);
    bool gone = unlinkat(d->fd, name, 0) == 0 || errno == ENOENT;
    IG_ERR(error, INGOT_BAD_ENGINE, "a damaged entry of the cache %s: '%s/%s': %s",
           gone ? "is removed" : "cannot be removed", d->folder, name, reason);
    return IG_CACHE_TROUBLE;
}

static enum ig_cache_answer read_entry(struct ig_disk *d, const struct ig_cache_id *id, bool is_use,
                                       struct ig_cache_found *out_found, struct ingot_error *error) {
    char name[IG_DISK_NAME];
    ig_disk_name(id, name);
    /* O_NONBLOCK: a named pipe is refused instead of waiting for a writer. */
    int fd = openat(d->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) return IG_CACHE_MISS;
    if (fd < 0) {
        IG_ERR(error, INGOT_IO, "cannot open '%s/%s': %s", d->folder, name, strerror(errno));
        return IG_CACHE_TROUBLE;
    }
    enum ig_cache_answer answer = ig_entry_read(fd, id, d->allocator, NULL, out_found, error);
    if (answer != IG_CACHE_HIT) {
        close(fd);
        return damaged(d, name, error);
    }
    if (is_use) touch(fd);
    return IG_CACHE_HIT;
}

static enum ig_cache_answer get(struct ig_cache_level *level, const struct ig_cache_id *id,
                                struct ig_cache_found *out_found, struct ingot_error *error) {
    return read_entry((struct ig_disk *)level, id, true, out_found, error);
}

enum ig_cache_answer ig_disk_check(struct ig_cache_level *level, const struct ig_cache_id *id,
                                   struct ig_cache_found *out_found, struct ingot_error *error) {
    return read_entry((struct ig_disk *)level, id, false, out_found, error);
}

static enum ingot_status put(struct ig_cache_level *level, const struct ig_cache_id *id,
                             const struct ig_cache_content *content, struct ingot_error *error) {
    struct ig_disk *d = (struct ig_disk *)level;
    struct ig_disk_file f = {.fd = -1};
    uint64_t size = 0;
    if (content->body_size > d->max_bytes || content->head_size > d->max_bytes - content->body_size) return INGOT_OK;
    IG_TRY(ig_disk_new(d, id, &f, error));
    if (faccessat(d->fd, f.name, F_OK, 0) == 0) {
        ig_disk_drop(d, &f);
        return INGOT_OK;
    }
    enum ingot_status status = ig_entry_write(f.fd, id, content, d->allocator, &size, error);
    if (status != INGOT_OK) {
        ig_error_prefix(error, "'%s'", d->folder);
        ig_disk_drop(d, &f);
        return status;
    }
    return ig_disk_keep(d, &f, size, error);
}

static int open_locks(struct ig_cache_level *level) {
    const struct ig_disk *d = (struct ig_disk *)level;
    return openat(d->fd, "locks", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
}

static void destroy(struct ig_cache_level *level) {
    struct ig_disk *d = (struct ig_disk *)level;
    if (d->fd >= 0) close(d->fd);
    pthread_mutex_destroy(&d->lock);
    ig_release(d->allocator, d->folder, strlen(d->folder) + 1);
    ig_release(d->allocator, d, sizeof *d);
}

static const struct ig_cache_level_api api = {"disk", get, put, open_locks, destroy, false};

const char *ig_disk_folder(const struct ig_cache_level *level) {
    return ((const struct ig_disk *)level)->folder;
}

uint64_t ig_disk_max_bytes(const struct ig_cache_level *level) {
    return ((const struct ig_disk *)level)->max_bytes;
}

/* ---- The folder -------------------------------------------------------------------------------------------------- */

static void tag(const struct ig_disk *d) {
    static const char text[] =
        "Signature: 8a477f597d28d172789f06886806bc55\n# Ingot's cache: all of it can be removed.\n";
    int fd = openat(d->fd, "CACHEDIR.TAG", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return;
    (void)!write(fd, text, sizeof text - 1); /* of use to others only */
    close(fd);
}

/* Makes a folder and its parents. `path` is written to and restored. */
static int make_folders(char *path) {
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    return mkdir(path, 0700);
}

static enum ingot_status open_folder(struct ig_disk *d, struct ingot_error *error) {
    struct stat info;
    bool is_new = *d->folder && make_folders(d->folder) == 0;
    int reason = errno;
    d->fd = open(d->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0 && errno == ENOENT && !is_new)
        return IG_ERR(error, INGOT_IO, "cannot make the folder '%s': %s", d->folder, strerror(reason));
    if (d->fd < 0 || fstat(d->fd, &info) != 0)
        return IG_ERR(error, INGOT_IO, "cannot open the folder '%s': %s", d->folder, strerror(errno));
    if (info.st_mode & S_IWOTH)
        return IG_ERR(error, INGOT_IO, "everybody may write to the folder '%s', and so make others run code",
                      d->folder);
    if (is_new) tag(d);
    return INGOT_OK;
}

enum ingot_status ig_cache_disk_create(const char *folder, uint64_t max_bytes, const struct ingot_allocator *allocator,
                                       struct ig_cache_level **out_level, struct ingot_error *error) {
    struct ig_disk *d = ig_allocate(allocator, sizeof *d, _Alignof(struct ig_disk));
    char *copy = ig_allocate(allocator, strlen(folder) + 1, 1);
    if (!d || !copy) {
        ig_release(allocator, d, sizeof *d);
        ig_release(allocator, copy, strlen(folder) + 1);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    }
    strcpy(copy, folder);
    *d = (struct ig_disk){.base = {&api}, .allocator = allocator, .folder = copy, .fd = -1, .max_bytes = max_bytes};
    pthread_mutex_init(&d->lock, NULL);
    enum ingot_status status = open_folder(d, error);
    if (status != INGOT_OK) {
        destroy(&d->base);
        return status;
    }
    *out_level = &d->base;
    return INGOT_OK;
}
