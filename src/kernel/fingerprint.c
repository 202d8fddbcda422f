/*
 * The canonical text of a region: everything that its kernel's text depends on, and nothing else. Values are numbered
 * in order of appearance; dims appear as expressions, because a kernel gets their values as arguments.
 */
#include <string.h>

#include "base/text.h"
#include "ir/place.h"
#include "kernel/kernel.h"
#include "kernel/lower.h"

struct fingerprint {
    struct ig_graph *g;
    struct ig_text text;
    struct ig_map numbers; /* ig_value -> number */
};

static uint32_t number_of(struct fingerprint *f, ig_value v) {
    uint32_t number;
    if (ig_map_get(&f->numbers, &v, sizeof v, &number)) return number;
    ig_map_put(&f->numbers, &v, sizeof v, f->numbers.count);
    return f->numbers.count - 1;
}

static void add_value(struct fingerprint *f, ig_value v) {
    if (v == IG_NO_VALUE) {
        ig_text_add(&f->text, " -");
        return;
    }
    ig_text_printf(&f->text, " %u", number_of(f, v));
}

static void add_type(struct fingerprint *f, ig_value v) {
    ig_text_add(&f->text, ":");
    ig_type_print(f->g->dims, ig_type_of(f->g, v), &f->text);
}

static void add_dim(struct fingerprint *f, ig_dim dim) {
    ig_text_add(&f->text, ",");
    if (dim == IG_DIM_NONE) {
        ig_text_add(&f->text, "?");
    } else {
        ig_dim_print(f->g->dims, dim, &f->text);
    }
}

static void add_attr(struct fingerprint *f, const struct ig_attr *a) {
    ig_text_add(&f->text, ";");
    for (int i = 0; i < a->count; i++) {
        if (a->kind == IG_KIND_INTS) ig_text_printf(&f->text, ",%lld", (long long)a->ints[i]);
        if (a->kind == IG_KIND_FLOATS) ig_text_printf(&f->text, ",%a", a->floats[i]);
        if (a->kind == IG_KIND_DIMS) add_dim(f, a->dims[i]);
    }
    if (a->kind == IG_KIND_INT || a->kind == IG_KIND_DTYPE) ig_text_printf(&f->text, "%lld", (long long)a->i);
    if (a->kind == IG_KIND_FLOAT) ig_text_printf(&f->text, "%a", a->f);
    if (a->kind == IG_KIND_DIM) add_dim(f, a->dim);
}

/* A literal's value is part of the kernel's text: its bits. */
static void add_literal(struct fingerprint *f, ig_value v) {
    const struct ig_value_info *info = ig_info(f->g, v);
    if (!info->is_const) {
        add_dim(f, info->elements[0]);
        return;
    }
    struct ingot_tensor t = ig_const_tensor(f->g, v);
    ig_text_add(&f->text, "=");
    for (size_t i = 0; i < ingot_dtype_size(t.dtype); i++)
        ig_text_printf(&f->text, "%02x", ((const unsigned char *)t.data)[i]);
    ig_const_release(f->g, v, &t);
}

static void add_node(struct fingerprint *f, const struct ig_node *n) {
    const struct ig_op_info *info = ig_op_info(n->op);
    ig_text_add(&f->text, info->name);
    for (uint32_t i = 0; i < n->n_in; i++) {
        add_value(f, n->in[i]);
        /* Small index tensors and pads are literals too: kernels depend on their symbolic contents. */
        if (n->in[i] != IG_NO_VALUE && ig_lower_is_literal(f->g, n->in[i])) add_literal(f, n->in[i]);
    }
    for (int i = 0; i < info->n_attrs; i++)
        add_attr(f, &n->attr[i]);
    ig_text_add(&f->text, " ->");
    for (uint32_t o = 0; o < n->n_out; o++) {
        add_value(f, n->out + o);
        add_type(f, n->out + o);
    }
    ig_text_add(&f->text, "\n");
}

static void add_dim_range(void *user, ig_dim symbol) {
    struct fingerprint *f = user;
    int64_t lo, hi;
    ig_dim_range(f->g->dims, symbol, &lo, &hi);
    ig_text_printf(&f->text, " %s:%lld:%lld", ig_dim_text(f->g->dims, symbol), (long long)lo, (long long)hi);
}

/* The definitions of constants that attention computes by itself. */
static void add_definition(struct fingerprint *f, ig_value v) {
    const struct ig_node *n = ig_def(f->g, v);
    if (!n || ig_lower_is_literal(f->g, v)) return;
    if (n->op == IG_OP_constant) ig_text_printf(&f->text, "counts %d ", ig_counted_axis(f->g, v));
    for (uint32_t i = 0; i < n->n_in; i++)
        add_definition(f, n->in[i]);
    add_node(f, n);
}

const char *ig_region_fingerprint(struct ig_graph *graph, const struct ig_region *region,
                                  const struct ig_target *target) {
    struct fingerprint f = {.g = graph};
    /* Kernels that wait for the preceding kernel by themselves prefetch constants first. */
    bool reads_early = region->family == IG_FAMILY_CONTRACT || region->family == IG_FAMILY_ROW;
    bool constants_count = ig_target_has_early_start(target) && reads_early;
    ig_text_init(&f.text, graph->job);
    ig_map_init(&f.numbers, graph->job);
    ig_text_printf(&f.text, "%d %d %d %d %d%s\n", (int)region->family, (int)target->isa, target->vector_bytes,
                   target->vector_registers, target->sm, target->sm_own ? "a" : "");
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        ig_value v = region->inputs.at[i];
        add_value(&f, v);
        add_type(&f, v);
        if (constants_count && ig_info(graph, v)->is_const) ig_text_add(&f.text, " constant");
        if (ig_lower_is_literal(graph, v)) add_literal(&f, v);
        if (region->family == IG_FAMILY_ATTEND && ig_follows_from_place(graph, v)) add_definition(&f, v);
        /* The time of a contraction depends on whether its operands are weights, and so may the choice of its
         * kernel. */
        if (region->family == IG_FAMILY_CONTRACT && ig_info(graph, v)->is_const) ig_text_add(&f.text, " constant");
        const struct ig_type *type = ig_type_of(graph, v);
        for (int d = 0; d < type->rank; d++)
            ig_dim_symbols(graph->dims, type->dim[d], add_dim_range, &f);
        ig_text_add(&f.text, "\n");
    }
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        if (region->nodes.at[i] == region->anchor) ig_text_add(&f.text, "anchor ");
        add_node(&f, &graph->nodes.at[region->nodes.at[i]]);
    }
    for (uint32_t i = 0; i < region->outputs.count; i++)
        add_value(&f, region->outputs.at[i]);
    return f.text.at;
}
