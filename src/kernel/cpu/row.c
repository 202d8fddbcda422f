/*
 * The row family on CPUs: chooses what to cache between passes, and the schedule. See row.h.
 */
#include "kernel/cpu/row.h"

#include "kernel/schedules.h"

enum {
    COLUMNS = 64,       /* lanes of a block whose rows are columns */
    MOST_LANES = 128,   /* of one whose rows have pieces: its lines of memory are read as far as possible in a row */
    LONGEST_PIECE = 64, /* longer ones fill vectors by themselves */
    LEAST_PIXELS = 16,
};

static void add_cache(struct ig_row *r, ig_value v, int64_t rows) {
    struct ig_dims *dims = r->k->dims;
    enum ingot_dtype dtype = ig_dtype_compute(ig_type_of(r->graph, v)->dtype);
    const char *name = ig_format(r->graph->job, "cache%u", r->k->buffers.count);
    r->cache_of[v] = ig_loops_scratch(r->k, dtype, ig_x_dim(r->k, r->scratch), name);
    ig_dim bytes = ig_dim_mul(dims, r->count, ig_dim_const(dims, rows * (int64_t)ingot_dtype_size(dtype)));
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
        add_cache(r, v, 1);
        r->cache_pass[v] = -1;
    }
}

/* Caches expensive values that several passes need, of so many rows at a time. */
static void choose_caches(struct ig_row *r, int64_t rows) {
    if (!r->columns) choose_bytes(r);
    const uint32_t *passes = ig_row_passes_of(r);
    for (uint32_t i = 0; i < r->region->nodes.count; i++) {
        const struct ig_node *n = &r->graph->nodes.at[r->region->nodes.at[i]];
        bool several = (passes[n->out] & (passes[n->out] - 1)) != 0;
        if (!several || !ig_row_is_expensive(n) || !ig_row_is_space_shape(r, ig_type_of(r->graph, n->out))) continue;
        ig_value v = ig_row_widen(r, passes, n->out);
        if (r->cache_of[v] >= 0) continue;
        add_cache(r, v, rows);
        r->cache_pass[v] = __builtin_ctz(passes[v]);
    }
}

static bool prepare_columns(struct ig_row *r, int64_t rows, int64_t piece) {
    if (!r->regular) return false;
    struct ig_dims *dims = r->k->dims;
    r->columns = true;
    r->place = ig_x_free_var(r->k, ig_dim_mul(dims, r->count, ig_dim_const(dims, rows)));
    choose_caches(r, rows);
    return ig_row_prepare(r, (int)(rows * piece));
}

static bool make_columns(struct ig_row *r) {
    if (!prepare_columns(r, COLUMNS, 1)) return false;
    ig_row_columns(r, COLUMNS, 1);
    return true;
}

/* Groups side by side, in blocks of equal width as far as possible. */
static bool make_groups(struct ig_row *r) {
    struct ig_row_groups g;
    if (!r->regular || r->columns || !ig_row_find_groups(r, &g) || g.count == 0) return false;
    if (g.piece > LONGEST_PIECE || ig_sizes_guess(r->at, g.pixels) < LEAST_PIXELS) return false;
    int64_t most = MOST_LANES / g.piece, blocks = (g.count + most - 1) / most, width = (g.count + blocks - 1) / blocks;
    if (!prepare_columns(r, width, g.piece) || !ig_row_fits_groups(r, &g)) return false;
    ig_row_columns(r, width, g.piece);
    return true;
}

static bool make_lines(struct ig_row *r) {
    if (r->regular) choose_caches(r, 1);
    if (!ig_row_prepare(r, 0)) return false;
    ig_row_lines(r);
    return true;
}

struct ig_kernel *ig_kernel_row(struct ig_graph *graph, const struct ig_region *region, const struct ig_target *target,
                                const struct ig_sizes *at) {
    (void)target;
    struct ig_row r;
    ig_row_init(&r, graph, region, at, false);
    if (!make_groups(&r)) {
        ig_row_init(&r, graph, region, at, false);
        if (r.columns ? !make_columns(&r) : !make_lines(&r)) {
            ig_row_init(&r, graph, region, at, false);
            ig_row_staged(&r);
        }
    }
    ig_row_finish(&r);
    return r.kernel;
}
