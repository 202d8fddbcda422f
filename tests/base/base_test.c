/* base/: errors, memory, jobs, texts, maps, hashes, halves, files, the processor. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cpu.h"
#include "base/crew.h"
#include "base/file.h"
#include "base/half.h"
#include "base/half_row.h"
#include "base/hash/hash.h"
#include "base/job.h"
#include "base/map.h"
#include "base/spare.h"
#include "base/text.h"
#include "support/support.h"

/* ---- An allocator that counts and fails on demand ---- */

struct counting {
    struct ingot_allocator allocator;
    size_t calls, live, live_bytes;
    size_t fail_at; /* the call that fails, counted from 1; 0: none */
};

static void *counting_alloc(void *user, size_t size, size_t alignment) {
    struct counting *c = user;
    if (++c->calls == c->fail_at) return NULL;
    void *memory = ig_libc_allocator.alloc(NULL, size, alignment);
    if (memory) {
        memset(memory, 0xa5, size); /* callers must not rely on zeros */
        c->live++;
        c->live_bytes += size;
    }
    return memory;
}

static void counting_release(void *user, void *memory, size_t size) {
    struct counting *c = user;
    c->live--;
    c->live_bytes -= size; /* wrong sizes leave a balance other than 0 */
    free(memory);
}

static void counting_init(struct counting *c, size_t fail_at) {
    *c = (struct counting){.allocator = {c, counting_alloc, counting_release}, .fail_at = fail_at};
}

/* ---- Errors ---- */

static void test_errors(void **state) {
    struct ingot_error error;
    assert_int_equal(ig_error_set(&error, INGOT_IO, "cannot open '%s': %s", "a\nb", "no"), INGOT_IO);
    assert_string_equal(error.message, "cannot open 'a b': no");
    ig_error_prefix(&error, "engine '%s'", "x");
    assert_string_equal(error.message, "engine 'x': cannot open 'a b': no");
    assert_int_equal(error.status, INGOT_IO);
    assert_int_equal(ig_error_set(NULL, INGOT_IO, "%d", 1), INGOT_IO);
    ig_error_prefix(NULL, "nothing");
    for (int s = -2; s < 40; s++)
        assert_true(strlen(ingot_status_name((enum ingot_status)s)) > 0);
}

static void test_long_errors_stay_whole_utf8(void **state) {
    char name[2 * INGOT_ERROR_MESSAGE_SIZE];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(name, 'x', shift);
        for (size_t i = shift; i + 4 < sizeof name; i += 3)
            memcpy(name + i, "\xe2\x82\xac", 4);
        struct ingot_error error;
        ig_error_set(&error, INGOT_IO, "%s", name);
        size_t length = strlen(error.message);
        assert_true(length < INGOT_ERROR_MESSAGE_SIZE && length > INGOT_ERROR_MESSAGE_SIZE - 8);
        assert_string_equal(error.message + length - 3, "...");
        assert_int_equal((length - 3 - shift) % 3, 0);
    }
}

/* ---- Memory ---- */

static void test_sizes(void **state) {
    size_t out;
    assert_true(ig_size_mul(0, SIZE_MAX, &out) && out == 0);
    assert_false(ig_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_true(ig_size_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    assert_false(ig_size_add(SIZE_MAX, 1, &out));
}

static void test_arena(void **state) {
    struct counting c;
    counting_init(&c, 0);
    struct ig_arena arena;
    ig_arena_init(&arena, &c.allocator);
    static const size_t sizes[] = {0, 1, 15, 16, 17, 4095, 4096, 4097, 100000, 3000000, 8, 0, 1};
    unsigned char *parts[sizeof sizes / sizeof *sizes * 50];
    size_t n = 0;
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *part = ig_arena_alloc(&arena, sizes[i]);
            assert_non_null(part);
            assert_int_equal((uintptr_t)part % (sizes[i] >= 4096 ? 64 : 16), 0);
            for (size_t b = 0; b < sizes[i]; b += 61)
                assert_int_equal(part[b], 0);
            if (sizes[i]) assert_int_equal(part[sizes[i] - 1], 0);
            memset(part, (int)(i + 1), sizes[i]);
            parts[n++] = part;
        }
    }
    for (size_t p = 0; p < n; p++) { /* no block was overwritten */
        size_t i = p % (sizeof sizes / sizeof *sizes);
        if (sizes[i]) assert_true(parts[p][0] == i + 1 && parts[p][sizes[i] - 1] == i + 1);
    }
    assert_null(ig_arena_alloc(&arena, SIZE_MAX));
    assert_null(ig_arena_alloc(&arena, SIZE_MAX - 64));
    ig_arena_deinit(&arena);
    assert_int_equal(c.live, 0);
    assert_int_equal(c.live_bytes, 0);
}

