/* toolchain/rename.h: names in texts, PTX and cubins. With NVRTC ($INGOT_NVRTC, or the system's), that a renamed cubin is
 * what NVRTC makes of the renamed text. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cubin.h"
#include "support/support.h"
#include "toolchain/nvrtc.h"
#include "toolchain/rename.h"

static void in_job(void (*body)(struct ig_job *job, void *argument), void *argument) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, body, argument, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) fail_msg("%s", error.message);
}

static void rename_texts(struct ig_job *job, void *argument) {
    (void)argument;
    static const char *const renamed[][2] = {
        {"", ""},
        {"a", "kernel"},
        {"a(aa a_ _a a1 1a; a)", "kernel(aa a_ _a a1 1a; kernel)"},
    };
    static const char *const stripped[][2] = {
        {"", ""},
        {"x /* a */ y/**/z", "x   y z"},
        {"/* one\n * two\n */\na // a\n/ a", " \na  \n/ a"},
        {"\"a /* a\" '\"' /* ' */ '\\'' a", "\"a /* a\" '\"'   '\\'' a"},
        {"\"\\\" a // \" a // end", "\"\\\" a // \" a  "},
        {"/* open a", " "},
        {"\"open a", "\"open a"},
        {"\"open\n/**/a", "\"open\n a"},
        {"/", "/"},
        {"'\\", "'\\"},
    };
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        assert_string_equal(ig_source_rename(job, renamed[i][0], "a", "kernel"), renamed[i][1]);
    for (size_t i = 0; i < sizeof stripped / sizeof *stripped; i++)
        assert_string_equal(ig_source_strip(job, stripped[i][0]), stripped[i][1]);
    assert_string_equal(ig_source_rename(job, "row_1 row_10 row_1", "row_1", "x"), "x row_10 x");
    static const char ptx[] = ".entry " IG_ANY_KERNEL "(.param " IG_ANY_KERNEL "_param_0)";
    struct ig_object_code out = ig_ptx_rename(job, &(struct ig_object_code){ptx, sizeof ptx}, "row_1");
    assert_string_equal(out.bytes, ".entry row_1(.param row_1_param_0)");
    assert_int_equal(out.size, strlen(out.bytes) + 1);
}

static void test_texts(void **state) {
    in_job(rename_texts, NULL);
}

/* A file with one table of strings. */
struct file {
    Elf64_Ehdr header;
    Elf64_Shdr section;
    char strings[200];
};

static const char before[] = "\0" IG_ANY_KERNEL "\0.text." IG_ANY_KERNEL "\0_" IG_ANY_KERNEL "\0" IG_ANY_KERNEL
                             "_0\0\0other\0" IG_ANY_KERNEL; /* ends within the table */
#define ZEROES "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"             /* what "row_12" leaves of the name */
static const char after[] =
    "\0row_12" ZEROES "\0.text.row_12" ZEROES "\0_" IG_ANY_KERNEL "\0" IG_ANY_KERNEL "_0\0\0other\0row_12" ZEROES;

static void rename_file(struct ig_job *job, void *argument) {
    const struct file *file = argument;
    struct ig_object_code out = ig_cubin_rename(job, &(struct ig_object_code){file, sizeof *file}, "row_12");
    const struct file *renamed = out.bytes;
    assert_int_equal(out.size, sizeof *file);
    assert_memory_equal(renamed, file, offsetof(struct file, strings));
    assert_int_equal(sizeof before, sizeof after);
    if (file->section.sh_type == SHT_STRTAB && file->section.sh_size == sizeof before &&
        file->section.sh_offset == offsetof(struct file, strings)) {
        assert_memory_equal(renamed->strings, after, sizeof after);
    } else {
        assert_memory_equal(renamed->strings, before, sizeof before);
    }
}

static void test_string_tables(void **state) {
    struct file file = {
        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                   .e_shoff = offsetof(struct file, section),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 1},
        .section = {.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, strings), .sh_size = sizeof before}};
    memcpy(file.strings, before, sizeof before);
    in_job(rename_file, &file);
    file.section.sh_type = SHT_PROGBITS;
    in_job(rename_file, &file);
    file.section.sh_type = SHT_STRTAB;
    file.section.sh_offset = sizeof file - 1; /* tables that end outside are left alone */
    in_job(rename_file, &file);
    file.section.sh_offset = UINT64_MAX;
    in_job(rename_file, &file);
    file.section.sh_offset = offsetof(struct file, strings);
    file.header.e_shnum = 2;
    file.header.e_shoff = sizeof file - 100;
    file.section.sh_size = 0;
    in_job(rename_file, &file);
    file.header.e_shoff = UINT64_MAX;
    in_job(rename_file, &file);
}

