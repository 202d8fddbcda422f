/* Parts of weights; see weight_parts.h. */
#include "compile/weight_parts.h"

#include "ir/build.h"
#include "pass/shard/part.h"

void ig_weight_parts_init(struct ig_weight_parts *parts, struct ig_job *job, struct ig_same_weights *same) {
    *parts = (struct ig_weight_parts){.job = job, .same = same};
    ig_map_init(&parts->of, job);
}

/* ---- Layouts that are tried ----------------------------------------------------------------------------------------- */

struct tried {
    IG_VEC(struct ig_layout) list;
};

static void add_layout(struct ig_weight_parts *p, struct ig_dims *dims, struct tried *tried, int axis, int64_t outer,
                       int64_t count, int64_t grain, int ranks) {
    struct ig_layout layout =
        ig_layout_split(axis, ig_dim_const(dims, outer), ig_dim_const(dims, count), ig_dim_const(dims, 1));
    layout.grain = grain;
    if (ig_layout_serves(dims, &layout, ranks)) IG_PUSH(p->job, &tried->list, layout);
}

/* Axes by their elements, and where several matrices lie side by side (queries, keys and values) by those of each; long ones
 * of odd sizes by whatever grain their elements have by now. */
static void find_layouts(struct ig_weight_parts *p, struct ig_graph *g, ig_value v, int ranks, struct tried *tried) {
    enum { LONG = 256, COARSEST = 64 };
    const struct ig_type *type = ig_type_of(g, v);
    int64_t dims[INGOT_MAX_RANK];
    if (!ig_type_is_static(g->dims, type, dims)) return;
    for (int axis = 0; axis < type->rank; axis++) {
        for (int64_t outer = 1; outer <= 3; outer++) {
            if (dims[axis] % outer == 0) add_layout(p, g->dims, tried, axis, outer, dims[axis] / outer, 1, ranks);
        }
        for (int64_t grain = 2; grain <= COARSEST && dims[axis] >= LONG; grain *= 2) {
            if (dims[axis] % (grain * ranks) != 0) add_layout(p, g->dims, tried, axis, 1, dims[axis], grain, ranks);
        }
    }
}

/* ---- Parts ------------------------------------------------------------------------------------------------------------ */

static int64_t number(struct ig_graph *g, ig_dim dim) {
    int64_t value = 0;
    ig_dim_is_const(g->dims, dim, &value);
    return value;
}

static struct ig_layout segment_of(struct ig_graph *g, const struct ig_layout *l, int64_t count) {
    struct ig_layout segment = *l;
    segment.count = ig_dim_const(g->dims, count);
    return segment;
}

/* Adds the bytes of a part of a weight. */
static void add_copies(struct ig_weight_parts *p, const struct ig_weight *w, const struct ig_layout *l, int ranks,
                       int rank, const struct ig_shard_dealt *dealt) {
    struct ig_graph *g = w->graph;
    const struct ig_type *type = ig_type_of(g, w->value);
    const uint64_t before = (uint64_t)number(g, ig_dim_product(g->dims, type->dim, l->axis));
    const int64_t behind = number(g, ig_dim_product(g->dims, type->dim + l->axis + 1, type->rank - l->axis - 1));
    const int64_t count = number(g, l->count), outer = number(g, l->outer);
    int64_t units = 0, first = 0;
    for (int i = 0; i < dealt->count; i++)
        units += dealt->units[i];
    IG_ASSERT(p->job, dealt->count == 0 || units > 0);
    struct ig_weight_part part = {.first = p->copies.count};
    for (int i = 0; i == 0 || i < dealt->count; i++) {
        const int64_t own = dealt->count ? count * dealt->units[i] / units : count;
        const struct ig_layout segment = segment_of(g, l, own);
        const int64_t begin = number(g, ig_layout_begin(g->dims, &segment, ranks, rank));
        const int64_t end = number(g, ig_layout_begin(g->dims, &segment, ranks, rank + 1));
        const uint64_t unit = (uint64_t)(number(g, l->inner) * behind) * ingot_dtype_size(type->dtype);
        struct ig_weight_copy copy = {.from = w->offset + (uint64_t)(first + begin) * unit,
                                      .piece = (uint64_t)(end - begin) * unit,
                                      .stride = (uint64_t)count * unit,
                                      .count = before * (uint64_t)outer};
        IG_PUSH(p->job, &p->copies, copy);
        first += own;
        part.count++;
    }
    IG_PUSH(p->job, &p->list, part);
}

/* Are the segments of a dealt axis whole units of the layout, as each rank has them? */
static bool fits(struct ig_graph *g, const struct ig_layout *l, int ranks, const struct ig_shard_dealt *dealt) {
    int64_t units = 0, count = number(g, l->count);
    for (int i = 0; i < dealt->count; i++)
        units += dealt->units[i];
    for (int i = 0; i < dealt->count; i++) {
        if (count * dealt->units[i] % (units * ranks) != 0) return false;
    }
    return true;
}

void ig_weight_parts_add(struct ig_weight_parts *p, const struct ig_weight *stored, int ranks, int rank) {
    struct ig_graph *g = stored->graph;
    struct tried tried = {0};
    find_layouts(p, g, stored->value, ranks, &tried);
    for (uint32_t i = 0; i < tried.list.count; i++) {
        const struct ig_layout *l = &tried.list.at[i];
        struct ig_shard_dealt dealt;
        ig_value part = ig_shard_part(g, stored->value, l, ranks, rank, &dealt);
        uint32_t known, class = ig_same_weights_class(p->same, g, part);
        if (ig_map_get(&p->of, &class, sizeof class, &known) || !fits(g, l, ranks, &dealt)) continue;
        ig_map_put(&p->of, &class, sizeof class, p->list.count);
        add_copies(p, stored, l, ranks, rank, &dealt);
    }
}

const struct ig_weight_part *ig_weight_parts_find(const struct ig_weight_parts *p, uint32_t class) {
    uint32_t index;
    return ig_map_get(&p->of, &class, sizeof class, &index) ? &p->list.at[index] : NULL;
}