/* ---- Jobs ---- */

static char order[64];
static void note(void *resource) {
    strcat(order, resource);
}

static void raises_in_scope(struct ig_job *job, void *argument) {
    struct ig_where outer = {.verb = "build model", .name = "m.onnx"};
    struct ig_where inner = {.verb = "import node", .name = "conv1", .kind = "Conv"};
    ig_defer(job, note, "a");
    ig_defer(job, note, "b");
    ig_defer(job, note, "c");
    ig_undefer(job, "b");
    ig_where_push(job, &outer);
    ig_where_push(job, &inner);
    ig_raise(job, INGOT_BAD_MODEL, "attribute 'pads' has %d values, expected %d", 3, 4);
}

static void test_raise(void **state) {
    struct ig_job job;
    struct ingot_error error;
    order[0] = '\0';
    ig_job_init(&job, &ig_libc_allocator);
    assert_int_equal(ig_job_run(&job, raises_in_scope, NULL, &error), INGOT_BAD_MODEL);
    assert_int_equal(error.status, INGOT_BAD_MODEL);
    assert_string_equal(error.message,
                        "cannot build model 'm.onnx': cannot import node 'conv1' (Conv): attribute 'pads' "
                        "has 3 values, expected 4");
    assert_string_equal(order, "ca");
    assert_int_equal(ig_job_run(&job, raises_in_scope, NULL, NULL), INGOT_BAD_MODEL);
    ig_job_deinit(&job);
    assert_string_equal(order, "caca");
}

static void nested_body(struct ig_job *job, void *argument) {
    struct ingot_error inner;
    struct ig_where where = {.verb = "verify"};
    ig_defer(job, note, "x");
    ig_where_push(job, &where);
    assert_int_equal(ig_job_run(job, raises_in_scope, NULL, &inner), INGOT_BAD_MODEL);
    assert_non_null(strstr(inner.message, "cannot verify: cannot build model"));
    ig_where_pop(job);
    ig_defer(job, note, "y");
    if (argument) ig_raise_error(job, &inner);
}

static void test_nested_jobs(void **state) {
    struct ig_job job;
    struct ingot_error error;
    order[0] = '\0';
    ig_job_init(&job, &ig_libc_allocator);
    assert_int_equal(ig_job_run(&job, nested_body, NULL, &error), INGOT_OK);
    assert_string_equal(order, "ca"); /* cleanups of a body that succeeds stay registered */
    assert_int_equal(ig_job_run(&job, nested_body, "raise", &error), INGOT_BAD_MODEL);
    assert_string_equal(order, "cacayx");
    ig_job_deinit(&job);
    assert_string_equal(order, "cacayxyx");
}

/* Takes over what was registered before it was called, and fails if asked to. */
static void takes_over(struct ig_job *job, void *argument) {
    ig_undefer(job, "outer");
    ig_defer(job, note, "i");
    if (argument) ig_raise(job, INGOT_BAD_MODEL, "failed");
}

static void test_undefer_in_a_nested_job(void **state) {
    struct ig_job job;
    struct ingot_error error;
    order[0] = '\0';
    ig_job_init(&job, &ig_libc_allocator);
    ig_defer(&job, note, "z");
    ig_defer(&job, note, "outer");
    assert_int_equal(ig_job_run(&job, takes_over, "fail", &error), INGOT_BAD_MODEL);
    assert_string_equal(order, "i");
    ig_defer(&job, note, "outer");
    assert_int_equal(ig_job_run(&job, takes_over, NULL, &error), INGOT_OK);
    ig_job_deinit(&job);
    assert_string_equal(order, "iiz");
}

