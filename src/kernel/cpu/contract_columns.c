/* The columns of a product: panels of B, the shape of the register block, tiles, prefetches, the epilogue panel by panel. */
#include <string.h>

#include "kernel/cpu/contract.h"

static int64_t known(const struct ig_contract *c, ig_dim d, int64_t otherwise) {
    return ig_contract_const(c, d, otherwise);
}

/* The largest mr for which the accumulators, a row of B and the broadcast elements fit the registers. */
static int rows_in_registers(const struct ig_target *target, int vectors) {
    int spare = target->vector_registers >= 32 ? 2 : 1;
    int rows = (target->vector_registers - vectors - spare) / vectors;
    return rows < 1 ? 1 : rows > 14 ? 14 : rows;
}

int ig_columns_tile_groups(const struct ig_contract *c, const struct ig_columns *p, int64_t run) {
    enum { LEAST_ROWS = 16 };
    int64_t groups = run / c->together, rows = known(c, c->rows, LEAST_ROWS);
    if (c->target->isa != IG_ISA_AMX || c->together == 1 || run % c->together) return 0;
    if (!c->packed && !c->interleaves) return 0;
    return p->nr > 2 * p->lanes || rows < LEAST_ROWS ? 0 : ig_micro_tile_groups(groups);
}

void ig_columns_init(struct ig_contract *c, struct ig_columns *p) {
    bool wide = c->target->vector_bytes == 64;
    p->lanes = ig_micro_lanes(c->target, c->dtype);
    p->element = (int)ingot_dtype_size(c->operand);
    p->nr = c->packed ? (int)ig_contract_attr_int(c, IG_ATTR_packed) : 2 * p->lanes;
    p->mr = rows_in_registers(c->target, p->nr / p->lanes);
    p->tile_groups = ig_columns_tile_groups(c, p, known(c, c->padded, 0));
    if (p->tile_groups) p->mr = 32;
    p->transfer = p->tile_groups ? 48 : 6;
    p->panels = ig_dim_ceil_div(c->graph->dims, c->columns, ig_dim_const(c->graph->dims, p->nr));
    /* Tiles compute so fast that a block's rows count too. */
    p->first = p->tile_groups ? 16 << 10 : wide ? 32 << 10 : 24 << 10;
    p->second = wide ? 1 << 20 : 512 << 10;
}

bool ig_columns_rows_conflict(const struct ig_columns *p, int64_t stride) {
    int64_t period = 64, bytes = stride * p->element, lines = bytes / 64;
    /* A tile's step takes whole lines, so that none is fetched twice for it. */
    if (bytes % 64 != 0 || p->tile_groups) return false;
    while (period > 1 && lines % 2 == 0) {
        period /= 2;
        lines /= 2;
    }
    return (p->mr + period - 1) / period > 7;
}

int64_t ig_columns_copied_stride(const struct ig_columns *p, int64_t depth) {
    int64_t line = 64 / p->element;
    return ((depth + line - 1) / line | 1) * line;
}

void ig_tilings_keep(struct ig_tiling *tilings, int *count, int most, const struct ig_tiling *t) {
    int at = *count;
    while (at > 0 && tilings[at - 1].cost > t->cost)
        at--;
    if (at == most) return;
    if (*count < most) ++*count;
    memmove(tilings + at + 1, tilings + at, (size_t)(*count - 1 - at) * sizeof *tilings);
    tilings[at] = *t;
}

static int64_t whole_lines(int64_t bytes, int64_t parts) {
    int64_t lines = (bytes + 63) / 64;
    return (lines + parts - 1) / parts * 64;
}

/* Tiles wait for memory more than for anything else. A core has few buffers for lines that it asks for itself; the second cache
 * has more for those that it expects, but looks some lines ahead in each page only. So lines of all pages of a step are asked
 * for in turns. */
