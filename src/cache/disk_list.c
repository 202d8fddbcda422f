/* Lists the entries of a folder, and evicts those that were used longest ago; see disk.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/disk_files.h"

bool ig_disk_lock_temporary(int fd) {
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* ---- Listing ----------------------------------------------------------------------------------------------------- */

/* False if this is not the name of an entry in this part of the folder. */
static bool parse_name(const char *shard, const char *name, struct ig_cache_id *out_id) {
    if (strncmp(name, shard, 2) != 0 || !ig_hash128_parse(name, &out_id->key) || name[32] != '.') return false;
    for (uint32_t kind = 1; kind < IG_CACHE_KIND_END; kind++) {
        out_id->kind = (enum ig_cache_kind)kind;
        if (strcmp(name + 33, ig_cache_kind_name(kind)) == 0) return true;
    }
    return false;
}

static bool grow(const struct ig_disk *d, struct ig_disk_list *list) {
    struct ig_disk_list larger = *list;
    larger.capacity = list->capacity ? 2 * list->capacity : 256;
    larger.at = ig_allocate(d->allocator, larger.capacity * sizeof *larger.at, _Alignof(struct ig_disk_entry));
    if (!larger.at) return false;
    if (list->count > 0) memcpy(larger.at, list->at, list->count * sizeof *list->at);
    ig_release(d->allocator, list->at, list->capacity * sizeof *list->at);
    *list = larger;
    return true;
}

static bool add(const struct ig_disk *d, struct ig_disk_list *list, int shard_fd, const char *name,
                const struct ig_cache_id *id) {
    struct stat info;
    if (fstatat(shard_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return true; /* just gone */
    if (list->count == list->capacity && !grow(d, list)) return false;
    list->at[list->count++] =
        (struct ig_disk_entry){*id, (uint64_t)info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    list->bytes += (uint64_t)info.st_size;
    return true;
}

static void remove_dead(int shard_fd, const char *name) {
    int fd = openat(shard_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (ig_disk_lock_temporary(fd)) unlinkat(shard_fd, name, 0);
    close(fd);
}

/* False if memory runs out. */
static bool list_shard(const struct ig_disk *d, const char *shard, struct ig_disk_list *list) {
    int fd = openat(d->fd, shard, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    bool fits = true;
    if (!folder) {
        if (fd >= 0) close(fd);
        return true;
    }
    for (struct dirent *e; fits && (e = readdir(folder));) {
        struct ig_cache_id id;
        if (parse_name(shard, e->d_name, &id)) fits = add(d, list, fd, e->d_name, &id);
        if (strncmp(e->d_name, IG_DISK_TEMPORARY, strlen(IG_DISK_TEMPORARY)) == 0) remove_dead(fd, e->d_name);
    }
    closedir(folder);
    return fits;
}

static int older_first(const void *a, const void *b) {
    const struct ig_disk_entry *x = a, *y = b;
    if (x->used_seconds != y->used_seconds) return x->used_seconds < y->used_seconds ? -1 : 1;
    if (x->used_nanoseconds != y->used_nanoseconds) return x->used_nanoseconds < y->used_nanoseconds ? -1 : 1;
    if (x->id.key.high != y->id.key.high) return x->id.key.high < y->id.key.high ? -1 : 1;
    if (x->id.key.low != y->id.key.low) return x->id.key.low < y->id.key.low ? -1 : 1;
    return (int)x->id.kind - (int)y->id.kind;
}

enum ingot_status ig_disk_list(struct ig_cache_level *level, struct ig_disk_list *out_list, struct ingot_error *error) {
    const struct ig_disk *d = (struct ig_disk *)level;
    struct ig_disk_list list = {0};
    for (unsigned i = 0; i < 256; i++) {
        char shard[3];
        snprintf(shard, sizeof shard, "%02x", i);
        if (list_shard(d, shard, &list)) continue;
        ig_disk_list_release(level, &list);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a list of the cache");
    }
    if (list.count > 0) qsort(list.at, list.count, sizeof *list.at, older_first);
    *out_list = list;
    return INGOT_OK;
}

void ig_disk_list_release(struct ig_cache_level *level, struct ig_disk_list *list) {
    const struct ig_disk *d = (struct ig_disk *)level;
    ig_release(d->allocator, list->at, list->capacity * sizeof *list->at);
    *list = (struct ig_disk_list){0};
}

/* ---- Evicting ---------------------------------------------------------------------------------------------------- */

/* Unless it was used since it was listed. */
static bool evict(const struct ig_disk *d, const struct ig_disk_entry *entry) {
    char name[IG_DISK_NAME];
    struct stat info;
    ig_disk_name(&entry->id, name);
    if (fstatat(d->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
    if (info.st_mtim.tv_sec != entry->used_seconds || info.st_mtim.tv_nsec != entry->used_nanoseconds) return false;
    return unlinkat(d->fd, name, 0) == 0 || errno == ENOENT;
}

/* *out_left: the bytes that remain. */
static enum ingot_status prune(struct ig_disk *d, uint64_t max_bytes, size_t *out_entries, uint64_t *out_bytes,
                               uint64_t *out_left, struct ingot_error *error) {
    struct ig_disk_list list = {0};
    IG_TRY(ig_disk_list(&d->base, &list, error));
    uint64_t left = list.bytes;
    size_t entries = 0;
    for (size_t i = 0; i < list.count && left > max_bytes; i++) {
        if (!evict(d, &list.at[i])) continue;
        left -= list.at[i].bytes;
        entries++;
    }
    if (out_entries) *out_entries = entries;
    if (out_bytes) *out_bytes = list.bytes - left;
    *out_left = left;
    ig_disk_list_release(&d->base, &list);
    return INGOT_OK;
}

enum ingot_status ig_disk_prune(struct ig_cache_level *level, uint64_t max_bytes, size_t *out_entries,
                                uint64_t *out_bytes, struct ingot_error *error) {
    uint64_t left = 0;
    return prune((struct ig_disk *)level, max_bytes, out_entries, out_bytes, &left, error);
}

/* Counting reads the folder, so it is done for the first new entry, and after a sixteenth of the bound was added: by then
 * others may have added as much. */
enum ingot_status ig_disk_account(struct ig_disk *d, uint64_t size, struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    pthread_mutex_lock(&d->lock);
    d->added += size;
    if (!d->counted || d->bytes + d->added > d->max_bytes || d->added > d->max_bytes / 16) {
        status = prune(d, d->max_bytes, NULL, NULL, &d->bytes, error);
        d->counted = status == INGOT_OK;
        d->added = 0;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}
