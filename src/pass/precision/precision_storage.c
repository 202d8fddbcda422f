/*
 * Chooses the storage type of each value where the precision requests a narrow one: a sweep from results to operands
 * finds what must stay wide for its readers, one from operands to results decides.
 *
 * Only what lies in memory between two regions matters: inside a region everything is computed in f32. Views have the
 * type of their operand; a concatenation is narrow if all its parts are.
 */
#include "ir/build.h"
#include "pass/precision/precision.h"

struct sweep {
    struct ig_graph *g;
    const struct ig_target *target;
    const struct ig_precisions *precisions;
    const struct ig_range *ranges;
    const char **demand; /* by value: why a reader needs it wide; NULL: none does */
    bool *stored;        /* by value */
    struct ig_storage *storage;
};

/* ---- Readers ----------------------------------------------------------------------------------------------------- */

/* Why a node needs wide operands; NULL: it does not. What one rank sends to others must be as wide on all, and they do not know
 * its range: a pipeline's stages have been told (pass/shard/stage.h). */
static const char *demand_of(const struct ig_graph *g, const struct ig_node *n) {
    if (ig_gathers_from_one(g, n)) return "sent to another rank";
    switch (ig_op_info(n->op)->family) {
    case IG_FAMILY_SCAN: return "read by a recurrence";
    case IG_FAMILY_REST: return "ordered or scattered";
    case IG_FAMILY_CONTROL: return "read by control flow";
    default: break;
    }
    switch (n->op) {
    case IG_OP_argmax:
    case IG_OP_argmin: return "ordered or scattered";
    case IG_OP_eq:
    case IG_OP_lt:
    case IG_OP_le: return "compared";
    default: return NULL;
    }
}

/* Does it move its operands as they are, or narrow as they are? A collective's result is as narrow as its operand: what is
 * exchanged is what takes its time. */
static bool is_movement(const struct ig_node *n) {
    return ig_op_info(n->op)->family == IG_FAMILY_VIEW || ig_op_is_collective(n->op);
}