static void deep_scopes(struct ig_job *job, void *argument) {
    char name[4000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct ig_where where[50];
    for (int i = 0; i < 50; i++) {
        where[i] = (struct ig_where){.verb = "import", .name = name, .kind = i == 49 ? "Innermost" : name};
        ig_where_push(job, &where[i]);
    }
    ig_raise(job, INGOT_BAD_MODEL, "the point");
}

static void test_deep_scopes_keep_the_point(void **state) {
    struct ig_job job;
    struct ingot_error error;
    ig_job_init(&job, &ig_libc_allocator);
    assert_int_equal(ig_job_run(&job, deep_scopes, NULL, &error), INGOT_BAD_MODEL);
    assert_non_null(strstr(error.message, "(Innermost): the point"));
    ig_job_deinit(&job);
}

static void impossible_array(struct ig_job *job, void *argument) {
    ig_alloc_array(job, SIZE_MAX / 2, 3);
}

static void impossible_grow(struct ig_job *job, void *argument) {
    ig_grow(job, NULL, UINT32_MAX, 0, 4);
}

/* Allocates in every way, for the failing allocator. */
static void everything(struct ig_job *job, void *argument) {
    struct ig_text text;
    struct ig_map map;
    ig_text_init(&text, job);
    ig_map_init(&map, job);
    IG_VEC(int) numbers = {0};
    for (int i = 0; i < 3000; i++) {
        ig_text_printf(&text, "%d ", i);
        ig_map_put(&map, &i, sizeof i, (uint32_t)i);
        IG_PUSH(job, &numbers, i);
        if (i % 100 == 0) ig_defer(job, note, "");
        ig_format(job, "%d%s", i, ig_strdup(job, "abc"));
    }
    ig_alloc(job, 5000000);
}

static void test_failing_allocator(void **state) {
    size_t fail_at = 1;
    for (enum ingot_status status = INGOT_OUT_OF_MEMORY; status != INGOT_OK; fail_at++) {
        struct counting c;
        counting_init(&c, fail_at);
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &c.allocator);
        status = ig_job_run(&job, everything, NULL, &error);
        assert_true(status == INGOT_OUT_OF_MEMORY || (status == INGOT_OK && c.calls < fail_at));
        if (status) assert_non_null(strstr(error.message, "out of memory"));
        ig_job_deinit(&job);
        assert_int_equal(c.live, 0);
        assert_int_equal(c.live_bytes, 0);
    }
    assert_true(fail_at > 8);
}

static void defer_only(struct ig_job *job, void *argument) {
    ig_defer(job, note, "z");
}

static void test_defer_without_memory_does_not_leak(void **state) {
    struct counting c;
    counting_init(&c, 1);
    struct ig_job job;
    order[0] = '\0';
    ig_job_init(&job, &c.allocator);
    assert_int_equal(ig_job_run(&job, defer_only, NULL, NULL), INGOT_OUT_OF_MEMORY);
    assert_string_equal(order, "z");
    ig_job_deinit(&job);
    assert_string_equal(order, "z");
}

static void test_impossible_sizes(void **state) {
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    assert_int_equal(ig_job_run(&job, impossible_array, NULL, NULL), INGOT_OUT_OF_MEMORY);
    assert_int_equal(ig_job_run(&job, impossible_grow, NULL, NULL), INGOT_OUT_OF_MEMORY);
    ig_job_deinit(&job);
}

/* ---- Texts and maps ---- */

static void texts(struct ig_job *job, void *argument) {
    struct ig_text text;
    ig_text_init(&text, job);
    assert_null(text.at);
    ig_text_add(&text, "");
    assert_string_equal(text.at, "");
    for (int i = 0; i < 1000; i++)
        ig_text_printf(&text, "%0*d", i % 200 + 1, 7);
    size_t expected = 0;
    for (int i = 0; i < 1000; i++)
        expected += (size_t)(i % 200 + 1);
    assert_int_equal(text.length, expected);
    assert_int_equal(strlen(text.at), expected);
    ig_text_add_n(&text, "abc", 2);
    assert_string_equal(text.at + expected, "ab");
    assert_string_equal(ig_format(job, "%s-%d", "x", 5), "x-5");
    assert_string_equal(ig_strndup(job, "hello", 3), "hel");
}

