/* Keys of structures; see structure_key.h. */
#define _GNU_SOURCE /* gnu_get_libc_version */
#include "compile/refit/structure_key.h"

#include <string.h>
#include <zstd.h>

#include "ir/text/print.h"
#include "pass/pass.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

static void add_number(struct ig_hash_stream *s, uint64_t number) {
    ig_hash_stream_add(s, &number, sizeof number);
}

/* With its length, so that texts cannot run into each other. */
static void add_text(struct ig_hash_stream *s, const char *text) {
    const size_t length = text ? strlen(text) : 0;
    add_number(s, text ? length : UINT64_MAX);
    if (length > 0) ig_hash_stream_add(s, text, length);
}

static void add_bytes(struct ig_hash_stream *s, const void *bytes, size_t size) {
    const struct ig_hash128 hash = ig_hash128(bytes, size);
    add_number(s, size);
    ig_hash_stream_add(s, &hash, sizeof hash);
}

/* ---- Who builds -------------------------------------------------------------------------------------------------- */

/* Also the libraries that leave traces in an engine: zstd compresses its texts, libm evaluates constants. */
static void add_producer(struct ig_hash_stream *s, struct ig_job *job, const struct ig_kernel_compiler *compiler) {
    add_text(s, "ingot " INGOT_VERSION);
    add_text(s, ig_sources_hash);
    add_text(s, ZSTD_versionString());
#ifdef __GLIBC__
    add_text(s, gnu_get_libc_version());
#endif
    add_text(s, compiler->version);
    add_text(s, ig_kernel_compiler_identity(job, compiler, false));
    add_text(s, compiler->portable ? ig_kernel_compiler_identity(job, compiler, true) : NULL);
}

/* What is missing here changes no engine (threads, progress), is in the graph (adapters, types of inputs and outputs), or takes no structures. */
static void add_options(struct ig_hash_stream *s, const struct ingot_build_options *o,
                        const struct ig_target_choice *target) {
    add_text(s, target->name);
    add_number(s, (uint64_t)o->opt_level);
    for (int i = 0; i < ig_pass_count; i++)
        add_number(s, ig_pass_enabled(o, i));
    add_number(s, o->n_shapes);
    for (size_t i = 0; i < o->n_shapes; i++) {
        add_text(s, o->shapes[i].name);
        add_text(s, o->shapes[i].spec);
    }
    add_text(s, o->precision);
    add_number(s, o->n_precision_of);
    for (size_t i = 0; i < o->n_precision_of; i++)
        add_text(s, o->precision_of[i]);
    add_number(s, o->n_fuse_of);
    for (size_t i = 0; i < o->n_fuse_of; i++)
        add_text(s, o->fuse_of[i]);
    add_text(s, o->tactics);
    add_number(s, o->variants);
    add_number(s, o->portable);
    add_number(s, o->n_ranks);
    for (size_t i = 0; i < o->n_ranks; i++)
        add_number(s, o->ranks[i]);
    add_text(s, o->sharding);
    add_text(s, o->objective);
    add_number(s, o->memory);
    add_number(s, o->n_shard_of);
    for (size_t i = 0; i < o->n_shard_of; i++)
        add_text(s, o->shard_of[i]);
}

/* ---- What is built ----------------------------------------------------------------------------------------------- */

/* What the text of a graph does not tell: the bytes of constants, but for initialisers' values, and assumptions. */
static void add_contents(struct ig_hash_stream *s, const struct ig_graph *g) {
    add_number(s, g->assumptions.count);
    for (uint32_t i = 0; i < g->assumptions.count; i++) {
        add_text(s, ig_dim_text(g->dims, g->assumptions.at[i].a));
        add_text(s, ig_dim_text(g->dims, g->assumptions.at[i].b));
    }
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const struct ig_node *n = &g->nodes.at[i];
        if (n->op == IG_OP_constant) {
            const struct ig_data *data = ig_attr(g, n, IG_ATTR_data)->data;
            add_number(s, data->record ? data->record->index : UINT64_MAX);
            add_number(s, data->absent);
            if (!data->record) add_bytes(s, data->bytes, data->size);
        }
        for (int k = 0; k < 2; k++)
            if (n->body[k]) add_contents(s, n->body[k]);
    }
}

static void add_symbols(struct ig_hash_stream *s, struct ig_dims *dims) {
    ig_dim symbol;
    int64_t lo, hi;
    for (uint32_t i = 0; ig_dim_symbol_at(dims, i, &symbol, &lo, &hi); i++) {
        add_text(s, ig_dim_text(dims, symbol));
        add_number(s, (uint64_t)lo);
        add_number(s, (uint64_t)hi);
    }
}

static void add_initializers(struct ig_hash_stream *s, const struct ig_initializers *all) {
    add_number(s, all ? all->list.count : 0);
    for (uint32_t i = 0; all && i < all->list.count; i++) {
        const struct ig_initializer *one = all->list.at[i];
        add_text(s, one->name);
        add_text(s, one->alias);
        add_text(s, one->decided_by_import);
        add_number(s, one->is_transposed);
        add_number(s, one->is_ambiguous);
        add_number(s, one->slot);
        add_number(s, one->bytes != NULL);
        add_number(s, one->dtype);
        add_number(s, (uint64_t)one->rank);
        ig_hash_stream_add(s, one->dims, sizeof one->dims);
        if (one->decided_by_import && one->bytes) add_bytes(s, one->bytes, one->size);
    }
}

struct ig_hash128 ig_structure_key(struct ig_graph *graph, const struct ingot_build_options *options,
                                   const struct ig_target_choice *target, const struct ig_kernel_compiler *compiler) {
    struct ig_hash_stream s;
    struct ig_text text;
    ig_hash_stream_begin(&s);
    add_producer(&s, graph->job, compiler);
    add_options(&s, options, target);
    ig_text_init(&text, graph->job);
    ig_graph_print(graph, IG_PRINT_NO_DATA, &text);
    add_text(&s, text.at);
    add_contents(&s, graph);
    add_symbols(&s, graph->dims);
    add_initializers(&s, graph->initializers);
    add_number(&s, graph->n_notes);
    for (uint32_t i = 0; i < graph->n_notes; i++) {
        add_text(&s, graph->notes[i].ask);
        add_text(&s, graph->notes[i].problem);
        add_number(&s, graph->notes[i].devices);
    }
    return ig_hash_stream_end(&s);
}

struct ig_hash128 ig_structure_next_key(struct ig_hash128 key, const struct ig_refit_tables *tables,
                                        const struct ig_initializers *all) {
    struct ig_hash_stream s;
    ig_hash_stream_begin(&s);
    ig_hash_stream_add(&s, &key, sizeof key);
    for (uint32_t i = 0; i < tables->n_initializers; i++) {
        const struct ig_initializer *one = all->list.at[i];
        if (tables->initializers[i].kind != INGOT_STRUCTURAL || !one->bytes) continue;
        add_number(&s, i);
        add_bytes(&s, one->bytes, one->size);
    }
    return ig_hash_stream_end(&s);
}

struct ig_hash128 ig_structure_engine_key(struct ig_hash128 key, const struct ig_initializers *all) {
    struct ig_hash_stream s;
    ig_hash_stream_begin(&s);
    ig_hash_stream_add(&s, &key, sizeof key);
    for (uint32_t i = 0; all && i < all->list.count; i++) {
        const struct ig_initializer *one = all->list.at[i];
        if (one->bytes) add_bytes(&s, one->bytes, one->size);
    }
    return ig_hash_stream_end(&s);
}
