/* Within the level on disk: new files, and what all files take. */
#ifndef IG_CACHE_DISK_FILES_H
#define IG_CACHE_DISK_FILES_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/disk.h"

/* How temporary names begin, where files cannot be without a name. */
#define IG_DISK_TEMPORARY "tmp-"

struct ig_disk {
    struct ig_cache_level base;
    const struct ingot_allocator *allocator;
    char *folder;
    int fd; /* of the folder */
    uint64_t max_bytes;
    atomic_bool has_no_unnamed; /* files without a name cannot be given one here */
    pthread_mutex_t lock;       /* of what follows */
    bool counted;
    uint64_t bytes; /* of all entries, when they were last counted */
    uint64_t added; /* by this process since then */
};

/* A file for an entry; it becomes visible when it is kept. */
struct ig_disk_file {
    struct ig_cache_id id;
    int fd;
    char name[IG_DISK_NAME], temporary[IG_DISK_NAME];
};
enum ingot_status ig_disk_new(struct ig_disk *disk, const struct ig_cache_id *id, struct ig_disk_file *out_file,
                              struct ingot_error *error);
/* Ends the file's use, with or without keeping it. */
void ig_disk_drop(struct ig_disk *disk, struct ig_disk_file *file);
enum ingot_status ig_disk_keep(struct ig_disk *disk, struct ig_disk_file *file, uint64_t size,
                               struct ingot_error *error);

/* Locks a file with a temporary name. False if its writer has the lock. */
bool ig_disk_lock_temporary(int fd);
/* Counts `size` new bytes, and evicts if there are too many. */
enum ingot_status ig_disk_account(struct ig_disk *disk, uint64_t size, struct ingot_error *error);

#endif