static void maps(struct ig_job *job, void *argument) {
    struct ig_map map;
    uint32_t value = 77;
    ig_map_init(&map, job);
    assert_false(ig_map_get_name(&map, "a", &value));
    assert_int_equal(value, 77);
    ig_map_put(&map, "", 0, 5); /* an empty key is valid */
    assert_true(ig_map_get_name(&map, "", &value) && value == 5);
    for (uint32_t i = 0; i < 20000; i++)
        ig_map_put_name(&map, ig_format(job, "key%u", i), i);
    for (uint32_t i = 0; i < 20000; i += 2)
        ig_map_put_name(&map, ig_format(job, "key%u", i), i + 1);
    assert_int_equal(map.count, 20001);
    for (uint32_t i = 0; i < 20000; i++) {
        assert_true(ig_map_get_name(&map, ig_format(job, "key%u", i), &value));
        assert_int_equal(value, i % 2 ? i : i + 1);
    }
    assert_false(ig_map_get_name(&map, "key20000", &value));
    assert_false(ig_map_get(&map, "key1", 5, &value)); /* a NUL byte counts like any other */
}

static void run_body(void (*body)(struct ig_job *, void *)) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, body, NULL, &error);
    ig_job_deinit(&job);
    if (status) fail_msg("%s", error.message);
}

static void test_texts(void **state) {
    run_body(texts);
}

static void test_maps(void **state) {
    run_body(maps);
}

static void test_hashes(void **state) {
    /* The values are part of the engine format. */
    assert_true(ig_hash64("", 0) == 0x2d06800538d394c2ull);
    char text[33];
    ig_hash128_print(ig_hash128("", 0), text);
    assert_string_equal(text, "99aa06d3014798d86001c324468d497f");
    /* The same with whatever instructions the processor has. */
    static unsigned char bytes[100000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i >> 3);
    for (size_t size = 0; size < sizeof bytes; size = 2 * size + 1) {
        assert_true(ig_hash64(bytes + 1, size) == XXH3_64bits(bytes + 1, size));
    }
}

/* ---- Halves ---- */

static void test_f16_round_trip(void **state) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float wide = ig_f16_to_f32((uint16_t)bits);
        uint16_t back = ig_f32_to_f16(wide);
        if (isnan(wide)) {
            assert_true(isnan(ig_f16_to_f32(back)) && (back & 0x8000) == (bits & 0x8000));
        } else {
            assert_int_equal(back, bits);
        }
        float brain = ig_bf16_to_f32((uint16_t)bits);
        back = ig_f32_to_bf16(brain);
        if (isnan(brain)) {
            assert_true(isnan(ig_bf16_to_f32(back)));
        } else {
            assert_int_equal(back, bits);
        }
    }
}

/* Rounds numbers between neighbours: below, at and above the middle. */
static void check_rounding(float (*widen)(uint16_t), uint16_t (*narrow)(double), uint16_t infinity) {
    for (uint16_t bits = 0; bits + 1 < infinity; bits++) {
        double low = widen(bits), high = widen((uint16_t)(bits + 1)), middle = (low + high) / 2;
        assert_int_equal(narrow(middle), bits & 1 ? bits + 1 : bits);
        assert_int_equal(narrow(nextafter(middle, 0)), bits);
        assert_int_equal(narrow(nextafter(middle, INFINITY)), bits + 1);
        assert_int_equal(narrow(-middle), (bits & 1 ? bits + 1 : bits) | 0x8000);
    }
    double largest = widen((uint16_t)(infinity - 1)), step = largest - widen((uint16_t)(infinity - 2));
    assert_int_equal(narrow(largest + step / 2), infinity); /* the tie goes to even: infinity */
    assert_int_equal(narrow(nextafter(largest + step / 2, 0)), infinity - 1);
    assert_int_equal(narrow(INFINITY), infinity);
    assert_int_equal(narrow(-1e300), infinity | 0x8000);
    assert_int_equal(narrow(1e-300), 0);
    assert_int_equal(narrow(-5e-324), 0x8000);
    assert_true(isnan(widen(narrow(NAN))));
}

