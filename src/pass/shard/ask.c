/* Layouts that the user asks for; see ask.h. */
#include "pass/shard/ask.h"

#include <string.h>

#include "base/map.h"
#include "ir/build.h"
#include "pass/pattern.h"

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

static bool parse_how(const char *word, struct ig_shard_ask *ask) {
    static const struct {
        const char *word;
        enum ig_shard_how how;
    } words[] = {{"auto", IG_SHARD_AUTO},  {"whole", IG_SHARD_WHOLE},     {"divided", IG_SHARD_DIVIDED},
                 {"batch", IG_SHARD_AXIS}, {"columns", IG_SHARD_COLUMNS}, {"rows", IG_SHARD_ROWS}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i].word) != 0) continue;
        ask->how = words[i].how;
        return true;
    }
    bool digit = strncmp(word, "axis", 4) == 0 && word[4] >= '0' && word[4] < '0' + INGOT_MAX_RANK && !word[5];
    ask->how = IG_SHARD_AXIS;
    ask->axis = digit ? word[4] - '0' : 0;
    return digit;
}

void ig_shard_asks_parse(struct ig_job *job, const char *const *texts, size_t count, struct ig_shard_asks *out) {
    *out = (struct ig_shard_asks){.list = IG_NEW_ARRAY(job, struct ig_shard_ask, count + 1), .count = count};
    for (size_t i = 0; i < count; i++) {
        const char *text = texts[i], *equals = text ? strrchr(text, '=') : NULL;
        out->list[i] = (struct ig_shard_ask){.text = text};
        if (!equals || equals == text || !parse_how(equals + 1, &out->list[i]))
            ig_raise(job, INGOT_INVALID_ARGUMENT,
                     "shard '%s': expected PATTERN=HOW, where HOW is auto, whole, divided, batch, columns, rows or "
                     "axis0 to axis%d",
                     text ? text : "(null)", INGOT_MAX_RANK - 1);
        out->list[i].length = (size_t)(equals - text);
    }
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

static bool is_computed(const struct ig_graph *g, const struct ig_node *n) {
    return n->origin && n->n_out > 0 && !ig_info(g, n->out)->is_const;
}

static bool is_product(const struct ig_node *n) {
    return ig_op_info(n->op)->family == IG_FAMILY_CONTRACT;
}

static bool has_rows(const struct ig_node *n) {
    return is_product(n) || n->op == IG_OP_gather;
}

/* The last one that fits counts. */
static struct ig_shard_ask *ask_of(const struct ig_shard_asks *asks, const char *origin) {
    for (size_t i = asks->count; i-- > 0;) {
        if (ig_pattern_fits(asks->list[i].text, asks->list[i].length, origin)) return &asks->list[i];
    }
    return NULL;
}

/* The nodes that an ONNX node became. */
struct origin {
    bool has_product;
    ig_node_id last;
};

/* By node. */
static struct origin **find_origins(const struct ig_graph *g) {
    struct origin **of = IG_NEW_ARRAY(g->job, struct origin *, g->nodes.count + 1);
    struct ig_map known;
    ig_map_init(&known, g->job);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        uint32_t first = id;
        if (!is_computed(g, n)) continue;
        if (!ig_map_get_name(&known, n->origin, &first)) {
            ig_map_put_name(&known, n->origin, id);
            of[id] = IG_NEW(g->job, struct origin);
        }
        of[id] = of[first];
        of[id]->has_product |= is_product(n);
        of[id]->last = id;
    }
    return of;
}

static bool fits_computed(const struct ig_graph *g, const char *pattern, size_t length) {
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (is_computed(g, n) && ig_pattern_fits(pattern, length, n->origin)) return true;
    }
    return false;
}

bool ig_shard_ask_has_nodes(const char *text, const struct ig_graph *g) {
    return fits_computed(g, text, (size_t)(strrchr(text, '=') - text));
}

static void check_match(const struct ig_shard_ask *ask, const struct ig_graph *g) {
    if (!ig_pattern_fits_some_node(ask->text, ask->length, g))
        ig_raise(g->job, INGOT_INVALID_ARGUMENT, "shard '%s': the model has no such node", ask->text);
    if (fits_computed(g, ask->text, ask->length)) return; /* a later ask has it */
    if (ask->how != IG_SHARD_AUTO && ask->how != IG_SHARD_WHOLE)
        ig_raise(g->job, INGOT_INVALID_ARGUMENT,
                 "shard '%s': such nodes are constant, or in control flow, which every rank computes whole", ask->text);
}

