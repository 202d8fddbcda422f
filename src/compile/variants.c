/* Chooses variants; see variants.h. */
#include "compile/variants.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

/* The most sample points, and the most values of one symbol. */
enum { MOST_POINTS = 160, MOST_VALUES = 48 };
/* Estimated microseconds of a region without a cost model, and of what a kernel's start costs in its model but not in a
 * network, where it overlaps with the end of the kernel before. */
#define OTHER_REGION 1.0
#define OVERLAP 1.5
#define LEAST 0.5
/* Good enough: how far the network may be from its best on average (root mean square), and at any point. */
#define CLOSE_MEAN 0.01
#define CLOSE 0.025
/* Compiling variants may take this much beside compiling the first kernels: a share of that, and some kernels more. */
#define SHARE 0.55
#define MORE 10.0
/* A tree's leaf may be this far from the best variant. */
#define TOLERANCE 0.003
enum { DEEPEST = 7 };

/* A candidate that is best somewhere. */
struct rival {
    const struct ig_kernel *kernel;
    const struct ig_sizes *at;
    double *costs; /* by point; microseconds */
    bool taken;    /* one of the region's kernels */
    int number;    /* among the taken */
};

struct subject {
    struct ig_graph *graph;
    const struct ig_region *region;
    const char *fingerprint;
    double uses;
    int64_t *sizes;              /* by point: the cost model's IG_MODEL_SIZES sizes */
    IG_VEC(struct rival) rivals; /* the first is the best at the usual sizes */
    uint32_t n_taken;
    double *costs; /* by point: of the best taken */
    double *best;  /* by point: of the best of all */
};

struct chooser {
    struct ig_job *job;
    struct ig_dims *dims;
    const struct ig_target *target;
    IG_VEC(struct ig_sizes) points;
    double *weights; /* by point; the sum is 1 */
    struct ig_map by_fingerprint;
    IG_VEC(struct subject) subjects;
    double others; /* estimated time of the regions without a model */
    double *total; /* by point: of the network, with the kernels taken so far */
    double *best;  /* by point: of the network, if every region had its best kernel */
    double budget; /* for compiling variants, in kernels */
};

/* ---- Sample points ----------------------------------------------------------------------------------------------- */

struct values {
    int64_t at[MOST_VALUES]; /* ascending */
    double weights[MOST_VALUES];
    int count;
};

static void add_value(struct values *v, int64_t value) {
    int at = v->count;
    while (at > 0 && v->at[at - 1] >= value)
        at--;
    if (v->count == MOST_VALUES || (at < v->count && v->at[at] == value)) return;
    memmove(v->at + at + 1, v->at + at, (size_t)(v->count - at) * sizeof *v->at);
    v->at[at] = value;
    v->count++;
}

/* Every doubling of a size counts the same, however many values of it are looked at. */
static void weigh(struct values *v) {
    for (int i = 0; i < v->count; i++) {
        double below = (double)v->at[i > 0 ? i - 1 : i], above = (double)v->at[i + 1 < v->count ? i + 1 : i];
        v->weights[i] = v->count > 1 ? log(above / below) : 1;
    }
}

/* All values of a small range. Of a large one its ends, the usual value and round numbers (powers of two, and these times
 * three), which most sizes in use are; then values at about equal ratios, as long as there is room. Beyond 64 times the
 * usual value nothing changes much any more. */
static void sample(struct values *v, int64_t lo, int64_t usual, int64_t hi, int most) {
    lo = lo < 1 ? 1 : lo;
    usual = usual < lo ? lo : usual;
    if (hi / 64 > usual) hi = 64 * usual;
    for (int64_t value = lo; value <= hi && hi - lo < most; value++)
        add_value(v, value);
    add_value(v, usual);
    add_value(v, lo);
    add_value(v, hi);
    for (int64_t value = 1; value <= hi && v->count < most; value *= 2) {
        if (value >= lo) add_value(v, value);
        if (3 * value >= lo && 3 * value <= hi && v->count < most) add_value(v, 3 * value);
    }
    int room = most - v->count;
    double ratio = room > 0 ? pow((double)hi / (double)lo, 1.0 / (room + 1)) : 1, at = (double)lo * ratio;
    for (int i = 0; i < room; i++, at *= ratio)
        add_value(v, (int64_t)(at + 0.5));
    weigh(v);
}

