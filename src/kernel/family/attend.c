/* Attention: chooses among its schedules, and has the fallback that always applies. The problem is in
 * attend_problem.c. */
#include "kernel/family/attend.h"

#include <math.h>

#include "ir/place.h"
#include "kernel/cpu/attend.h"
#include "kernel/cuda/attend/attend.h"
#include "kernel/schedules.h"

static ig_x num(struct ig_attention *a, int64_t i) {
    return ig_x_index(a->k, i);
}

static ig_x dim(struct ig_attention *a, ig_dim d) {
    return ig_x_dim(a->k, d);
}

static ig_dim constant(struct ig_attention *a, int64_t i) {
    return ig_dim_const(a->graph->dims, i);
}

static ig_x f32(struct ig_attention *a, double x) {
    return ig_x_float(a->k, INGOT_F32, x);
}

static struct ig_stmt *loop(struct ig_attention *a, struct ig_stmt *body, enum ig_for_kind kind, ig_dim hi,
                            ig_x *out_var) {
    return ig_s_for(a->k, body, kind, num(a, 0), dim(a, hi), num(a, 1), out_var);
}

/* ---- Fallback: one query at a time ------------------------------------------------------------------------------- */

static void plain_scores(struct ig_attention *a, struct ig_stmt *body, const ig_x *head, ig_x query, int weights) {
    struct ig_loops *k = a->k;
    ig_x key, depth;
    body = loop(a, body, IG_FOR_SIMD, a->keys, &key);
    int dot = ig_s_acc(k, body, INGOT_F32, f32(a, 0));
    struct ig_stmt *inner = loop(a, body, IG_FOR_SERIAL, a->depth, &depth);
    ig_x q = ig_x_cast(k, ig_attention_query(a, head, query, depth), INGOT_F32, false);
    ig_x other = ig_x_cast(k, ig_attention_key(a, head, key, depth), INGOT_F32, false);
    ig_s_update(k, inner, dot, IG_OP_add, ig_x_map2(k, IG_OP_mul, q, other));
    ig_x score = ig_attention_changed(a, head, query, key, ig_x_acc(k, dot, INGOT_F32));
    ig_s_store(k, body, weights, key, score);
}

/* Replaces scores by exp(score - maximum); returns the accumulator of their sum. */
static int plain_weights(struct ig_attention *a, struct ig_stmt *body, int weights) {
    struct ig_loops *k = a->k;
    ig_x key;
    int most = ig_s_acc(k, body, INGOT_F32, f32(a, -INFINITY));
    struct ig_stmt *each = loop(a, body, IG_FOR_SIMD, a->keys, &key);
    ig_s_update(k, each, most, IG_OP_max, ig_x_load(k, weights, key));
    int total = ig_s_acc(k, body, INGOT_F32, f32(a, 0));
    each = loop(a, body, IG_FOR_SIMD, a->keys, &key);
    ig_x base = ig_x_acc(k, most, INGOT_F32);
    if (a->parts.guarded) base = ig_x_select(k, ig_x_map2(k, IG_OP_eq, base, f32(a, -INFINITY)), f32(a, 0), base);
    ig_x apart = ig_x_map2(k, IG_OP_sub, ig_x_load(k, weights, key), base);
    ig_s_store(k, each, weights, key, ig_x_map1(k, IG_OP_exp, apart));
    ig_s_update(k, each, total, IG_OP_add, ig_x_load(k, weights, key));
    return total;
}

