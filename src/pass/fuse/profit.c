/* See profit.h. */
#include "pass/fuse/profit.h"

#include <math.h>
#include <string.h>

#include "ir/canonical.h"
#include "pass/pattern.h"

/* Microseconds of a kernel's start that overlap with the kernel before, and what a kernel costs at least. */
#define OVERLAP 1.5
#define LEAST 0.5
/* What another way than the proposed one may take of its time, and must save in microseconds: estimates may be wrong. */
#define SHARE 0.85
#define SAVING 0.4

#define STORED "stored"

void ig_choices_init(struct ig_choices *choices, struct ig_graph *g) {
    choices->stored = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    choices->apart = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    choices->declined = IG_NEW_ARRAY(g->job, bool, g->nodes.count + 1);
    choices->beneath = choices->is_body = false;
}

double ig_profit_time_of(struct ig_graph *g, const struct ig_pass_options *options, const struct ig_region *region) {
    double time = options->estimator->estimate(options->estimator->user, g, region);
    return time > 0 ? fmax(time - OVERLAP, LEAST) : 0;
}

double ig_profit_time(struct ig_graph *g, const struct ig_pass_options *options, const ig_node_id *nodes,
                      uint32_t count) {
    double sum = 0;
    uint32_t *seen = IG_NEW_ARRAY(g->job, uint32_t, count + 1), n_seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t region = g->nodes.at[nodes[i]].region;
        bool again = region == IG_NO_REGION;
        for (uint32_t k = 0; k < n_seen && !again; k++)
            again = seen[k] == region;
        if (again) continue;
        seen[n_seen++] = region;
        double time = ig_profit_time_of(g, options, &g->regions.at[region]);
        if (time == 0) return 0;
        sum += time;
    }
    return sum;
}

const struct ig_fuse_rule *ig_fuse_rules_parse(struct ig_graph *g, const char *const *rules, size_t count) {
    struct ig_fuse_rule *parsed = IG_NEW_ARRAY(g->job, struct ig_fuse_rule, count + 1);
    for (size_t i = 0; i < count; i++) {
        const char *text = rules[i], *equals = text ? strrchr(text, '=') : NULL;
        bool on = equals && strcmp(equals, "=on") == 0;
        if (!equals || equals == text || (!on && strcmp(equals, "=off") != 0))
            ig_raise(g->job, INGOT_INVALID_ARGUMENT, "fusion '%s' is not of the form PATTERN=on or PATTERN=off",
                     text ? text : "(null)");
        parsed[i] = (struct ig_fuse_rule){text, (size_t)(equals - text), on};
        if (!ig_pattern_fits_some_node(text, parsed[i].length, g))
            ig_raise(g->job, INGOT_INVALID_ARGUMENT, "fusion '%s': the model has no such node", text);
    }
    return parsed;
}

/* Does the user say whether the value's node is fused? */
static bool is_said(const struct ig_graph *g, const struct ig_pass_options *options, ig_value value, bool *out_fused) {
    const struct ig_node *n = ig_def(g, value);
    for (size_t i = options->n_fuse_rules; n && n->origin && i-- > 0;) {
        const struct ig_fuse_rule *rule = &options->fuse_rules[i];
        if (!ig_pattern_fits(rule->pattern, rule->length, n->origin)) continue;
        *out_fused = rule->fused;
        return true;
    }
    return false;
}

static bool is_known(double proposed, double other) {
    return proposed > 0 && other > 0 && !isinf(other);
}

static bool is_better(const struct ig_graph *g, const struct ig_pass_options *options, ig_value value, double proposed,
                      double other) {
    bool fused;
    if (!is_known(proposed, other)) return false;
    if (is_said(g, options, value, &fused)) return !fused;
    return other < SHARE * proposed && proposed - other > SAVING;
}

static void note(struct ig_graph *g, struct ig_decided d) {
    for (uint32_t i = 0; i < g->decided.count; i++) {
        if (g->decided.at[i].value != d.value || g->decided.at[i].taken) continue;
        g->decided.at[i] = d; /* looked at again */
        return;
    }
    IG_PUSH(g->job, &g->decided, d);
}

