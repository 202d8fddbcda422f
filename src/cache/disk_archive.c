/* All entries in one file: eight bytes of magic, their number, and the files of the entries one after the other; see
 * disk.h. Entries know their sizes and have checksums, so no more is needed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cache/disk_files.h"
#include "cache/entry.h"

static const char magic[8] = "IngotCX\n";

/* ---- Export ------------------------------------------------------------------------------------------------------ */

/* Checks the entry, and appends its file. Damaged ones are left out, as are those that are gone. */
static enum ingot_status export_entry(struct ig_disk *d, const struct ig_cache_id *id, struct ig_file_writer *writer,
                                      uint64_t *count, struct ingot_error *error) {
    char name[IG_DISK_NAME];
    struct ig_cache_found found;
    struct ig_mapping file = {0};
    struct ingot_error damage;
    char path[4096];
    ig_disk_name(id, name);
    if (ig_disk_check(&d->base, id, &found, &damage) != IG_CACHE_HIT) return INGOT_OK;
    ig_cache_found_release(&found);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", d->folder, name) >= sizeof path)
        return IG_ERR(error, INGOT_IO, "the path of the cache is too long");
    if (ig_file_map(path, &file, error) != INGOT_OK) return INGOT_OK;
    enum ingot_status status = ig_file_writer_write(writer, file.data, file.size, error);
    ig_file_unmap(&file);
    if (status == INGOT_OK) ++*count;
    return status;
}

static enum ingot_status export_all(struct ig_disk *d, const struct ig_disk_list *list, struct ig_file_writer *writer,
                                    uint64_t *count, struct ingot_error *error) {
    IG_TRY(ig_file_writer_write(writer, magic, sizeof magic, error));
    IG_TRY(ig_file_writer_write(writer, count, sizeof *count, error));
    for (size_t i = 0; i < list->count; i++)
        IG_TRY(export_entry(d, &list->at[i].id, writer, count, error));
    IG_TRY(ig_file_writer_patch(writer, sizeof magic, count, sizeof *count, error));
    return ig_file_writer_commit(writer, error);
}

enum ingot_status ig_disk_export(struct ig_cache_level *level, const char *path, size_t *out_entries,
                                 struct ingot_error *error) {
    struct ig_disk *d = (struct ig_disk *)level;
    struct ig_disk_list list = {0};
    struct ig_file_writer writer;
    uint64_t count = 0;
    IG_TRY(ig_disk_list(level, &list, error));
    enum ingot_status status = ig_file_writer_open(&writer, path, d->allocator, error);
    if (status == INGOT_OK) {
        status = export_all(d, &list, &writer, &count, error);
        ig_file_writer_abort(&writer);
    }
    ig_disk_list_release(level, &list);
    if (status == INGOT_OK) *out_entries = (size_t)count;
    return status;
}

/* ---- Import ------------------------------------------------------------------------------------------------------ */

static enum ingot_status write_whole(int fd, const unsigned char *bytes, uint64_t size, struct ingot_error *error) {
    while (size > 0) {
        size_t piece = size < (1u << 30) ? (size_t)size : 1u << 30;
        ssize_t done = write(fd, bytes, piece);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return IG_ERR(error, INGOT_IO, "cannot write an entry: %s", strerror(done < 0 ? errno : ENOSPC));
        bytes += done;
        size -= (uint64_t)done;
    }
    return INGOT_OK;
}

/* A copy of the file's bytes, checked as entries are. */
static enum ingot_status fill(struct ig_disk *d, const struct ig_disk_file *f, const unsigned char *bytes,
                              uint64_t size, struct ingot_error *error) {
    struct ig_cache_found found;
    struct ingot_error damage;
    IG_TRY(write_whole(f->fd, bytes, size, error));
    int fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return IG_ERR(error, INGOT_IO, "%s", strerror(errno));
    if (ig_entry_read(fd, &f->id, d->allocator, NULL, &found, &damage) == IG_CACHE_HIT) {
        ig_cache_found_release(&found);
        return INGOT_OK;
    }
    close(fd);
    return IG_ERR(error, damage.status, "an entry: %s", damage.message);
}

static enum ingot_status import_entry(struct ig_disk *d, const unsigned char *bytes, uint64_t size, bool *out_new,
                                      struct ingot_error *error) {
    struct ig_entry_header header;
    struct ig_disk_file f = {.fd = -1};
    memcpy(&header, bytes, sizeof header);
    const struct ig_cache_id id = {(enum ig_cache_kind)header.kind, {.high = header.key_high, .low = header.key_low}};
    IG_TRY(ig_disk_new(d, &id, &f, error));
    *out_new = faccessat(d->fd, f.name, F_OK, 0) != 0;
    enum ingot_status status = *out_new ? fill(d, &f, bytes, size, error) : INGOT_OK;
    if (status == INGOT_OK && *out_new) return ig_disk_keep(d, &f, size, error);
    ig_disk_drop(d, &f);
    return status;
}

static enum ingot_status import_all(struct ig_disk *d, const struct ig_mapping *file, size_t *out_entries,
                                    size_t *out_new, struct ingot_error *error) {
    const unsigned char *bytes = file->data;
    uint64_t count, at = sizeof magic + sizeof count;
    if (file->size < at || memcmp(bytes, magic, sizeof magic) != 0)
        return IG_ERR(error, INGOT_BAD_ENGINE, "it is no exported cache");
    memcpy(&count, bytes + sizeof magic, sizeof count);
    for (uint64_t i = 0; i < count; i++) {
        struct ig_entry_header header;
        uint64_t size;
        bool is_new;
        bool has_header = file->size - at >= sizeof header;
        if (has_header) memcpy(&header, bytes + at, sizeof header);
        if (!has_header || !ig_entry_header_check(&header, &size) || size > file->size - at)
            return IG_ERR(error, INGOT_BAD_ENGINE, "entry %llu of %llu is damaged or truncated",
                          (unsigned long long)i + 1, (unsigned long long)count);
        IG_TRY(import_entry(d, bytes + at, size, &is_new, error));
        ++*out_entries;
        *out_new += is_new;
        at += size;
    }
    if (at != file->size) return IG_ERR(error, INGOT_BAD_ENGINE, "it has more bytes than its entries");
    return INGOT_OK;
}

enum ingot_status ig_disk_import(struct ig_cache_level *level, const char *path, size_t *out_entries, size_t *out_new,
                                 struct ingot_error *error) {
    struct ig_mapping file = {0};
    IG_TRY(ig_file_map(path, &file, error));
    *out_entries = *out_new = 0;
    enum ingot_status status = import_all((struct ig_disk *)level, &file, out_entries, out_new, error);
    if (status != INGOT_OK) ig_error_prefix(error, "cannot import '%s'", path);
    ig_file_unmap(&file);
    return status;
}