static void plain(struct ig_attention *a) {
    struct ig_loops *k = a->k;
    struct ig_dims *dims = a->graph->dims;
    ig_dim lines = ig_dim_ceil_div(dims, a->keys, constant(a, 16));
    a->kernel->scratch_bytes = ig_dim_mul(dims, lines, constant(a, 64));
    a->kernel->tiles = ig_dim_mul(dims, a->heads, a->queries);
    a->kernel->tactic = "attend plain";
    int weights = ig_loops_scratch(k, INGOT_F32, num(a, 0), "weights");
    ig_x tile, key, column, head[INGOT_MAX_RANK];
    struct ig_stmt *body = loop(a, NULL, IG_FOR_TILE, a->kernel->tiles, &tile);
    ig_x query = ig_x_split_off(a->k, &tile, a->queries);
    ig_attention_head(a, tile, head);
    plain_scores(a, body, head, query, weights);
    int total = plain_weights(a, body, weights);
    body = loop(a, body, IG_FOR_SIMD, a->columns, &column);
    int sum = ig_s_acc(k, body, INGOT_F32, f32(a, 0));
    struct ig_stmt *each = loop(a, body, IG_FOR_SERIAL, a->keys, &key);
    ig_x value = ig_x_cast(k, ig_attention_value(a, head, key, column), INGOT_F32, false);
    ig_x weight = ig_x_load(k, weights, key);
    weight = ig_x_select(k, ig_x_map1(k, IG_OP_isnan, weight), f32(a, 0), weight);
    ig_s_update(k, each, sum, IG_OP_add, ig_x_map2(k, IG_OP_mul, weight, value));
    ig_x result = ig_attention_result(a, ig_x_acc(k, sum, INGOT_F32), ig_x_acc(k, total, INGOT_F32));
    ig_attention_store(a, body, head, query, column, result);
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static struct ig_attention *begin(struct ig_graph *graph, const struct ig_region *region,
                                  const struct ig_target *target, const struct ig_sizes *at) {
    struct ig_attention *a = IG_NEW(graph->job, struct ig_attention);
    *a = (struct ig_attention){.graph = graph, .region = region, .target = target, .at = at};
    a->kernel = IG_NEW(graph->job, struct ig_kernel);
    a->kernel->family = IG_FAMILY_ATTEND;
    a->kernel->loops = a->k = ig_loops_create(graph->job, graph->dims);
    a->kernel->scratch_bytes = ig_dim_const(graph->dims, 0);
    ig_lower_init(&a->lower, a->k, graph, region);
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        /* Masks that are a function of the position are computed, not read. */
        if (ig_follows_from_place(graph, region->inputs.at[i])) a->lower.is_input[region->inputs.at[i]] = false;
    }
    ig_attention_read(a);
    struct ig_dims *dims = graph->dims;
    ig_dim products = ig_dim_mul(dims, ig_dim_mul(dims, a->heads, a->queries), a->keys);
    ig_dim each = ig_dim_ceil_div(dims, ig_dim_add(dims, a->depth, a->columns), constant(a, 8));
    a->kernel->work = ig_dim_mul(dims, products, each);
    return a;
}

ig_dim ig_attention_count_scores(struct ig_graph *graph, const struct ig_region *region) {
    struct ig_attention *a = begin(graph, region, NULL, NULL);
    struct ig_loops *k = a->k;
    struct ig_dims *dims = graph->dims;
    ig_x query = ig_x_free_var(k, a->queries), key = ig_x_free_var(k, a->keys), rest, head[INGOT_MAX_RANK];
    ig_x score = ig_x_load(k, ig_loops_scratch(k, INGOT_F32, num(a, 0), "scores"), query);
    ig_dim offset, one = constant(a, 1);
    ig_attention_head(a, ig_x_free_var(k, a->heads), head);
    ig_x changed = ig_attention_changed(a, head, query, key, score);
    if (!ig_attention_diagonal(a, changed, score, query, key, &rest, &offset))
        return ig_dim_mul(dims, a->queries, a->keys);
    /* The first `few` queries see offset + 1 keys, offset + 2, …; the others all. */
    ig_dim first = ig_dim_add(dims, offset, one), few = ig_dim_sub(dims, a->keys, first);
    few = ig_dim_max(dims, ig_dim_min(dims, few, a->queries), constant(a, 0));
    ig_dim more = ig_dim_div(dims, ig_dim_mul(dims, few, ig_dim_sub(dims, few, one)), constant(a, 2));
    ig_dim seen = ig_dim_add(dims, ig_dim_mul(dims, few, first), more);
    return ig_dim_add(dims, seen, ig_dim_mul(dims, ig_dim_sub(dims, a->queries, few), a->keys));
}

struct ig_kernel *ig_kernel_attend(struct ig_graph *graph, const struct ig_region *region,
                                   const struct ig_target *target, const struct ig_sizes *at, int choice) {
    struct ig_attention *a = begin(graph, region, target, at);
    bool is_cuda = ig_target_is_cuda(target);
    if (choice != IG_CHOICE_PLAIN && is_cuda && ig_attention_cuda(a, choice) && !a->astray) return a->kernel;
    if (choice > 0) return NULL;
    if (choice != IG_CHOICE_PLAIN && !is_cuda && ig_attention_cpu(a)) return a->kernel;
    a = begin(graph, region, target, at); /* start over: the schedule may have changed it */
    plain(a);
    return a->kernel;
}
