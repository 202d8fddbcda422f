/* Chooses variants; see variants.h. */
#include "compile/variants/variants.h"

#include <math.h>
#include <string.h>

#include "compile/variants/costs.h"
#include "compile/variants/samples.h"

/* Estimated microseconds of a region without a cost model. */
#define OTHER_REGION 1.0
/* Good enough: how far the network may be from its best on average (the cubic mean), and at any point. */
#define CLOSE_MEAN 0.005
#define CLOSE 0.012
/* Compiling variants may take this much beside compiling the first kernels: a share of that, and some kernels more. */
#define SHARE 0.3
#define MORE 36.0
/* Making a candidate takes some 80 microseconds: networks of many regions are looked at in fewer points. */
enum { MOST_LOOKS = 10000, MOST_EXCHANGES = 32 };

/* A candidate that is best somewhere. */
struct rival {
    const struct ig_kernel *kernel;
    struct ig_variant variant;
    double *costs; /* by point; microseconds */
    bool taken;    /* one of the region's kernels */
    double gain;   /* what taking it saves, or saved some steps ago, when it was no less */
    uint32_t step; /* when that was */
};

/* A region, or several equal ones. */
struct subject {
    struct ig_graph *graph;
    const struct ig_region *region;
    const char *fingerprint;
    const struct ig_tuned *tuned; /* NULL: not tuned */
    double uses;
    struct ig_costs costs;
    IG_VEC(struct rival) rivals; /* the first is the first kernel */
    uint32_t n_taken;
    double *taken; /* by point: the least cost of the taken */
    double *best;  /* by point: of all */
};

struct chooser {
    struct ig_job *job;
    struct ig_dims *dims;
    const struct ig_target *target;
    const struct ig_tuner *tuner;
    uint32_t most;
    struct ig_samples samples;
    struct ig_map by_fingerprint;
    IG_VEC(struct subject) subjects;
    double others; /* estimated time of the regions without a model */
    double *total; /* by point: of the network, with the kernels taken so far */
    double *best;  /* by point: of the network, if every region had its best kernel */
    double budget; /* for compiling variants, in kernels */
    uint32_t step; /* number of changes to what is taken */
};

/* What compiling a kernel takes, in products' kernels. */
static double weight_of(const struct ig_region *region) {
    return region->family == IG_FAMILY_ATTEND ? 1.5 : region->family == IG_FAMILY_CONTRACT ? 1 : 0.4;
}

/* ---- Regions ----------------------------------------------------------------------------------------------------- */

static void add_region(struct chooser *c, struct ig_graph *g, const struct ig_region *region) {
    const char *fingerprint = ig_region_fingerprint(g, region, c->target).text;
    uint32_t at;
    if (ig_map_get_name(&c->by_fingerprint, fingerprint, &at)) {
        if (at == UINT32_MAX)
            c->others += OTHER_REGION;
        else
            c->subjects.at[at].uses++;
        return;
    }
    c->budget += SHARE * weight_of(region);
    const struct ig_kernel *kernel = ig_kernel_candidate(g, region, c->target, &c->samples.points.at[0], 0);
    bool modelled = kernel && kernel->model.cost && kernel->tactic;
    ig_map_put_name(&c->by_fingerprint, fingerprint, modelled ? c->subjects.count : UINT32_MAX);
    if (!modelled) {
        c->others += OTHER_REGION;
        return;
    }
    struct subject s = {.graph = g, .region = region, .fingerprint = fingerprint, .uses = 1};
    if (c->tuner) s.tuned = ig_tuner_get(c->tuner, ig_tuner_fingerprint(g, region, c->target));
    ig_costs_init(&s.costs, c->job, &c->samples, &kernel->model);
    IG_PUSH(c->job, &c->subjects, s);
}

static void add_regions(struct chooser *c, struct ig_graph *g) {
    for (uint32_t i = 0; i < g->regions.count; i++) {
        const struct ig_region *region = &g->regions.at[i];
        const struct ig_node *anchor = &g->nodes.at[region->anchor];
        if (ig_family_has_kernels(region->family)) add_region(c, g, region);
        for (int k = 0; region->family == IG_FAMILY_CONTROL && k < 2; k++) {
            if (anchor->body[k]) add_regions(c, anchor->body[k]);
        }
    }
}

/* ---- Rivals ------------------------------------------------------------------------------------------------------ */

