/*
 * Rows that lie side by side: a block of neighbours at once. Either their innermost axis is kept (a mean over the pixels
 * of a channels-last picture, a sum over the first axis), and a row is a lane; or each has a piece of some elements side
 * by side, which are lanes of their own until a pass is over (groups of channels). Accumulators are small arrays. See
 * row.h.
 */
#include "kernel/cpu/row.h"
#include "kernel/kept.h"

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
    int64_t most;      /* rows per block, but for the last one */
    int64_t piece;     /* lanes of a row */
    ig_x first, width; /* rows first … first + width - 1 along the last kept dim */
    ig_x vars[IG_NEST_DIMS];
    struct ig_kept kept; /* what is the same for all elements of a row */
};

/* The dims of the nest that are loops: the last one is within a piece. */
static int loops_of(const struct block *b) {
    return b->r->nest.rank - (b->piece > 1);
}

static void choose_lane(struct block *b, ig_x lane) {
    struct ig_row *r = b->r;
    ig_x piece = num(r, b->piece);
    if (r->kept > 0) b->vars[r->kept - 1] = ig_x_add(r->k, b->first, ig_x_div(r->k, lane, piece));
    if (b->piece > 1) b->vars[r->nest.rank - 1] = ig_x_mod(r->k, lane, piece);
}

static struct ig_stmt *lanes(struct block *b, struct ig_stmt *body, ig_x *out_lane) {
    struct ig_loops *k = b->r->k;
    ig_x count = ig_x_mul(k, b->width, num(b->r, b->piece));
    struct ig_stmt *s = ig_s_for(k, body, IG_FOR_SIMD, num(b->r, 0), count, num(b->r, 1), out_lane);
    choose_lane(b, *out_lane);
    return s;
}

/* The current pixel's place in the rows' caches. */
static ig_x place_of(struct block *b, ig_x lane) {
    struct ig_row *r = b->r;
    ig_x at = num(r, 0);
    for (int d = r->kept; d < loops_of(b); d++)
        at = ig_x_add(r->k, ig_x_mul(r->k, at, dim(r, r->nest.extent[d])), b->vars[d]);
    return ig_x_add(r->k, ig_x_mul(r->k, at, num(r, b->most * b->piece)), lane);
}

/* Binds an expression over the nest to a lane. */
static ig_x bind_x(struct block *b, ig_x x, ig_x lane) {
    struct ig_row *r = b->r;
    ig_x from[] = {r->lane, r->place}, to[] = {lane, place_of(b, lane)};
    x = ig_x_substitute(r->k, x, r->nest.var, b->vars, r->nest.rank);
    return ig_x_substitute(r->k, x, from, to, 2);
}

static ig_x bind(struct block *b, int which, ig_x lane) {
    return bind_x(b, b->r->nest.x.at[which], lane);
}

static void fill(struct block *b, struct ig_stmt *body, int array, ig_x value) {
    ig_x lane;
    struct ig_stmt *s = lanes(b, body, &lane);
    ig_s_store(b->r->k, s, array, lane, value);
}

/* ---- What is the same for all elements of a row ------------------------------------------------------------------ */

static bool is_of_row(const struct block *b, ig_x x) {
    const struct ig_row *r = b->r;
    for (int d = r->kept; d < r->nest.rank; d++) {
        if (ig_x_contains(r->k, x, r->nest.var[d])) return false;
    }
    return !ig_x_contains(r->k, x, r->place);
}

/* Is there anything to compute, or a load that is not one of neighbours? */
static bool is_kept(const void *user, ig_x x) {
    const struct block *b = user;
    const struct ig_x_node *n = &b->r->k->x.at[x];
    bool spread = n->kind == IG_X_LOAD && b->piece > 1 && b->r->k->buffers.at[n->i].kind == IG_BUFFER_PARAM;
    return (spread || n->kind == IG_X_MAP || n->kind == IG_X_SELECT || n->kind == IG_X_CALL) && is_of_row(b, x);
}

/* Calls visit for every value that a pass computes. */
static void each_value(struct block *b, int pass, void (*visit)(struct block *b, ig_x *x)) {
    struct ig_row *r = b->r;
    for (uint32_t i = 0; i < r->stores.count; i++) {
        if (r->stores.at[i].pass == pass) visit(b, &r->nest.x.at[r->stores.at[i].value]);
    }
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].pass == pass) visit(b, &r->nest.x.at[r->steps.at[i].term]);
    }
}

static void add_kept(struct block *b, ig_x *x) {
    ig_kept_add(&b->kept, *x);
}

static void read_kept(struct block *b, ig_x *x) {
    *x = ig_kept_read(&b->kept, *x, b->r->lane);
}

/* Before a pass: computes what it needs of that kind. */
static void emit_kept(struct block *b, struct ig_stmt *body, int pass) {
    uint32_t before = b->kept.values.count;
    ig_x lane;
    each_value(b, pass, add_kept);
    if (b->kept.values.count > before) body = lanes(b, body, &lane);
    for (uint32_t i = before; i < b->kept.values.count; i++) {
        const struct ig_kept_value *kept = &b->kept.values.at[i];
        ig_s_store(b->r->k, body, kept->array, lane, bind_x(b, kept->value, lane));
    }
    each_value(b, pass, read_kept);
}

/* ---- A pass ------------------------------------------------------------------------------------------------------ */

static void emit_stores(struct block *b, struct ig_stmt *body, int pass, ig_x lane) {
    struct ig_row *r = b->r;
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass == pass) ig_s_store(r->k, body, s->buffer, bind(b, s->position, lane), bind(b, s->value, lane));
    }
}

