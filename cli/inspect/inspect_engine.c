/* Prints an engine: properties, steps and kernels. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "inspect/inspect.h"

static void print_infos(const char *title, const struct ingot_tensor_info *infos, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *type = info_type_text(&infos[i]);
        printf("%-12s'%s' %s\n", title, infos[i].name, type);
        free(type);
    }
}

static void print_symbols(const json_t *symbols) {
    for (size_t i = 0; i < json_array_size(symbols); i++) {
        const json_t *symbol = json_array_get(symbols, i);
        char *text = symbol_text(symbol);
        printf("symbol      '%s' %s\n", json_text(symbol, "name"), text);
        free(text);
    }
}

/* Prints nothing if no library is called: such an engine needs only the driver. */
static void print_libraries(const json_t *libraries) {
    for (size_t i = 0; i < json_array_size(libraries); i++) {
        const json_t *library = json_array_get(libraries, i);
        const char *files = json_text(library, "files");
        long long kernels = (long long)json_number(library, "kernels");
        printf("needs       %s, for %lld kernel%s, where it runs: %s%s\n", json_text(library, "name"), kernels,
               kernels == 1 ? "" : "s", strchr(files, ',') ? "one of " : "", files);
    }
}

static void print_passes(const json_t *passes) {
    printf("passes      (nodes before and after)\n");
    for (size_t i = 0; i < json_array_size(passes); i++) {
        const json_t *pass = json_array_get(passes, i);
        if (!json_is_true(json_object_get(pass, "ran"))) {
            printf("            %-24s not run\n", json_text(pass, "name"));
            continue;
        }
        printf("            %-24s %lld -> %lld\n", json_text(pass, "name"),
               (long long)json_number(pass, "nodes_before"), (long long)json_number(pass, "nodes_after"));
    }
}

static void print_figures(const json_t *figures) {
    const char *sizes = json_text(figures, "sizes");
    long long regions = (long long)json_number(figures, "regions");
    printf("floor       %.3f ms%s%s on %s\n", json_real_value(json_object_get(figures, "floor_us")) / 1e3,
           *sizes ? " at " : "", sizes, json_text(figures, "machine"));
    printf("estimate    %.3f ms, from cost models of %lld of %lld regions\n",
           json_real_value(json_object_get(figures, "estimate_us")) / 1e3, (long long)json_number(figures, "estimated"),
           regions);
}

static void print_memory(const struct inspected *engine) {
    const struct ingot_memory_info *m = &engine->memory;
    if (!engine->has_memory) {
        printf("memory      not known: %s\n", engine->problem.message);
        return;
    }
    printf("memory      for %s:\n", engine->shapes);
    printf("            weights %.2f MB, scratch %.2f MB\n", (double)m->weights_bytes / 1e6,
           (double)m->scratch_bytes / 1e6);
    if (m->exchange_bytes)
        printf("            exchanges of ranks %.2f MB%s\n", (double)m->exchange_bytes / 1e6,
               session_is_gpu(&engine->session) ? " on each GPU" : ", which all share");
    printf("            peak activations %zu bytes, lower bound %zu bytes", m->arena_bytes, m->lower_bound_bytes);
    if (m->lower_bound_bytes > 0) printf(", ratio %.3f", (double)m->arena_bytes / (double)m->lower_bound_bytes);
    printf("\n");
    if (m->parallel_steps)
        printf("            %zu steps run side by side: saves %.1f %% of the time (estimated), takes %zu bytes\n",
               m->parallel_steps, 100 * m->parallel_gain, m->parallel_bytes);
}

/* Prints nothing if a run is one launch. */
static void print_uncaptured(const struct ingot_engine *engine) {
    size_t count = ingot_engine_uncaptured(engine, NULL, 0);
    struct ingot_uncaptured_row *rows = cli_alloc(count, sizeof *rows);
    ingot_engine_uncaptured(engine, rows, count);
    for (size_t i = 0; i < count; i++)
        printf("%-12s%s: %s\n", i ? "" : "uncaptured", rows[i].origin, rows[i].reason);
    free(rows);
}

static void print_initializers(const struct ingot_engine *engine) {
    size_t counts[3] = {0};
    for (size_t i = 0; i < ingot_engine_initializer_count(engine); i++) {
        struct ingot_initializer_info info;
        ingot_engine_initializer(engine, i, &info);
        counts[info.kind]++;
    }
    printf("refit       %zu initialisers, %zu structural, %zu unused\n", counts[INGOT_REFITTABLE],
           counts[INGOT_STRUCTURAL], counts[INGOT_UNUSED]);
}

/* Of engines with quantised operands only. */
static void print_products(const json_t *products) {
    const json_t *others = json_object_get(products, "as_written");
    long long integer = (long long)json_number(products, "of_bytes");
    if (integer == 0 && json_array_size(others) == 0) return;
    printf("quantised   %lld products of bytes, %zu as written\n", integer, json_array_size(others));
    for (size_t i = 0; i < json_array_size(others); i++) {
        const json_t *p = json_array_get(others, i);
        printf("            as written: %s, since %s\n", json_text(p, "node"), json_text(p, "why"));
    }
}

