/* Splits and merges the dims of a loop nest: see nest.h. */
#include "kernel/nest.h"

#include <string.h>

#include "base/map.h"

void ig_nest_init(struct ig_nest *nest, struct ig_loops *k, const struct ig_sizes *at) {
    *nest = (struct ig_nest){.k = k, .at = at};
}

ig_x ig_nest_dim(struct ig_nest *nest, ig_dim extent) {
    int64_t n;
    if (ig_dim_is_const(nest->k->dims, extent, &n) && n == 1) return ig_x_index(nest->k, 0);
    IG_ASSERT(nest->k->job, nest->rank < IG_NEST_DIMS);
    nest->extent[nest->rank] = extent;
    nest->border[nest->rank] = false;
    nest->var[nest->rank] = ig_x_free_var(nest->k, extent);
    return nest->var[nest->rank++];
}

int ig_nest_add(struct ig_nest *nest, ig_x x) {
    IG_PUSH(nest->k->job, &nest->x, x);
    return (int)nest->x.count - 1;
}

ig_x ig_nest_bind(struct ig_nest *nest, int which, const ig_x *vars) {
    return ig_x_substitute(nest->k, nest->x.at[which], nest->var, vars, nest->rank);
}

/* ---- Walking the index expressions ------------------------------------------------------------------------------- */

struct walk {
    struct ig_nest *nest;
    void (*visit)(void *user, const struct ig_affine *sum, int buffer);
    void *user;
    struct ig_map seen;
};

static bool is_index(const struct ig_x_node *n) {
    return n->kind == IG_X_VAR ||
           (n->kind == IG_X_MAP && n->dtype == INGOT_I64 && !n->wraps && (n->op == IG_OP_add || n->op == IG_OP_mul));
}

static void walk_x(struct walk *w, ig_x x, int buffer) {
    struct ig_loops *k = w->nest->k;
    uint32_t key[2] = {x, (uint32_t)buffer}, unused;
    if (ig_map_get(&w->seen, key, sizeof key, &unused)) return;
    ig_map_put(&w->seen, key, sizeof key, 1);
    const struct ig_x_node n = k->x.at[x];
    if (buffer < 0 && !is_index(&n)) {
        for (int i = 0; i < 3; i++) {
            if (n.args[i] != IG_NO_X) walk_x(w, n.args[i], n.kind == IG_X_LOAD ? (int)n.i : -1);
        }
        return;
    }
    struct ig_affine sum;
    ig_affine_of(k, x, &sum);
    w->visit(w->user, &sum, buffer);
    for (int t = 0; t < sum.count; t++) {
        const struct ig_x_node atom = k->x.at[sum.term[t].atom];
        if (atom.kind == IG_X_VAR) continue;
        for (int i = 0; i < 3; i++) {
            if (atom.args[i] != IG_NO_X) walk_x(w, atom.args[i], atom.kind == IG_X_LOAD ? (int)atom.i : -1);
        }
    }
}

void ig_nest_indices(struct ig_nest *nest, void (*visit)(void *user, const struct ig_affine *sum, int buffer),
                     void *user) {
    struct walk w = {.nest = nest, .visit = visit, .user = user};
    ig_map_init(&w.seen, nest->k->job);
    for (uint32_t i = 0; i < nest->x.count; i++)
        walk_x(&w, nest->x.at[i], -1);
}

/* ---- Splitting --------------------------------------------------------------------------------------------------- */

struct split {
    int dim;
    ig_dim inner;
};

/* Finds a division or modulo of one variable by a divisor of its extent. */
static bool find_split(struct ig_nest *nest, ig_x x, struct ig_map *seen, struct split *out_split) {
    struct ig_loops *k = nest->k;
    uint32_t unused;
    if (ig_map_get(seen, &x, sizeof x, &unused)) return false;
    ig_map_put(seen, &x, sizeof x, 1);
    const struct ig_x_node n = k->x.at[x];
    if (n.kind == IG_X_MAP && !n.wraps && (n.op == IG_OP_div || n.op == IG_OP_mod)) {
        ig_dim by, unused_dim;
        ig_x_bounds(k, n.args[1], &by, &unused_dim);
        for (int d = 0; d < nest->rank && by != IG_DIM_NONE; d++) {
            if (n.args[0] != nest->var[d] || !ig_dim_divides(k->dims, by, nest->extent[d])) continue;
            *out_split = (struct split){d, by};
            return true;
        }
    }
    for (int i = 0; i < 3; i++) {
        if (n.args[i] != IG_NO_X && find_split(nest, n.args[i], seen, out_split)) return true;
    }
    return false;
}

