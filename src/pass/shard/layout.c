/* Layouts of values over ranks; see layout.h. */
#include "pass/shard/layout.h"

#include "base/text.h"

struct ig_layout ig_layout_whole(void) {
    return (struct ig_layout){.kind = IG_LAYOUT_WHOLE};
}

struct ig_layout ig_layout_split(int axis, ig_dim outer, ig_dim count, ig_dim inner) {
    return (struct ig_layout){
        .kind = IG_LAYOUT_SPLIT, .axis = axis, .outer = outer, .count = count, .inner = inner, .grain = 1};
}

struct ig_layout ig_layout_partial(enum ig_reduction reduction) {
    return (struct ig_layout){.kind = IG_LAYOUT_PARTIAL, .reduction = reduction};
}

struct ig_layout ig_layout_along(struct ig_dims *dims, const struct ig_type *type, int axis) {
    enum { GRAIN = 64, LONG = 256 * GRAIN };
    ig_dim one = ig_dim_const(dims, 1);
    struct ig_layout layout = ig_layout_split(axis, one, type->dim[axis], one);
    int64_t count;
    if (ig_dim_is_const(dims, layout.count, &count) && count >= LONG && count % GRAIN != 0) layout.grain = GRAIN;
    return layout;
}

bool ig_layout_same(const struct ig_layout *a, const struct ig_layout *b) {
    return a->kind == b->kind && a->axis == b->axis && a->outer == b->outer && a->count == b->count &&
           a->inner == b->inner && a->grain == b->grain && a->reduction == b->reduction;
}

ig_dim ig_layout_begin(struct ig_dims *dims, const struct ig_layout *layout, int ranks, int rank) {
    int64_t count;
    if (layout->grain > 1 && ig_dim_is_const(dims, layout->count, &count)) {
        int64_t begin = (count + layout->grain - 1) / layout->grain * rank / ranks * layout->grain;
        return ig_dim_const(dims, begin < count ? begin : count);
    }
    ig_dim times = ig_dim_mul(dims, layout->count, ig_dim_const(dims, rank));
    return ig_dim_div(dims, times, ig_dim_const(dims, ranks));
}

ig_dim ig_layout_part(struct ig_dims *dims, const struct ig_layout *layout, int ranks, int rank) {
    return ig_dim_sub(dims, ig_layout_begin(dims, layout, ranks, rank + 1), ig_layout_begin(dims, layout, ranks, rank));
}

bool ig_layout_serves(const struct ig_dims *dims, const struct ig_layout *layout, int ranks) {
    int64_t count;
    return layout->kind != IG_LAYOUT_SPLIT || !ig_dim_is_const(dims, layout->count, &count) ||
           (count + layout->grain - 1) / layout->grain >= ranks;
}

struct ig_type ig_layout_type(struct ig_dims *dims, const struct ig_layout *layout, const struct ig_type *type,
                              int ranks, int rank) {
    struct ig_type local = *type;
    if (layout->kind != IG_LAYOUT_SPLIT) return local;
    ig_dim factors[] = {layout->outer, ig_layout_part(dims, layout, ranks, rank), layout->inner};
    local.dim[layout->axis] = ig_dim_product(dims, factors, 3);
    return local;
}

const char *ig_layout_text(struct ig_job *job, const struct ig_dims *dims, const struct ig_layout *layout) {
    if (layout->kind == IG_LAYOUT_WHOLE) return "whole";
    if (layout->kind == IG_LAYOUT_PARTIAL) return ig_format(job, "%ss", ig_reduction_name(layout->reduction));
    int64_t outer, inner;
    bool has_outer = !ig_dim_is_const(dims, layout->outer, &outer) || outer != 1;
    bool has_inner = !ig_dim_is_const(dims, layout->inner, &inner) || inner != 1;
    return ig_format(job, "axis %d by %s%s%s%s%s", layout->axis, has_outer ? ig_dim_text(dims, layout->outer) : "",
                     has_outer   ? " x ("
                     : has_inner ? "("
                                 : "",
                     ig_dim_text(dims, layout->count), has_outer || has_inner ? ")" : "",
                     has_inner ? ig_format(job, " x %s", ig_dim_text(dims, layout->inner)) : "");
}
