/* cache/: the levels, the files of entries, what damage and full disks do, and claims. processes_cache_test.c kills
 * builders. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/disk.h"
#include "cache/entry.h"
#include "cache/memory.h"
#include "support/cache/folder.h"
#include "support/model/network.h"
#include "support/support.h"

/* ---- A cache of one level ------------------------------------------------------------------------------------------------ */

struct one {
    struct ingot_cache cache;
    struct ig_cache_session session;
    unsigned notes;
    char note[2048];
};

static void take_note(void *user, const char *text) {
    struct one *one = user;
    one->notes++;
    snprintf(one->note, sizeof one->note, "%s", text);
}

static void open_one(struct one *one, struct ig_cache_level *level, bool is_disk) {
    const struct ig_cache_notes notes = {take_note, one};
    memset(one, 0, sizeof *one);
    assert_non_null(level);
    one->cache = (struct ingot_cache){&ig_libc_allocator, {level}, 1, is_disk ? level : NULL, 60, 0};
    ig_cache_begin(&one->session, &one->cache, &notes);
}

static void close_one(struct one *one) {
    ig_cache_end(&one->session);
    one->cache.levels[0]->api->destroy(one->cache.levels[0]);
}

static void open_disk(struct one *one, const char *folder, uint64_t max_bytes) {
    struct ig_cache_level *level = NULL;
    struct ingot_error error;
    if (ig_cache_disk_create(folder, max_bytes, &ig_libc_allocator, &level, &error) != INGOT_OK)
        fail_msg("%s", error.message);
    open_one(one, level, true);
}

static struct ig_cache_id id_of(unsigned number) {
    return (struct ig_cache_id){IG_CACHE_KERNEL, ig_hash128(&number, sizeof number)};
}

/* Bytes that compress well, and begin with the number. */
static void put_number(struct one *one, unsigned number, size_t size) {
    const struct ig_cache_id id = id_of(number);
    unsigned char *bytes = calloc(1, size);
    memcpy(bytes, &number, sizeof number);
    const struct ig_cache_content content = {"a number", bytes, size, NULL, 0};
    ig_cache_put(&one->session, &id, &content);
    free(bytes);
}

static bool has_number(struct one *one, unsigned number, size_t size) {
    const struct ig_cache_id id = id_of(number);
    struct ig_cache_found found;
    if (!ig_cache_get(&one->session, &id, &found)) return false;
    assert_int_equal(found.content.head_size, size);
    assert_memory_equal(found.content.head, &number, sizeof number);
    assert_string_equal(found.content.label, "a number");
    ig_cache_found_release(&found);
    return true;
}

/* ---- Memory -------------------------------------------------------------------------------------------------------------- */

static void test_memory_keeps_what_was_used_last(void **state) {
    struct one one;
    open_one(&one, ig_cache_memory_create(&ig_libc_allocator, 10000), false);
    for (unsigned i = 0; i < 4; i++)
        put_number(&one, i, 2000);
    assert_true(has_number(&one, 0, 2000));
    put_number(&one, 4, 2000); /* number 1 was used longest ago */
    assert_false(has_number(&one, 1, 2000));
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(has_number(&one, i, 2000), i != 1);
    put_number(&one, 5, 2501); /* more than a quarter */
    assert_false(has_number(&one, 5, 2501));
    assert_true(has_number(&one, 0, 2000));
    assert_int_equal(one.notes, 0);
    close_one(&one);
}

static void test_memory_that_was_found_stays(void **state) {
    struct one one;
    const struct ig_cache_id id = id_of(0);
    struct ig_cache_found found;
    open_one(&one, ig_cache_memory_create(&ig_libc_allocator, 10000), false);
    put_number(&one, 0, 2000);
    assert_true(ig_cache_get(&one.session, &id, &found));
    for (unsigned i = 1; i < 10; i++)
        put_number(&one, i, 2000);
    assert_false(has_number(&one, 0, 2000));
    close_one(&one);
    assert_int_equal(*(const unsigned *)found.content.head, 0);
    ig_cache_found_release(&found);
}

/* ---- Entries ------------------------------------------------------------------------------------------------------------- */

static const size_t sizes[] = {0, 1, 300, 70000}, body_sizes[] = {0, 1, 4096, 3000001};