bool ig_profit_is_better(struct ig_graph *g, const struct ig_pass_options *options, ig_value value,
                         const char *otherwise, double proposed, double other) {
    bool taken = is_better(g, options, value, proposed, other);
    if (is_known(proposed, other)) note(g, (struct ig_decided){value, otherwise, proposed, other, taken});
    return taken;
}

/* ---- Regions with a view stored ----------------------------------------------------------------------------------- */

static bool is_input_of(const struct ig_region *region, ig_value v) {
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        if (region->inputs.at[i] == v) return true;
    }
    return false;
}

/* Gathers the nodes from which a region computes something, down to its inputs. */
struct gathering {
    struct ig_graph *g;
    const struct ig_region *from;
    const ig_value *stored; /* are inputs too */
    uint32_t n_stored;
    bool *seen; /* by value */
    struct ig_region region;
};

static bool is_input(const struct gathering *w, ig_value v) {
    for (uint32_t i = 0; i < w->n_stored; i++) {
        if (w->stored[i] == v) return true;
    }
    return is_input_of(w->from, v);
}

static void gather(struct gathering *w, ig_node_id id);

static void gather_value(struct gathering *w, ig_value v) {
    if (v == IG_NO_VALUE || w->seen[v]) return;
    w->seen[v] = true;
    if (is_input(w, v)) {
        IG_PUSH(w->g->job, &w->region.inputs, v);
        return;
    }
    if (ig_info(w->g, v)->node != IG_NO_NODE) gather(w, ig_info(w->g, v)->node);
}

static void gather(struct gathering *w, ig_node_id id) {
    const struct ig_node *n = &w->g->nodes.at[id];
    for (uint32_t o = 0; o < n->n_out; o++)
        w->seen[n->out + o] = true;
    for (uint32_t i = 0; i < n->n_in; i++)
        gather_value(w, n->in[i]);
    IG_PUSH(w->g->job, &w->region.nodes, id);
}

static struct ig_region *complete(struct gathering *w) {
    if (w->region.nodes.count == 0) return NULL;
    ig_region_sort(&w->region);
    if (w->region.family == IG_FAMILY_MAP || w->region.family == IG_FAMILY_ROW)
        w->region.anchor = w->region.nodes.at[w->region.nodes.count - 1];
    ig_region_arrange(w->g, &w->region);
    return ig_memdup(w->g->job, &w->region, sizeof w->region);
}

/* The region, if these views were stored. */
static struct ig_region *without(struct ig_graph *g, const struct ig_region *from, const ig_value *stored,
                                 uint32_t n_stored) {
    struct gathering w = {.g = g, .from = from, .stored = stored, .n_stored = n_stored};
    w.seen = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    w.region = (struct ig_region){.family = from->family, .anchor = from->anchor};
    for (uint32_t i = 0; i < from->outputs.count; i++) {
        ig_value v = from->outputs.at[i];
        if (!w.seen[v]) gather(&w, ig_info(g, v)->node);
        IG_PUSH(g->job, &w.region.outputs, v);
    }
    return complete(&w);
}

/* The region that stores a view which `reader` reads through. */
static struct ig_region *producer_of(struct ig_graph *g, const struct ig_region *reader, ig_value view) {
    struct gathering w = {.g = g, .from = reader};
    w.seen = IG_NEW_ARRAY(g->job, bool, g->values.count + 1);
    w.region = (struct ig_region){.family = IG_FAMILY_MAP};
    gather(&w, ig_info(g, view)->node);
    IG_PUSH(g->job, &w.region.outputs, view);
    return complete(&w);
}

/* ---- Proposals ----------------------------------------------------------------------------------------------------- */

/* A view that may be stored: or two, the operands of one product. */
struct proposal {
    ig_value view[2];
    uint32_t n_views;
    double through,
        stored; /* of all its readers, as the regions are and with it stored, the kernel that stores it included */
    IG_VEC(uint32_t) readers;
};

struct views {
    struct ig_graph *g;
    const struct ig_pass_options *options;
    struct ig_choices *choices;
    uint32_t *by_value; /* the number of a view's proposal, plus 1 */
    bool *settled;      /* by region: a view that it reads is about to be stored */
    IG_VEC(struct proposal) proposals;
};

