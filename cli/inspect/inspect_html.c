/* Prints an engine as one self-contained HTML page. */
#include <stdlib.h>

#include "inspect/inspect.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>\n"
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: "
    "#1d2733; }\n"
    "h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }\n"
    "table { border-collapse: collapse; width: 100%; }\n"
    "th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #dde3ea; vertical-align: "
    "top; }\n"
    "th { font-weight: 600; white-space: nowrap; } td.n { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { background: #f4f6f8; padding: .75rem; overflow-x: "
    "auto; }\n"
    "summary { cursor: pointer; }\n"
    "@media (prefers-color-scheme: dark) { body { background: #14181d; color: #d5dce4; } pre { background: #1d232a; }\n"
    "  th, td { border-color: #2c343d; } a { color: #7db4ff; } }\n"
    "</style>\n";

static void put(FILE *to, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '&': fputs("&amp;", to); break;
        case '"': fputs("&quot;", to); break;
        default: putc(*text, to); break;
        }
    }
}

static void put_row(FILE *to, const char *name, const char *value) {
    fputs("<tr><th>", to);
    put(to, name);
    fputs("</th><td>", to);
    put(to, value);
    fputs("</td></tr>\n", to);
}

static void put_formatted(FILE *to, const char *name, char *value) {
    put_row(to, name, value);
    free(value);
}

static void put_infos(FILE *to, const char *title, const struct ingot_tensor_info *infos, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *type = info_type_text(&infos[i]);
        put_formatted(to, title, cli_format("%s %s", infos[i].name, type));
        free(type);
    }
}

static void put_symbols(FILE *to, const json_t *symbols) {
    for (size_t i = 0; i < json_array_size(symbols); i++) {
        const json_t *symbol = json_array_get(symbols, i);
        char *text = symbol_text(symbol);
        put_formatted(to, "symbol", cli_format("%s %s", json_text(symbol, "name"), text));
        free(text);
    }
}

static void put_uncaptured(const struct ingot_engine *engine, FILE *to) {
    size_t count = ingot_engine_uncaptured(engine, NULL, 0);
    struct ingot_uncaptured_row *rows = cli_alloc(count, sizeof *rows);
    ingot_engine_uncaptured(engine, rows, count);
    for (size_t i = 0; i < count; i++)
        put_formatted(to, "uncaptured", cli_format("%s: %s", rows[i].origin, rows[i].reason));
    free(rows);
}

static void put_facts(const struct inspected *engine, FILE *to) {
    const json_t *e = engine->explanation, *weights = json_object_get(e, "weights");
    const struct ingot_memory_info *m = &engine->memory;
    fputs("<table>\n", to);
    put_row(to, "target", json_text(e, "target"));
    put_row(to, "compiler", json_text(e, "compiler"));
    put_formatted(to, "optimisation level", cli_format("%lld", (long long)json_number(e, "opt_level")));
    put_infos(to, "input", engine->session.inputs, engine->session.n_inputs);
    put_infos(to, "output", engine->session.outputs, engine->session.n_outputs);
    put_symbols(to, json_object_get(e, "symbols"));
    put_formatted(to, "weights",
                  cli_format("%lld, %.2f MB", (long long)json_number(weights, "count"),
                             (double)json_number(weights, "bytes") / 1e6));
    put_formatted(to, "regions",
                  cli_format("%zu, kernels compiled %zu", json_array_size(json_object_get(e, "regions")),
                             json_array_size(json_object_get(e, "kernels"))));
    if (engine->has_memory) {
        put_formatted(to, "memory",
                      cli_format("for %s: peak activations %zu bytes, lower bound %zu bytes, scratch %zu bytes",
                                 engine->shapes, m->arena_bytes, m->lower_bound_bytes, m->scratch_bytes));
        if (m->exchange_bytes) put_formatted(to, "exchanges of ranks", cli_format("%zu bytes", m->exchange_bytes));
        if (m->parallel_steps)
            put_formatted(to, "side by side",
                          cli_format("%zu steps, saves %.1f %% of the time (estimated), takes %zu bytes",
                                     m->parallel_steps, 100 * m->parallel_gain, m->parallel_bytes));
    }
    put_uncaptured(engine->session.engine, to);
    fputs("</table>\n", to);
}

