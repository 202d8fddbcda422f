/* On the CPU, all processes that load an engine share the pages of its file: no run makes a copy of any. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/model/table.h"

static char path[] = "/tmp/ingot-pages-XXXXXX";

struct loaded {
    struct ingot_engine *engine;
    struct ingot_context *context;
};

static enum ingot_status load(struct loaded *out_loaded, struct ingot_error *error) {
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    enum ingot_status status = ingot_engine_load(path, NULL, &out_loaded->engine, error);
    if (status == INGOT_OK) status = ingot_context_create(out_loaded->engine, &options, &out_loaded->context, error);
    return status == INGOT_OK ? table_run(out_loaded->context, error) : status;
}

static void unload(struct loaded *loaded) {
    ingot_context_destroy(loaded->context);
    ingot_engine_release(loaded->engine);
}

/* Sums of this process's mappings of the file, in bytes. */
struct pages {
    size_t mappings, writable, size, resident, shared, copied;
};

static void add_field(const char *line, const char *name, size_t *sum) {
    size_t length = strlen(name);
    if (strncmp(line, name, length) == 0) *sum += (size_t)strtoull(line + length, NULL, 10) << 10;
}

static struct pages read_pages(void) {
    struct pages pages = {0};
    char line[600];
    bool own = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char access[8];
        unsigned long long begin, end;
        if (sscanf(line, "%llx-%llx %7s", &begin, &end, access) == 3) {
            own = strstr(line, path) != NULL;
            pages.mappings += own;
            pages.writable += own && access[1] == 'w';
        }
        if (!own) continue;
        add_field(line, "Size:", &pages.size);
        add_field(line, "Rss:", &pages.resident);
        add_field(line, "Shared_Clean:", &pages.shared);
        add_field(line, "Shared_Dirty:", &pages.shared); /* not yet written to the disk */
        add_field(line, "Anonymous:", &pages.copied);
    }
    fclose(file);
    return pages;
}

static int be_second_process(int from_first, int to_first) {
    struct loaded loaded = {0};
    struct ingot_error error;
    char byte;
    bool right = load(&loaded, &error) == INGOT_OK;
    if (write(to_first, right ? "y" : "n", 1) != 1) right = false;
    if (read(from_first, &byte, 1) < 0) right = false; /* until the first process has looked */
    unload(&loaded);
    return right ? 0 : 1;
}

static void no_page_is_copied(void **state) {
    struct loaded loaded = {0};
    struct ingot_error error;
    int to_second[2], to_first[2], status;
    char right = 0;
    assert_true(pipe(to_second) == 0 && pipe(to_first) == 0);
    pid_t second = fork(); /* before this process has anything of the engine */
    assert_true(second >= 0);
    if (second == 0) {
        close(to_second[1]);
        _exit(be_second_process(to_second[0], to_first[1]));
    }
    if (load(&loaded, &error)) fail_msg("%s", error.message);
    assert_int_equal(read(to_first[0], &right, 1), 1);
    struct pages pages = read_pages();
    close(to_second[1]);
    assert_int_equal(waitpid(second, &status, 0), second);
    assert_int_equal(right, 'y');
    assert_int_equal(status, 0);
    print_message("%zu of %zu bytes resident, %zu shared\n", pages.resident, pages.size, pages.shared);
    assert_true(pages.mappings >= 1 && pages.size >= TABLE_BYTES);
    assert_int_equal(pages.writable, 0);
    assert_int_equal(pages.copied, 0);
    assert_true(pages.shared >= 1 << 20); /* all, but the system may have dropped some meanwhile */
    unload(&loaded);
}

static int set_up(void **state) {
    struct ingot_error error;
    int file = mkstemp(path);
    if (file < 0) return -1;
    close(file);
    if (table_build(NULL, path, &error)) fail_msg("%s", error.message);
    return 0;
}

static int tear_down(void **state) {
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_page_is_copied)};
    return cmocka_run_group_tests_name("pages of engines", tests, set_up, tear_down);
}