static void test_rounding(void **state) {
    check_rounding(ig_f16_to_f32, ig_f64_to_f16, 0x7c00);
    check_rounding(ig_bf16_to_f32, ig_f64_to_bf16, 0x7f80);
    assert_int_equal(ig_f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(ig_f32_to_bf16(1.0f), 0x3f80);
}

/* ---- Files ---- */

static char folder[] = "/tmp/ingot-base-test-XXXXXX";

static int make_folder(void **state) {
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    return rmdir(folder); /* fails if a test has left a file */
}

static void test_files(void **state) {
    char path[256];
    struct ingot_error error;
    struct ig_mapping mapping = {NULL, 0};
    struct ig_file_writer writer;
    snprintf(path, sizeof path, "%s/engine", folder);
    assert_int_equal(ig_file_map(path, &mapping, &error), INGOT_IO);
    assert_non_null(strstr(error.message, path));
    assert_int_equal(ig_file_map(folder, &mapping, &error), INGOT_IO);

    struct counting c;
    counting_init(&c, 0);
    assert_int_equal(ig_file_writer_open(&writer, path, &c.allocator, &error), INGOT_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(ig_file_writer_write(&writer, "0123456789", 10, &error), INGOT_OK);
    assert_int_equal(ig_file_writer_patch(&writer, 8, "xyz", 3, &error), INGOT_INTERNAL);
    assert_int_equal(ig_file_writer_patch(&writer, 7, "xyz", 3, &error), INGOT_OK);
    assert_int_equal(ig_file_writer_commit(&writer, &error), INGOT_OK);
    ig_file_writer_abort(&writer);

    assert_int_equal(ig_file_map(path, &mapping, &error), INGOT_OK);
    assert_int_equal(mapping.size, 10);
    assert_memory_equal(mapping.data, "0123456xyz", 10);
    ig_file_unmap(&mapping);

    /* Aborted: the old file remains, and no other. */
    assert_int_equal(ig_file_writer_open(&writer, path, &c.allocator, &error), INGOT_OK);
    assert_int_equal(ig_file_writer_write(&writer, "new", 3, &error), INGOT_OK);
    ig_file_writer_abort(&writer);
    ig_file_writer_abort(&writer);
    assert_int_equal(ig_file_map(path, &mapping, &error), INGOT_OK);
    assert_int_equal(mapping.size, 10);
    ig_file_unmap(&mapping);

    /* Empty. */
    assert_int_equal(ig_file_writer_open(&writer, path, &c.allocator, &error), INGOT_OK);
    assert_int_equal(ig_file_writer_commit(&writer, &error), INGOT_OK);
    assert_int_equal(ig_file_map(path, &mapping, &error), INGOT_OK);
    assert_null(mapping.data);
    ig_file_unmap(&mapping);
    assert_int_equal(c.live_bytes, 0);
    unlink(path);
}

static void test_files_refused(void **state) {
    struct ingot_error error;
    struct ig_file_writer writer;
    struct ig_mapping mapping;
    char path[256];
    assert_int_equal(ig_file_writer_open(&writer, "/dev/null", &ig_libc_allocator, &error), INGOT_IO);
    snprintf(path, sizeof path, "%s/none/engine", folder);
    assert_int_equal(ig_file_writer_open(&writer, path, &ig_libc_allocator, &error), INGOT_IO);
    assert_non_null(strstr(error.message, "none/engine"));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ig_file_map(path, &mapping, &error), INGOT_IO); /* without blocking on the FIFO */
    unlink(path);
    for (size_t fail_at = 1; fail_at <= 2; fail_at++) {
        struct counting c;
        counting_init(&c, fail_at);
        snprintf(path, sizeof path, "%s/engine", folder);
        assert_int_equal(ig_file_writer_open(&writer, path, &c.allocator, &error), INGOT_OUT_OF_MEMORY);
        ig_file_writer_abort(&writer);
        assert_int_equal(c.live, 0);
    }
}

static unsigned count_files(const char *path) {
    unsigned count = 0;
    DIR *listing = opendir(path);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

/* Runs `write` in a process of its own, which must end by the signal (0: by itself, with success). */
static void in_process(void (*write)(const char *path), const char *path, int signal) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        write(path);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signal);
    assert_true(signal || WEXITSTATUS(status) == 0);
}

static void write_and_die(const char *path) {
    struct ingot_error error;
    struct ig_file_writer writer;
    char bytes[4096] = {0};
    if (ig_file_writer_open(&writer, path, &ig_libc_allocator, &error) != INGOT_OK) _exit(1);
    if (writer.is_named) raise(SIGKILL); /* no nameless files here: then something remains */
    for (int i = 0; i < 100; i++)
        ig_file_writer_write(&writer, bytes, sizeof bytes, &error);
    raise(SIGKILL);
}

