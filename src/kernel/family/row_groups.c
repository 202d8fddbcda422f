/* Finds rows that lie side by side in pieces. See row.h. */
#include "kernel/family/row.h"

/* The product of the dims of `space` from *inout_last down that are reduced, or not; IG_DIM_NONE: there are none. */
static ig_dim take_dims(const struct ig_row *r, int *inout_last, bool reduced) {
    struct ig_dims *dims = r->k->dims;
    ig_dim one = ig_dim_const(dims, 1), product = one;
    bool any = false;
    for (; *inout_last >= 0; --*inout_last) {
        ig_dim d = r->space.dim[*inout_last];
        if (d == one) continue;
        if (r->reduced[*inout_last] != reduced) break;
        product = ig_dim_mul(dims, product, d);
        any = true;
    }
    return any ? product : IG_DIM_NONE;
}

bool ig_row_find_groups(const struct ig_row *r, struct ig_row_groups *out_groups) {
    struct ig_dims *dims = r->k->dims;
    struct ig_row_groups *g = out_groups;
    int last = r->space.rank - 1;
    ig_dim piece = take_dims(r, &last, true), count = take_dims(r, &last, false);
    g->pixels = take_dims(r, &last, true);
    if (piece == IG_DIM_NONE || count == IG_DIM_NONE || g->pixels == IG_DIM_NONE) return false;
    if (take_dims(r, &last, false) != IG_DIM_NONE && last >= 0) return false;
    if (!ig_dim_is_const(dims, piece, &g->piece) || !ig_dim_is_const(dims, count, &g->count)) return false;
    for (uint32_t i = 0; i < r->steps.count; i++) {
        if (r->steps.at[i].is_place) return false;
    }
    return true;
}

bool ig_row_fits_groups(const struct ig_row *r, const struct ig_row_groups *g) {
    const struct ig_nest *nest = &r->nest;
    int64_t count, piece;
    if (r->kept < 1 || nest->rank < r->kept + 2) return false;
    return ig_dim_is_const(nest->k->dims, nest->extent[r->kept - 1], &count) && count == g->count &&
           ig_dim_is_const(nest->k->dims, nest->extent[nest->rank - 1], &piece) && piece == g->piece &&
           ig_dim_product(nest->k->dims, nest->extent + r->kept, nest->rank - 1 - r->kept) == g->pixels;
}
