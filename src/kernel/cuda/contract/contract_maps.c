/* See contract_maps.h. */
#include "kernel/cuda/contract/contract_maps.h"

#include "kernel/affine.h"

static int64_t known(struct ig_contract *c, ig_dim d) {
    return ig_contract_const(c, d, 0);
}

static bool is_one(struct ig_contract *c, ig_dim d) {
    return known(c, d) == 1;
}

static bool is_zero(struct ig_contract *c, ig_dim d) {
    return ig_contract_const(c, d, 1) == 0;
}

bool ig_cuda_begins_buffer(struct ig_contract *c, const struct ig_cuda_source *from) {
    const struct ig_x_node *n = ig_x_look(c->k, from->base);
    return n->kind == IG_X_INT && n->i == 0;
}

/* ---- Batches ------------------------------------------------------------------------------------------------------ */

static ig_x along(struct ig_contract *c, ig_dim count) {
    return is_one(c, count) ? ig_contract_int(c, 0) : ig_x_free_var(c->k, count);
}

struct ig_cuda_batches ig_cuda_batches(struct ig_contract *c) {
    struct ig_dims *dims = c->k->dims;
    ig_dim one = ig_contract_as_dim(c, 1);
    struct ig_cuda_batches b = {.count = ig_cuda_batch(c), .inner = ig_cuda_batch(c), .outer = one};
    const struct ig_type *out = ig_contract_out(c);
    if (!c->spatial && !is_one(c, b.count)) {
        b.inner = out->dim[out->rank - 3];
        b.outer = ig_dim_product(dims, out->dim, out->rank - 3);
    }
    b.at_inner = along(c, b.inner);
    b.at_outer = along(c, b.outer);
    b.at = ig_x_add(c->k, ig_x_mul(c->k, b.at_outer, ig_contract_dim(c, b.inner)), b.at_inner);
    return b;
}

/* Can the copy engine take it for a distance? Where it is zero, matrices are empty, and there are no tiles. */
static bool is_distance(struct ig_contract *c, ig_dim d) {
    int64_t lo, hi;
    ig_dim_range(c->k->dims, d, &lo, &hi);
    return lo >= 0;
}

bool ig_cuda_find_matrices(struct ig_contract *c, const struct ig_cuda_source *from,
                           const struct ig_cuda_batches *batches, struct ig_cuda_matrices *out) {
    struct ig_affine base;
    ig_dim zero = ig_contract_as_dim(c, 0);
    ig_affine_of(c->k, from->base, &base);
    *out = (struct ig_cuda_matrices){base.constant, {zero, zero}};
    for (int i = 0; i < base.count; i++) {
        bool inner = base.term[i].atom == batches->at_inner, outer = base.term[i].atom == batches->at_outer;
        if ((!inner && !outer) || !is_distance(c, base.term[i].factor)) return false;
        out->apart[outer] = base.term[i].factor;
    }
    return is_distance(c, base.constant);
}

/* ---- Windows ------------------------------------------------------------------------------------------------------ */

/* Where windows along an axis of the convolution begin: the first, and the last, from the last pixel. False if that is
 * not known or further from the image than the copy engine counts. */
static bool find_ends(struct ig_contract *c, int axis, int *out_lower, int *out_upper) {
    int64_t limit = ig_tensor_map_limit(c->spatial < 3 ? 2 : 3), before, after;
    int64_t span =
        (ig_contract_attr(c, IG_ATTR_kernel)->ints[axis] - 1) * ig_contract_attr(c, IG_ATTR_dilations)->ints[axis];
    if (!ig_dim_is_const(c->k->dims, ig_contract_attr(c, IG_ATTR_before)->dims[axis], &before)) return false;
    if (!ig_dim_is_const(c->k->dims, ig_contract_attr(c, IG_ATTR_after)->dims[axis], &after)) return false;
    if (before > limit || before <= -limit || after - span < -limit || after - span >= limit) return false;
    *out_lower = (int)-before;
    *out_upper = (int)(after - span);
    return span < 2 * limit && ig_contract_attr(c, IG_ATTR_strides)->ints[axis] <= IG_MOST_WINDOW_STEP;
}

