/*
 * Rows whose innermost axis is kept (a mean over the pixels of a channels-last picture, a sum over the first axis): a
 * block of neighbouring rows at once, one lane each; accumulators are small arrays. See row.h.
 */
#include "kernel/cpu/row.h"

enum { PARTIAL = 256 }; /* elements per partial sum */

static ig_x num(struct ig_row *r, int64_t i) {
    return ig_x_index(r->k, i);
}

static ig_x dim(struct ig_row *r, ig_dim d) {
    return ig_x_dim(r->k, d);
}

/* The block being emitted. */
struct block {
    struct ig_row *r;
    ig_x first, width; /* rows first … first + width - 1 along the last kept dim */
    ig_x vars[IG_NEST_DIMS];
};

static struct ig_stmt *lanes(struct block *b, struct ig_stmt *body, ig_x *out_lane) {
    struct ig_stmt *s = ig_s_for(b->r->k, body, IG_FOR_SIMD, num(b->r, 0), b->width, num(b->r, 1), out_lane);
    if (b->r->kept > 0) b->vars[b->r->kept - 1] = ig_x_add(b->r->k, b->first, *out_lane);
    return s;
}

/* Binds an expression of the nest to a lane. */
static ig_x bind(struct block *b, int which, ig_x lane) {
    ig_x x = ig_nest_bind(&b->r->nest, which, b->vars);
    return ig_x_substitute(b->r->k, x, &b->r->lane, &lane, 1);
}

static void fill(struct block *b, struct ig_stmt *body, int array, ig_x value) {
    ig_x lane;
    struct ig_stmt *s = lanes(b, body, &lane);
    ig_s_store(b->r->k, s, array, lane, value);
}

static void emit_element(struct block *b, struct ig_stmt *body, int pass, bool partial) {
    struct ig_row *r = b->r;
    ig_x lane;
    body = lanes(b, body, &lane);
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass == pass) ig_s_store(r->k, body, s->buffer, bind(b, s->position, lane), bind(b, s->value, lane));
    }
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != pass) continue;
        int array = partial && ig_row_is_sum(step) ? step->partial : step->array;
        ig_x sum = ig_x_map2(r->k, step->update, ig_x_load(r->k, array, lane), bind(b, step->term, lane));
        ig_s_store(r->k, body, array, lane, sum);
    }
}

static bool in_pass(const struct ig_row *r, int pass, bool sums_only) {
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].pass == pass && (!sums_only || ig_row_is_sum(&r->steps.at[i]))) return true;
    }
    for (uint32_t i = 0; i < r->stores.count && !sums_only; i++) {
        if (r->stores.at[i].pass == pass) return true;
    }
    return false;
}

/* The innermost reduced loop in pieces, each with partial sums that are added to the total. */
static void emit_pieces(struct block *b, struct ig_stmt *body, int pass) {
    struct ig_row *r = b->r;
    int last = r->nest.rank - 1;
    ig_x start, n = dim(r, r->nest.extent[last]);
    body = ig_s_for(r->k, body, IG_FOR_SERIAL, num(r, 0), n, num(r, PARTIAL), &start);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass == pass && ig_row_is_sum(step)) fill(b, body, step->partial, ig_x_float(r->k, step->dtype, 0));
    }
    ig_x end = ig_x_min(r->k, ig_x_add(r->k, start, num(r, PARTIAL)), n);
    struct ig_stmt *inner = ig_s_for(r->k, body, IG_FOR_SERIAL, start, end, num(r, 1), &b->vars[last]);
    emit_element(b, inner, pass, true);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != pass || !ig_row_is_sum(step)) continue;
        ig_x lane;
        struct ig_stmt *s = lanes(b, body, &lane);
        ig_x sum = ig_x_map2(r->k, IG_OP_add, ig_x_load(r->k, step->array, lane), ig_x_load(r->k, step->partial, lane));
        ig_s_store(r->k, s, step->array, lane, sum);
    }
}

static void emit_pass(struct block *b, struct ig_stmt *body, int pass) {
    struct ig_row *r = b->r;
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass == pass) fill(b, body, step->array, ig_row_neutral(r, step));
    }
    if (!in_pass(r, pass, false)) return;
    bool pieces = r->long_row && in_pass(r, pass, true) && r->nest.rank > r->kept;
    for (int d = r->kept; d < r->nest.rank - pieces; d++)
        body = ig_s_for(r->k, body, IG_FOR_SERIAL, num(r, 0), dim(r, r->nest.extent[d]), num(r, 1), &b->vars[d]);
    if (pieces) {
        emit_pieces(b, body, pass);
    } else {
        emit_element(b, body, pass, false);
    }
}

static void add_partials(struct ig_row *r) {
    for (uint32_t i = 0; r->long_row && i < r->steps.count; i++) {
        struct ig_row_step *step = &r->steps.at[i];
        if (!ig_row_is_sum(step)) continue;
        step->partial = ig_loops_local(r->k, step->dtype, IG_ROW_COLUMNS, ig_format(r->k->job, "part%u", i));
    }
}

void ig_row_columns(struct ig_row *r) {
    struct ig_dims *dims = r->k->dims;
    struct ig_nest *nest = &r->nest;
    struct block b = {.r = r};
    add_partials(r);
    int along = r->kept - 1;
    ig_dim width = along >= 0 ? nest->extent[along] : ig_dim_const(dims, 1), size = ig_dim_const(dims, IG_ROW_COLUMNS);
    ig_dim blocks = ig_dim_ceil_div(dims, width, size);
    r->kernel->tiles = blocks;
    for (int d = 0; d < along; d++)
        r->kernel->tiles = ig_dim_mul(dims, r->kernel->tiles, nest->extent[d]);
    ig_x tile;
    struct ig_stmt *body = ig_s_for(r->k, NULL, IG_FOR_TILE, num(r, 0), dim(r, r->kernel->tiles), num(r, 1), &tile);
    ig_s_name(r->k, tile, "tile");
    b.first = ig_x_mul(r->k, ig_x_mod(r->k, tile, dim(r, blocks)), num(r, IG_ROW_COLUMNS));
    b.width = num(r, IG_ROW_COLUMNS);
    if (!ig_dim_divides(dims, size, width)) b.width = ig_x_min(r->k, b.width, ig_x_sub(r->k, dim(r, width), b.first));
    ig_x rest = ig_x_div(r->k, tile, dim(r, blocks));
    for (int d = along - 1; d > 0; d--) {
        b.vars[d] = ig_x_mod(r->k, rest, dim(r, nest->extent[d]));
        rest = ig_x_div(r->k, rest, dim(r, nest->extent[d]));
    }
    if (along > 0) b.vars[0] = rest;
    for (int pass = 0; pass <= r->passes; pass++)
        emit_pass(&b, body, pass);
    for (int d = r->kept; d < nest->rank; d++)
        b.vars[d] = num(r, 0);
    if (in_pass(r, r->passes + 1, false)) emit_element(&b, body, r->passes + 1, false);
    r->kernel->tactic = ig_format(r->k->job, "columns, %d passes, blocks of %d", r->passes + 1, IG_ROW_COLUMNS);
}