void inspect_engine_print(const struct inspected *engine) {
    const json_t *e = engine->explanation;
    const json_t *weights = json_object_get(e, "weights");
    struct stat file;
    printf("engine      %s", engine->path);
    if (stat(engine->path, &file) == 0) printf(", %.2f MB", (double)file.st_size / 1e6);
    putchar('\n');
    printf("built by    ingot %s for %s with %s, optimisation level %lld\n", json_text(e, "ingot"),
           json_text(e, "target"), json_text(e, "compiler"), (long long)json_number(e, "opt_level"));
    printf("precision   %s\n", json_text(e, "precision"));
    print_libraries(json_object_get(e, "libraries"));
    inspect_ranks_print(e, true, stdout);
    print_infos("input", engine->session.inputs, engine->session.n_inputs);
    print_infos("output", engine->session.outputs, engine->session.n_outputs);
    print_symbols(json_object_get(e, "symbols"));
    printf("weights     %lld, %.2f MB\n", (long long)json_number(weights, "count"),
           (double)json_number(weights, "bytes") / 1e6);
    print_initializers(engine->session.engine);
    printf("regions     %zu, kernels compiled %zu\n", json_array_size(json_object_get(e, "regions")),
           json_array_size(json_object_get(e, "kernels")));
    print_products(json_object_get(e, "quantised_products"));
    print_figures(json_object_get(e, "figures"));
    print_memory(engine);
    print_uncaptured(engine->session.engine);
    print_passes(json_object_get(e, "passes"));
}

/* The width of a column: that of its widest text, at least `least`. Names and tactics may be long. */
static int column_width(const json_t *rows, const char *key, int least) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        int width = (int)strlen(json_text(json_array_get(rows, i), key));
        if (width > least) least = width;
    }
    return least;
}

/* The time of the candidate that runs, and those of the others: of a kernel, or elsewhere. */
static void print_candidates(const json_t *kernel) {
    const json_t *candidates = json_object_get(kernel, "candidates");
    for (size_t i = 0; i < json_array_size(candidates); i++) {
        const json_t *c = json_array_get(candidates, i);
        bool chosen = strcmp(json_text(c, "tactic"), json_text(kernel, "tactic")) == 0;
        if (json_object_get(c, "rejected"))
            printf("%16s rejected    %s (%s)\n", "", json_text(c, "tactic"), json_text(c, "rejected"));
        else if (json_object_get(c, "ns"))
            printf("%14s %c %8.2f us  %s\n", "", chosen ? '*' : ' ', (double)json_number(c, "ns") / 1e3,
                   json_text(c, "tactic"));
        else
            printf("%14s %c not timed    %s\n", "", chosen ? '*' : ' ', json_text(c, "tactic"));
    }
}

/* The same at further sizes. */
static void print_elsewhere(const json_t *kernel) {
    const json_t *elsewhere = json_object_get(kernel, "elsewhere");
    for (size_t i = 0; i < json_array_size(elsewhere); i++) {
        const json_t *there = json_array_get(elsewhere, i);
        printf("%16s at %s\n", "", json_text(there, "measured_at"));
        print_candidates(there);
    }
}

static void print_refusals(const json_t *kernel) {
    const json_t *refused = json_object_get(kernel, "refused");
    for (size_t i = 0; i < json_array_size(refused); i++) {
        const json_t *r = json_array_get(refused, i);
        printf("%16s refused     %s (%s)\n", "", json_text(r, "tactic"), json_text(r, "reason"));
    }
}

/* The sizes at which a kernel runs that is one of several for its regions. */
static void print_ranges(const json_t *region, size_t index) {
    const json_t *variants = json_object_get(region, "variants");
    for (size_t i = 0; i < json_array_size(variants); i++) {
        const json_t *v = json_array_get(variants, i);
        const char *where = json_text(v, "where");
        if ((size_t)json_number(v, "kernel") != index) continue;
        printf("%16s %s%s\n", "", *where ? "where " : "everywhere", where);
    }
}

void inspect_kernels_print(const json_t *explanation) {
    const json_t *kernels = json_object_get(explanation, "kernels");
    int name = column_width(kernels, "name", 28), tactic = column_width(kernels, "tactic", 32);
    int precision = column_width(json_object_get(explanation, "regions"), "precision", 16);
    printf("%4s %7s  %-*s %-*s %-*s %s\n", "no.", "regions", name, "name", tactic, "tactic", precision, "precision",
           "operators");
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *kernel = json_array_get(kernels, i), *region = region_of_kernel(explanation, i);
        char *ops = json_joined(json_object_get(region, "ops"));
        printf("%4zu %7lld  %-*s %-*s %-*s %s\n", i, (long long)json_number(kernel, "regions"), name,
               json_text(kernel, "name"), tactic, json_text(kernel, "tactic"), precision,
               json_text(region, "precision"), ops);
        free(ops);
        print_ranges(region, i);
        print_candidates(kernel);
        print_elsewhere(kernel);
        print_refusals(kernel);
    }
}

bool inspect_source_print(const json_t *explanation, const char *which) {
    const json_t *kernels = json_object_get(explanation, "kernels");
    char *end;
    unsigned long number = strtoul(which, &end, 10);
    bool by_number = end != which && *end == 0;
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *kernel = json_array_get(kernels, i);
        if (by_number ? i != number : strcmp(json_text(kernel, "name"), which) != 0) continue;
        fputs(json_text(kernel, "source"), stdout);
        return true;
    }
    return false;
}