/* Is the node a view that the region reads through and could find stored instead? Broadcasts would be larger then. */
static bool is_read_through(const struct views *s, uint32_t region, ig_node_id id) {
    const struct ig_node *n = &s->g->nodes.at[id];
    if (n->region == region || ig_info(s->g, n->out)->is_const || s->choices->stored[n->out]) return false;
    if (ig_op_info(n->op)->family != IG_FAMILY_VIEW) return false;
    return n->op == IG_OP_transpose || n->op == IG_OP_slice || n->op == IG_OP_gather || n->op == IG_OP_pad;
}

static struct proposal *proposal_of(struct views *s, ig_value view) {
    if (!s->by_value[view]) {
        IG_PUSH(s->g->job, &s->proposals, (struct proposal){.view = {view}, .n_views = 1});
        s->by_value[view] = s->proposals.count;
    }
    return &s->proposals.at[s->by_value[view] - 1];
}

/* What it takes to store the proposal's views. */
static double time_of_storing(struct views *s, const struct ig_region *reader, const struct proposal *p) {
    double sum = 0;
    for (uint32_t i = 0; i < p->n_views; i++) {
        struct ig_region *producer = producer_of(s->g, reader, p->view[i]);
        double time = producer ? ig_profit_time_of(s->g, s->options, producer) : 0;
        if (time == 0) return INFINITY;
        sum += time;
    }
    return sum;
}

static void add_reader(struct views *s, struct proposal *p, uint32_t region, double through) {
    const struct ig_region *reader = &s->g->regions.at[region];
    struct ig_region *with = without(s->g, reader, p->view, p->n_views);
    double stored = with ? ig_profit_time_of(s->g, s->options, with) : 0;
    if (stored == 0) return;
    if (p->readers.count == 0) p->stored = time_of_storing(s, reader, p);
    IG_PUSH(s->g->job, &p->readers, region);
    p->through += through;
    p->stored += stored;
}

/* The view that a contraction reads as an operand, through reshapes and widening casts; IG_NO_VALUE: none. */
static ig_value view_of_operand(const struct views *s, uint32_t region, ig_value v) {
    for (;;) {
        const struct ig_node *n = ig_info(s->g, v)->is_const ? NULL : ig_def(s->g, v);
        if (!n || is_input_of(&s->g->regions.at[region], v)) return IG_NO_VALUE;
        if (is_read_through(s, region, ig_info(s->g, v)->node)) return v;
        if (n->region == region || (n->op != IG_OP_reshape && n->op != IG_OP_cast)) return IG_NO_VALUE;
        v = n->in[0];
    }
}

/* Each view of a region is tried with an estimate of the whole region: those of unrolled recurrences, hundreds of views among
 * hundreds of nodes, would take minutes. */
#define MAX_ESTIMATED 4096

static void propose(struct views *s, uint32_t region) {
    const struct ig_region *r = &s->g->regions.at[region];
    if (r->family != IG_FAMILY_CONTRACT && r->family != IG_FAMILY_ATTEND && r->family != IG_FAMILY_ROW &&
        r->family != IG_FAMILY_MAP)
        return;
    double through = 0;
    uint32_t views = 0;
    for (uint32_t i = 0; i < r->nodes.count; i++)
        views += is_read_through(s, region, r->nodes.at[i]);
    if (views * r->nodes.count > MAX_ESTIMATED) return;
    for (uint32_t i = 0; i < r->nodes.count; i++) {
        if (!is_read_through(s, region, r->nodes.at[i])) continue;
        if (through == 0) through = ig_profit_time_of(s->g, s->options, r);
        if (through == 0) return;
        add_reader(s, proposal_of(s, s->g->nodes.at[r->nodes.at[i]].out), region, through);
    }
    if (through == 0 || r->family != IG_FAMILY_CONTRACT) return;
    const struct ig_node *anchor = &s->g->nodes.at[r->anchor];
    struct proposal both = {.n_views = 2};
    for (int i = 0; i < 2; i++) {
        both.view[i] = view_of_operand(s, region, anchor->in[i]);
        if (both.view[i] == IG_NO_VALUE) return;
    }
    if (both.view[0] == both.view[1]) return;
    add_reader(s, &both, region, through);
    IG_PUSH(s->g->job, &s->proposals, both);
}