void ig_cuda_describe_windows(struct ig_contract *c, struct ig_cuda_gemm *g, const struct ig_cuda_source *a) {
    const struct ig_attr *kernel = ig_contract_attr(c, IG_ATTR_kernel);
    const struct ig_attr *strides = ig_contract_attr(c, IG_ATTR_strides);
    const struct ig_attr *dilations = ig_contract_attr(c, IG_ATTR_dilations);
    for (int i = 0, axis = c->spatial - 3; i < 3; i++, axis++) {
        g->taps[i] = axis < 0 ? 1 : (int)kernel->ints[axis];
        g->strides[i] = axis < 0 ? 1 : (int)strides->ints[axis];
        g->dilations[i] = axis < 0 ? 1 : (int)dilations->ints[axis];
    }
    for (int i = 0, axis = c->spatial - 3; i < 3; i++, axis++) {
        if (axis >= 0) find_ends(c, axis, &g->lower[i], &g->upper[i]);
    }
    g->border = (int)(ig_contract_border(c) & 0xff);
    g->axes = c->spatial < 3 ? 2 : 3;
    g->channels = (int)known(c, a->below);
    g->side_by_side = known(c, a->pixel) * g->strides[2] * ig_cuda_gemm_element(g) == g->a_copy;
}

/* Can the copy engine fetch the windows tap by tap? Channels must be whole steps. */
static bool can_map_windows(struct ig_contract *c, const struct ig_cuda_gemm *g, const struct ig_cuda_source *a) {
    int64_t channels = known(c, a->below);
    int ends[2];
    if (ig_contract_border(c) != 0) return false; /* it fetches zeros from beyond the edges */
    int64_t step = ig_cuda_math_is_bytes(g->math) ? 64 : 128 / ig_cuda_gemm_element(g);
    if (channels == 0 || channels > INT32_MAX || channels % step != 0) return false;
    for (int i = 0; i < c->spatial; i++) {
        if (!find_ends(c, i, &ends[0], &ends[1])) return false;
    }
    return true;
}

int ig_cuda_map_step(struct ig_contract *c, const struct ig_cuda_gemm *g, const struct ig_cuda_source *a) {
    if (a->kind != IG_CUDA_WINDOWS) return 128;
    return known(c, a->below) * ig_cuda_gemm_element(g) % 128 != 0 ? 64 : 128;
}

/* The largest slice of which a pixel takes no more instructions, which multiply 32 bytes. */
static int slice_of(int64_t bytes) {
    int slice = 128;
    if (bytes == IG_PATCH_PIXEL) return IG_PATCH_PIXEL;
    while (slice > 32 && (bytes + slice - 1) / slice * slice >= bytes + 32)
        slice /= 2;
    return slice;
}

/* Do taps of windows that begin at each pixel of a line come in pairs, of pixels that follow each other? */
static bool has_pairs(struct ig_contract *c, const struct ig_cuda_source *a) {
    int last = c->spatial - 1;
    return ig_contract_attr(c, IG_ATTR_kernel)->ints[last] % 2 == 0 &&
           ig_contract_attr(c, IG_ATTR_strides)->ints[last] == 1 &&
           ig_contract_attr(c, IG_ATTR_dilations)->ints[last] == 1 && a->pixel == a->below;
}

int ig_cuda_patch_slice(struct ig_contract *c, const struct ig_cuda_gemm *g, const struct ig_cuda_source *a,
                        const struct ig_cuda_source *b) {
    int64_t bytes = known(c, a->below) * ig_cuda_gemm_element(g);
    int ends[2], slice = slice_of(bytes);
    if (a->kind != IG_CUDA_WINDOWS || c->spatial > 2 || ig_contract_border(c) != 0) return 0;
    if (b->kind != IG_CUDA_ALONG && b->kind != IG_CUDA_ACROSS) return 0;
    if (bytes == 0 || bytes > INT32_MAX || a->copy != 16 || b->copy != 16) return 0;
    if (bytes % slice != 0 && a->pixel != a->below) return 0; /* channels of the next group would lie beyond */
    for (int i = 0; i < c->spatial; i++) {
        bool apart =
            ig_contract_attr(c, IG_ATTR_strides)->ints[i] > 1 && ig_contract_attr(c, IG_ATTR_dilations)->ints[i] > 1;
        if (!find_ends(c, i, &ends[0], &ends[1]) || apart) return 0;
    }
    return slice > IG_PATCH_PIXEL || has_pairs(c, a) ? slice : 0;
}