static void add_rival(struct chooser *c, struct subject *s, const struct ig_kernel *kernel, const struct ig_sizes *at,
                      int choice) {
    struct rival r = {.kernel = kernel, .variant = {at, choice}};
    if (!kernel || !kernel->tactic) return;
    for (uint32_t i = 0; i < s->rivals.count; i++) {
        if (strcmp(s->rivals.at[i].kernel->tactic, kernel->tactic) == 0) return;
    }
    if (ig_costs_has_model(&s->costs, kernel)) ig_costs_note(&s->costs, kernel);
    IG_PUSH(c->job, &s->rivals, r);
}

/* Adds the tuner's choice at some sizes. */
static void add_tuned(struct chooser *c, struct subject *s, const struct ig_tuned *tuned) {
    for (uint32_t i = 0; i < tuned->rivals.count; i++) {
        const struct ig_rival *rival = &tuned->rivals.at[i];
        if (rival->choice == tuned->choice) add_rival(c, s, rival->kernel, tuned->at, rival->choice);
    }
}

static bool is_seen(const struct subject *s, uint32_t p) {
    const int64_t *values = s->costs.values + IG_MODEL_SIZES * p;
    for (uint32_t q = 0; q < p; q++) {
        if (memcmp(s->costs.values + IG_MODEL_SIZES * q, values, IG_MODEL_SIZES * sizeof *values) == 0) return true;
    }
    return false;
}

/* The candidates that are best at some point. */
static void find_rivals(struct chooser *c, struct subject *s, uint32_t every) {
    uint32_t n_points = c->samples.points.count;
    if (s->tuned) add_tuned(c, s, s->tuned);
    for (uint32_t p = 0; p < n_points; p++) {
        const struct ig_sizes *at = &c->samples.points.at[p];
        if (is_seen(s, p) || (p % every != 0 && p + 1 < n_points)) continue;
        const struct ig_kernel *kernel = ig_kernel_candidate(s->graph, s->region, c->target, at, 0);
        if (kernel && ig_costs_has_model(&s->costs, kernel)) add_rival(c, s, kernel, at, 0);
    }
    for (uint32_t i = 0; s->tuned && i < s->tuned->elsewhere.count; i++)
        add_tuned(c, s, s->tuned->elsewhere.at[i]);
}

/* Drops rivals that were rejected; false if the first kernel is among them. */
static bool find_costs(struct subject *s) {
    uint32_t kept = 0;
    if (s->tuned) ig_costs_measure(&s->costs, s->tuned);
    for (uint32_t i = 0; i < s->rivals.count; i++) {
        struct rival *r = &s->rivals.at[i];
        r->costs = ig_costs_of(&s->costs, r->kernel);
        if (!r->costs && i == 0) return false;
        if (r->costs) s->rivals.at[kept++] = *r;
    }
    s->rivals.count = kept;
    return true;
}

static void begin_with_the_first(struct chooser *c, struct subject *s) {
    uint32_t n_points = c->samples.points.count;
    s->taken = IG_NEW_ARRAY(c->job, double, n_points);
    s->best = IG_NEW_ARRAY(c->job, double, n_points);
    s->rivals.at[0].taken = true;
    s->n_taken = 1;
    for (uint32_t p = 0; p < n_points; p++) {
        s->taken[p] = s->best[p] = s->rivals.at[0].costs[p];
        for (uint32_t i = 1; i < s->rivals.count; i++)
            s->best[p] = fmin(s->best[p], s->rivals.at[i].costs[p]);
    }
}

static void find_all_rivals(struct chooser *c) {
    uint32_t every = 1 + c->subjects.count * c->samples.points.count / MOST_LOOKS, kept = 0;
    for (uint32_t i = 0; i < c->subjects.count; i++) {
        struct subject *s = &c->subjects.at[i];
        find_rivals(c, s, every);
        if (s->tuned && s->tuned->choice == IG_CHOICE_PLAIN) s->rivals.count = 0; /* all are rejected */
        if (s->rivals.count > 0 && find_costs(s)) {
            begin_with_the_first(c, s);
            c->subjects.at[kept++] = *s;
        } else {
            c->others += OTHER_REGION * s->uses;
        }
    }
    c->subjects.count = kept;
}

static void add_totals(struct chooser *c) {
    c->total = IG_NEW_ARRAY(c->job, double, c->samples.points.count);
    c->best = IG_NEW_ARRAY(c->job, double, c->samples.points.count);
    for (uint32_t p = 0; p < c->samples.points.count; p++) {
        c->total[p] = c->best[p] = c->others;
        for (uint32_t i = 0; i < c->subjects.count; i++) {
            const struct subject *s = &c->subjects.at[i];
            c->total[p] += s->uses * s->taken[p];
            c->best[p] += s->uses * s->best[p];
        }
    }
}

