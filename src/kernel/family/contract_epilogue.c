/*
 * The epilogue of contractions, and the fallback schedule that always applies.
 *
 * The epilogue is ordinary loop IR over a tile of results: the contraction's value is a load from the tile (plus the
 * bias of a convolution); everything else is lowered from the graph at the tile's position in the output.
 */
#include <string.h>

#include "kernel/affine.h"
#include "kernel/family/contract.h"

static ig_x bias_of(struct ig_contract *c, const ig_x *index) {
    if (!c->spatial || c->node.n_in < 3 || c->node.in[2] == IG_NO_VALUE) return IG_NO_X;
    bool last = ig_contract_attr_int(c, IG_ATTR_channels_last) != 0;
    ig_x bias = ig_lower_value(&c->lower, c->node.in[2], &index[last ? c->spatial + 1 : 1]);
    return ig_x_cast(c->k, bias, c->dtype, false);
}

/* The contraction's result, rounded to its type, at `index`. */
static ig_x finished(struct ig_contract *c, ig_x sum, const ig_x *index) {
    ig_x bias = bias_of(c, index);
    if (bias != IG_NO_X) sum = ig_x_map2(c->k, IG_OP_add, sum, bias);
    return ig_x_cast(c->k, sum, ig_contract_out(c)->dtype, false);
}

/* Is `index` the current element, the only one that the tile provides? Along an axis of size 1 every index matches. */
static bool is_at_hand(const struct ig_contract *c, const struct ig_type *type, const ig_x *index) {
    for (int i = 0; i < type->rank; i++) {
        if (index[i] != c->position[i] && ig_contract_const(c, type->dim[i], 0) != 1) return false;
    }
    return true;
}

static bool has_shape_of_results(const struct ig_contract *c, ig_value value) {
    return ig_same_dims(ig_type_of(c->graph, value), ig_contract_out(c));
}

/* Loads the current element of an input of the output's shape at c->linear, which is simpler than its index. */
static ig_x at_linear(struct ig_contract *c, ig_value value, const ig_x *index) {
    if (c->linear == IG_NO_X || !c->lower.is_input[value] || ig_is_literal(c->graph, value)) return IG_NO_X;
    size_t bytes = (size_t)ig_type_of(c->graph, value)->rank * sizeof *index;
    if (!has_shape_of_results(c, value) || memcmp(index, c->position, bytes) != 0) return IG_NO_X;
    if (c->ahead && c->ahead[value] >= 0) return ig_x_load(c->k, c->ahead[value], c->ahead_at);
    return ig_x_load(c->k, c->lower.buffer_of[value], c->linear);
}

static ig_x from_tile(void *user, ig_value value, const ig_x *index) {
    struct ig_contract *c = user;
    bool twin = c->has_twin && value == c->twin.out;
    if (value != c->node.out && value != c->begun && !twin) return at_linear(c, value, index);
    if (!is_at_hand(c, ig_type_of(c->graph, value), index)) c->astray = true;
    if (twin) return finished(c, ig_x_load(c->k, c->tile, c->twin_at), index);
    return finished(c, c->sum != IG_NO_X ? c->sum : ig_x_load(c->k, c->tile, c->tile_at), index);
}

void ig_contract_store_where(struct ig_contract *c, ig_x condition) {
    c->inside = c->inside == IG_NO_X ? condition : ig_x_and(c->k, c->inside, condition);
}

