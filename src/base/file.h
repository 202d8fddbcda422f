/* Files: read-only mappings, and atomic creation. */
#ifndef IG_BASE_FILE_H
#define IG_BASE_FILE_H

#include "base/error.h"

struct ig_mapping {
    const void *data; /* NULL if size is 0 */
    size_t size;
};

/* Maps a regular file for reading. */
enum ingot_status ig_file_map(const char *path, struct ig_mapping *out_mapping, struct ingot_error *error);
void ig_file_unmap(struct ig_mapping *mapping);
/* Zeros that take no memory before somebody writes there; unmapped like a file. */
enum ingot_status ig_file_map_zeros(size_t size, struct ig_mapping *out_mapping, struct ingot_error *error);
/* Asks the system to read what of these bytes lies in files; a hint, for any memory. */
void ig_file_prefetch(const void *data, size_t size);
/* The same, and leaves the file open: the caller closes the descriptor. */
enum ingot_status ig_file_map_open(const char *path, struct ig_mapping *out_mapping, int *out_descriptor,
                                   struct ingot_error *error);
/* Maps a part of an open file, from a page on, to memory that may be written: pages are the file's until they are. */
enum ingot_status ig_file_map_private(int descriptor, size_t offset, size_t size, void **out_memory,
                                      struct ingot_error *error);
void ig_file_unmap_private(void *memory, size_t size);

/*
 * Writes a file that gets its name on commit, after a sync: readers see the old file or the complete new one. Until
 * then it has no name (O_TMPFILE), so that nothing is left of it when the process is killed. Where the file system
 * cannot do that, or /proc is not mounted, it is a temporary file beside `path`, which a killed process leaves.
 */
struct ig_file_writer {
    char *path, *temporary;
    const struct ingot_allocator *allocator;
    int fd;
    bool is_named; /* a file of the name `temporary` exists */
    uint64_t written;
    uint64_t begun; /* bytes that the system was told to write to the disk */
};
enum ingot_status ig_file_writer_open(struct ig_file_writer *writer, const char *path,
                                      const struct ingot_allocator *allocator, struct ingot_error *error);
enum ingot_status ig_file_writer_write(struct ig_file_writer *writer, const void *data, size_t size,
                                       struct ingot_error *error);
/* Overwrites bytes already written (headers). */
enum ingot_status ig_file_writer_patch(struct ig_file_writer *writer, uint64_t offset, const void *data, size_t size,
                                       struct ingot_error *error);
enum ingot_status ig_file_writer_commit(struct ig_file_writer *writer, struct ingot_error *error);
/* Drops what was written; harmless after a commit. */
void ig_file_writer_abort(struct ig_file_writer *writer);

#endif