/* ---- Taking variants --------------------------------------------------------------------------------------------- */

/* How far the network is from its best at a point, cubed: so the worst sizes are mended first. */
static double regret(const struct chooser *c, uint32_t p, double total) {
    double above = total / c->best[p] - 1;
    return c->samples.weights[p] * above * above * above;
}

static double total_regret(const struct chooser *c) {
    double sum = 0;
    for (uint32_t p = 0; p < c->samples.points.count; p++)
        sum += regret(c, p, c->total[p]);
    return sum;
}

/* What the regret would be less by if the rival were taken, by the cost of compiling it. */
static double find_gain(const struct chooser *c, const struct subject *s, const struct rival *r) {
    double sum = 0;
    for (uint32_t p = 0; p < c->samples.points.count; p++) {
        if (r->costs[p] >= s->taken[p]) continue;
        double total = c->total[p] + s->uses * (r->costs[p] - s->taken[p]);
        sum += regret(c, p, c->total[p]) - regret(c, p, total);
    }
    return sum / weight_of(s->region);
}

/* What it would be more by if a taken rival were given back. */
static double find_use(const struct chooser *c, const struct subject *s, const struct rival *r) {
    double sum = 0;
    for (uint32_t p = 0; p < c->samples.points.count; p++) {
        double cost = INFINITY;
        for (uint32_t i = 0; i < s->rivals.count; i++) {
            const struct rival *other = &s->rivals.at[i];
            if (other->taken && other != r) cost = fmin(cost, other->costs[p]);
        }
        sum += regret(c, p, c->total[p] + s->uses * (cost - s->taken[p])) - regret(c, p, c->total[p]);
    }
    return sum;
}

struct move {
    struct subject *subject;
    struct rival *rival; /* NULL: there is none */
};

/* Takes a rival, or gives it back. */
static void make(struct chooser *c, const struct move *move, bool taken) {
    struct subject *s = move->subject;
    move->rival->taken = taken;
    s->n_taken += taken ? 1 : -1u;
    c->budget -= (taken ? 1 : -1) * weight_of(s->region);
    c->step++;
    for (uint32_t p = 0; p < c->samples.points.count; p++) {
        double cost = INFINITY;
        for (uint32_t i = 0; i < s->rivals.count; i++)
            cost = s->rivals.at[i].taken ? fmin(cost, s->rivals.at[i].costs[p]) : cost;
        c->total[p] += s->uses * (cost - s->taken[p]);
        s->taken[p] = cost;
    }
}

static void find_gains(struct chooser *c) {
    for (uint32_t i = 0; i < c->subjects.count; i++) {
        struct subject *s = &c->subjects.at[i];
        for (uint32_t k = 1; k < s->rivals.count; k++) {
            s->rivals.at[k].gain = find_gain(c, s, &s->rivals.at[k]);
            s->rivals.at[k].step = c->step;
        }
    }
}

static struct move largest_gain(struct chooser *c) {
    struct move best = {NULL, NULL};
    double most = 0;
    for (uint32_t i = 0; i < c->subjects.count; i++) {
        struct subject *s = &c->subjects.at[i];
        for (uint32_t k = 1; k < s->rivals.count && s->n_taken < c->most; k++) {
            struct rival *r = &s->rivals.at[k];
            if (r->taken || r->gain <= most) continue;
            best = (struct move){s, r};
            most = r->gain;
        }
    }
    return best;
}

/* The most useful rival to take. A gain never grows when others are taken, so only those that may be the largest are
 * brought up to date. */
static struct move most_useful(struct chooser *c) {
    struct move move = largest_gain(c);
    while (move.rival && move.rival->step != c->step) {
        move.rival->gain = find_gain(c, move.subject, move.rival);
        move.rival->step = c->step;
        move = largest_gain(c);
    }
    return move;
}

static struct move least_useful(struct chooser *c) {
    struct move best = {NULL, NULL};
    double least = INFINITY;
    for (uint32_t i = 0; i < c->subjects.count; i++) {
        struct subject *s = &c->subjects.at[i];
        for (uint32_t k = 1; k < s->rivals.count; k++) {
            struct rival *r = &s->rivals.at[k];
            double use = r->taken ? find_use(c, s, r) : INFINITY;
            if (use >= least) continue;
            best = (struct move){s, r};
            least = use;
        }
    }
    return best;
}