static void check_content(const struct ig_cache_found *found, const unsigned char *bytes, size_t head, size_t body) {
    assert_int_equal(found->content.head_size, head);
    assert_int_equal(found->content.body_size, body);
    if (head > 0) assert_memory_equal(found->content.head, bytes, head);
    if (body > 0) assert_memory_equal(found->content.body, bytes + 7, body);
    assert_int_equal(strlen(found->content.label), 255);
    if (body == 0) return;
    assert_int_equal(found->body_at % IG_ENTRY_PAGE, 0);
    assert_int_equal((uintptr_t)found->content.body % IG_ENTRY_PAGE, 0);
    unsigned char *copy = malloc(body);
    assert_int_equal(pread(found->fd, copy, body, (off_t)found->body_at), body);
    assert_memory_equal(copy, bytes + 7, body);
    free(copy);
}

static void test_entries_come_back(void **state) {
    struct test_folder folder;
    struct one one;
    enum { SIZE = 3000100 };
    unsigned char *bytes = malloc(SIZE);
    char label[400];
    uint64_t seed = 1;
    for (size_t i = 0; i < SIZE; i++) /* a third of it compresses */
        bytes[i] = i % 3000 < 1000 ? 7 : (unsigned char)((seed = seed * 6364136223846793005u + 1) >> 56);
    memset(label, 'x', sizeof label);
    label[sizeof label - 1] = '\0';
    test_folder_make(&folder);
    open_disk(&one, folder.path, (uint64_t)1 << 30);
    for (unsigned h = 0; h < 4; h++) {
        for (unsigned b = 0; b < 4; b++) {
            struct ig_cache_id id = id_of(10 * h + b);
            struct ig_cache_found found;
            const struct ig_cache_content content = {label, bytes, sizes[h], bytes + 7, body_sizes[b]};
            id.kind = (enum ig_cache_kind)(1 + b % 3);
            assert_false(ig_cache_get(&one.session, &id, &found));
            ig_cache_put(&one.session, &id, &content);
            ig_cache_put(&one.session, &id, &content);
            assert_true(ig_cache_get(&one.session, &id, &found));
            check_content(&found, bytes, sizes[h], body_sizes[b]);
            ig_cache_found_release(&found);
            id.kind = (enum ig_cache_kind)(1 + (b + 1) % 3);
            assert_false(ig_cache_get(&one.session, &id, &found));
        }
    }
    assert_int_equal(one.notes, 0);
    close_one(&one);
    free(bytes);
    test_folder_remove(&folder);
}

/* ---- Damage -------------------------------------------------------------------------------------------------------------- */

/* The bytes of entry number 1, which has a head and a body. */
static size_t make_entry(struct one *one, const struct test_folder *folder, char path[512], unsigned char **out_bytes) {
    static const char head[] = "a head that is stored as it is", body[] = "a body of a few bytes";
    const struct ig_cache_id id = id_of(1);
    const struct ig_cache_content content = {"a label", head, sizeof head, body, sizeof body};
    char name[IG_DISK_NAME];
    ig_disk_name(&id, name);
    snprintf(path, 512, "%s/%s", folder->path, name);
    ig_cache_put(&one->session, &id, &content);
    return test_file_read(path, out_bytes);
}

/* The entry with these bytes must be refused, removed and reported once. */
static void expect_damage(struct one *one, const char *path, const unsigned char *bytes, size_t size) {
    const struct ig_cache_id id = id_of(1);
    struct ig_cache_found found;
    test_file_write(path, bytes, size);
    one->notes = 0;
    if (ig_cache_get(&one->session, &id, &found)) fail_msg("damage was not detected");
    assert_int_equal(one->notes, 1);
    assert_non_null(strstr(one->note, "a damaged entry of the cache is removed"));
    assert_non_null(strstr(one->note, path));
    assert_int_equal(access(path, F_OK), -1);
    assert_false(ig_cache_get(&one->session, &id, &found));
    assert_int_equal(one->notes, 1);
}

