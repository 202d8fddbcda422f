/* ingot cache: what is in the cache, and what to do with it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "session.h"

struct arguments {
    struct build_arguments build; /* of warm; its `cache` is everybody's */
    double bound;                 /* in GB; negative: not given */
    const char *file;             /* of export and import */
};

static enum ingot_status stat_(struct ingot_cache *cache, const struct arguments *a, int *out_status,
                               struct ingot_error *error) {
    struct ingot_cache_info info;
    CLI_TRY(ingot_cache_describe(cache, &info, error));
    printf("folder      %s\n", info.folder);
    printf("entries     %" PRIu64 ", %.2f of at most %.0f MB\n", info.entries, (double)info.bytes / 1e6,
           (double)info.max_bytes / 1e6);
    printf("kernels     %" PRIu64 ", %.2f MB\n", info.kernels, (double)info.kernel_bytes / 1e6);
    printf("structures  %" PRIu64 ", %.2f MB\n", info.structures, (double)info.structure_bytes / 1e6);
    printf("engines     %" PRIu64 ", %.2f MB\n", info.engines, (double)info.engine_bytes / 1e6);
    return INGOT_OK;
}

static void print_entry(void *user, const struct ingot_cache_entry *e) {
    char when[32] = "";
    const time_t used = (time_t)e->used;
    struct tm local;
    if (localtime_r(&used, &local)) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    printf("%s  %-9s  %s  %9.1f KB  %s\n", when, e->kind, e->key, (double)e->bytes / 1e3,
           e->damage ? e->damage : e->label);
}

static enum ingot_status list(struct ingot_cache *cache, const struct arguments *a, int *out_status,
                              struct ingot_error *error) {
    return ingot_cache_list(cache, print_entry, NULL, error);
}

struct counts {
    uint64_t sound, damaged;
};

static void check_entry(void *user, const struct ingot_cache_entry *e) {
    struct counts *counts = user;
    if (!e->damage) {
        counts->sound++;
        return;
    }
    counts->damaged++;
    printf("%s\n", e->damage);
}

static enum ingot_status verify(struct ingot_cache *cache, const struct arguments *a, int *out_status,
                                struct ingot_error *error) {
    struct counts counts = {0, 0};
    CLI_TRY(ingot_cache_list(cache, check_entry, &counts, error));
    printf("%" PRIu64 " sound, %" PRIu64 " damaged\n", counts.sound, counts.damaged);
    if (counts.damaged > 0) *out_status = EXIT_DIFFERENT;
    return INGOT_OK;
}

static enum ingot_status prune(struct ingot_cache *cache, const struct arguments *a, int *out_status,
                               struct ingot_error *error) {
    struct ingot_cache_info info;
    uint64_t entries, bytes;
    CLI_TRY(ingot_cache_describe(cache, &info, error));
    const uint64_t bound = a->bound < 0 ? info.max_bytes : a->bound >= 1e9 ? UINT64_MAX : (uint64_t)(a->bound * 1e9);
    CLI_TRY(ingot_cache_prune(cache, bound, &entries, &bytes, error));
    printf("removed %" PRIu64 " entries, %.2f MB\n", entries, (double)bytes / 1e6);
    return INGOT_OK;
}

/* A failed write is not the fault of an input. */
static enum ingot_status export(struct ingot_cache *cache, const struct arguments *a, int *out_status,
                                struct ingot_error *error) {
    uint64_t entries; enum ingot_status status = ingot_cache_export(cache, a->file, &entries, error);
    if (status == INGOT_IO) error->status = status = INGOT_DEVICE;
    CLI_TRY(status);
    printf("exported %" PRIu64 " entries\n", entries);
    return INGOT_OK;
}

static enum ingot_status import(struct ingot_cache *cache, const struct arguments *a, int *out_status,
                                struct ingot_error *error) {
    uint64_t entries, new;
    CLI_TRY(ingot_cache_import(cache, a->file, &entries, &new, error));
    printf("imported %" PRIu64 " entries, %" PRIu64 " of them new\n", entries, new);
    return INGOT_OK;
}