static bool is_close(const struct chooser *c) {
    for (uint32_t p = 0; p < c->samples.points.count; p++) {
        if (c->total[p] > (1 + CLOSE) * c->best[p]) return false;
    }
    return total_regret(c) < CLOSE_MEAN * CLOSE_MEAN * CLOSE_MEAN;
}

/* Exchanges the least useful variant for another; false if that does not help. */
static bool exchange(struct chooser *c) {
    double before = total_regret(c);
    struct move out = least_useful(c);
    if (!out.rival) return false;
    make(c, &out, false);
    find_gains(c);
    struct move in = most_useful(c);
    if (!in.rival) return true; /* it was of no use at all */
    make(c, &in, true);
    if (in.rival != out.rival && total_regret(c) < before) return true;
    make(c, &in, false);
    make(c, &out, true);
    return false;
}

/* Takes the most useful variant until the budget is spent; then exchanges the least useful one while that helps. */
static void take_variants(struct chooser *c) {
    find_gains(c);
    while (c->budget > 0 && !is_close(c)) {
        struct move in = most_useful(c);
        if (!in.rival) break;
        make(c, &in, true);
    }
    for (int i = 0; i < MOST_EXCHANGES && exchange(c); i++) {
    }
}

/* ---- The result -------------------------------------------------------------------------------------------------- */

/* The kernels of a region while it is decided which one runs where. */
struct taken {
    IG_VEC(const double *) costs;
    IG_VEC(struct ig_variant) variants; /* one less: not of the first */
};

/* Drops variants that the decision never takes; false if there are none. */
static bool drop_unused(struct taken *taken, const struct ig_decision *decision) {
    uint32_t kept = 0, count = taken->variants.count;
    for (uint32_t i = 0; i < count; i++) {
        bool used = false;
        for (uint32_t r = 0; r < decision->ranges.count; r++)
            used = used || decision->ranges.at[r].kernel == i + 1;
        if (!used) continue;
        taken->variants.at[kept] = taken->variants.at[i];
        taken->costs.at[++kept] = taken->costs.at[i + 1];
    }
    taken->variants.count = kept;
    taken->costs.count = kept + 1;
    return kept < count;
}

static void conclude(struct chooser *c, const struct subject *s, struct ig_variant_set *set) {
    struct taken taken = {0};
    struct ig_variants v = {0};
    for (uint32_t i = 0; i < s->rivals.count; i++) {
        const struct rival *r = &s->rivals.at[i];
        if (!r->taken) continue;
        IG_PUSH(c->job, &taken.costs, r->costs);
        if (i > 0) IG_PUSH(c->job, &taken.variants, r->variant);
    }
    while (taken.variants.count > 0) {
        const struct ig_decision_problem problem = {.job = c->job,
                                                    .dims = c->dims,
                                                    .sizes = s->costs.model.sizes,
                                                    .n_points = c->samples.points.count,
                                                    .values = s->costs.values,
                                                    .n_kernels = taken.costs.count,
                                                    .costs = taken.costs.at};
        ig_decide(&problem, &v.decision);
        if (!drop_unused(&taken, &v.decision)) break;
    }
    if (taken.variants.count == 0) return;
    for (uint32_t i = 0; i < taken.variants.count; i++)
        IG_PUSH(c->job, &v.list, taken.variants.at[i]);
    ig_map_put_name(&set->by_fingerprint, s->fingerprint, set->variants.count);
    IG_PUSH(c->job, &set->variants, v);
}

void ig_variants_choose(struct ig_graph *graph, const struct ig_target *target, const struct ig_tuner *tuner,
                        uint32_t most, struct ig_variant_set *out_set) {
    struct chooser c = {
        .job = graph->job, .dims = graph->dims, .target = target, .tuner = tuner, .most = most, .budget = MORE};
    *out_set = (struct ig_variant_set){0};
    ig_map_init(&out_set->by_fingerprint, c.job);
    ig_map_init(&c.by_fingerprint, c.job);
    ig_samples_make(graph, &c.samples);
    if (most < 2 || c.samples.points.count < 2) return;
    add_regions(&c, graph);
    find_all_rivals(&c);
    add_totals(&c);
    take_variants(&c);
    for (uint32_t i = 0; i < c.subjects.count; i++)
        conclude(&c, &c.subjects.at[i], out_set);
}

const struct ig_variants *ig_variants_get(const struct ig_variant_set *set, const char *fingerprint) {
    uint32_t at;
    return ig_map_get_name(&set->by_fingerprint, fingerprint, &at) ? &set->variants.at[at] : NULL;
}