static void rewrite(struct ig_nest *nest, const ig_x *from, const ig_x *to, int count) {
    for (uint32_t i = 0; i < nest->x.count; i++)
        nest->x.at[i] = ig_x_substitute(nest->k, nest->x.at[i], from, to, count);
}

static void split_dim(struct ig_nest *nest, const struct split *split) {
    struct ig_loops *k = nest->k;
    int d = split->dim;
    ig_dim outer = ig_dim_div(k->dims, nest->extent[d], split->inner);
    ig_x old = nest->var[d];
    size_t after = (size_t)(nest->rank - d - 1);
    memmove(nest->extent + d + 2, nest->extent + d + 1, after * sizeof *nest->extent);
    memmove(nest->var + d + 2, nest->var + d + 1, after * sizeof *nest->var);
    memmove(nest->border + d + 2, nest->border + d + 1, after * sizeof *nest->border);
    nest->rank++;
    nest->extent[d] = outer;
    nest->extent[d + 1] = split->inner;
    nest->border[d + 1] = false;
    nest->var[d] = ig_x_free_var(k, outer);
    nest->var[d + 1] = ig_x_free_var(k, split->inner);
    ig_x whole = ig_x_add(k, ig_x_mul(k, nest->var[d], ig_x_dim(k, split->inner)), nest->var[d + 1]);
    rewrite(nest, &old, &whole, 1);
}

static void split_all(struct ig_nest *nest) {
    for (int round = 0; round < IG_NEST_DIMS && nest->rank < IG_NEST_DIMS; round++) {
        struct split split;
        struct ig_map seen;
        ig_map_init(&seen, nest->k->job);
        bool found = false;
        for (uint32_t i = 0; i < nest->x.count && !found; i++)
            found = find_split(nest, nest->x.at[i], &seen, &split);
        if (!found) return;
        split_dim(nest, &split);
    }
}

/* ---- Merging ----------------------------------------------------------------------------------------------------- */

struct merge {
    struct ig_nest *nest;
    bool even[IG_NEST_DIMS]; /* all indices step evenly across the border of dims i-1 and i */
};

static void check_even(void *user, const struct ig_affine *sum, int buffer) {
    struct merge *m = user;
    struct ig_nest *nest = m->nest;
    (void)buffer;
    for (int i = 1; i < nest->rank; i++) {
        ig_dim outer = ig_affine_factor(nest->k, sum, nest->var[i - 1]);
        ig_dim inner = ig_affine_factor(nest->k, sum, nest->var[i]);
        if (outer != ig_dim_mul(nest->k->dims, inner, nest->extent[i])) m->even[i] = false;
    }
}

static void merge_all(struct ig_nest *nest) {
    struct ig_loops *k = nest->k;
    struct merge m = {.nest = nest};
    for (int i = 1; i < nest->rank; i++)
        m.even[i] = !nest->border[i];
    ig_nest_indices(nest, check_even, &m);
    ig_x from[IG_NEST_DIMS], to[IG_NEST_DIMS];
    int rank = 0;
    for (int first = 0, last; first < nest->rank; first = last + 1) {
        last = first;
        ig_dim extent = nest->extent[first];
        for (; last + 1 < nest->rank && m.even[last + 1]; last++)
            extent = ig_dim_mul(k->dims, extent, nest->extent[last + 1]);
        ig_x var = last == first ? nest->var[first] : ig_x_free_var(k, extent);
        for (int i = first; i <= last; i++) {
            from[i] = nest->var[i];
            to[i] = i == last ? var : ig_x_index(k, 0);
        }
        nest->border[rank] = nest->border[first];
        nest->extent[rank] = extent;
        nest->var[rank++] = var;
    }
    if (rank == nest->rank) return;
    rewrite(nest, from, to, nest->rank);
    nest->rank = rank;
}

void ig_nest_simplify(struct ig_nest *nest) {
    split_all(nest);
    merge_all(nest);
}

/* ---- Vectors ----------------------------------------------------------------------------------------------------- */

struct vector {
    struct ig_nest *nest;
    int64_t count;
    int64_t widest; /* bytes of the largest element accessed with stride 1 */
    bool fits;
};

/* Clears v->fits unless the index steps by 1 along the last dim and starts at multiples of the count. An index that is
 * constant along the last dim always fits. */
