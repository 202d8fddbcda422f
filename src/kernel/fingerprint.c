/*
 * The canonical text of a region: everything that its kernel's text and the choice of its kernel depend on, and nothing
 * else. Values and symbols are numbered in the order of a walk that does not depend on the order of nodes
 * (ir/canonical.h); sizes appear as expressions, because a kernel gets their values as arguments.
 *
 *     contract on cuda, 64 bytes, 32 registers, sm_90a
 *     input 0: f16[s0,128,768]
 *     input 1: f16[768,3072] constant
 *     2 = matmul(0, 1) {acc=f32, packed=0, n=3072, math=0}: f16[s0,128,3072], anchor
 *     output 2
 *     symbol s0: 1 to 32, usually 8
 */
#include <string.h>

#include "base/map.h"
#include "ir/canonical.h"
#include "ir/part.h"
#include "ir/place.h"
#include "kernel/kernel.h"

struct fingerprint {
    struct ig_graph *g;
    const struct ig_region *region;
    struct ig_canon canon;
    struct ig_text text;
    struct ig_map numbers; /* ig_value -> number */
};

static uint32_t number_of(struct fingerprint *f, ig_value v) {
    uint32_t number;
    if (ig_map_get(&f->numbers, &v, sizeof v, &number)) return number;
    ig_map_put(&f->numbers, &v, sizeof v, f->numbers.count);
    return f->numbers.count - 1;
}

static void add_type(struct fingerprint *f, ig_value v) {
    ig_text_add(&f->text, ": ");
    ig_canon_type(&f->canon, ig_type_of(f->g, v), &f->text);
}

static void add_operand(struct fingerprint *f, ig_value v) {
    if (v == IG_NO_VALUE) {
        ig_text_add(&f->text, "-");
        return;
    }
    ig_text_printf(&f->text, "%u", number_of(f, v));
    /* Small index tensors and pads are literals too: kernels depend on their symbolic contents. */
    if (ig_is_literal(f->g, v)) ig_canon_literal(&f->canon, v, &f->text);
}

/* "7 = add(2, 6): f32[s0,64]" */
static void add_node(struct fingerprint *f, const struct ig_node *n) {
    for (uint32_t o = 0; o < n->n_out; o++)
        ig_text_printf(&f->text, "%s%u", o ? ", " : "", number_of(f, n->out + o));
    ig_text_printf(&f->text, " = %s(", ig_op_info(n->op)->name);
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (i > 0) ig_text_add(&f->text, ", ");
        add_operand(f, n->in[i]);
    }
    ig_text_add(&f->text, ")");
    ig_canon_attrs(&f->canon, n, &f->text);
    for (uint32_t o = 0; o < n->n_out; o++)
        add_type(f, n->out + o);
}

/* The definitions of constants that attention computes by itself. */
static void add_definition(struct fingerprint *f, ig_value v) {
    const struct ig_node *n = ig_def(f->g, v);
    if (!n || ig_is_literal(f->g, v)) return;
    for (uint32_t i = 0; i < n->n_in; i++)
        add_definition(f, n->in[i]);
    add_node(f, n);
    if (n->op == IG_OP_constant) {
        int64_t first = 0;
        int axis = ig_counted_axis(f->g, v, &first);
        ig_text_printf(&f->text, ", counts along %d from %lld", axis, (long long)first);
    }
    ig_text_add(&f->text, "\n");
}

/* Do kernels of this region depend on whether their operands are constant? The time of a contraction does, and so may
 * the choice of its kernel; and what waits for the preceding kernel by itself prefetches constants first. */
static bool constants_count(const struct ig_region *region, const struct ig_target *target) {
    bool reads_rows = region->family == IG_FAMILY_ROW || region->family == IG_FAMILY_COLLECTIVE;
    return region->family == IG_FAMILY_CONTRACT || (reads_rows && ig_target_has_early_start(target));
}

/* Or on whether they are inputs of the graph, which maps prefetch? */
static bool inputs_count(const struct ig_region *region, const struct ig_target *target) {
    return region->family == IG_FAMILY_MAP && ig_target_has_early_start(target);
}