void ig_contract_store(struct ig_contract *c, struct ig_stmt *body, int tile, ig_x tile_at) {
    c->tile = tile;
    c->tile_at = tile_at;
    c->lower.known = from_tile;
    c->lower.user = c;
    for (uint32_t i = 0; i < c->region->outputs.count; i++) {
        ig_value v = c->region->outputs.at[i];
        if (!has_shape_of_results(c, v)) {
            c->astray = true;
            continue;
        }
        ig_x value = ig_lower_value(&c->lower, v, c->position);
        ig_x at = c->linear;
        if (at == IG_NO_X) at = ig_lower_linear(&c->lower, ig_type_of(c->graph, v), c->position);
        if (ig_line_store(c->kernel, c->target, &c->line, body, c->lower.buffer_of[v], at, value)) continue;
        struct ig_stmt *to = c->inside == IG_NO_X ? body : ig_s_if(c->k, body, c->inside);
        ig_s_store(c->k, to, c->lower.buffer_of[v], at, value);
        if (c->kept) ig_s_store(c->k, to, tile, tile_at, ig_x_cast(c->k, value, c->dtype, false));
    }
    c->lower.known = NULL;
}

void ig_contract_epilogue(struct ig_contract *c, struct ig_stmt *body, ig_x b, ig_x first_row, ig_x rows,
                          ig_x first_column, ig_x columns, int tile, ig_x tile_at, int nr) {
    struct ig_loops *k = c->k;
    ig_x zero = ig_contract_int(c, 0), one = ig_contract_int(c, 1), row, column;
    bool columns_inside = !c->spatial || ig_contract_attr_int(c, IG_ATTR_channels_last);
    if (columns_inside) {
        struct ig_stmt *around = ig_s_for(k, body, IG_FOR_SERIAL, zero, rows, one, &row);
        body = ig_s_for(k, around, IG_FOR_SIMD, zero, columns, one, &column);
        if (!ig_target_is_cuda(c->target)) c->line = (struct ig_line){around, column, columns, nr};
    } else {
        body = ig_s_for(k, body, IG_FOR_SERIAL, zero, columns, one, &column);
        body = ig_s_for(k, body, IG_FOR_SIMD, zero, rows, one, &row);
    }
    ig_contract_position(c, b, ig_x_add(k, first_row, row), ig_x_add(k, first_column, column), c->position);
    ig_x element = ig_x_add(k, ig_x_mul(k, row, ig_contract_int(c, nr)), column);
    ig_contract_store(c, body, tile, ig_x_add(k, tile_at, element));
    c->line = (struct ig_line){0};
}

/* ---- Fallback: one element at a time ----------------------------------------------------------------------------- */

/* Accumulators emitted so far for the current output element, by index: views may request several sums. */
struct plain {
    struct ig_contract *c;
    struct ig_stmt *body;
    IG_VEC(ig_value) value; /* the contraction's, or its twin's */
    IG_VEC(ig_x) index;
    IG_VEC(int) acc;
};

/* Batch, row and column of an element of the contraction's output. */
static void locate(struct ig_contract *c, const ig_x *index, ig_x *b, ig_x *m, ig_x *n) {
    struct ig_loops *k = c->k;
    struct ig_type type = *ig_contract_out(c);
    if (!c->spatial) {
        *n = index[type.rank - 1];
        *m = index[type.rank - 2];
        type.rank -= c->merged ? 1 : 2;
        *b = c->merged ? ig_contract_int(c, 0) : ig_lower_linear(&c->lower, &type, index);
        if (c->merged) *m = ig_lower_linear(&c->lower, &type, index);
        return;
    }
    bool last = ig_contract_attr_int(c, IG_ATTR_channels_last) != 0;
    ig_x channel = index[last ? c->spatial + 1 : 1];
    ig_x columns = ig_contract_dim(c, c->columns);
    struct ig_type space = {.dtype = type.dtype, .rank = c->spatial};
    memcpy(space.dim, type.dim + (last ? 1 : 2), (size_t)c->spatial * sizeof *space.dim);
    *b = ig_x_add(k, ig_x_mul(k, index[0], ig_contract_int(c, c->groups)), ig_x_div(k, channel, columns));
    *n = ig_x_mod(k, channel, columns);
    *m = ig_lower_linear(&c->lower, &space, index + (last ? 1 : 2));
}

