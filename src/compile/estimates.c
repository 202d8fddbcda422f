/* See estimates.h. */
#include "compile/estimates.h"

static double estimate(void *user, struct ig_graph *graph, const struct ig_region *region) {
    struct ig_estimates *e = user;
    const char *text = ig_region_fingerprint(graph, region, e->target).text;
    uint32_t at;
    if (ig_map_get_name(&e->by_fingerprint, text, &at)) return e->times.at[at];
    struct ig_sizes usual;
    ig_sizes_usual(graph->dims, graph->job, &usual);
    const struct ig_kernel *kernel = ig_kernel_candidate(graph, region, e->target, NULL, 0);
    double time = kernel ? ig_kernel_estimate(kernel, &usual) : 0;
    ig_map_put_name(&e->by_fingerprint, text, e->times.count);
    IG_PUSH(graph->job, &e->times, time);
    return time;
}

const struct ig_estimator *ig_estimates_open(struct ig_job *job, const struct ig_target *target) {
    if (!ig_target_is_cuda(target)) return NULL;
    struct ig_estimates *e = IG_NEW(job, struct ig_estimates);
    e->target = target;
    ig_map_init(&e->by_fingerprint, job);
    struct ig_estimator *estimator = IG_NEW(job, struct ig_estimator);
    *estimator = (struct ig_estimator){estimate, e};
    return estimator;
}