static const struct {
    const char *name;
    bool has_file;
    enum ingot_status (*run)(struct ingot_cache *cache, const struct arguments *a, int *out_status,
                             struct ingot_error *error);
} actions[] = {
    {"stat", false, stat_},  {"list", false, list},    {"verify", false, verify},
    {"prune", false, prune}, {"export", true, export}, {"import", true, import},
};
enum { N_ACTIONS = sizeof actions / sizeof *actions };

static int run(int action, const struct arguments *a) {
    struct ingot_cache *cache;
    struct ingot_error error;
    int status = EXIT_DONE;
    if (cache_open(a->build.cache, &cache, &error) != INGOT_OK) return cli_fail(&error);
    if (!cache) return cli_usage("cache", "the cache is off; name its folder (--cache DIR)");
    if (actions[action].run(cache, a, &status, &error) != INGOT_OK) status = cli_fail(&error);
    ingot_cache_close(cache);
    return status;
}

/* Builds the models for what that leaves in the cache. */
static int warm(const struct arguments *a, char **models, int count) {
    for (int i = 0; i < count; i++) {
        struct session session;
        struct ingot_error error;
        if (is_engine_path(models[i])) return cli_usage("cache", "warm takes models, not the engine '%s'", models[i]);
        if (session_open(&session, models[i], &a->build, &error) != INGOT_OK) return cli_fail(&error);
        session_close(&session);
    }
    return EXIT_DONE;
}

static int keygen(const char *path) {
    char public[65];
    struct ingot_error error;
    enum ingot_status status = ingot_cache_generate_key(path, public, &error);
    if (status == INGOT_IO) error.status = INGOT_DEVICE; /* a failed write is not the fault of an input */
    if (status != INGOT_OK) return cli_fail(&error);
    printf("%s\n", public);
    return EXIT_DONE;
}

static int act(struct arguments *a, char **argv, int count) {
    if (count == 0) return cli_usage("cache", "no action is given");
    if (strcmp(argv[0], "warm") == 0)
        return count > 1 ? warm(a, argv + 1, count - 1) : cli_usage("cache", "warm takes models");
    if (strcmp(argv[0], "keygen") == 0)
        return count == 2 ? keygen(argv[1]) : cli_usage("cache", "keygen takes one file");
    for (int i = 0; i < N_ACTIONS; i++) {
        if (strcmp(actions[i].name, argv[0]) != 0) continue;
        if (count != 1 + actions[i].has_file)
            return cli_usage("cache", "%s takes %s", argv[0], actions[i].has_file ? "one file" : "no arguments");
        a->file = argv[1];
        return run(i, a);
    }
    return cli_usage("cache", "unknown action '%s'", argv[0]);
}

int cmd_cache(int argc, char **argv) {
    struct arguments a = {.build = BUILD_ARGUMENTS_DEFAULT, .bound = -1};
    const struct option_row rows[] = {
        {"bound", 0, OPTION_NUMBER, "GB", "prune: what may stay (default: what the cache may hold)", &a.bound},
        BUILD_OPTION_ROWS(a.build),
        {"device", 'd', OPTION_UNSIGNED, "N", "the GPU that the target cuda means (default 0)", &a.build.device},
        {"shape", 's', OPTION_LIST, "NAME=SPEC", "warm: as for build; repeatable", &a.build.shapes},
        {0},
    };
    const struct option_table table = {
        "cache", "ACTION [OPTION...]",
        "What builds keep for later ones (docs/reuse.md). Actions:\n\n"
        "  stat           how much there is\n"
        "  list           every entry, what was used last first\n"
        "  verify         checks every entry, and removes damaged ones\n"
        "  prune          removes what was used longest ago\n"
        "  warm MODEL...  builds the models for the cache only\n"
        "  export FILE    writes all entries to a file\n"
        "  import FILE    adds the entries of such a file, which is code: from whom you trust\n"
        "  keygen FILE    makes a key that signs entries for others, and prints its public half\n\n"
        "Options but for --bound and --cache are of warm.\n",
        rows};
    int status, count = options_parse(&table, argc, argv, &status);
    if (count >= 0) status = act(&a, argv, count);
    build_arguments_free(&a.build);
    return status;
}