static void find_demands(struct sweep *s) {
    struct ig_graph *g = s->g;
    for (uint32_t i = 0; i < g->outputs.count; i++)
        s->demand[g->outputs.at[i].value] = "an output";
    for (ig_node_id id = g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        const char *own = demand_of(g, n);
        bool moves = is_movement(n);
        for (uint32_t i = 0; i < n->n_in; i++) {
            if (n->in[i] == IG_NO_VALUE) continue;
            if (own) s->demand[n->in[i]] = own;
            if (moves && s->demand[n->out]) s->demand[n->in[i]] = s->demand[n->out];
        }
    }
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static bool is_wide_float(const struct sweep *s, ig_value v) {
    return ig_type_of(s->g, v)->dtype == INGOT_F32;
}

static struct ig_storage wide(const char *reason) {
    return (struct ig_storage){INGOT_DTYPE_NONE, reason};
}

/* Is n an embedding: a gather from a weight of at least two dims? */
static bool is_table(const struct sweep *s, const struct ig_node *n) {
    return n->op == IG_OP_gather && ig_info(s->g, n->in[0])->is_refittable && ig_type_of(s->g, n->in[0])->rank >= 2;
}

/* How many leading operands a movement moves; the others are indices, or the padding value. */
static uint32_t moved_operands(const struct ig_node *n) {
    return n->op == IG_OP_concat ? n->n_in : 1;
}

/* Is v computed by the region that moves it, as it moves it? Then it is rounded to any type. */
static bool computed_on_the_way(const struct sweep *s, const struct ig_node *n, ig_value v) {
    const struct ig_node *producer = ig_def(s->g, v);
    return n->op == IG_OP_concat && producer && n->region != IG_NO_REGION && producer->region == n->region &&
           ig_op_info(producer->op)->family != IG_FAMILY_VIEW && is_wide_float(s, v) && !s->ranges[v].large &&
           !s->ranges[v].statistic;
}

/* Why no range of v, or reader, is narrow enough; NULL: all are. */
static const char *reason_of(const struct sweep *s, ig_value v) {
    const struct ig_range *r = &s->ranges[v];
    if (s->demand[v]) return s->demand[v];
    if (r->rounded) return "rounded to integers";
    if (r->statistic) return "a statistic";
    if (r->small) return "small numbers matter";
    return r->large ? "large or exact numbers" : NULL;
}

/* Is it worth it, or ordered, to store the node's results in the type? What is asked as f32 moves what others ask for. */
static bool gains(const struct sweep *s, const struct ig_node *n, enum ingot_dtype asked) {
    return asked == INGOT_F32 || ig_precision_gains_stored(s->target, asked) ||
           ig_precision_is_ordered(s->precisions, n->origin);
}

/* A movement stores the type of its moved operands if all have the same; constants fit any type. */
static struct ig_storage storage_of_movement(const struct sweep *s, const struct ig_node *n, enum ingot_dtype asked) {
    enum ingot_dtype found = is_table(s, n) ? asked : INGOT_DTYPE_NONE;
    if (s->demand[n->out]) return wide(s->demand[n->out]);
    if (ig_gathers_from_one(s->g, n)) return wide("sent to another rank");
    if (!gains(s, n, asked)) return wide(NULL);
    if (s->ranges[n->out].rounded) return wide("rounded to integers");
    if (s->ranges[n->out].small) return wide("small numbers matter");
    for (uint32_t i = 0; i < moved_operands(n); i++) {
        ig_value v = n->in[i];
        if (ig_info(s->g, v)->is_const) {
            if (s->ranges[v].large) return wide("large or exact numbers");
            continue;
        }
        enum ingot_dtype part = computed_on_the_way(s, n, v) ? asked : s->storage[v].dtype;
        if (part == INGOT_DTYPE_NONE || (found != INGOT_DTYPE_NONE && found != part)) return wide(s->storage[v].reason);
        found = part;
    }
    return found == INGOT_F32 ? wide(NULL) : (struct ig_storage){found, NULL};
}

/* Can the region's kernel narrow what it stores? Only families that end with elementwise computation can. */
static bool converts(const struct sweep *s, const struct ig_node *n) {
    if (n->region == IG_NO_REGION) return false;
    switch (s->g->regions.at[n->region].family) {
    case IG_FAMILY_MAP:
    case IG_FAMILY_ROW:
    case IG_FAMILY_ATTEND:
    case IG_FAMILY_CONTRACT: return true;
    case IG_FAMILY_WINDOW: return n->op != IG_OP_pool_argmax;
    default: return false;
    }
}

static struct ig_storage storage_of_node(const struct sweep *s, const struct ig_node *n, ig_value v) {
    enum ingot_dtype asked = ig_precision_dtype(ig_precision_of(s->precisions, n->origin));
    if (is_movement(n)) return storage_of_movement(s, n, asked);
    if (asked == INGOT_F32 || !s->stored[v]) return wide(NULL);
    if (!converts(s, n)) return wide("the result of a recurrence, an order or control flow");
    const char *reason = reason_of(s, v);
    if (!reason && !gains(s, n, asked)) reason = "f32 is as fast";
    return reason ? wide(reason) : (struct ig_storage){asked, NULL};
}

/* If an attention stores its results transposed, the transpose takes the type decided for its operand: marks that as
 * stored. */
static void mark_ordered_results(struct sweep *s) {
    for (uint32_t r = 0; r < s->g->regions.count; r++) {
        const struct ig_region *region = &s->g->regions.at[r];
        for (uint32_t i = 0; region->family == IG_FAMILY_ATTEND && i < region->outputs.count; i++) {
            const struct ig_node *n = ig_def_op(s->g, region->outputs.at[i], IG_OP_transpose);
            if (n) s->stored[n->in[0]] = true;
        }
    }
}

static struct sweep begin(struct ig_graph *g, const struct ig_target *target, const struct ig_precisions *precisions,
                          const struct ig_range *ranges) {
    struct sweep s = {.g = g, .target = target, .precisions = precisions, .ranges = ranges};
    s.demand = IG_NEW_ARRAY(g->job, const char *, g->values.count + 1);
    find_demands(&s);
    return s;
}

enum ingot_dtype *ig_precision_sent(struct ig_graph *g, const struct ig_target *target,
                                    const struct ig_precisions *precisions, const struct ig_range *ranges) {
    const struct sweep s = begin(g, target, precisions, ranges);
    enum ingot_dtype *sent = IG_NEW_ARRAY(g->job, enum ingot_dtype, g->values.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        const enum ingot_dtype asked = ig_precision_dtype(ig_precision_of(precisions, n->origin));
        if (asked == INGOT_F32 || !gains(&s, n, asked)) continue;
        for (ig_value v = n->out; v < n->out + n->n_out; v++) {
            if (is_wide_float(&s, v) && !reason_of(&s, v)) sent[v] = asked;
        }
    }
    return sent;
}

struct ig_storage *ig_precision_storage(struct ig_graph *g, const struct ig_target *target,
                                        const struct ig_precisions *precisions, const struct ig_range *ranges) {
    struct sweep s = begin(g, target, precisions, ranges);
    s.stored = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    s.storage = IG_NEW_ARRAY(g->job, struct ig_storage, g->values.count + 1);
    for (uint32_t r = 0; r < g->regions.count; r++) {
        for (uint32_t i = 0; i < g->regions.at[r].outputs.count; i++)
            s.stored[g->regions.at[r].outputs.at[i]] = true;
    }
    mark_ordered_results(&s);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        for (uint32_t o = 0; o < n->n_out; o++) {
            ig_value v = n->out + o;
            if (is_wide_float(&s, v) && !ig_info(g, v)->is_const) s.storage[v] = storage_of_node(&s, n, v);
        }
    }
    return s.storage;
}
