/*
 * The level on disk: a folder with a file for each entry, and what people do with it.
 *
 *     FOLDER/CACHEDIR.TAG          keeps backups away (bford.info/cachedir)
 *     FOLDER/locks                 no bytes; things being built are locked in it (lock.h)
 *     FOLDER/3f/3f….kernel         an entry (entry.h), by the hexadecimal digits of its key
 *
 * Files appear complete or not at all: they have no name until they are (O_TMPFILE), or a temporary one on file systems
 * that cannot do that. Entries are not synced, since one that a crash of the machine truncated is found to be damaged. A
 * file's time of modification is that of its last use. Nothing here waits for another process; names are made and removed
 * at any time by any number of them, and readers keep what they have opened.
 */
#ifndef IG_CACHE_DISK_H
#define IG_CACHE_DISK_H

#include "cache/cache.h"

/*
 * Makes the folder (its parent too) if it is missing, for its owner alone. Entries take at most `max_bytes`, least
 * recently used out first; while several processes write, up to a sixteenth more for each. INGOT_IO if there is no such
 * folder or others may write to it, since entries are code.
 */
enum ingot_status ig_cache_disk_create(const char *folder, uint64_t max_bytes, const struct ingot_allocator *allocator,
                                       struct ig_cache_level **out_level, struct ingot_error *error);

/* ---- For people; `level` is one made above ---- */

struct ig_disk_entry {
    struct ig_cache_id id;
    uint64_t bytes;       /* of its file */
    int64_t used_seconds; /* last use, since 1970 */
    long used_nanoseconds;
};
struct ig_disk_list {
    struct ig_disk_entry *at;
    size_t count, capacity;
    uint64_t bytes;
};
/* All entries, least recently used first. Removes temporary files whose writers have died. */
enum ingot_status ig_disk_list(struct ig_cache_level *level, struct ig_disk_list *out_list, struct ingot_error *error);
void ig_disk_list_release(struct ig_cache_level *level, struct ig_disk_list *list);

const char *ig_disk_folder(const struct ig_cache_level *level);
uint64_t ig_disk_max_bytes(const struct ig_cache_level *level);
/* Its path within the folder. */
enum { IG_DISK_NAME = 64 };
void ig_disk_name(const struct ig_cache_id *id, char out_name[IG_DISK_NAME]);

/* As `get`, but it is no use of the entry. */
enum ig_cache_answer ig_disk_check(struct ig_cache_level *level, const struct ig_cache_id *id,
                                   struct ig_cache_found *out_found, struct ingot_error *error);
/* Removes what was used longest ago until at most `max_bytes` are left. */
enum ingot_status ig_disk_prune(struct ig_cache_level *level, uint64_t max_bytes, size_t *out_entries,
                                uint64_t *out_bytes, struct ingot_error *error);

/* All entries in one file, and such a file's entries into the folder, each checked. */
enum ingot_status ig_disk_export(struct ig_cache_level *level, const char *path, size_t *out_entries,
                                 struct ingot_error *error);
enum ingot_status ig_disk_import(struct ig_cache_level *level, const char *path, size_t *out_entries, size_t *out_new,
                                 struct ingot_error *error);

#endif