/* The symbols that inputs determine and that may vary. */
static int find_symbols(struct ig_graph *g, ig_dim *out_symbols, int most) {
    int count = 0;
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
        for (int k = 0; k < type->rank; k++) {
            int64_t lo, hi;
            bool known = ig_dim_look(g->dims, type->dim[k]).kind != IG_DIM_SYMBOL;
            ig_dim_range(g->dims, type->dim[k], &lo, &hi);
            for (int s = 0; s < count && !known; s++)
                known = out_symbols[s] == type->dim[k];
            if (!known && lo < hi && count < most) out_symbols[count++] = type->dim[k];
        }
    }
    return count;
}

/* The usual sizes first, then every combination of the symbols' values. */
static void make_points(struct chooser *c, struct ig_graph *g) {
    enum { MOST_SYMBOLS = 4 };
    ig_dim symbols[MOST_SYMBOLS];
    struct values values[MOST_SYMBOLS];
    memset(values, 0, sizeof values);
    struct ig_sizes usual;
    ig_sizes_usual(c->dims, c->job, &usual);
    IG_PUSH(c->job, &c->points, usual);
    int n = find_symbols(g, symbols, MOST_SYMBOLS), combinations = 1;
    int most = n > 1 ? (int)pow(MOST_POINTS, 1.0 / n) : MOST_VALUES;
    for (int s = 0; s < n; s++) {
        int64_t lo, hi;
        ig_dim_range(c->dims, symbols[s], &lo, &hi);
        sample(&values[s], lo, ig_sizes_of(&usual, c->job, symbols[s]), hi, most);
        combinations *= values[s].count;
    }
    c->weights = IG_NEW_ARRAY(c->job, double, combinations + 1);
    double sum = 0;
    for (int i = 0; n > 0 && i < combinations; i++) {
        struct ig_sizes point;
        double weight = 1;
        ig_sizes_usual(c->dims, c->job, &point);
        for (int s = 0, rest = i; s < n; rest /= values[s].count, s++) {
            ig_sizes_set(&point, c->job, symbols[s], values[s].at[rest % values[s].count]);
            weight *= values[s].weights[rest % values[s].count];
        }
        IG_PUSH(c->job, &c->points, point);
        c->weights[c->points.count - 1] = weight;
        sum += weight;
    }
    for (int i = 0; i <= combinations && sum > 0; i++)
        c->weights[i] /= sum;
}

/* ---- Costs ------------------------------------------------------------------------------------------------------- */

static bool same_sizes(const struct subject *s, uint32_t p, uint32_t q) {
    return memcmp(s->sizes + IG_MODEL_SIZES * p, s->sizes + IG_MODEL_SIZES * q, IG_MODEL_SIZES * sizeof *s->sizes) == 0;
}

static double *cost_everywhere(struct chooser *c, const struct ig_kernel *kernel) {
    double *costs = IG_NEW_ARRAY(c->job, double, c->points.count);
    for (uint32_t p = 0; p < c->points.count; p++)
        costs[p] = fmax(ig_kernel_cost(kernel, &c->points.at[p]) - OVERLAP, LEAST);
    return costs;
}

static void add_rival(struct chooser *c, struct subject *s, const struct ig_sizes *at) {
    const struct ig_kernel *kernel = ig_kernel_candidate(s->graph, s->region, c->target, at, 0);
    if (!kernel || !kernel->model.cost || !kernel->tactic) return;
    for (uint32_t i = 0; i < s->rivals.count; i++) {
        if (strcmp(s->rivals.at[i].kernel->tactic, kernel->tactic) == 0) return;
    }
    struct rival r = {.kernel = kernel, .at = at, .costs = cost_everywhere(c, kernel)};
    IG_PUSH(c->job, &s->rivals, r);
}

/* The candidates that are best at some point, each region's sizes being looked at once. */
static void find_rivals(struct chooser *c, struct subject *s, const struct ig_kernel_model *model) {
    s->sizes = IG_NEW_ARRAY(c->job, int64_t, IG_MODEL_SIZES * c->points.count);
    for (uint32_t p = 0; p < c->points.count; p++) {
        bool seen = false;
        for (int i = 0; i < IG_MODEL_SIZES; i++)
            s->sizes[IG_MODEL_SIZES * p + (uint32_t)i] = ig_sizes_guess(&c->points.at[p], model->sizes[i]);
        for (uint32_t q = 0; q < p && !seen; q++)
            seen = same_sizes(s, p, q);
        if (!seen) add_rival(c, s, &c->points.at[p]);
    }
}

static void add_costs(struct chooser *c, struct subject *s) {
    s->costs = s->rivals.at[0].costs;
    s->best = IG_NEW_ARRAY(c->job, double, c->points.count);
    for (uint32_t p = 0; p < c->points.count; p++) {
        s->best[p] = INFINITY;
        for (uint32_t i = 0; i < s->rivals.count; i++)
            s->best[p] = fmin(s->best[p], s->rivals.at[i].costs[p]);
    }
    double *own = IG_NEW_ARRAY(c->job, double, c->points.count);
    memcpy(own, s->costs, c->points.count * sizeof *own);
    s->costs = own;
    s->rivals.at[0].taken = true;
    s->n_taken = 1;
}