static void test_every_flipped_bit_is_found(void **state) {
    struct test_folder folder;
    struct one one;
    unsigned char *bytes;
    char path[512];
    test_folder_make(&folder);
    open_disk(&one, folder.path, 1000000);
    size_t size = make_entry(&one, &folder, path, &bytes);
    assert_true(size > 4096);
    for (size_t i = 0; i < 8 * size; i++) {
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        expect_damage(&one, path, bytes, size);
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    test_file_write(path, bytes, size);
    struct ig_cache_found found;
    const struct ig_cache_id id = id_of(1);
    assert_true(ig_cache_get(&one.session, &id, &found));
    ig_cache_found_release(&found);
    free(bytes);
    close_one(&one);
    test_folder_remove(&folder);
}

static void test_every_other_length_is_found(void **state) {
    struct test_folder folder;
    struct one one;
    unsigned char *bytes;
    char path[512];
    test_folder_make(&folder);
    open_disk(&one, folder.path, 1000000);
    size_t size = make_entry(&one, &folder, path, &bytes);
    for (size_t i = 0; i < size; i++)
        expect_damage(&one, path, bytes, i);
    unsigned char *longer = calloc(1, size + 4096);
    memcpy(longer, bytes, size);
    expect_damage(&one, path, longer, size + 1);
    expect_damage(&one, path, longer, size + 4096);
    free(longer);
    free(bytes);
    close_one(&one);
    test_folder_remove(&folder);
}

/* A sound entry under the name of another, and things that are no files. */
static void test_wrong_entries(void **state) {
    struct test_folder folder;
    struct one one;
    unsigned char *bytes;
    char path[512];
    test_folder_make(&folder);
    open_disk(&one, folder.path, 1000000);
    size_t size = make_entry(&one, &folder, path, &bytes);
    const struct ig_cache_id other = id_of(2);
    char name[IG_DISK_NAME], other_path[512];
    ig_disk_name(&other, name);
    put_number(&one, 2, 100); /* makes its folder */
    snprintf(other_path, sizeof other_path, "%s/%s", folder.path, name);
    test_file_write(other_path, bytes, size);
    assert_false(has_number(&one, 2, 100));
    assert_non_null(strstr(one.note, "it is another entry than its name says"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    struct ig_cache_found found;
    const struct ig_cache_id id = id_of(1);
    assert_false(ig_cache_get(&one.session, &id, &found));
    assert_non_null(strstr(one.note, "no regular file"));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(ig_cache_get(&one.session, &id, &found));
    assert_non_null(strstr(one.note, "cannot be removed"));
    rmdir(path);
    free(bytes);
    close_one(&one);
    test_folder_remove(&folder);
}

/* ---- The bound ----------------------------------------------------------------------------------------------------------- */

static size_t count_entries(struct one *one, uint64_t *out_bytes) {
    struct ig_disk_list list;
    struct ingot_error error;
    assert_int_equal(ig_disk_list(one->cache.disk, &list, &error), INGOT_OK);
    size_t count = list.count;
    *out_bytes = list.bytes;
    ig_disk_list_release(one->cache.disk, &list);
    return count;
}

static void put_noise(struct one *one, unsigned number, size_t size) {
    const struct ig_cache_id id = id_of(number);
    unsigned char *bytes = malloc(size);
    uint64_t seed = number;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 56);
    memcpy(bytes, &number, sizeof number);
    const struct ig_cache_content content = {"a number", bytes, size, NULL, 0};
    ig_cache_put(&one->session, &id, &content);
    free(bytes);
}

static void test_least_recently_used_go_first(void **state) {
    struct test_folder folder;
    struct one one;
    uint64_t bytes;
    enum { SIZE = 10000, ROOM = 10 }; /* an entry has a hundred bytes more */
    test_folder_make(&folder);
    open_disk(&one, folder.path, ROOM * (SIZE + 200));
    for (unsigned i = 0; i < ROOM; i++)
        put_noise(&one, i, SIZE);
    assert_int_equal(count_entries(&one, &bytes), ROOM);
    for (unsigned i = 0; i < ROOM; i += 2) /* in the order of use now: 1 3 5 7 9 0 2 4 6 8 */
        assert_true(has_number(&one, i, SIZE));
    for (unsigned k = 0; k < ROOM; k++) {
        static const unsigned order[] = {1, 3, 5, 7, 9, 0, 2, 4, 6, 8};
        char name[IG_DISK_NAME], path[512];
        const struct ig_cache_id id = id_of(order[k]);
        ig_disk_name(&id, name);
        snprintf(path, sizeof path, "%s/%s", folder.path, name);
        assert_int_equal(access(path, F_OK), 0);
        put_noise(&one, 100 + k, SIZE);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(count_entries(&one, &bytes), ROOM);
        assert_true(bytes <= ROOM * (SIZE + 200));
    }
    put_noise(&one, 7, ROOM * SIZE + 5000); /* larger than all there may be */
    assert_int_equal(count_entries(&one, &bytes), ROOM);
    assert_int_equal(one.notes, 0);
    size_t removed;
    struct ingot_error error;
    assert_int_equal(ig_disk_prune(one.cache.disk, 3 * (SIZE + 200), &removed, &bytes, &error), INGOT_OK);
    assert_int_equal(removed, ROOM - 3);
    assert_true(has_number(&one, 109, SIZE));
    assert_false(has_number(&one, 106, SIZE));
    close_one(&one);
    test_folder_remove(&folder);
}

/* What others add is counted, too. */
static void test_two_writers_share_the_bound(void **state) {
    struct test_folder folder;
    struct one a, b;
    uint64_t bytes;
    enum { SIZE = 10000, BOUND = 32 * SIZE };
    test_folder_make(&folder);
    open_disk(&a, folder.path, BOUND);
    open_disk(&b, folder.path, BOUND);
    for (unsigned i = 0; i < 100; i++) {
        put_noise(i % 2 ? &a : &b, i, SIZE);
        count_entries(&a, &bytes);
        assert_true(bytes <= BOUND + 2 * (BOUND / 16 + SIZE + 200));
    }
    close_one(&a);
    close_one(&b);
    test_folder_remove(&folder);
}

/* ---- Failures ------------------------------------------------------------------------------------------------------------ */

/* Storing fails with `reason`, which is noted once and leaves no file behind; reading works as before. */
static void expect_full(struct one *one, const char *folder, const char *reason) {
    size_t files = test_folder_files(folder);
    for (unsigned i = 50; i < 53; i++)
        put_noise(one, i, 300000);
    assert_int_equal(one->notes, 1);
    if (!strstr(one->note, reason)) fail_msg("'%s' does not say '%s'", one->note, reason);
    assert_non_null(strstr(one->note, "nothing more is added to the cache"));
    assert_int_equal(test_folder_files(folder), files);
    assert_true(has_number(one, 1, 1000));
    assert_int_equal(one->notes, 1);
}

static void test_failing_writes(void **state) {
    struct test_folder folder;
    struct one one;
    struct rlimit before, limit;
    test_folder_make(&folder);
    open_disk(&one, folder.path, 10000000);
    put_noise(&one, 1, 1000);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 100000;
    setrlimit(RLIMIT_FSIZE, &limit);
    expect_full(&one, folder.path, "File too large");
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    close_one(&one);
    test_folder_remove(&folder);
}

static void test_full_disk(void **state) {
    struct test_folder folder;
    struct one one;
    test_folder_make(&folder);
    if (mount("tmpfs", folder.path, "tmpfs", 0, "size=128k,mode=0700") != 0) {
        test_folder_remove(&folder);
        print_message("skipped: no file system can be mounted\n");
        skip();
    }
    open_disk(&one, folder.path, 10000000);
    put_noise(&one, 1, 1000);
    expect_full(&one, folder.path, "No space left on device");
    assert_int_equal(mount("tmpfs", folder.path, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=128k"), 0);
    close_one(&one);
    open_disk(&one, folder.path, 10000000);
    expect_full(&one, folder.path, "Read-only file system");
    const struct ig_cache_id id = id_of(50);
    assert_true(ig_cache_claim(&one.session, &id)); /* there is a file to lock, or none: neither hinders */
    close_one(&one);
    umount(folder.path);
    test_folder_remove(&folder);
}

static void test_folder_of_another(void **state) {
    struct test_folder folder;
    struct one one;
    test_folder_make(&folder);
    open_disk(&one, folder.path, 10000000);
    put_noise(&one, 1, 1000);
    close_one(&one);
    chmod(folder.path, 0555);
    bool is_root = geteuid() == 0;
    if (is_root) assert_int_equal(seteuid(65534), 0);
    open_disk(&one, folder.path, 10000000);
    for (unsigned i = 60; i < 90; i++) /* some in parts of the folder that exist, some in others */
        put_noise(&one, i, 1000);
    assert_int_equal(one.notes, 1);
    assert_non_null(strstr(one.note, "Permission denied"));
    assert_true(is_root || has_number(&one, 1, 1000));
    close_one(&one);
    if (is_root) assert_int_equal(seteuid(0), 0);
    chmod(folder.path, 0700);
    test_folder_remove(&folder);
}

static void expect_no_folder(const char *path, const char *reason) {
    struct ig_cache_level *level;
    struct ingot_error error;
    assert_int_equal(ig_cache_disk_create(path, 1, &ig_libc_allocator, &level, &error), INGOT_IO);
    if (!strstr(error.message, reason)) fail_msg("'%s' does not say '%s'", error.message, reason);
}

static void test_no_folder(void **state) {
    struct test_folder folder;
    char path[512];
    test_folder_make(&folder);
    snprintf(path, sizeof path, "%s/file", folder.path);
    test_file_write(path, "x", 1);
    expect_no_folder(path, "Not a directory");
    snprintf(path, sizeof path, "%s/file/folder", folder.path);
    expect_no_folder(path, "Not a directory");
    snprintf(path, sizeof path, "%s/open", folder.path);
    mkdir(path, 0777);
    chmod(path, 0777);
    expect_no_folder(path, "everybody may write");
    expect_no_folder("", "cannot");
    expect_no_folder("/proc/none/such", "cannot make the folder");
    test_folder_remove(&folder);
}

/* Uses everything that allocates, with allocation number n failing; false if it had no effect. */
static bool use_with_failure(const char *folder, long n) {
    struct test_allocator allocator;
    struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
    struct ingot_cache *cache;
    char file[600];
    test_allocator_init(&allocator);
    allocator.fail_at = n;
    options.allocator = &allocator.base;
    options.folder = folder;
    snprintf(file, sizeof file, "%s.export", folder);
    if (ingot_cache_open(&options, &cache, NULL) == INGOT_OK) {
        struct one one;
        memset(&one, 0, sizeof one);
        const struct ig_cache_notes notes = {take_note, &one};
        ig_cache_begin(&one.session, cache, &notes);
        put_noise(&one, 1, 9000);
        const struct ig_cache_id id = id_of(1);
        struct ig_cache_found found;
        if (ig_cache_get(&one.session, &id, &found)) {
            assert_int_equal(found.content.head_size, 9000);
            ig_cache_found_release(&found);
        }
        ig_cache_end(&one.session);
        struct ingot_cache_info info;
        uint64_t entries, fresh;
        ingot_cache_describe(cache, &info, NULL);
        if (ingot_cache_export(cache, file, &entries, NULL) == INGOT_OK)
            ingot_cache_import(cache, file, &entries, &fresh, NULL);
        ingot_cache_prune(cache, n % 2 ? 0 : 1000000, NULL, NULL, NULL);
        ingot_cache_close(cache);
    }
    assert_int_equal(allocator.live, 0);
    assert_int_equal(allocator.bytes, 0);
    unlink(file);
    return allocator.calls >= n;
}

static void test_failing_allocations(void **state) {
    struct test_folder folder;
    long n = 1;
    test_folder_make(&folder);
    while (use_with_failure(folder.path, n))
        n++;
    assert_true(n > 10);
    test_folder_remove(&folder);
}

/* ---- Export and import --------------------------------------------------------------------------------------------------- */

static void test_export_and_import(void **state) {
    struct test_folder folder, other;
    struct one one, two;
    struct ingot_error error;
    char path[512];
    size_t entries, fresh;
    unsigned char *bytes;
    test_folder_make(&folder);
    test_folder_make(&other);
    snprintf(path, sizeof path, "%s.export", folder.path);
    open_disk(&one, folder.path, 1000000);
    open_disk(&two, other.path, 1000000);
    for (unsigned i = 0; i < 3; i++)
        put_noise(&one, i, 100 + i);
    assert_int_equal(ig_disk_export(one.cache.disk, path, &entries, &error), INGOT_OK);
    assert_int_equal(entries, 3);
    put_noise(&two, 1, 101);
    assert_int_equal(ig_disk_import(two.cache.disk, path, &entries, &fresh, &error), INGOT_OK);
    assert_int_equal(entries, 3);
    assert_int_equal(fresh, 2);
    for (unsigned i = 0; i < 3; i++)
        assert_true(has_number(&two, i, 100 + i));
    size_t size = test_file_read(path, &bytes);
    for (size_t i = 0; i < size; i++) { /* every flipped byte and every truncation is an error */
        ig_disk_prune(two.cache.disk, 0, &entries, &(uint64_t){0}, &error);
        bytes[i] ^= 1;
        test_file_write(path, bytes, size);
        bytes[i] ^= 1;
        assert_int_equal(ig_disk_import(two.cache.disk, path, &entries, &fresh, &error), INGOT_BAD_ENGINE);
        test_file_write(path, bytes, i);
        assert_int_equal(ig_disk_import(two.cache.disk, path, &entries, &fresh, &error), INGOT_BAD_ENGINE);
    }
    free(bytes);
    unlink(path);
    close_one(&one);
    close_one(&two);
    test_folder_remove(&folder);
    test_folder_remove(&other);
}

/* ---- Claims -------------------------------------------------------------------------------------------------------------- */

static void test_claims(void **state) {
    struct test_folder folder;
    struct one a, b;
    const struct ig_cache_id x = id_of(1), y = id_of(2);
    test_folder_make(&folder);
    open_disk(&a, folder.path, 1000000);
    open_disk(&b, folder.path, 1000000);
    assert_true(ig_cache_claim(&a.session, &x));
    assert_true(ig_cache_claim(&a.session, &x));
    assert_false(ig_cache_claim(&b.session, &x));
    assert_true(ig_cache_claim(&b.session, &y));
    ig_cache_unclaim(&a.session, &x);
    assert_true(ig_cache_claim(&b.session, &x));
    ig_cache_unclaim_all(&b.session);
    assert_true(ig_cache_claim(&a.session, &x));
    assert_true(ig_cache_claim(&a.session, &y));
    a.cache.wait_seconds = b.cache.wait_seconds = 0;
    ig_cache_claim_wait(&b.session, &x);
    assert_int_equal(b.notes, 1);
    assert_non_null(strstr(b.note, "it is built twice"));
    ig_cache_end(&a.session); /* as when a process ends */
    ig_cache_claim_wait(&b.session, &x);
    ig_cache_claim_wait(&b.session, &y);
    assert_int_equal(b.notes, 1);
    close_one(&a);
    close_one(&b);
    test_folder_remove(&folder);
}

/* A temporary file whose writer is dead goes with the next listing; one that is being written stays. */
static void test_temporary_files(void **state) {
    struct test_folder folder;
    struct one one;
    char dead[512], living[512];
    uint64_t bytes;
    test_folder_make(&folder);
    open_disk(&one, folder.path, 1000000);
    put_number(&one, 1, 10);
    const struct ig_cache_id id = id_of(1);
    char name[IG_DISK_NAME];
    ig_disk_name(&id, name);
    snprintf(dead, sizeof dead, "%s/%.2s/tmp-1-0", folder.path, name);
    snprintf(living, sizeof living, "%s/%.2s/tmp-1-1", folder.path, name);
    test_file_write(dead, "x", 1);
    test_file_write(living, "x", 1);
    int fd = open(living, O_RDWR);
    assert_true(fd >= 0 && test_file_lock(fd));
    assert_int_equal(count_entries(&one, &bytes), 1);
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(living, F_OK), 0);
    close(fd);
    assert_int_equal(count_entries(&one, &bytes), 1);
    assert_int_equal(access(living, F_OK), -1);
    close_one(&one);
    test_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_keeps_what_was_used_last),
        cmocka_unit_test(test_memory_that_was_found_stays),
        cmocka_unit_test(test_entries_come_back),
        cmocka_unit_test(test_every_flipped_bit_is_found),
        cmocka_unit_test(test_every_other_length_is_found),
        cmocka_unit_test(test_wrong_entries),
        cmocka_unit_test(test_least_recently_used_go_first),
        cmocka_unit_test(test_two_writers_share_the_bound),
        cmocka_unit_test(test_failing_writes),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_folder_of_another),
        cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_export_and_import),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_temporary_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