static void check_vector(void *user, const struct ig_affine *sum, int buffer) {
    struct vector *v = user;
    struct ig_nest *nest = v->nest;
    struct ig_dims *dims = nest->k->dims;
    ig_x last = nest->var[nest->rank - 1];
    if (buffer < 0 || nest->k->buffers.at[buffer].kind != IG_BUFFER_PARAM) return;
    ig_dim step = ig_affine_factor(nest->k, sum, last), by = ig_dim_const(dims, v->count);
    bool entangled = ig_affine_entangled(nest->k, sum, last);
    if (step == ig_dim_const(dims, 0) && !entangled) return;
    if (entangled || step != ig_dim_const(dims, 1) || !ig_dim_divides(dims, by, sum->constant)) v->fits = false;
    for (int i = 0; i < sum->count; i++) {
        if (sum->term[i].atom != last && !ig_dim_divides(dims, by, sum->term[i].factor)) v->fits = false;
    }
    int64_t bytes = (int64_t)ingot_dtype_size(nest->k->buffers.at[buffer].dtype);
    if (bytes > v->widest) v->widest = bytes;
}

static bool fits_stores(struct ig_nest *nest, const int *positions, const int *buffers, int n, struct vector *v) {
    v->fits = true;
    v->widest = 1;
    for (int i = 0; i < n; i++) {
        struct ig_affine sum;
        ig_affine_of(nest->k, nest->x.at[positions[i]], &sum);
        check_vector(v, &sum, buffers[i]);
    }
    return v->fits && v->count * v->widest <= 16;
}

static bool fits_vector(struct ig_nest *nest, const int *positions, const int *buffers, int n, struct vector *v) {
    if (!fits_stores(nest, positions, buffers, n, v)) return false;
    ig_nest_indices(nest, check_vector, v);
    return v->fits && v->count * v->widest <= 16;
}

int ig_nest_vector(struct ig_nest *nest, const int *positions, const int *buffers, int n, bool tail) {
    struct ig_dims *dims = nest->k->dims;
    if (nest->rank == 0) return 1;
    for (int count = 16; count > 1; count /= 2) {
        struct vector v = {.nest = nest, .count = count};
        bool even = ig_dim_divides(dims, ig_dim_const(dims, count), nest->extent[nest->rank - 1]);
        if ((even || (tail && nest->rank == 1)) && fits_vector(nest, positions, buffers, n, &v)) return count;
    }
    return 1;
}

int ig_nest_store_vector(struct ig_nest *nest, const int *positions, const int *buffers, int n) {
    struct ig_dims *dims = nest->k->dims;
    for (int count = 16; count > 1 && nest->rank > 0; count /= 2) {
        struct vector v = {.nest = nest, .count = count};
        if (!ig_dim_divides(dims, ig_dim_const(dims, count), nest->extent[nest->rank - 1])) continue;
        if (fits_stores(nest, positions, buffers, n, &v)) return count;
    }
    return 1;
}

/* ---- Estimates --------------------------------------------------------------------------------------------------- */

int64_t ig_nest_guess(const struct ig_nest *nest, int dim) {
    return ig_sizes_guess(nest->at, nest->extent[dim]);
}

static int64_t op_cost(enum ig_op op) {
    switch (op) {
    case IG_OP_div:
    case IG_OP_sqrt: return 4;
    case IG_OP_mod: return 8;
    case IG_OP_exp:
    case IG_OP_sigmoid:
    case IG_OP_normcdf:
    case IG_OP_log: return 12;
    case IG_OP_erf:
    case IG_OP_tanh: return 16;
    case IG_OP_log1p:
    case IG_OP_sin:
    case IG_OP_cos:
    case IG_OP_tan:
    case IG_OP_asin:
    case IG_OP_acos:
    case IG_OP_atan:
    case IG_OP_sinh:
    case IG_OP_cosh:
    case IG_OP_asinh:
    case IG_OP_acosh:
    case IG_OP_atanh:
    case IG_OP_fmod:
    case IG_OP_pow: return 40;
    default: return 1;
    }
}

static int64_t cost(const struct ig_loops *k, ig_x x, struct ig_map *seen) {
    uint32_t unused;
    if (ig_map_get(seen, &x, sizeof x, &unused)) return 0;
    ig_map_put(seen, &x, sizeof x, 1);
    const struct ig_x_node *n = &k->x.at[x];
    if (n->kind == IG_X_LOAD && is_index(&k->x.at[n->args[0]])) return 1;
    int64_t sum = n->kind == IG_X_MAP ? op_cost(n->op) : n->kind == IG_X_LOAD || n->kind == IG_X_CAST ? 1 : 0;
    for (int i = 0; i < 3; i++)
        sum += n->args[i] == IG_NO_X ? 0 : cost(k, n->args[i], seen);
    return sum;
}

int64_t ig_x_cost(const struct ig_loops *k, ig_x x) {
    struct ig_map seen;
    ig_map_init(&seen, k->job);
    return cost(k, x, &seen);
}