/* A region's kernels: one, or several with the sizes at which each runs. */
static void put_kernel_links(const json_t *region, FILE *to) {
    const json_t *kernel = json_object_get(region, "kernel"), *variants = json_object_get(region, "variants");
    if (!json_is_integer(kernel)) return;
    if (json_array_size(variants) == 0) {
        long long number = (long long)json_integer_value(kernel);
        fprintf(to, "<a href=\"#k%lld\">%lld</a>", number, number);
    }
    for (size_t i = 0; i < json_array_size(variants); i++) {
        const json_t *v = json_array_get(variants, i);
        long long number = (long long)json_number(v, "kernel");
        const char *where = json_text(v, "where");
        fprintf(to, "%s<a href=\"#k%lld\">%lld</a> %s", i ? "<br>" : "", number, number,
                *where ? "where " : "everywhere");
        put(to, where);
    }
}

static void put_regions(const json_t *e, FILE *to) {
    const json_t *regions = json_object_get(e, "regions");
    fputs("<h2>Regions</h2>\n<table><tr><th>no.</th><th>from</th><th>operators</th><th>kernel</th></tr>\n", to);
    for (size_t i = 0; i < json_array_size(regions); i++) {
        const json_t *region = json_array_get(regions, i);
        char *ops = json_joined(json_object_get(region, "ops"));
        fprintf(to, "<tr><td class=\"n\">%zu</td><td>", i);
        put(to, json_text(region, "label"));
        fputs("</td><td>", to);
        put(to, ops);
        fputs("</td><td>", to);
        put_kernel_links(region, to);
        fputs("</td></tr>\n", to);
        free(ops);
    }
    fputs("</table>\n", to);
}

static void put_kernels(const json_t *e, FILE *to) {
    const json_t *kernels = json_object_get(e, "kernels");
    fputs("<h2>Kernels</h2>\n", to);
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *kernel = json_array_get(kernels, i);
        fprintf(to, "<details id=\"k%zu\"><summary>%zu <code>", i, i);
        put(to, json_text(kernel, "name"));
        fprintf(to, "</code> for %lld regions: ", (long long)json_number(kernel, "regions"));
        put(to, json_text(kernel, "tactic"));
        fputs("</summary><pre>", to);
        put(to, json_text(kernel, "source"));
        fputs("</pre></details>\n", to);
    }
}

static void put_passes(const json_t *e, FILE *to) {
    const json_t *passes = json_object_get(e, "passes");
    fputs("<h2>Passes</h2>\n<table><tr><th>pass</th><th>nodes before</th><th>after</th></tr>\n", to);
    for (size_t i = 0; i < json_array_size(passes); i++) {
        const json_t *pass = json_array_get(passes, i);
        fputs("<tr><td>", to);
        put(to, json_text(pass, "name"));
        if (json_is_true(json_object_get(pass, "ran"))) {
            fprintf(to, "</td><td class=\"n\">%lld</td><td class=\"n\">%lld</td></tr>\n",
                    (long long)json_number(pass, "nodes_before"), (long long)json_number(pass, "nodes_after"));
        } else {
            fputs("</td><td>not run</td><td></td></tr>\n", to);
        }
    }
    fputs("</table>\n", to);
}

void inspect_html_write(const struct inspected *engine, FILE *to) {
    fputs(head, to);
    fputs("<title>", to);
    put(to, engine->path);
    fputs("</title></head><body>\n<h1>", to);
    put(to, engine->path);
    fputs("</h1>\n", to);
    put_facts(engine, to);
    put_regions(engine->explanation, to);
    put_kernels(engine->explanation, to);
    put_passes(engine->explanation, to);
    fputs("</body></html>\n", to);
}