struct ig_fetch ig_fetch_of(int64_t line, int64_t step, int64_t chunk, int64_t most, bool in_tiles) {
    enum { PAGE = 4096 };
    struct ig_fetch f = {.blocks = chunk < most ? chunk : most};
    f.rate = ((line + f.blocks - 1) / f.blocks + 3) / 4 * 4;
    f.share = f.rate * step;
    if (!in_tiles) return f;
    f.stretches = step * line < PAGE ? 1 : step * line / PAGE;
    f.stretch = whole_lines(step * line, f.stretches);
    f.share = whole_lines(f.share, f.stretches);
    return f;
}

ig_x ig_fetch_from(struct ig_contract *c, const struct ig_fetch *f, ig_x next, ig_x nth_block, int64_t element) {
    /* What others ask for again is in the cache already. */
    nth_block = ig_x_min(c->k, nth_block, ig_contract_int(c, f->blocks - 1));
    return ig_x_add(c->k, next, ig_x_mul(c->k, nth_block, ig_contract_int(c, f->share / element)));
}

/* Columns of the last panel; nr if the number of columns is unknown. */
static int64_t last_columns(const struct ig_contract *c, const struct ig_columns *p) {
    int64_t columns = known(c, c->columns, 0);
    return columns <= 0 ? p->nr : (columns - 1) % p->nr + 1;
}

static int last_vectors(const struct ig_contract *c, const struct ig_columns *p, bool whole) {
    return whole ? p->nr / p->lanes : (int)((last_columns(c, p) + p->lanes - 1) / p->lanes);
}

static ig_x is_before_last(struct ig_contract *c, const struct ig_columns *p, ig_x panel) {
    return ig_x_less(c->k, ig_x_add(c->k, panel, ig_contract_int(c, 1)), ig_contract_dim(c, p->panels));
}

ig_x ig_columns_vectors(struct ig_contract *c, const struct ig_columns *p, ig_x panel, bool whole) {
    int full = p->nr / p->lanes, last = last_vectors(c, p, whole);
    if (full == last) return ig_contract_int(c, full);
    return ig_x_select(c->k, is_before_last(c, p, panel), ig_contract_int(c, full), ig_contract_int(c, last));
}

uint32_t ig_columns_vector_set(const struct ig_contract *c, const struct ig_columns *p, bool whole) {
    uint32_t set = 1u << last_vectors(c, p, whole);
    if (known(c, p->panels, 2) > 1) set |= 1u << p->nr / p->lanes;
    return set;
}

ig_x ig_columns_packed_at(struct ig_contract *c, const struct ig_columns *p, ig_x batch, ig_x panel, ig_x depth_at) {
    struct ig_loops *k = c->k;
    ig_x group = ig_x_mod(k, batch, ig_contract_int(c, c->groups));
    panel = ig_x_add(k, ig_x_mul(k, group, ig_contract_dim(c, p->panels)), panel);
    ig_x row = ig_x_add(k, ig_x_mul(k, panel, ig_contract_dim(c, c->padded)), depth_at);
    return ig_x_mul(k, row, ig_contract_int(c, p->nr));
}

void ig_columns_epilogue(struct ig_contract *c, const struct ig_columns *p, struct ig_stmt *body, ig_x b, ig_x panel,
                         ig_x first_row, ig_x rows, int tile, ig_x tile_at) {
    struct ig_loops *k = c->k;
    ig_x width = ig_contract_int(c, p->nr), first_column = ig_x_mul(k, panel, width);
    int64_t columns = known(c, c->columns, 0), last = columns > 0 ? last_columns(c, p) : 0;
    if (columns > p->nr && last < p->nr) {
        ig_x before_last = is_before_last(c, p, panel);
        ig_contract_epilogue(c, ig_s_if(k, body, before_last), b, first_row, rows, first_column, width, tile, tile_at,
                             p->nr);
        body = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, before_last));
    }
    ig_x left = ig_x_sub(k, ig_contract_dim(c, c->columns), first_column);
    width = last > 0 && last < p->nr ? ig_contract_int(c, last) : ig_x_min(k, width, left);
    ig_contract_epilogue(c, body, b, first_row, rows, first_column, width, tile, tile_at, p->nr);
}