/* What compiling a kernel takes, in products' kernels. */
static double weight_of(const struct ig_region *region) {
    return region->family == IG_FAMILY_ATTEND ? 1.5 : region->family == IG_FAMILY_CONTRACT ? 1 : 0.4;
}

static void add_region(struct chooser *c, struct ig_graph *g, const struct ig_region *region) {
    const char *fingerprint = ig_region_fingerprint(g, region, c->target);
    uint32_t at;
    if (ig_map_get_name(&c->by_fingerprint, fingerprint, &at)) {
        if (at == UINT32_MAX)
            c->others += OTHER_REGION;
        else
            c->subjects.at[at].uses++;
        return;
    }
    c->budget += SHARE * weight_of(region);
    const struct ig_kernel *first = ig_kernel_candidate(g, region, c->target, &c->points.at[0], 0);
    bool modelled = first && first->model.cost && first->tactic;
    ig_map_put_name(&c->by_fingerprint, fingerprint, modelled ? c->subjects.count : UINT32_MAX);
    if (!modelled) {
        c->others += OTHER_REGION;
        return;
    }
    struct subject s = {.graph = g, .region = region, .fingerprint = fingerprint, .uses = 1};
    find_rivals(c, &s, &first->model);
    add_costs(c, &s);
    IG_PUSH(c->job, &c->subjects, s);
}

static void add_regions(struct chooser *c, struct ig_graph *g) {
    for (uint32_t i = 0; i < g->regions.count; i++) {
        const struct ig_region *region = &g->regions.at[i];
        const struct ig_node *anchor = &g->nodes.at[region->anchor];
        if (region->family != IG_FAMILY_CONTROL) add_region(c, g, region);
        for (int k = 0; region->family == IG_FAMILY_CONTROL && k < 2; k++) {
            if (anchor->body[k]) add_regions(c, anchor->body[k]);
        }
    }
}

static void add_totals(struct chooser *c) {
    c->total = IG_NEW_ARRAY(c->job, double, c->points.count);
    c->best = IG_NEW_ARRAY(c->job, double, c->points.count);
    for (uint32_t p = 0; p < c->points.count; p++) {
        c->total[p] = c->best[p] = c->others;
        for (uint32_t i = 0; i < c->subjects.count; i++) {
            const struct subject *s = &c->subjects.at[i];
            c->total[p] += s->uses * s->costs[p];
            c->best[p] += s->uses * s->best[p];
        }
    }
}

/* ---- Taking variants --------------------------------------------------------------------------------------------- */

/* How far the network is from its best at a point, squared: so the worst sizes are mended first. */
static double regret(const struct chooser *c, uint32_t p, double total) {
    double above = total / c->best[p] - 1;
    return c->weights[p] * above * above;
}

static double total_regret(const struct chooser *c) {
    double sum = 0;
    for (uint32_t p = 0; p < c->points.count; p++)
        sum += regret(c, p, c->total[p]);
    return sum;
}

/* Takes a variant, or gives it back. */
static void take(struct chooser *c, struct subject *s, struct rival *r, bool taken) {
    r->taken = taken;
    s->n_taken += taken ? 1 : -1u;
    c->budget -= (taken ? 1 : -1) * weight_of(s->region);
    for (uint32_t p = 0; p < c->points.count; p++) {
        double cost = INFINITY;
        for (uint32_t i = 0; i < s->rivals.count; i++)
            cost = s->rivals.at[i].taken ? fmin(cost, s->rivals.at[i].costs[p]) : cost;
        c->total[p] += s->uses * (cost - s->costs[p]);
        s->costs[p] = cost;
    }
}

/* One step: of all variants that are (not) taken, the one to give back (take) that leaves the least regret by the cost of
 * compiling it. */
struct move {
    struct subject *subject;
    struct rival *rival;
    double regret; /* after it */
};

static struct move find_move(struct chooser *c, bool taken, uint32_t most) {
    struct move best = {NULL, NULL, INFINITY};
    double now = total_regret(c), least = INFINITY;
    for (uint32_t i = 0; i < c->subjects.count; i++) {
        struct subject *s = &c->subjects.at[i];
        for (uint32_t k = 1; k < s->rivals.count; k++) {
            struct rival *r = &s->rivals.at[k];
            if (r->taken == taken || (taken && s->n_taken == most)) continue;
            take(c, s, r, taken);
            double after = total_regret(c);
            take(c, s, r, !taken);
            double change = taken ? (after - now) / weight_of(s->region) : after - now;
            if (change >= least) continue;
            least = change;
            best = (struct move){s, r, after};
        }
    }
    return best;
}