/* The sums of blocks of the depth, each scaled as it is added. */
static int sum_scaled(struct plain *p, ig_x m, ig_x n) {
    struct ig_contract *c = p->c;
    struct ig_loops *k = c->k;
    struct ig_dims *dims = k->dims;
    bool integers = ig_contract_in(c, 0)->dtype == INGOT_I8 || ig_contract_in(c, 0)->dtype == INGOT_U8;
    enum ingot_dtype own = integers ? INGOT_I32 : INGOT_F32;
    ig_x zero = ig_contract_int(c, 0), one = ig_contract_int(c, 1), t, step, depth[IG_CONTRACT_DEPTH];
    ig_x block = ig_contract_int(c, ig_contract_attr_int(c, IG_ATTR_block));
    ig_dim blocks = ig_dim_ceil_div(dims, c->depth, ig_contract_as_dim(c, ig_contract_attr_int(c, IG_ATTR_block)));
    int acc = ig_s_acc(k, p->body, INGOT_F32, ig_x_float(k, INGOT_F32, 0));
    struct ig_stmt *body = ig_s_for(k, p->body, IG_FOR_SERIAL, zero, ig_contract_dim(c, blocks), one, &t);
    int part = ig_s_acc(k, body, own, integers ? ig_x_int(k, own, 0) : ig_x_float(k, own, 0));
    ig_x first = ig_x_mul(k, t, block);
    ig_x count = ig_x_min(k, block, ig_x_sub(k, ig_contract_dim(c, c->depth), first));
    struct ig_stmt *walk = ig_s_for(k, body, IG_FOR_SERIAL, zero, count, one, &step);
    ig_x at = ig_x_add(k, first, step);
    for (int i = c->depth_rank - 1; i > 0; i--)
        depth[i] = ig_x_split_off(k, &at, c->depth_dim[i]);
    depth[0] = at;
    ig_x a = ig_x_cast(k, ig_contract_a(c, zero, m, depth), own, false);
    ig_x b = ig_x_cast(k, ig_contract_b(c, zero, n, depth), own, false);
    ig_s_update(k, walk, part, IG_OP_add, ig_x_map2(k, IG_OP_mul, a, b));
    ig_x scale = ig_x_map2(k, IG_OP_mul, ig_contract_row_scale(c, m, t), ig_contract_column_scale(c, n, t));
    ig_x sum = ig_x_cast(k, ig_x_acc(k, part, own), INGOT_F32, false);
    ig_s_update(k, body, acc, IG_OP_add, ig_x_map2(k, IG_OP_mul, sum, scale));
    return acc;
}

static int sum_plain(struct plain *p, ig_x b, ig_x m, ig_x n, bool twin) {
    struct ig_contract *c = p->c;
    struct ig_loops *k = c->k;
    ig_x depth[IG_CONTRACT_DEPTH];
    ig_x none = ig_dtype_is_float(c->dtype) ? ig_x_float(k, c->dtype, 0) : ig_x_int(k, c->dtype, 0);
    int acc = ig_s_acc(k, p->body, c->dtype, none);
    struct ig_stmt *body = p->body;
    for (int i = 0; i < c->depth_rank; i++)
        body = ig_s_for(k, body, IG_FOR_SERIAL, ig_contract_int(c, 0), ig_contract_dim(c, c->depth_dim[i]),
                        ig_contract_int(c, 1), &depth[i]);
    ig_x second = twin ? ig_contract_twin_b(c, b, n, depth) : ig_contract_b(c, b, n, depth);
    ig_x first = ig_x_cast(k, ig_contract_a(c, b, m, depth), c->dtype, false);
    ig_s_update(k, body, acc, IG_OP_add, ig_x_map2(k, IG_OP_mul, first, second));
    return acc;
}

