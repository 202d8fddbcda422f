/* Counts a network's figures; see figures.h. */
#include "compile/figures.h"

#include <math.h>

#include "base/window.h"
#include "kernel/cost.h"
#include "kernel/expect.h"

struct counting {
    const struct ig_plan *plan;
    const struct ig_kernel_set *set;
    struct ig_sizes at;
    double weights; /* bytes */
    struct ig_figures *figures;
    /* By kernel of the set. */
    struct ig_expect *expects;
    bool *expected;
};

/* "batch=8, seq=128" */
static const char *sizes_text(const struct counting *c, struct ig_job *job) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_add(&text, "");
    for (uint32_t i = 0; i < c->plan->n_symbols; i++) {
        const char *name = c->plan->strings + c->plan->symbols[i].name;
        int64_t value = ig_sizes_guess(&c->at, ig_dim_symbol(c->at.dims, name));
        ig_text_printf(&text, "%s%s=%lld", i ? ", " : "", name, (long long)value);
    }
    return text.at;
}

/* Of the kernel that runs at these sizes, as it was before it was printed, which rewrites its loops. Equal regions have equal
 * ones. */
static double estimate(struct counting *c, const struct ig_plan_step *step, const struct ig_demand *demand,
                       bool first) {
    const struct ig_kernel_group *group = ig_kernel_set_group(c->set, step->kernel);
    int64_t number = group->variants ? ig_sizes_guess(&c->at, group->variants->decision.kernel) : 0;
    uint32_t index = group->kernels.at[number];
    const struct ig_compiled_kernel *k = &c->set->kernels.at[index];
    struct ig_expect *expect = &c->expects[index];
    const struct ig_machine *machine = &c->figures->machine;
    if (!c->expected[index]) {
        const struct ig_kernel *kernel = k->kernel;
        if (ig_target_is_cuda(c->set->target))
            kernel = ig_kernel_candidate(k->graph, k->region, c->set->target, k->at, k->choice);
        if (kernel) ig_expect_of(kernel, demand, c->weights, machine, &c->at, expect);
        c->expected[index] = true;
    }
    expect->first = first;
    return ig_expect_time(expect, machine);
}

static void add_demand(struct ig_demand *sum, const struct ig_demand *d) {
    sum->constants += d->constants;
    sum->reads += d->reads;
    sum->writes += d->writes;
    sum->turns += d->turns;
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        sum->operations[u] += d->operations[u];
}

/* What the region adds where the collective before it and it are one kernel: less than nothing if that takes less time than the
 * collective. False: they are two. */
static bool joined_estimate(const struct counting *c, struct ig_graph *g, uint32_t region, uint32_t index,
                            double *out_added) {
    const struct ig_region *before = region > 0 ? &g->regions.at[region - 1] : NULL;
    if (!before || !before->joined || index == 0) return false;
    const struct ig_plan_step *step = &c->plan->steps[index - 1];
    const struct ig_plan_step *kernels = &c->plan->steps[step->alternatives];
    const struct ig_kernel *alone = c->set->kernels.at[kernels[0].kernel].kernel,
                           *both = c->set->kernels.at[kernels[1].kernel].kernel;
    if (ig_sizes_guess(&c->at, both->tiles) > IG_WINDOW_HEADERS ||
        ig_sizes_guess(&c->at, both->dims.at[1]) > IG_WINDOW_SHORT_LINES)
        return false;
    *out_added = ig_kernel_cost(both, &c->at) - ig_kernel_cost(alone, &c->at);
    return true;
}

static void count_region(struct counting *c, struct ig_graph *g, uint32_t number, uint32_t index) {
    const struct ig_region *region = &g->regions.at[number];
    struct ig_figures *f = c->figures;
    struct ig_step_figures *s = &f->steps[index];
    struct ig_region_demand demand;
    ig_region_demand(g, region, &demand);
    s->demand = ig_region_demand_at(&demand, &c->at);
    s->floor = ig_floor_of(&f->machine, &s->demand, c->weights);
    add_demand(&f->demand, &s->demand);
    f->floor += s->floor.time;
    f->regions++;
    double added = 0;
    if (joined_estimate(c, g, number, index, &added)) {
        s->estimate = fmax(0, added);
        f->estimated++;
        f->estimate += added;
        return;
    }
    s->estimate = estimate(c, &c->plan->steps[index], &s->demand, f->regions == 1);
    if (s->estimate > 0) s->estimate = fmax(s->estimate, s->floor.time); /* the models are of Hopper's tactics */
    f->estimated += s->estimate > 0;
    f->estimate += s->estimate > 0 ? s->estimate : s->floor.time;
}

static void count_level(struct counting *c, struct ig_graph *g, uint32_t subplan) {
    for (uint32_t i = 0; i < g->regions.count; i++) {
        uint32_t index = c->plan->subplans[subplan].steps + i;
        const struct ig_plan_step *step = &c->plan->steps[index];
        const struct ig_region *region = &g->regions.at[i];
        struct ig_graph *const *body = g->nodes.at[region->anchor].body;
        if (step->kind == IG_STEP_KERNEL) count_region(c, g, i, index);
        if (step->a != IG_PLAN_NONE) count_level(c, body[0], step->a);
        if (step->b != IG_PLAN_NONE) count_level(c, body[1], step->b);
    }
}

void ig_figures_make(struct ig_graph *g, uint32_t subplan, const struct ig_built_plan *built,
                     const struct ig_kernel_set *set, const struct ig_sizes *at, struct ig_figures *out_figures) {
    struct counting c = {.plan = &built->plan, .set = set, .figures = out_figures};
    for (uint32_t i = 0; i < built->weights.count; i++)
        c.weights += (double)built->weights.at[i].size;
    if (at)
        c.at = *at;
    else
        ig_sizes_usual(g->dims, g->job, &c.at);
    c.expects = IG_NEW_ARRAY(g->job, struct ig_expect, set->kernels.count + 1);
    c.expected = IG_NEW_ARRAY(g->job, bool, set->kernels.count + 1);
    *out_figures = (struct ig_figures){.machine = ig_target_machine(set->target, 1),
                                       .sizes = sizes_text(&c, g->job),
                                       .steps = IG_NEW_ARRAY(g->job, struct ig_step_figures, built->plan.n_steps + 1)};
    count_level(&c, g, subplan);
}