static bool is_close(const struct chooser *c) {
    for (uint32_t p = 0; p < c->points.count; p++) {
        if (c->total[p] > (1 + CLOSE) * c->best[p]) return false;
    }
    return total_regret(c) < CLOSE_MEAN * CLOSE_MEAN;
}

/* Takes the most useful variant until the budget is spent; then exchanges the least useful one while that helps. */
static void take_variants(struct chooser *c, uint32_t most) {
    while (c->budget > 0 && !is_close(c)) {
        struct move in = find_move(c, true, most);
        if (!in.subject || in.regret >= total_regret(c)) return;
        take(c, in.subject, in.rival, true);
    }
    for (uint32_t i = 0; i < c->subjects.count; i++) {
        double before = total_regret(c);
        struct move out = find_move(c, false, most);
        if (!out.subject) return;
        take(c, out.subject, out.rival, false);
        struct move in = find_move(c, true, most);
        take(c, in.subject, in.rival, true);
        if (total_regret(c) >= before) { /* it was the same one, or no better */
            take(c, in.subject, in.rival, false);
            take(c, out.subject, out.rival, true);
            return;
        }
    }
}

/* ---- The decision ------------------------------------------------------------------------------------------------ */

/* A part of the points, and the tree for it. */
struct part {
    struct chooser *c;
    struct subject *s;
    const struct ig_kernel_model *model;
    uint32_t *points, count;
    int depth;
    int64_t lo[IG_MODEL_SIZES], hi[IG_MODEL_SIZES]; /* bounds of its sizes, lo <= size < hi; 0: none */
    struct ig_variants *out;
};

/* One side of a division of a part: the points where size number `which` is below the threshold, or not below it; all
 * points if `which` is -1. */
struct side {
    int which;
    int64_t threshold;
    bool above;
};
static const struct side everywhere = {-1, 0, false};

static int64_t size_at(const struct part *part, uint32_t k, int which) {
    return part->s->sizes[IG_MODEL_SIZES * part->points[k] + (uint32_t)which];
}

static bool is_on(const struct part *part, uint32_t k, const struct side *side) {
    return side->which < 0 || (size_at(part, k, side->which) >= side->threshold) == side->above;
}

/* The taken variant that loses least over one side, against the best taken at each point. */
static const struct rival *best_over(const struct part *part, const struct side *side, double *out_loss,
                                     double *out_worst) {
    const struct rival *best = NULL;
    *out_loss = INFINITY;
    for (uint32_t i = 0; i < part->s->rivals.count; i++) {
        const struct rival *r = &part->s->rivals.at[i];
        double loss = 0, worst = 0;
        for (uint32_t k = 0; k < part->count && r->taken; k++) {
            uint32_t p = part->points[k];
            if (!is_on(part, k, side)) continue;
            double lost = (r->costs[p] - part->s->costs[p]) / part->s->costs[p];
            loss += lost;
            worst = fmax(worst, lost);
        }
        if (!r->taken || loss >= *out_loss) continue;
        best = r;
        *out_loss = loss;
        *out_worst = worst;
    }
    return best;
}

/* Halfway from the size at point k to the next larger size of the part; 0: there is none, or an earlier point has the
 * same size. */
static int64_t threshold_above(const struct part *part, int which, uint32_t k) {
    int64_t size = size_at(part, k, which), next = INT64_MAX;
    for (uint32_t j = 0; j < part->count; j++) {
        int64_t other = size_at(part, j, which);
        if (other == size && j < k) return 0;
        if (other > size && other < next) next = other;
    }
    return next == INT64_MAX ? 0 : size + (next - size + 1) / 2;
}

/* The division after which the two sides lose least; false if no size divides the points. */
static bool best_division(const struct part *part, int *out_which, int64_t *out_threshold) {
    double least = INFINITY;
    for (int which = 0; which < IG_MODEL_SIZES; which++) {
        for (uint32_t k = 0; k < part->count; k++) {
            double below, above, worst;
            int64_t threshold = threshold_above(part, which, k);
            if (!threshold) continue;
            best_over(part, &(struct side){which, threshold, false}, &below, &worst);
            best_over(part, &(struct side){which, threshold, true}, &above, &worst);
            if (below + above >= least) continue;
            least = below + above;
            *out_which = which;
            *out_threshold = threshold;
        }
    }
    return least < INFINITY;
}