/* The proposal that saves most, of those whose readers are not settled; NULL: none that saves anything. */
static struct proposal *best_proposal(struct views *s) {
    struct proposal *best = NULL;
    for (uint32_t i = 0; i < s->proposals.count; i++) {
        struct proposal *p = &s->proposals.at[i];
        bool settled = p->readers.count == 0 || !is_better(s->g, s->options, p->view[0], p->through, p->stored);
        for (uint32_t k = 0; k < p->readers.count && !settled; k++)
            settled = s->settled[p->readers.at[k]];
        if (!settled && (!best || p->through - p->stored > best->through - best->stored)) best = p;
    }
    return best;
}

/* Notes the proposals that were not taken, once there are no more that are. */
static void note_declined(struct views *s) {
    for (uint32_t i = 0; i < s->proposals.count; i++) {
        const struct proposal *p = &s->proposals.at[i];
        if (p->readers.count > 0) ig_profit_is_better(s->g, s->options, p->view[0], STORED, p->through, p->stored);
    }
}

bool ig_profit_of_views(struct ig_graph *g, const struct ig_pass_options *options, struct ig_choices *choices) {
    struct views s = {.g = g, .options = options, .choices = choices};
    s.by_value = IG_NEW_ARRAY(g->job, uint32_t, g->values.count + 1);
    s.settled = IG_NEW_ARRAY(g->job, bool, g->regions.count + 1);
    for (uint32_t i = 0; i < g->regions.count; i++)
        propose(&s, i);
    bool any = false;
    for (struct proposal *p; (p = best_proposal(&s));) {
        ig_profit_is_better(g, options, p->view[0], STORED, p->through, p->stored);
        for (uint32_t i = 0; i < p->n_views; i++)
            choices->stored[p->view[i]] = true;
        for (uint32_t i = 0; i < p->readers.count; i++)
            s.settled[p->readers.at[i]] = true;
        any = true;
    }
    if (!any) note_declined(&s);
    return any;
}

/* ---- What is computed beneath views -------------------------------------------------------------------------------- */

/* Is v computed elementwise by the region that reads it through the node, a view? */
static bool is_beneath(const struct ig_graph *g, uint32_t region, const struct ig_node *view) {
    if (view->region != region || ig_op_info(view->op)->family != IG_FAMILY_VIEW || view->op == IG_OP_concat)
        return false;
    const struct ig_node *n = ig_def(g, view->in[0]);
    return n && n->region == region && ig_op_info(n->op)->family == IG_FAMILY_MAP;
}

/* Is v to be stored by a kernel of its own? So it is unless one kernel takes less: estimates of recomputing are no better than others.
 * Always where a reduction joined its reader, which views would keep from reading lines. */
static bool is_apart(struct ig_graph *g, const struct ig_pass_options *options, const struct ig_region *joined,
                     ig_value v) {
    bool fused;
    if (joined->family != IG_FAMILY_MAP) return true;
    struct ig_region *first = producer_of(g, joined, v), *second = without(g, joined, &v, 1);
    double one = ig_profit_time_of(g, options, joined), before = first ? ig_profit_time_of(g, options, first) : 0,
           after = second ? ig_profit_time_of(g, options, second) : 0;
    if (!is_known(one, before) || !is_known(one, after)) return true;
    if (!is_said(g, options, v, &fused)) fused = one < before + after;
    note(g, (struct ig_decided){v, "two kernels", one, before + after, !fused});
    return !fused;
}

bool ig_profit_of_maps(struct ig_graph *g, const struct ig_pass_options *options, struct ig_choices *choices) {
    bool any = false;
    for (uint32_t i = 0; i < g->regions.count; i++) {
        const struct ig_region *r = &g->regions.at[i];
        uint32_t beneath = 0;
        for (uint32_t k = 0; k < r->nodes.count; k++)
            beneath += is_beneath(g, i, &g->nodes.at[r->nodes.at[k]]);
        const bool too_many = beneath * r->nodes.count > MAX_ESTIMATED;
        for (uint32_t k = 0; k < r->nodes.count && beneath > 0; k++) {
            const struct ig_node *n = &g->nodes.at[r->nodes.at[k]];
            if (!is_beneath(g, i, n)) continue;
            if (too_many || is_apart(g, options, r, n->in[0])) choices->apart[n->in[0]] = any = true;
        }
    }
    return any;
}