/* ---- Matrices ----------------------------------------------------------------------------------------------------- */

bool ig_cuda_can_map(struct ig_contract *c, const struct ig_cuda_gemm *g, const struct ig_cuda_source *a,
                     const struct ig_cuda_source *b, const struct ig_cuda_batches *batches) {
    const struct ig_cuda_source *sources[] = {a, b};
    struct ig_cuda_matrices matrices;
    int64_t lo, hi;
    ig_dim_range(c->k->dims, c->depth, &lo, &hi);
    if (lo < 1 || (c->spatial && !is_one(c, batches->count))) return false;
    for (int i = 0; i < 2; i++) {
        const struct ig_cuda_source *from = sources[i];
        bool windows = i == 0 && from->kind == IG_CUDA_WINDOWS && can_map_windows(c, g, a);
        if (!windows && from->kind != IG_CUDA_ALONG && from->kind != IG_CUDA_ACROSS) return false;
        if (from->copy != 16 || !ig_cuda_find_matrices(c, from, batches, &matrices)) return false;
        if (windows && !ig_cuda_begins_buffer(c, from)) return false;
    }
    return true;
}

bool ig_cuda_find_columns_apart(struct ig_contract *c, const struct ig_cuda_source *b,
                                const struct ig_cuda_batches *batches, ig_dim *out_apart) {
    struct ig_dims *dims = c->k->dims;
    struct ig_cuda_matrices m;
    if (b->kind != IG_CUDA_ALONG || known(c, batches->count) < 1) return false;
    if (!ig_cuda_find_matrices(c, b, batches, &m) || !is_zero(c, m.begin)) return false;
    bool shared = ig_cuda_begins_buffer(c, b);
    *out_apart = shared ? m.begin : c->columns;
    ig_dim apart = ig_dim_mul(dims, c->columns, b->ld), all = ig_dim_mul(dims, apart, batches->inner);
    return shared ||
           ((is_one(c, batches->inner) || m.apart[0] == apart) && (is_one(c, batches->outer) || m.apart[1] == all));
}

/* ---- Maps --------------------------------------------------------------------------------------------------------- */

/* A box holds a tile's lines along the depth, or a panel of 128 bytes across the depth. */
static struct ig_tensor_map map_of(struct ig_contract *c, const struct ig_cuda_gemm *g,
                                   const struct ig_cuda_source *from, ig_dim lines, int tile) {
    bool along = from->kind == IG_CUDA_ALONG;
    int element = ig_cuda_gemm_element(g);
    ig_dim width = along ? c->depth : lines, groups = ig_dim_const(c->k->dims, g->groups > 1 ? g->groups : 1);
    return (struct ig_tensor_map){
        .buffer = (uint32_t)c->k->buffers.at[from->buffer].param,
        .width = ig_loops_dim(c->k, width),
        .lines = ig_loops_dim(c->k, ig_dim_mul(c->k->dims, groups, along ? lines : c->depth)),
        .pitch = ig_loops_dim(c->k, from->ld),
        .box_width = along ? (uint32_t)g->bk : (uint32_t)(tile * element < 128 ? tile : 128 / element),
        .box_lines = (uint32_t)(along ? tile : g->bk),
        .element = (uint32_t)element,
    };
}