static void test_killed_writer(void **state) {
    char path[256], temporary[300];
    struct ingot_error error;
    struct ig_file_writer writer;
    snprintf(path, sizeof path, "%s/engine", folder);
    assert_int_equal(ig_file_writer_open(&writer, path, &ig_libc_allocator, &error), INGOT_OK);
    bool is_nameless = !writer.is_named;
    assert_int_equal(count_files(folder), is_nameless ? 0 : 1);
    ig_file_writer_abort(&writer);
    if (!is_nameless) skip();
    in_process(write_and_die, path, SIGKILL);
    assert_int_equal(count_files(folder), 0);

    /* A file is replaced although somebody has taken the first temporary name. */
    for (int i = 0; i < 3; i++) {
        char digit = (char)('0' + i);
        struct ig_mapping mapping;
        snprintf(temporary, sizeof temporary, "%s.tmp-%ld-0", path, (long)getpid());
        FILE *file = fopen(temporary, "w");
        assert_non_null(file);
        fclose(file);
        assert_int_equal(ig_file_writer_open(&writer, path, &ig_libc_allocator, &error), INGOT_OK);
        assert_int_equal(ig_file_writer_write(&writer, &digit, 1, &error), INGOT_OK);
        assert_int_equal(ig_file_writer_commit(&writer, &error), INGOT_OK);
        assert_int_equal(ig_file_map(path, &mapping, &error), INGOT_OK);
        assert_int_equal(mapping.size, 1);
        assert_int_equal(*(const char *)mapping.data, digit);
        ig_file_unmap(&mapping);
        unlink(temporary);
        assert_int_equal(count_files(folder), 1);
    }
    struct stat info;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
    unlink(path);
}

/* Without /proc a nameless file could get no name. */
static void write_without_proc(const char *path) {
    struct ingot_error error;
    struct ig_file_writer writer;
    if (chroot(path) != 0 || chdir("/") != 0) _exit(0); /* only the superuser may */
    if (ig_file_writer_open(&writer, "/engine", &ig_libc_allocator, &error) != INGOT_OK || !writer.is_named ||
        ig_file_writer_write(&writer, "whole", 5, &error) != INGOT_OK ||
        ig_file_writer_commit(&writer, &error) != INGOT_OK || access("/engine", F_OK) != 0 || unlink("/engine") != 0 ||
        ig_file_writer_open(&writer, "engine", &ig_libc_allocator, &error) != INGOT_OK)
        _exit(1);
    ig_file_writer_abort(&writer);
}

static void test_writer_without_proc(void **state) {
    in_process(write_without_proc, folder, 0);
    assert_int_equal(count_files(folder), 0);
}

/* ---- Spares ---- */

static void test_spares(void **state) {
    struct counting c;
    struct ig_spares spares;
    char *blocks[40] = {0};
    size_t sizes[40] = {0};
    uint64_t random = 1;
    counting_init(&c, 0);
    ig_spares_init(&spares, &c.allocator);
    const struct ingot_allocator *a = &spares.allocator;
    char *first = a->alloc(a->user, 3 << 20, 64), *second = a->alloc(a->user, 3 << 20, 64);
    a->release(a->user, first, 3 << 20);
    assert_ptr_equal(a->alloc(a->user, 2 << 20, 64), first); /* kept */
    a->release(a->user, first, 2 << 20);
    a->release(a->user, second, 3 << 20);
    for (int i = 0; i < 5000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t at = (random >> 33) % 40;
        if (blocks[at]) { /* nobody else has written to it */
            assert_true(blocks[at][0] == (char)at && blocks[at][sizes[at] - 1] == (char)at);
            a->release(a->user, blocks[at], sizes[at]);
            blocks[at] = NULL;
            continue;
        }
        sizes[at] = (size_t)1 << (random >> 40) % 23;
        if (random >> 60 == 3) c.fail_at = c.calls + 1;
        blocks[at] = a->alloc(a->user, sizes[at], 64);
        if (!blocks[at]) continue;
        assert_int_equal((uintptr_t)blocks[at] % 64, 0);
        blocks[at][0] = blocks[at][sizes[at] - 1] = (char)at;
        assert_true(c.live <= 40 + 9);
    }
    for (int i = 0; i < 40; i++) {
        if (blocks[i]) a->release(a->user, blocks[i], sizes[i]);
    }
    ig_spares_deinit(&spares);
    assert_int_equal(c.live, 0);
    assert_int_equal(c.live_bytes, 0);
}

/* ---- Crews ---- */

