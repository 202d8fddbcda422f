/* Folders and files of tests. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

struct test_folder {
    char path[64];
};
void test_folder_make(struct test_folder *folder);
/* With all that is in it. */
void test_folder_remove(const struct test_folder *folder);

/* The number of files in it, at any depth. */
size_t test_folder_files(const char *path);

/* Whole files; the caller frees the bytes. */
size_t test_file_read(const char *path, unsigned char **out_bytes);
void test_file_write(const char *path, const void *bytes, size_t size);
/* As a writer of temporary files does. */
bool test_file_lock(int fd);

#endif