/* A box holds a tap's pixels of a tile's windows, or a patch of all taps; or some of their channels. The axes are in reverse. */
static struct ig_tensor_map map_of_windows(struct ig_contract *c, const struct ig_cuda_gemm *g,
                                           const struct ig_cuda_source *a) {
    uint32_t element = (uint32_t)ig_cuda_gemm_element(g);
    struct ig_tensor_map map = {
        .buffer = (uint32_t)c->k->buffers.at[a->buffer].param,
        .width = ig_loops_dim(c->k, g->patch[0] ? a->pixel : a->below),
        .lines = ig_loops_dim(c->k, ig_contract_in(c, 0)->dim[0]),
        .pitch = ig_loops_dim(c->k, a->pixel),
        .box_width = (uint32_t)(g->patch[0] ? ig_cuda_gemm_patch_pixel(g) : g->bk * (int)element) / element,
        .box_lines = (uint32_t)g->bm,
        .element = element,
        .axes = (uint32_t)g->axes};
    for (int i = 0; i < g->axes; i++) {
        map.sizes[i] = ig_loops_dim(c->k, a->size[2 - i]);
        map.steps[i] = (uint32_t)g->strides[2 - i];
        map.lower[i] = g->patch[0] ? 0 : g->lower[2 - i];
        map.upper[i] = g->patch[0] ? 0 : g->upper[2 - i];
    }
    if (g->patch[0]) {
        for (int i = 0; i < 2; i++)
            map.patch[i] = (uint32_t)ig_cuda_gemm_patch_pixels(g, 1 - i);
        map.box_lines = map.patch[0] * map.patch[1];
    }
    return map;
}

/* Of several matrices, or of one that does not begin where its buffer does; returns which those of a batch are. */
static int place_matrices(struct ig_contract *c, const struct ig_cuda_source *from,
                          const struct ig_cuda_batches *batches, struct ig_tensor_map *map) {
    static const int axes[] = {IG_CUDA_INNER, IG_CUDA_OUTER};
    const ig_dim counts[] = {batches->inner, batches->outer};
    struct ig_cuda_matrices m;
    int which = IG_CUDA_MATRICES;
    if (ig_cuda_begins_buffer(c, from)) return 0;
    bool found = ig_cuda_find_matrices(c, from, batches, &m);
    IG_ASSERT(c->k->job, found);
    map->matrices = 1;
    map->begin = ig_loops_dim(c->k, m.begin);
    for (int i = 0; i < 2; i++) {
        bool many = !is_zero(c, m.apart[i]);
        which |= many ? axes[i] : 0;
        map->counts[i] = ig_loops_dim(c->k, many ? counts[i] : ig_contract_as_dim(c, 1));
        map->apart[i] = ig_loops_dim(c->k, many ? m.apart[i] : from->ld);
    }
    return which;
}

void ig_cuda_map_operands(struct ig_contract *c, struct ig_cuda_gemm *g, const struct ig_cuda_source *a,
                          const struct ig_cuda_source *b, const struct ig_cuda_batches *batches, ig_dim rows) {
    struct ig_kernel *kernel = c->kernel;
    kernel->n_maps = 2;
    kernel->maps[0] = g->a == IG_CUDA_WINDOWS ? map_of_windows(c, g, a) : map_of(c, g, a, rows, g->bm);
    kernel->maps[1] = map_of(c, g, b, c->columns, g->bn);
    if (!c->spatial) {
        g->a_matrices = place_matrices(c, a, batches, &kernel->maps[0]);
        g->b_matrices = place_matrices(c, b, batches, &kernel->maps[1]);
        g->batches = !is_one(c, batches->count);
        g->inner = g->batches ? ig_loops_dim(c->k, batches->inner) : 0;
    }
    g->dealt = g->dealt && !g->b_matrices;
    kernel->maps[1].dealt = g->dealt;
}

void ig_cuda_map_columns(struct ig_contract *c, const struct ig_cuda_gemm *g, const struct ig_cuda_source *b,
                         const struct ig_cuda_source *second, ig_dim batches, ig_dim apart) {
    struct ig_kernel *kernel = c->kernel;
    ig_dim lines = apart == c->columns ? ig_dim_mul(c->k->dims, batches, c->columns) : c->columns;
    kernel->n_maps = 2;
    kernel->maps[0] = map_of(c, g, b, lines, g->bn);
    kernel->maps[1] = map_of(c, g, second, lines, g->bn);
    for (int i = 0; i < 2; i++)
        kernel->maps[i].box_width = 128u / (uint32_t)ig_cuda_gemm_element(g);
}
