/*
 * The row family on CPUs: chooses what to cache between passes, and the schedule. See row.h.
 */
#include "kernel/cpu/row.h"

#include "kernel/schedules.h"

static void add_cache(struct ig_row *r, ig_value v) {
    struct ig_dims *dims = r->k->dims;
    enum ingot_dtype dtype = ig_dtype_compute(ig_type_of(r->graph, v)->dtype);
    const char *name = ig_format(r->graph->job, "cache%u", r->k->buffers.count);
    int64_t lanes = r->columns ? IG_ROW_COLUMNS : 1;
    r->cache_of[v] = ig_loops_scratch(r->k, dtype, ig_x_dim(r->k, r->scratch), name);
    ig_dim bytes = ig_dim_mul(dims, r->count, ig_dim_const(dims, lanes * (int64_t)ingot_dtype_size(dtype)));
    ig_dim line = ig_dim_const(dims, 64);
    r->scratch = ig_dim_add(dims, r->scratch, ig_dim_mul(dims, ig_dim_ceil_div(dims, bytes, line), line));
}

static bool is_byte(const struct ig_row *r, ig_value v) {
    return ingot_dtype_size(ig_type_of(r->graph, v)->dtype) == 1;
}

/* Is a value of whole words computed from bytes (a mask, codes)? */
static bool widens_bytes(const struct ig_row *r, const struct ig_node *n) {
    bool reads = false;
    for (uint32_t i = 0; i < n->n_in; i++)
        reads |= n->in[i] != IG_NO_VALUE && is_byte(r, n->in[i]);
    return reads && !is_byte(r, n->out) && !ig_row_is_reduction(n);
}

/* Values that are computed from bytes and needed by several passes get a pass of their own, before all others: vectors
 * of bytes have as many lanes as four or eight of words, and such vectors in a loop would leave many elements of its
 * end to scalar code. */
static void choose_bytes(struct ig_row *r) {
    const uint32_t *passes = ig_row_passes_of(r);
    for (uint32_t i = 0; i < r->region->nodes.count; i++) {
        const struct ig_node *n = &r->graph->nodes.at[r->region->nodes.at[i]];
        bool several = (passes[n->out] & (passes[n->out] - 1)) != 0;
        if (!several || r->pass_of[n->out] != 0 || !widens_bytes(r, n)) continue;
        if (!ig_row_is_space_shape(r, ig_type_of(r->graph, n->out))) continue;
        ig_value v = ig_row_widen(r, passes, n->out);
        if (r->cache_of[v] >= 0) continue;
        add_cache(r, v);
        r->cache_pass[v] = -1;
    }
}

/* Caches expensive values that several passes need. */
static void choose_caches(struct ig_row *r) {
    if (!r->columns) choose_bytes(r);
    const uint32_t *passes = ig_row_passes_of(r);
    for (uint32_t i = 0; i < r->region->nodes.count; i++) {
        const struct ig_node *n = &r->graph->nodes.at[r->region->nodes.at[i]];
        bool several = (passes[n->out] & (passes[n->out] - 1)) != 0;
        if (!several || !ig_row_is_expensive(n) || !ig_row_is_space_shape(r, ig_type_of(r->graph, n->out))) continue;
        ig_value v = ig_row_widen(r, passes, n->out);
        if (r->cache_of[v] >= 0) continue;
        add_cache(r, v);
        r->cache_pass[v] = __builtin_ctz(passes[v]);
    }
}

struct ig_kernel *ig_kernel_row(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                const struct ig_sizes *at) {
    (void)target;
    struct ig_row r;
    ig_row_init(&r, graph, region, at);
    if (r.regular) choose_caches(&r);
    if (!ig_row_prepare(&r, r.columns ? IG_ROW_COLUMNS : 0)) {
        ig_row_init(&r, graph, region, at);
        ig_row_staged(&r);
    } else if (r.columns) {
        ig_row_columns(&r);
    } else {
        ig_row_lines(&r);
    }
    ig_row_finish(&r);
    return r.kernel;
}