enum { CREW_ITEMS = 500, CREW_AHEAD = 7 };

struct crew_test {
    struct ig_job job;
    unsigned threads;
    uint32_t stop_after;
    atomic_uint begun;
    unsigned values[CREW_ITEMS];
};

static void crew_work(void *user, uint32_t item) {
    struct crew_test *t = user;
    atomic_fetch_add(&t->begun, 1);
    for (volatile unsigned spin = 0; spin < item % 17 * 100; spin++)
        continue;
    t->values[item] = item * item + 1;
}

static void crew_body(struct ig_job *job, void *argument) {
    struct crew_test *t = argument;
    struct ig_crew *crew = ig_crew_create(job, t->threads, crew_work, t);
    for (uint32_t i = 0; i < CREW_ITEMS; i++) {
        if (i == t->stop_after) ig_raise(job, INGOT_CANCELLED, "enough");
        ig_crew_offer(crew, i + CREW_AHEAD < CREW_ITEMS ? i + CREW_AHEAD : CREW_ITEMS);
        ig_crew_wait(crew, i);
        assert_int_equal(t->values[i], i * i + 1);
    }
    assert_int_equal(t->begun, CREW_ITEMS);
    ig_crew_destroy(crew);
}

static void test_crew(void **state) {
    static const unsigned threads[] = {1, 2, 5, 1000, 0};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        for (uint32_t stop_after = 0; stop_after <= CREW_ITEMS; stop_after += CREW_ITEMS / 4) {
            struct ingot_error error;
            struct crew_test *t = calloc(1, sizeof *t);
            t->threads = threads[i];
            t->stop_after = stop_after;
            ig_job_init(&t->job, &ig_libc_allocator);
            enum ingot_status status = ig_job_run(&t->job, crew_body, t, &error);
            ig_job_deinit(&t->job);
            assert_int_equal(status, stop_after < CREW_ITEMS ? INGOT_CANCELLED : INGOT_OK);
            assert_true(t->begun <= CREW_ITEMS);
            free(t);
        }
    }
}

/* ---- The processor ---- */

static void test_cpu(void **state) {
    uint64_t features = ig_cpu_features();
    assert_int_equal(features >> IG_CPU_FEATURE_COUNT, 0);
#if defined(__x86_64__)
    assert_int_equal(!!(features & IG_CPU_AVX2), !!__builtin_cpu_supports("avx2"));
    assert_int_equal(!!(features & IG_CPU_FMA), !!__builtin_cpu_supports("fma"));
    assert_int_equal(!!(features & IG_CPU_AVX512F), !!__builtin_cpu_supports("avx512f"));
    assert_int_equal(!!(features & IG_CPU_AVX512VL), !!__builtin_cpu_supports("avx512vl"));
    assert_int_equal(!!(features & IG_CPU_AVX512_VNNI), !!__builtin_cpu_supports("avx512vnni"));
    assert_int_equal(!!(features & IG_CPU_BMI2), !!__builtin_cpu_supports("bmi2"));
#endif
    assert_string_equal(ig_cpu_feature_name(IG_CPU_AVX2), "avx2");
    assert_string_equal(ig_cpu_feature_name(IG_CPU_POPCNT), "popcnt");
    assert_string_equal(ig_cpu_feature_name(IG_CPU_AMX_BF16), "amx-bf16");
    assert_string_equal(ig_cpu_feature_name(0), "none");
    assert_string_equal(ig_cpu_feature_name((uint64_t)1 << 63), "unknown");
    struct ig_cpu_caches caches = ig_cpu_caches();
    assert_in_range(caches.l1, 4 << 10, 4 << 20);
    assert_in_range(caches.l2, 64 << 10, (size_t)1 << 30);
    unsigned processors = ig_cpu_processors();
    assert_in_range(processors, 1, sysconf(_SC_NPROCESSORS_CONF));
    if (features & IG_CPU_AMX_TILE) assert_true(ig_cpu_request_amx());
}

#if defined(__linux__)
/* A thread bound to one processor may use just that one; its own affinity counts, not that of other threads. */
static void *look_from_one_processor(void *argument) {
    cpu_set_t all, one;
    int processor = 0;
    if (pthread_getaffinity_np(pthread_self(), sizeof all, &all) != 0) return NULL;
    while (!CPU_ISSET(processor, &all))
        processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0) ig_processors_read(argument);
    return NULL;
}

