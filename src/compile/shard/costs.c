/*
 * Times of nodes before anything is fused, so only as good as needed to compare ways to divide them: contractions by the floor
 * of base/machine.h, what surrounds them by a part of its traffic, since most of it will be fused.
 */
#include "compile/shard/costs.h"

#include <math.h>

#include "compile/shard/links.h"
#include "ir/build.h"
#include "kernel/cost.h"

/*
 * What kernels take beyond the floor: that many times it, and so many microseconds each. For GPUs, both follow from the cost
 * models of the kernels of bert_base, gpt2, vit_b_16, resnet50 and a Llama-like stack on an H200, one to 32 samples.
 */
struct beyond {
    double times, each;
};
static const struct beyond beyond_gpu = {1.2, 2.5}, beyond_cpu = {1.2, 0.5};

/* Of a rank on a CPU: what is decided must not depend on the machine that builds. */
enum { THREADS = 8 };

/* Of an elementwise node's traffic, that which remains when neighbours are fused. */
#define IG_FUSED_TRAFFIC 0.3

struct costs {
    struct ig_graph *g;
    struct ig_machine machine;
    const struct beyond *beyond;
    const struct ig_link *link;
    struct ig_sizes at;
    double far; /* the share of weights that comes from memory, not from a cache */
    bool narrow;
};

static double elements(const struct costs *c, ig_value v) {
    const struct ig_type *type = ig_type_of(c->g, v);
    double count = 1;
    for (int i = 0; i < type->rank; i++)
        count *= (double)ig_sizes_guess(&c->at, type->dim[i]);
    return count;
}

static double bytes_of(const struct costs *c, ig_value v) {
    enum ingot_dtype dtype = ig_type_of(c->g, v)->dtype;
    double size = (double)ingot_dtype_size(dtype);
    return elements(c, v) * (c->narrow && dtype == INGOT_F32 ? 2 : size);
}

/* Products of one element of the result. */
static double depth_of(const struct costs *c, const struct ig_node *n) {
    const struct ig_type *in = ig_type_of(c->g, n->in[0]);
    if (n->op != IG_OP_conv) return (double)ig_sizes_guess(&c->at, in->dim[in->rank - 1]);
    return elements(c, n->in[1]) / fmax(1, (double)ig_attr_int(c->g, n, IG_ATTR_n));
}

static enum ig_unit unit_of(const struct costs *c, const struct ig_node *n) {
    switch (ig_type_of(c->g, n->in[0])->dtype) {
    case INGOT_F64: return IG_UNIT_F64;
    case INGOT_F16: return IG_UNIT_F16;
    case INGOT_BF16: return IG_UNIT_BF16;
    case INGOT_I8:
    case INGOT_U8: return IG_UNIT_I8;
    default: return c->narrow ? IG_UNIT_F16 : IG_UNIT_F32;
    }
}

static int ranks_of(const struct ig_graph *g, const struct ig_node *n) {
    bool divides = n->op == IG_OP_all_gather || n->op == IG_OP_reduce_scatter;
    return divides ? ig_attr(g, n, IG_ATTR_parts)->count : (int)ig_attr_int(g, n, IG_ATTR_ranks);
}

static double node_time(void *user, struct ig_graph *g, ig_node_id id, const double *in, const double *out,
                        double work) {
    const struct costs *c = user;
    const struct ig_node *n = &g->nodes.at[id];
    enum ig_family family = ig_op_info(n->op)->family;
    double weights = 0, others = 0, results = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE) continue;
        double bytes = bytes_of(c, n->in[i]) * in[i];
        if (ig_info(g, n->in[i])->is_const)
            weights += bytes;
        else
            others += bytes;
    }
    for (uint32_t i = 0; i < n->n_out; i++)
        results += bytes_of(c, n->out + i) * out[i];
    switch (family) {
    case IG_FAMILY_SOURCE: return 0;
    case IG_FAMILY_COLLECTIVE: return ig_link_time(c->link, n->op, fmax(others, results), ranks_of(g, n));
    case IG_FAMILY_VIEW: return n->op == IG_OP_concat || n->op == IG_OP_gather ? results / c->machine.cache : 0;
    case IG_FAMILY_MAP:
    case IG_FAMILY_ROW: return IG_FUSED_TRAFFIC * (others + results) / c->machine.cache;
    case IG_FAMILY_CONTRACT: {
        double operations = elements(c, n->out) * depth_of(c, n) * work;
        double reading = weights * c->far / c->machine.memory + (weights + others + results) / c->machine.cache;
        return c->beyond->times * fmax(operations / c->machine.rate[unit_of(c, n)], reading) + c->beyond->each;
    }
    default: return weights / c->machine.memory + (others + results) / c->machine.cache + c->beyond->each;
    }
}

static double collective_time(void *user, enum ig_op op, double bytes, int ranks) {
    const struct costs *c = user;
    return ig_link_time(c->link, op, c->narrow ? bytes / 2 : bytes, ranks);
}

static int64_t size_of(void *user, ig_dim dim) {
    const struct costs *c = user;
    return ig_sizes_guess(&c->at, dim);
}

struct ig_shard_costs ig_shard_costs_open(struct ig_graph *g, const struct ig_target *target, bool narrow) {
    struct costs *c = IG_NEW(g->job, struct costs);
    *c = (struct costs){.g = g,
                        .machine = ig_target_machine(target, THREADS),
                        .beyond = ig_target_is_cuda(target) ? &beyond_gpu : &beyond_cpu,
                        .link = ig_link_of(target),
                        .narrow = narrow};
    double weights = 0;
    ig_sizes_usual(g->dims, g->job, &c->at);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_op_info(n->op)->family == IG_FAMILY_CONTRACT && ig_info(g, n->in[1])->is_const)
            weights += bytes_of(c, n->in[1]);
    }
    c->far = weights > c->machine.cache_bytes ? 1 - c->machine.cache_bytes / weights : 0;
    return (struct ig_shard_costs){node_time, collective_time, size_of, c};
}