static struct part take_side(const struct part *part, const struct side *side) {
    struct part taken = *part;
    taken.points = IG_NEW_ARRAY(part->c->job, uint32_t, part->count);
    taken.count = 0;
    taken.depth++;
    (side->above ? taken.lo : taken.hi)[side->which] = side->threshold;
    for (uint32_t k = 0; k < part->count; k++) {
        if (is_on(part, k, side)) taken.points[taken.count++] = part->points[k];
    }
    return taken;
}

static const char *bounds_text(const struct part *part) {
    struct ig_text text;
    ig_text_init(&text, part->c->job);
    ig_text_add(&text, "");
    for (int i = 0; i < IG_MODEL_SIZES; i++) {
        if (!part->lo[i] && !part->hi[i]) continue;
        if (text.length) ig_text_add(&text, " and ");
        if (part->lo[i]) ig_text_printf(&text, "%lld <= ", (long long)part->lo[i]);
        ig_dim_print(part->c->dims, part->model->sizes[i], &text);
        if (part->hi[i]) ig_text_printf(&text, " < %lld", (long long)part->hi[i]);
    }
    return text.at;
}

static ig_dim leaf(const struct part *part, int number) {
    struct ig_variant_range range = {number, bounds_text(part)};
    IG_PUSH(part->c->job, &part->out->ranges, range);
    return ig_dim_const(part->c->dims, number);
}

/* below + [size >= threshold] * (above - below), where [x >= t] is min(max(x - t + 1, 0), 1). */
static ig_dim decide(const struct part *part) {
    struct ig_dims *dims = part->c->dims;
    double loss, worst;
    int which = 0;
    int64_t threshold = 0, number;
    const struct rival *best = best_over(part, &everywhere, &loss, &worst);
    if (worst <= TOLERANCE || part->depth == DEEPEST || !best_division(part, &which, &threshold))
        return leaf(part, best->number);
    struct part below = take_side(part, &(struct side){which, threshold, false});
    struct part above = take_side(part, &(struct side){which, threshold, true});
    uint32_t n_ranges = part->out->ranges.count;
    ig_dim size = part->model->sizes[which], low = decide(&below), high = decide(&above);
    if (low == high && ig_dim_is_const(dims, low, &number)) {
        part->out->ranges.count = n_ranges;
        return leaf(part, (int)number);
    }
    ig_dim over = ig_dim_sub(dims, size, ig_dim_const(dims, threshold - 1));
    ig_dim is = ig_dim_min(dims, ig_dim_max(dims, over, ig_dim_const(dims, 0)), ig_dim_const(dims, 1));
    return ig_dim_add(dims, low, ig_dim_mul(dims, is, ig_dim_sub(dims, high, low)));
}

/* Numbers and adds the variants of a region. */
static void conclude(struct chooser *c, struct subject *s, struct ig_variant_set *set) {
    struct ig_variants v = {0};
    if (s->n_taken == 1) return;
    for (uint32_t i = 1; i < s->rivals.count; i++) {
        if (!s->rivals.at[i].taken) continue;
        IG_PUSH(c->job, &v.at, s->rivals.at[i].at);
        s->rivals.at[i].number = (int)v.at.count;
    }
    uint32_t *all = IG_NEW_ARRAY(c->job, uint32_t, c->points.count);
    for (uint32_t p = 0; p < c->points.count; p++)
        all[p] = p;
    struct part part = {c, s, &s->rivals.at[0].kernel->model, all, c->points.count, 0, {0}, {0}, &v};
    v.choice = decide(&part);
    ig_map_put_name(&set->by_fingerprint, s->fingerprint, set->variants.count);
    IG_PUSH(c->job, &set->variants, v);
}

void ig_variants_choose(struct ig_graph *graph, const struct ig_target *target, uint32_t most,
                        struct ig_variant_set *out_set) {
    struct chooser c = {.job = graph->job, .dims = graph->dims, .target = target, .budget = MORE};
    *out_set = (struct ig_variant_set){0};
    ig_map_init(&out_set->by_fingerprint, c.job);
    ig_map_init(&c.by_fingerprint, c.job);
    make_points(&c, graph);
    if (c.points.count < 2) return;
    add_regions(&c, graph);
    add_totals(&c);
    take_variants(&c, most);
    for (uint32_t i = 0; i < c.subjects.count; i++)
        conclude(&c, &c.subjects.at[i], out_set);
}

const struct ig_variants *ig_variants_get(const struct ig_variant_set *set, const char *fingerprint) {
    uint32_t at;
    return ig_map_get_name(&set->by_fingerprint, fingerprint, &at) ? &set->variants.at[at] : NULL;
}