static void test_processors_of_a_thread(void **state) {
    struct ig_processors own, bound = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look_from_one_processor, &bound), 0);
    pthread_join(thread, NULL);
    ig_processors_read(&own);
    unsigned bits = 0, common = 0;
    for (int i = 0; i < IG_PROCESSOR_WORDS; i++) {
        bits += (unsigned)__builtin_popcountll(bound.mask[i]);
        common += (unsigned)__builtin_popcountll(bound.mask[i] & own.mask[i]);
    }
    assert_int_equal(bound.count, 1);
    assert_int_equal(bits, 1);
    assert_int_equal(common, 1);
    assert_int_equal(ig_processors_usable(&bound), 1);
    assert_true(ig_processors_usable(&own) == ig_cpu_processors());
    bound = (struct ig_processors){.count = 8, .quota = 3};
    assert_int_equal(ig_processors_usable(&bound), 3);
}
#endif

/* ---- Rows of halves ---- */

enum { ROW_LENGTH = 37 }; /* odd, and more than several vectors */

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* What any arithmetic gives for the element, NaN included. */
static uint32_t widened(float value) {
    volatile double wide = value;
    return bits_of((float)wide);
}

static void test_half_rows_widen(void **state) {
    uint16_t from[ROW_LENGTH + 2];
    float f16[ROW_LENGTH + 2], bf16[ROW_LENGTH + 2];
    for (uint32_t first = 0; first < 65536; first += ROW_LENGTH - 3) {
        for (uint32_t skew = 0; skew < 2; skew++) { /* aligned and not */
            size_t count = ROW_LENGTH - first % 11;
            for (uint32_t i = 0; i < count; i++)
                from[skew + i] = (uint16_t)(first + i);
            f16[skew + count] = bf16[skew + count] = 7;
            ig_f16_to_f32_row(from + skew, f16 + skew, count);
            ig_bf16_to_f32_row(from + skew, bf16 + skew, count);
            for (uint32_t i = skew; i < skew + count; i++) {
                assert_int_equal(bits_of(f16[i]), widened(ig_f16_to_f32(from[i])));
                assert_int_equal(bits_of(bf16[i]), widened(ig_bf16_to_f32(from[i])));
            }
            assert_true(f16[skew + count] == 7 && bf16[skew + count] == 7);
        }
    }
}

/* All upper halves of floats, with lower halves that are about to be rounded up, down and to even. */
static void test_half_rows_narrow(void **state) {
    static const uint32_t low[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000,
                                   0x2fff, 0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xefff,
                                   0xf000, 0xf001, 0xffff, 0x0800, 0x0400, 0x5555, 0xaaaa};
    enum { LOW = sizeof low / sizeof *low };
    float from[LOW + 1];
    uint16_t f16[LOW + 1], bf16[LOW + 1];
    for (uint32_t high = 0; high < 65536; high++) {
        uint32_t skew = high & 1;
        for (uint32_t i = 0; i < LOW; i++)
            from[skew + i] = float_of(high << 16 | low[i]);
        ig_f32_to_f16_row(from + skew, f16 + skew, LOW);
        ig_f32_to_bf16_row(from + skew, bf16 + skew, LOW);
        for (uint32_t i = skew; i < skew + LOW; i++) {
            assert_int_equal(f16[i], ig_f32_to_f16(from[i]));
            assert_int_equal(bf16[i], ig_f32_to_bf16(from[i]));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_long_errors_stay_whole_utf8),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_raise),
        cmocka_unit_test(test_nested_jobs),
        cmocka_unit_test(test_undefer_in_a_nested_job),
        cmocka_unit_test(test_deep_scopes_keep_the_point),
        cmocka_unit_test(test_failing_allocator),
        cmocka_unit_test(test_defer_without_memory_does_not_leak),
        cmocka_unit_test(test_impossible_sizes),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_f16_round_trip),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_files_refused),
        cmocka_unit_test(test_killed_writer),
        cmocka_unit_test(test_writer_without_proc),
        cmocka_unit_test(test_spares),
        cmocka_unit_test(test_crew),
        cmocka_unit_test(test_half_rows_widen),
        cmocka_unit_test(test_half_rows_narrow),
        cmocka_unit_test(test_cpu),
#if defined(__linux__)
        cmocka_unit_test(test_processors_of_a_thread),
#endif
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