static void add_inputs(struct fingerprint *f, const struct ig_target *target) {
    for (uint32_t i = 0; i < f->region->inputs.count; i++) {
        ig_value v = f->region->inputs.at[i];
        ig_text_printf(&f->text, "input %u", number_of(f, v));
        add_type(f, v);
        if (ig_info(f->g, v)->is_const && constants_count(f->region, target)) ig_text_add(&f->text, " constant");
        if (inputs_count(f->region, target) && ig_part_is_given(f->g, v)) ig_text_add(&f->text, " given");
        if (ig_is_literal(f->g, v)) ig_canon_literal(&f->canon, v, &f->text);
        ig_text_add(&f->text, "\n");
        if (f->region->family == IG_FAMILY_ATTEND && ig_follows_from_place(f->g, v)) add_definition(f, v);
    }
}

/* The last node of elementwise and row regions, which is their anchor, means nothing. */
static bool is_anchor(const struct ig_region *region, ig_node_id id) {
    return id == region->anchor && region->family != IG_FAMILY_MAP && region->family != IG_FAMILY_ROW;
}

static void add_nodes(struct fingerprint *f, const struct ig_walk *walk) {
    for (uint32_t i = 0; i < walk->nodes.count; i++) {
        add_node(f, &f->g->nodes.at[walk->nodes.at[i]]);
        ig_text_add(&f->text, is_anchor(f->region, walk->nodes.at[i]) ? ", anchor\n" : "\n");
    }
}

static void number_symbols(struct fingerprint *f, const struct ig_walk *walk) {
    for (uint32_t i = 0; i < f->region->inputs.count; i++)
        ig_canon_number(&f->canon, ig_type_of(f->g, f->region->inputs.at[i]));
    for (uint32_t i = 0; i < walk->nodes.count; i++) {
        const struct ig_node *n = &f->g->nodes.at[walk->nodes.at[i]];
        for (uint32_t o = 0; o < n->n_out; o++)
            ig_canon_number(&f->canon, ig_type_of(f->g, n->out + o));
    }
}

static void add_target(struct fingerprint *f, const struct ig_target *t) {
    static const char *const isas[IG_ISA_COUNT] = {"x86-64-v3", "x86-64-v4", "amx", "cuda"};
    ig_text_printf(&f->text, "%s on %s%s, %d bytes, %d registers", ig_family_name(f->region->family), isas[t->isa],
                   t->vnni ? " with VNNI" : "", t->vector_bytes, t->vector_registers);
    if (ig_target_is_cuda(t)) ig_text_printf(&f->text, ", sm_%d%s", t->sm, t->sm_own ? "a" : "");
    ig_text_add(&f->text, "\n");
}

struct ig_fingerprint ig_region_fingerprint(struct ig_graph *graph, const struct ig_region *region,
                                            const struct ig_target *target) {
    struct fingerprint f = {.g = graph, .region = region, .canon = {.graph = graph}};
    struct ig_walk walk;
    ig_text_init(&f.text, graph->job);
    ig_map_init(&f.numbers, graph->job);
    ig_region_walk(graph, region, &walk);
    number_symbols(&f, &walk);
    add_target(&f, target);
    add_inputs(&f, target);
    add_nodes(&f, &walk);
    if (region->pushed) ig_text_printf(&f.text, "pushed to %d ranks\n", region->pushed);
    for (uint32_t i = 0; i < region->outputs.count; i++)
        ig_text_printf(&f.text, "output %u\n", number_of(&f, region->outputs.at[i]));
    for (uint32_t i = 0; i < f.canon.symbols.count; i++) {
        ig_text_printf(&f.text, "symbol s%u: ", i);
        ig_canon_symbol(&f.canon, f.canon.symbols.at[i], &f.text);
        ig_text_add(&f.text, "\n");
    }
    return (struct ig_fingerprint){f.text.at, f.canon.symbols.at, f.canon.symbols.count};
}