void ig_shard_asks_bind(struct ig_shard_asks *asks, const struct ig_graph *g) {
    if (asks->count == 0) return;
    struct origin **origins = find_origins(g);
    asks->of = IG_NEW_ARRAY(g->job, const struct ig_shard_ask *, g->nodes.count + 1);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        struct ig_shard_ask *ask = is_computed(g, n) ? ask_of(asks, n->origin) : NULL;
        if (!ask) continue;
        bool stands = origins[id]->has_product ? is_product(n) : origins[id]->last == id;
        ask->nodes += stands;
        if (ask->how != IG_SHARD_AUTO && (stands || ask->how == IG_SHARD_WHOLE)) asks->of[id] = ask;
    }
    for (size_t i = 0; i < asks->count; i++) {
        if (asks->list[i].nodes == 0) check_match(&asks->list[i], g);
    }
}

int ig_shard_columns(const struct ig_graph *g, const struct ig_node *n) {
    if (!is_product(n)) return -1;
    bool image = n->op == IG_OP_conv && !ig_attr_int(g, n, IG_ATTR_channels_last);
    return image ? 1 : ig_type_of(g, n->out)->rank - 1;
}

/* ---- Divisions --------------------------------------------------------------------------------------------------- */

/* Operands that are terms of sums cannot be had from any state of the others, so divisions of such are not what is asked. */
static bool reads_terms(const struct ig_node *n, const struct ig_division *d) {
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (d->in[i].kind == IG_LAYOUT_PARTIAL) return true;
    }
    return false;
}

bool ig_shard_asks_allow(const struct ig_shard_asks *asks, const struct ig_graph *g, ig_node_id id,
                         const struct ig_division *d) {
    const struct ig_shard_ask *ask = asks && asks->of ? asks->of[id] : NULL;
    const struct ig_node *n = &g->nodes.at[id];
    if (!ask) return true;
    if (ask->how == IG_SHARD_WHOLE || !d) return ask->how == IG_SHARD_WHOLE && !d;
    if (reads_terms(n, d)) return false;
    switch (ask->how) {
    case IG_SHARD_AXIS: return d->out[0].kind == IG_LAYOUT_SPLIT && d->out[0].axis == ask->axis;
    case IG_SHARD_COLUMNS: return d->out[0].kind == IG_LAYOUT_SPLIT && d->out[0].axis == ig_shard_columns(g, n);
    case IG_SHARD_ROWS: return has_rows(n) && d->out[0].kind == IG_LAYOUT_PARTIAL;
    default: return true;
    }
}

static const char *reason(const struct ig_shard_ask *ask, struct ig_graph *g, const struct ig_node *n, int ranks) {
    const struct ig_type *out = ig_type_of(g, n->out);
    int axis = ask->how == IG_SHARD_COLUMNS ? ig_shard_columns(g, n) : ask->axis;
    int64_t size;
    if (ask->how == IG_SHARD_COLUMNS && !is_product(n)) return "it is neither a product nor a convolution";
    if (ask->how == IG_SHARD_ROWS && !has_rows(n)) return "it is neither a product nor a convolution nor a gather";
    if (ask->how == IG_SHARD_ROWS || ask->how == IG_SHARD_DIVIDED)
        return ig_format(g->job, "no rule of %s divides these sizes among %d ranks", ig_op_info(n->op)->name, ranks);
    if (axis >= out->rank) return ig_format(g->job, "its result has %d axes", out->rank);
    if (ig_dim_is_const(g->dims, out->dim[axis], &size) && size < ranks)
        return ig_format(g->job, "axis %d of its result has %lld elements for %d ranks", axis, (long long)size, ranks);
    return ig_format(g->job, "no rule of %s divides axis %d of its result", ig_op_info(n->op)->name, axis);
}

void ig_shard_ask_fail(const struct ig_shard_ask *ask, struct ig_graph *g, ig_node_id id, int ranks) {
    const struct ig_node *n = &g->nodes.at[id];
    ig_raise(g->job, INGOT_INVALID_ARGUMENT, "shard '%s': %s cannot be divided so: %s", ask->text, n->origin,
             reason(ask, g, n, ranks));
}
