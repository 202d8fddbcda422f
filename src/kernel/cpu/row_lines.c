/*
 * Rows whose innermost axis is reduced: one row at a time, accumulators in vector registers. See row.h.
 */
#include "kernel/cpu/row.h"

enum { PARTIAL = 4096 }; /* elements per partial sum */

static ig_x num(struct ig_row *r, int64_t i) {
    return ig_x_index(r->k, i);
}

static ig_x dim(struct ig_row *r, ig_dim d) {
    return ig_x_dim(r->k, d);
}

/* ---- The body of a pass ------------------------------------------------------------------------------------------ */

static void emit_element(struct ig_row *r, struct ig_stmt *body, int pass, bool partial, const ig_x *vars) {
    for (uint32_t i = 0; i < r->stores.count; i++) {
        const struct ig_row_store *s = &r->stores.at[i];
        if (s->pass != pass) continue;
        ig_s_store(r->k, body, s->buffer, ig_nest_bind(&r->nest, s->position, vars),
                   ig_nest_bind(&r->nest, s->value, vars));
    }
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != pass) continue;
        int acc = partial && ig_row_is_sum(step) ? step->partial : step->acc;
        ig_s_update(r->k, body, acc, step->update, ig_nest_bind(&r->nest, step->term, vars));
    }
}

static bool has_sums(const struct ig_row *r, int pass) {
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].pass == pass && ig_row_is_sum(&r->steps.at[i])) return true;
    }
    return false;
}

static bool has_work(const struct ig_row *r, int pass) {
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].pass == pass) return true;
    }
    for (uint32_t i = 0; i < r->stores.count; i++) {
        if (r->stores.at[i].pass == pass) return true;
    }
    return false;
}

/* The innermost loop, in pieces: a sum of short sums loses fewer digits than one long one. */
static void emit_pieces(struct ig_row *r, struct ig_stmt *body, int pass, ig_x *vars) {
    struct ig_nest *nest = &r->nest;
    int last = nest->rank - 1;
    ig_x start, n = dim(r, nest->extent[last]);
    body = ig_s_for(r->k, body, IG_FOR_SERIAL, num(r, 0), n, num(r, PARTIAL), &start);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        struct ig_row_step *step = &r->steps.at[i];
        if (step->pass == pass && ig_row_is_sum(step)) {
            step->partial = ig_s_acc(r->k, body, step->dtype, ig_x_float(r->k, step->dtype, 0));
        }
    }
    ig_x end = ig_x_min(r->k, ig_x_add(r->k, start, num(r, PARTIAL)), n);
    struct ig_stmt *inner = ig_s_for(r->k, body, IG_FOR_SIMD, start, end, num(r, 1), &vars[last]);
    emit_element(r, inner, pass, true, vars);
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass != pass || !ig_row_is_sum(step)) continue;
        ig_x sum = ig_x_acc(r->k, step->partial, step->dtype);
        ig_s_update(r->k, body, step->acc, IG_OP_add, ig_x_cast(r->k, sum, step->dtype, false));
    }
}

static void emit_pass(struct ig_row *r, struct ig_stmt *body, int pass, ig_x *vars) {
    struct ig_nest *nest = &r->nest;
    for (uint32_t i = 0; i < r->steps.count; i++) {
        const struct ig_row_step *step = &r->steps.at[i];
        if (step->pass == pass) ig_s_acc_declare(r->k, body, step->acc, step->dtype, ig_row_neutral(r, step));
    }
    if (!has_work(r, pass)) return;
    for (int d = r->kept; d < nest->rank - 1; d++)
        body = ig_s_for(r->k, body, IG_FOR_SERIAL, num(r, 0), dim(r, nest->extent[d]), num(r, 1), &vars[d]);
    if (nest->rank == r->kept) {
        emit_element(r, body, pass, false, vars);
    } else if (r->long_row && has_sums(r, pass)) {
        emit_pieces(r, body, pass, vars);
    } else {
        int last = nest->rank - 1;
        body = ig_s_for(r->k, body, IG_FOR_SIMD, num(r, 0), dim(r, nest->extent[last]), num(r, 1), &vars[last]);
        emit_element(r, body, pass, false, vars);
    }
}

/* ---- Rows and tiles ---------------------------------------------------------------------------------------------- */

static int64_t rows_per_tile(struct ig_row *r) {
    int64_t elements = 1;
    for (int d = r->kept; d < r->nest.rank; d++)
        elements *= ig_nest_guess(&r->nest, d);
    int64_t rows = IG_ROW_ELEMENTS / (elements > 0 ? elements : 1) / (r->passes + 1);
    return rows < 1 ? 1 : rows;
}

void ig_row_lines(struct ig_row *r) {
    struct ig_dims *dims = r->k->dims;
    int64_t chunk = rows_per_tile(r);
    ig_dim rows = ig_dim_product(dims, r->nest.extent, r->kept);
    r->kernel->tiles = ig_dim_ceil_div(dims, rows, ig_dim_const(dims, chunk));
    ig_x tile, row, vars[IG_NEST_DIMS];
    struct ig_stmt *body = ig_s_for(r->k, NULL, IG_FOR_TILE, num(r, 0), dim(r, r->kernel->tiles), num(r, 1), &tile);
    ig_s_name(r->k, tile, "tile");
    ig_x first = ig_x_mul(r->k, tile, num(r, chunk));
    ig_x end = ig_x_min(r->k, ig_x_add(r->k, first, num(r, chunk)), dim(r, rows));
    body = ig_s_for(r->k, body, IG_FOR_SERIAL, first, end, num(r, 1), &row);
    ig_s_name(r->k, row, "row");
    ig_x rest = row;
    for (int d = r->kept - 1; d > 0; d--) {
        vars[d] = ig_x_mod(r->k, rest, dim(r, r->nest.extent[d]));
        rest = ig_x_div(r->k, rest, dim(r, r->nest.extent[d]));
    }
    if (r->kept > 0) vars[0] = rest;
    for (int pass = -1; pass <= r->passes; pass++)
        emit_pass(r, body, pass, vars);
    for (int d = r->kept; d < r->nest.rank; d++)
        vars[d] = num(r, 0);
    emit_element(r, body, r->passes + 1, false, vars);
    r->kernel->tactic = ig_format(r->k->job, "rows, %d passes, %lld per tile", r->passes + 1, (long long)chunk);
}
