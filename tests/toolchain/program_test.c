/* Which program a file is: its build ID, or its hash; whatever the file looks like. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cache/folder.h"
#include "support/support.h"
#include "toolchain/program.h"

static struct ig_job job;
static struct test_folder folder;

static int begin(void **state) {
    ig_job_init(&job, &ig_libc_allocator);
    test_folder_make(&folder);
    return 0;
}

static int end(void **state) {
    ig_job_deinit(&job);
    test_folder_remove(&folder);
    return 0;
}

struct identifying {
    const char *path, *result;
};

static void identify_body(struct ig_job *j, void *argument) {
    struct identifying *i = argument;
    i->result = ig_program_identity(j, i->path);
}

static const char *identity_of(const void *bytes, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "%s/program", folder.path);
    test_file_write(path, bytes, size);
    struct identifying i = {path, NULL};
    struct ingot_error error;
    if (ig_job_run(&job, identify_body, &i, &error) != INGOT_OK) fail_msg("%s", error.message);
    return i.result;
}

/* A file of one segment with two notes; the second is a build ID. */
struct program {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    struct {
        Elf64_Nhdr header;
        char name[8], contents[4];
    } other;
    struct {
        Elf64_Nhdr header;
        char name[4], contents[20];
    } build;
    char code[64];
};

static struct program make(void) {
    struct program p = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                                   .e_phoff = offsetof(struct program, segment),
                                   .e_phentsize = sizeof(Elf64_Phdr),
                                   .e_phnum = 1},
                        .segment = {.p_type = PT_NOTE, .p_offset = offsetof(struct program, other)},
                        .other = {{6, 3, 1}, "Other", "abc"},
                        .build = {{4, 20, NT_GNU_BUILD_ID}, "GNU", "0123456789abcdefghi"}};
    p.segment.p_filesz = offsetof(struct program, code) - offsetof(struct program, other);
    return p;
}

static void test_build_id(void **state) {
    struct program p = make();
    const char *first = identity_of(&p, sizeof p);
    assert_non_null(strstr(first, "build 30313233343536373839616263646566676869"));
    p.build.contents[3]++;
    assert_string_not_equal(identity_of(&p, sizeof p), first);
    p = make();
    p.code[5] = 1;
    assert_string_equal(identity_of(&p, sizeof p), first);
    assert_string_not_equal(identity_of(&p, sizeof p - 1), first);
}

static void test_hash(void **state) {
    struct program p = make();
    p.build.header.n_type = NT_GNU_ABI_TAG;
    const char *first = identity_of(&p, sizeof p);
    assert_null(strstr(first, "build"));
    p.code[5] = 1;
    assert_string_not_equal(identity_of(&p, sizeof p), first);
    assert_string_not_equal(identity_of("#!/bin/sh", 9), identity_of("#!/bin/sj", 9));
    assert_int_equal(strlen(identity_of("", 0)), 32);
    struct identifying none = {"/no/such/program", NULL};
    identify_body(&job, &none);
    assert_string_equal(none.result, "-");
    none.path = NULL;
    identify_body(&job, &none);
    assert_string_equal(none.result, "-");
}

/* Under AddressSanitizer, reads outside of the mapped file would show at its last page alone, so the offsets are what counts. */
static void test_damage(void **state) {
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t at = 0; at < offsetof(struct program, code); at++) {
        for (size_t k = 0; k < sizeof values; k++) {
            struct program p = make();
            ((unsigned char *)&p)[at] = values[k];
            assert_true(strlen(identity_of(&p, sizeof p)) > 0);
        }
    }
    struct program p = make();
    for (size_t size = 0; size < sizeof p; size++)
        assert_true(strlen(identity_of(&p, size)) > 0);
    p.header.e_phoff = UINT64_MAX - 8;
    identity_of(&p, sizeof p);
    p = make();
    p.segment.p_offset = UINT64_MAX - 8;
    identity_of(&p, sizeof p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_id),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