static ig_x summed(void *user, ig_value value, const ig_x *index) {
    struct plain *p = user;
    struct ig_contract *c = p->c;
    struct ig_loops *k = c->k;
    bool twin = c->has_twin && value == c->twin.out;
    if (value != c->node.out && !twin) return IG_NO_X;
    int rank = ig_type_of(c->graph, value)->rank;
    for (uint32_t i = 0; i < p->acc.count; i++) {
        bool same = memcmp(p->index.at + i * (uint32_t)rank, index, (size_t)rank * sizeof *index) == 0;
        if (same && p->value.at[i] == value) return finished(c, ig_x_acc(k, p->acc.at[i], c->dtype), index);
    }
    ig_x b, m, n;
    locate(c, index, &b, &m, &n);
    int acc = c->scaled ? sum_scaled(p, m, n) : sum_plain(p, b, m, n, twin);
    for (int i = 0; i < rank; i++)
        IG_PUSH(k->job, &p->index, index[i]);
    IG_PUSH(k->job, &p->value, value);
    IG_PUSH(k->job, &p->acc, acc);
    return finished(c, ig_x_acc(k, acc, c->dtype), index);
}

/* Elements per tile: on GPUs, the threads of a block. */
static int64_t plain_chunk(const struct ig_contract *c) {
    return ig_target_is_cuda(c->target) ? 256 : 1;
}

/* Computes the outputs one after the other, each element by element. */
void ig_contract_plain(struct ig_contract *c) {
    struct ig_loops *k = c->k;
    struct ig_dims *dims = k->dims;
    ig_dim tiles = ig_dim_const(dims, 0);
    ig_x tile;
    for (uint32_t i = 0; i < c->region->outputs.count; i++)
        tiles = ig_dim_add(dims, tiles, ig_type_elements(dims, ig_type_of(c->graph, c->region->outputs.at[i])));
    int64_t chunk = plain_chunk(c);
    c->kernel->tiles = ig_dim_ceil_div(dims, tiles, ig_dim_const(dims, chunk));
    c->kernel->scratch_bytes = ig_dim_const(dims, 0);
    c->kernel->tactic = "plain";
    ig_x zero = ig_contract_int(c, 0), one = ig_contract_int(c, 1), number;
    struct ig_stmt *body = ig_s_for(k, NULL, IG_FOR_TILE, zero, ig_contract_dim(c, c->kernel->tiles), one, &tile);
    if (chunk > 1) {
        body = ig_s_for(k, body, IG_FOR_SIMD, zero, ig_contract_int(c, chunk), one, &number);
        tile = ig_x_add(k, ig_x_mul(k, tile, ig_contract_int(c, chunk)), number);
    }
    ig_dim from = ig_dim_const(dims, 0);
    for (uint32_t i = 0; i < c->region->outputs.count; i++) {
        ig_value v = c->region->outputs.at[i];
        const struct ig_type *type = ig_type_of(c->graph, v);
        ig_dim to = ig_dim_add(dims, from, ig_type_elements(dims, type));
        ig_x index[INGOT_MAX_RANK], element = ig_x_sub(k, tile, ig_contract_dim(c, from));
        ig_x inside = ig_x_and(k, ig_x_less(k, ig_x_sub(k, ig_contract_dim(c, from), ig_contract_int(c, 1)), tile),
                               ig_x_less(k, tile, ig_contract_dim(c, to)));
        /* A loop that runs once if the element belongs to this output: loads inside depend on its variable, so the
         * printer cannot hoist them out of the condition. */
        ig_x hi = ig_x_select(k, inside, ig_contract_int(c, 1), ig_contract_int(c, 0)), once;
        struct ig_stmt *each =
            ig_s_for(k, body, IG_FOR_SERIAL, ig_contract_int(c, 0), hi, ig_contract_int(c, 1), &once);
        bool only = c->region->outputs.count == 1 && chunk == 1;
        element = only ? tile : ig_x_add(k, element, once);
        if (only) each = body;
        struct plain p = {.c = c, .body = each};
        c->lower.known = summed;
        c->lower.user = &p;
        ig_lower_split(&c->lower, type, element, index);
        ig_x value = ig_lower_value(&c->lower, v, index);
        c->lower.known = NULL;
        ig_s_store(k, each, c->lower.buffer_of[v], ig_lower_linear(&c->lower, type, index), value);
        from = to;
    }
}