/* ---- Real cubins ---- */

/* Static and dynamic shared memory, constants, a device function, parameters. */
static const char program[] = "__device__ int table_%s = 3; __constant__ float weights[64];\n"
                              "__device__ __noinline__ float helper(float x, int n) { return n ? x * n : table_%s; }\n"
                              "extern \"C\" __global__ void __launch_bounds__(128)\n"
                              "%s(const float *in, float *out, int n) {\n"
                              "    __shared__ float tile[128];\n"
                              "    extern __shared__ __align__(1024) char more[];\n"
                              "    tile[threadIdx.x] = in[threadIdx.x];\n"
                              "    __syncthreads();\n"
                              "    more[threadIdx.x] = (char)n;\n"
                              "    __syncthreads();\n"
                              "    out[threadIdx.x] = helper(tile[127 - threadIdx.x], more[n]) + weights[n & 63];\n"
                              "}\n";

static void keep(void *user, unsigned index, const struct ig_object_code *object) {
    ((struct ig_object_code *)user)[index] = *object;
}

/* Functions that are called have symbols like "$KERNEL$FUNCTION", which nobody looks up: they keep the old name. */
static void keep_inner_name(char *bytes, size_t size, const char *name) {
    char inner[64];
    snprintf(inner, sizeof inner, "$%s$", name);
    for (size_t i = 0; i + strlen(inner) <= size; i++) {
        if (memcmp(bytes + i, inner, strlen(inner)) == 0) memcpy(bytes + i + 1, IG_ANY_KERNEL, strlen(IG_ANY_KERNEL));
    }
}

static void load(struct ig_job *job, void *out) {
    *(struct ig_nvrtc **)out = ig_nvrtc_load(job, getenv("INGOT_NVRTC"));
}

static void compare(struct ig_job *job, void *argument) {
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100"};
    const struct ig_nvrtc *nvrtc = ig_nvrtc_load(job, getenv("INGOT_NVRTC"));
    const char *name = "a_kernel_with_a_name_"; /* as long as the old name: NVRTC lays both out alike */
    assert_int_equal(strlen(name), strlen(IG_ANY_KERNEL));
    (void)argument;
    for (int a = 0; a < 3; a++) {
        const struct ig_source sources[] = {
            {"any", ig_format(job, program, "x", "x", IG_ANY_KERNEL)},
            {"named", ig_format(job, program, "x", "x", name)},
        };
        struct ig_object_code objects[2];
        ig_nvrtc_objects(job, nvrtc, archs[a], false, 1, sources, 2, keep, objects);
        keep_inner_name((char *)(uintptr_t)objects[1].bytes, objects[1].size, name);
        struct ig_object_code renamed = ig_cubin_rename(job, &objects[0], name);
        assert_int_equal(renamed.size, objects[1].size);
        size_t same = 0;
        while (same < renamed.size && ((char *)renamed.bytes)[same] == ((char *)objects[1].bytes)[same])
            same++;
        if (same < renamed.size) fail_msg("%s: the cubins differ at byte %zu of %zu", archs[a], same, renamed.size);
        struct ig_object_code shorter = ig_cubin_rename(job, &objects[0], "row_1");
        assert_true(ig_cubin_is_whole(shorter.bytes, shorter.size));
    }
}

static void test_as_nvrtc_would(void **state) {
#ifdef __SANITIZE_ADDRESS__
    /* Its dlopen looks for libraries as if libasan had asked, not NVRTC, which then lacks its own. */
    print_message("skipped: NVRTC does not work under AddressSanitizer\n");
    skip();
#endif
    struct ig_job job;
    struct ingot_error error;
    struct ig_nvrtc *nvrtc;
    ig_job_init(&job, &ig_libc_allocator);
    bool has_nvrtc = ig_job_run(&job, load, &nvrtc, &error) == INGOT_OK;
    ig_job_deinit(&job);
    if (!has_nvrtc) {
        print_message("skipped: %s\n", error.message);
        skip();
    }
    in_job(compare, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_string_tables),
        cmocka_unit_test(test_as_nvrtc_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