static void emit_element(struct block *b, struct ig_stmt *body, int pass, bool partial) {
    struct ig_row *r = b->r;
    ig_x lane;
    body = lanes(b, body, &lane);
    emit_stores(b, body, pass, lane);
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
    int last = loops_of(b) - 1;
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

/* The results of a row's lanes become the row's, which each of them gets. */
static void emit_meeting(struct block *b, struct ig_stmt *body, int pass) {
    struct ig_row *r = b->r;
    ig_x row, i, piece = num(r, b->piece);
    body = ig_s_for(r->k, body, IG_FOR_SERIAL, num(r, 0), b->width, num(r, 1), &row);
    ig_x from = ig_x_mul(r->k, row, piece);
    for (uint32_t s = 0; s < r->steps.count; s++) {
        const struct ig_row_step *step = &r->steps.at[s];
        if (step->pass != pass) continue;
        int acc = ig_s_acc(r->k, body, step->dtype, ig_x_load(r->k, step->array, from));
        struct ig_stmt *all = ig_s_for(r->k, body, IG_FOR_SERIAL, num(r, 1), piece, num(r, 1), &i);
        ig_s_update(r->k, all, acc, step->update, ig_x_load(r->k, step->array, ig_x_add(r->k, from, i)));
        all = ig_s_for(r->k, body, IG_FOR_SERIAL, num(r, 0), piece, num(r, 1), &i);
        ig_s_store(r->k, all, step->array, ig_x_add(r->k, from, i), ig_x_acc(r->k, acc, step->dtype));
    }
}

static void emit_pass(struct block *b, struct ig_stmt *body, int pass) {
    struct ig_row *r = b->r;
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass == pass) fill(b, body, step->array, ig_row_neutral(r, step));
    }
    if (!in_pass(r, pass, false)) return;
    emit_kept(b, body, pass);
    struct ig_stmt *inner = body;
    bool pieces = r->long_row && in_pass(r, pass, true) && loops_of(b) > r->kept;
    for (int d = r->kept; d < loops_of(b) - pieces; d++)
        inner = ig_s_for(r->k, inner, IG_FOR_SERIAL, num(r, 0), dim(r, r->nest.extent[d]), num(r, 1), &b->vars[d]);
    if (pieces) {
        emit_pieces(b, inner, pass);
    } else {
        emit_element(b, inner, pass, false);
    }
    if (b->piece > 1 && pass < r->passes) emit_meeting(b, body, pass);
}

/* What is stored once per row. */
static void emit_results(struct block *b, struct ig_stmt *body) {
    struct ig_row *r = b->r;
    ig_x row;
    if (!in_pass(r, r->passes + 1, false)) return;
    body = ig_s_for(r->k, body, IG_FOR_SIMD, num(r, 0), b->width, num(r, 1), &row);
    for (int d = r->kept; d < r->nest.rank; d++)
        b->vars[d] = num(r, 0);
    ig_x lane = ig_x_mul(r->k, row, num(r, b->piece));
    choose_lane(b, lane);
    emit_stores(b, body, r->passes + 1, lane);
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

static void add_partials(struct block *b) {
    struct ig_row *r = b->r;
    for (uint32_t i = 0; r->long_row && i < r->steps.count; i++) {
        struct ig_row_step *step = &r->steps.at[i];
        if (!ig_row_is_sum(step)) continue;
        step->partial = ig_loops_local(r->k, step->dtype, b->most * b->piece, ig_format(r->k->job, "part%u", i));
    }
}

void ig_row_columns(struct ig_row *r, int64_t most, int64_t piece) {
    struct ig_dims *dims = r->k->dims;
    struct ig_nest *nest = &r->nest;
    struct block b = {.r = r, .most = most, .piece = piece};
    b.kept = (struct ig_kept){.k = r->k, .lanes = most * piece, .wanted = is_kept, .user = &b};
    add_partials(&b);
    int along = r->kept - 1;
    ig_dim width = along >= 0 ? nest->extent[along] : ig_dim_const(dims, 1), size = ig_dim_const(dims, most);
    ig_dim blocks = ig_dim_ceil_div(dims, width, size);
    r->kernel->tiles = blocks;
    for (int d = 0; d < along; d++)
        r->kernel->tiles = ig_dim_mul(dims, r->kernel->tiles, nest->extent[d]);
    ig_x tile;
    struct ig_stmt *body = ig_s_for(r->k, NULL, IG_FOR_TILE, num(r, 0), dim(r, r->kernel->tiles), num(r, 1), &tile);
    ig_s_name(r->k, tile, "tile");
    b.first = ig_x_mul(r->k, ig_x_mod(r->k, tile, dim(r, blocks)), num(r, most));
    b.width = num(r, most);
    if (!ig_dim_divides(dims, size, width)) b.width = ig_x_min(r->k, b.width, ig_x_sub(r->k, dim(r, width), b.first));
    ig_x rest = ig_x_div(r->k, tile, dim(r, blocks));
    for (int d = along - 1; d > 0; d--) {
        b.vars[d] = ig_x_mod(r->k, rest, dim(r, nest->extent[d]));
        rest = ig_x_div(r->k, rest, dim(r, nest->extent[d]));
    }
    if (along > 0) b.vars[0] = rest;
    for (int d = r->kept; d < nest->rank; d++)
        b.vars[d] = num(r, 0);
    for (int pass = 0; pass <= r->passes; pass++)
        emit_pass(&b, body, pass);
    emit_results(&b, body);
    const char *pieces = piece > 1 ? ig_format(r->k->job, " in pieces of %lld", (long long)piece) : "";
    r->kernel->tactic =
        ig_format(r->k->job, "columns%s, %d passes, blocks of %lld", pieces, r->passes + 1, (long long)most);
}
