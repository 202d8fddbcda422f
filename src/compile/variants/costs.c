/* Costs at sample points; see costs.h. */
#include "compile/variants/costs.h"

#include <math.h>
#include <string.h>

/* Microseconds that a kernel's start costs in its model but not in a network, where it overlaps with the end of the kernel
 * before; and what is left at least. */
#define OVERLAP 1.5
#define LEAST 0.5

void ig_costs_init(struct ig_costs *costs, struct ig_job *job, const struct ig_samples *samples,
                   const struct ig_kernel_model *model) {
    uint32_t count = samples->points.count;
    *costs = (struct ig_costs){.job = job, .samples = samples, .model = *model};
    costs->values = IG_NEW_ARRAY(job, int64_t, IG_MODEL_SIZES * count);
    costs->least = IG_NEW_ARRAY(job, double, count);
    for (uint32_t p = 0; p < count; p++) {
        costs->least[p] = INFINITY;
        for (uint32_t i = 0; i < IG_MODEL_SIZES; i++)
            costs->values[IG_MODEL_SIZES * p + i] = ig_sizes_guess(&samples->points.at[p], model->sizes[i]);
    }
}

bool ig_costs_has_model(const struct ig_costs *costs, const struct ig_kernel *kernel) {
    return kernel->model.cost == costs->model.cost &&
           memcmp(kernel->model.sizes, costs->model.sizes, sizeof costs->model.sizes) == 0;
}

/* What the model says that a kernel adds to a network. It need not make sense for sizes of 0, which expressions may have
 * at some points. */
static double cost(const struct ig_kernel *kernel, const int64_t *sizes) {
    return fmax(kernel->model.cost(kernel, sizes) - OVERLAP, LEAST);
}

static double cost_at(const struct ig_costs *costs, const struct ig_kernel *kernel, uint32_t p) {
    return cost(kernel, costs->values + IG_MODEL_SIZES * p);
}

void ig_costs_note(struct ig_costs *costs, const struct ig_kernel *kernel) {
    for (uint32_t p = 0; p < costs->samples->points.count; p++)
        costs->least[p] = fmin(costs->least[p], cost_at(costs, kernel, p));
}

/* ---- Measured times ---------------------------------------------------------------------------------------------- */

static const struct ig_rival *find_rival(const struct ig_measured_size *m, const char *tactic) {
    for (uint32_t i = 0; i < m->tuned->rivals.count; i++) {
        if (strcmp(m->tuned->rivals.at[i].tactic, tactic) == 0) return &m->tuned->rivals.at[i];
    }
    return NULL;
}

static bool is_timed(const struct ig_rival *rival) {
    return rival && rival->nanoseconds && rival->nanoseconds != IG_TIMING_REJECTED;
}

/* What the model says for a kernel at a measured size. */
static double model_there(const struct ig_costs *costs, const struct ig_measured_size *m,
                          const struct ig_kernel *kernel) {
    return ig_costs_has_model(costs, kernel) ? cost(kernel, m->values) : m->least;
}

static double log_factor(const struct ig_costs *costs, const struct ig_measured_size *m, const struct ig_rival *rival) {
    return log((double)rival->nanoseconds / 1000 / model_there(costs, m, rival->kernel));
}

static double distance(const struct ig_costs *costs, const struct ig_measured_size *m, uint32_t p) {
    double sum = 0;
    for (uint32_t i = 0; i < IG_MODEL_SIZES; i++) {
        double a = (double)costs->values[IG_MODEL_SIZES * p + i], b = (double)m->values[i];
        double step = log(fmax(a, 1)) - log(fmax(b, 1));
        sum += step * step;
    }
    return sum;
}

static void add_size(struct ig_costs *costs, const struct ig_tuned *tuned) {
    struct ig_measured_size m = {.tuned = tuned, .least = INFINITY};
    double sum = 0;
    int count = 0;
    for (int i = 0; i < IG_MODEL_SIZES; i++)
        m.values[i] = ig_sizes_guess(tuned->at, costs->model.sizes[i]);
    for (uint32_t i = 0; i < tuned->rivals.count; i++) {
        const struct ig_rival *rival = &tuned->rivals.at[i];
        if (ig_costs_has_model(costs, rival->kernel)) m.least = fmin(m.least, model_there(costs, &m, rival->kernel));
    }
    for (uint32_t i = 0; i < tuned->rivals.count; i++) {
        const struct ig_rival *rival = &tuned->rivals.at[i];
        if (!is_timed(rival) || !ig_costs_has_model(costs, rival->kernel)) continue;
        sum += log_factor(costs, &m, rival);
        count++;
    }
    m.mean = count ? sum / count : 0;
    m.far = IG_NEW_ARRAY(costs->job, double, costs->samples->points.count);
    for (uint32_t p = 0; p < costs->samples->points.count; p++)
        m.far[p] = distance(costs, &m, p);
    if (m.least < INFINITY) IG_PUSH(costs->job, &costs->measured, m);
}

void ig_costs_measure(struct ig_costs *costs, const struct ig_tuned *tuned) {
    if (tuned->device) add_size(costs, tuned);
    for (uint32_t i = 0; i < tuned->elsewhere.count; i++)
        add_size(costs, tuned->elsewhere.at[i]);
}

/* The logarithms of a kernel's factors, by measured size; NAN: unknown there. False if it was rejected. */
static bool find_factors(const struct ig_costs *costs, const struct ig_kernel *kernel, double *factors, bool *out_any) {
    bool has_model = ig_costs_has_model(costs, kernel);
    *out_any = has_model;
    for (uint32_t i = 0; i < costs->measured.count; i++) {
        const struct ig_measured_size *m = &costs->measured.at[i];
        const struct ig_rival *rival = find_rival(m, kernel->tactic);
        if (rival && rival->nanoseconds == IG_TIMING_REJECTED) return false;
        factors[i] = is_timed(rival) ? log_factor(costs, m, rival) : has_model ? m->mean : NAN;
        *out_any = *out_any || is_timed(rival);
    }
    return true;
}

static double factor_at(const struct ig_costs *costs, const double *factors, uint32_t p) {
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < costs->measured.count; i++) {
        if (isnan(factors[i])) continue;
        double far = costs->measured.at[i].far[p];
        if (far == 0) return exp(factors[i]);
        sum += factors[i] / far;
        weights += 1 / far;
    }
    return weights > 0 ? exp(sum / weights) : 1;
}

double *ig_costs_of(const struct ig_costs *costs, const struct ig_kernel *kernel) {
    uint32_t count = costs->samples->points.count;
    double *at = IG_NEW_ARRAY(costs->job, double, count);
    double *factors = IG_NEW_ARRAY(costs->job, double, costs->measured.count + 1);
    bool any;
    if (!find_factors(costs, kernel, factors, &any) || !any) return NULL;
    for (uint32_t p = 0; p < count; p++) {
        double base = ig_costs_has_model(costs, kernel) ? cost_at(costs, kernel, p) : costs->least[p];
        at[p] = base * factor_at(costs, factors, p);
    }
    return at;
}
