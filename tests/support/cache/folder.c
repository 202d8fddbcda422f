#define _GNU_SOURCE
#include "support/cache/folder.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "support/support.h"

void test_folder_make(struct test_folder *folder) {
    strcpy(folder->path, "/tmp/ingot-test-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw) {
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

void test_folder_remove(const struct test_folder *folder) {
    assert_int_equal(nftw(folder->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

size_t test_folder_files(const char *path) {
    DIR *folder = opendir(path);
    size_t count = 0;
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder));) {
        char inner[1024];
        if (*e->d_name == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        count += e->d_type == DT_DIR ? test_folder_files(inner) : 1;
    }
    closedir(folder);
    return count;
}

size_t test_file_read(const char *path, unsigned char **out_bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    *out_bytes = malloc(size + 1);
    assert_int_equal(fread(*out_bytes, 1, size, file), size);
    fclose(file);
    return size;
}

void test_file_write(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file) fail_msg("cannot open %s", path);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

bool test_file_lock(int fd) {
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}
