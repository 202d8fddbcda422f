/* Comparison within tolerances; see compare.h. */
#include "verify/compare.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The tolerance of each precision, defined only here. Those of the narrow types follow from their bits of fraction (10
 * in tf32 and fp16, 7 in bf16), to which each value that is stored or multiplied is rounded once. Of 28 trained
 * networks and 7 architectures, the worst had a root mean square of 1.2e-2 in fp16 and 7.8e-2 in bf16; single elements,
 * on the steep part of a sigmoid, were off by 3.7e-2 and 1.9e-1 of the largest.
 */
static const struct {
    const char *name;
    struct tolerance tolerance;
} tolerances[] = {
    {"fp32", {1e-3, 1e-6, 1e-4, 1e300, 1e300}},
    {"tf32", {1e-2, 1e-6, 4e-2, 1e300, 2e-2}},
    {"fp16", {1e-2, 1e-6, 4e-2, 1e300, 2e-2}},
    {"bf16", {8e-2, 1e-6, 2e-1, 1e300, 1e-1}},
};

static size_t find_precision(const char *name) {
    for (size_t i = 0; name && i < sizeof tolerances / sizeof *tolerances; i++) {
        if (strcmp(name, tolerances[i].name) == 0) return i;
    }
    return 0;
}

/* Of what is there and of "PATTERN=TYPE"s. */
static size_t widest(size_t found, const struct option_list *rules) {
    for (size_t i = 0; i < rules->count; i++) {
        const char *equals = strrchr(rules->at[i], '=');
        size_t other = find_precision(equals ? equals + 1 : NULL);
        if (other > found) found = other;
    }
    return found;
}

struct tolerance tolerance_of_build(const struct build_arguments *build) {
    size_t found = find_precision(build->precision);
    return tolerances[widest(widest(found, &build->precision_of), &build->io_types)].tolerance;
}

static bool read_number(const json_t *object, const char *key, double *inout_value) {
    const json_t *value = json_object_get(object, key);
    if (!value) return true;
    if (!json_is_number(value) || json_number_value(value) < 0) return false;
    *inout_value = json_number_value(value);
    return true;
}

enum ingot_status tolerance_read(const char *path, struct tolerance *tolerance, struct ingot_error *error) {
    json_error_t problem;
    json_t *object = json_load_file(path, 0, &problem);
    if (!object) return cli_error(error, INGOT_INVALID_ARGUMENT, "cannot read '%s': %s", path, problem.text);
    bool good = json_is_object(object) && read_number(object, "rtol", &tolerance->rtol) &&
                read_number(object, "atol", &tolerance->atol) && read_number(object, "mean", &tolerance->mean);
    if (json_object_get(object, "atol")) {
        tolerance->share = 0;
        tolerance->rms = 1e300;
    }
    json_decref(object);
    if (!good) {
        return cli_error(error, INGOT_INVALID_ARGUMENT, "cannot read '%s': rtol, atol and mean are numbers from 0 up",
                         path);
    }
    return INGOT_OK;
}

static double largest(const struct ingot_tensor *tensor) {
    double most = 0;
    int64_t n = ingot_tensor_elements(tensor);
    for (int64_t i = 0; i < n; i++) {
        double value = fabs(tensor_get(tensor, i));
        if (isfinite(value) && value > most) most = value;
    }
    return most;
}

/* |got - want|: 0 for equal infinities and for two NaNs, infinite if only one is NaN or infinite. */
static double difference(double got, double want) {
    if (isnan(got) && isnan(want)) return 0;
    if (got == want) return 0;
    double delta = fabs(got - want);
    return isnan(delta) ? (double)INFINITY : delta;
}

/* "[0,3,17]" of a flat index */
static void print_index(const struct ingot_tensor *tensor, int64_t index, char *out_text, size_t size) {
    int64_t at[INGOT_MAX_RANK];
    size_t used = 0;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        at[i] = index % tensor->dims[i];
        index /= tensor->dims[i];
    }
    snprintf(out_text, size, "[]");
    for (int i = 0; i < tensor->rank && used < size; i++) {
        used += (size_t)snprintf(out_text + used, size - used, "%s%lld%s", i ? "," : "[", (long long)at[i],
                                 i + 1 == tensor->rank ? "]" : "");
    }
}

static bool same_type(const struct ingot_tensor *got, const struct ingot_tensor *want, char *out_message, size_t size) {
    bool same = got->dtype == want->dtype && got->rank == want->rank;
    for (int i = 0; same && i < got->rank; i++)
        same = got->dims[i] == want->dims[i];
    if (same) return true;
    char *a = tensor_type_text(got), *b = tensor_type_text(want);
    snprintf(out_message, size, "got %s, expected %s", a, b);
    free(a);
    free(b);
    return false;
}

bool tensors_agree(const struct ingot_tensor *got, const struct ingot_tensor *want, const struct tolerance *tolerance,
                   char *out_message, size_t size) {
    if (!same_type(got, want, out_message, size)) return false;
    bool exact = !dtype_is_float(want->dtype);
    double atol = tolerance->atol + tolerance->share * largest(want), sum = 0, worst_excess = -1;
    double squares = 0, all = 0;
    int64_t n = ingot_tensor_elements(want), bad = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double expected = tensor_get(want, i), delta = difference(tensor_get(got, i), expected);
        bool both_nan = isnan(expected) && delta == 0; /* of a narrow type, which may have several */
        if (exact) delta = tensor_get_int(got, i) == tensor_get_int(want, i) || both_nan ? 0 : fmax(delta, 1);
        double excess = delta - (exact ? 0 : atol + (isfinite(expected) ? tolerance->rtol * fabs(expected) : 0));
        sum += delta;
        squares += delta * delta;
        if (isfinite(expected)) all += expected * expected;
        if (excess <= 0) continue;
        bad++;
        if (excess > worst_excess) {
            worst_excess = excess;
            worst = i;
        }
    }
    char index[128];
    if (bad > 0) {
        print_index(want, worst, index, sizeof index);
        snprintf(out_message, size, "%lld of %lld elements differ, most at %s: got %.9g, expected %.9g", (long long)bad,
                 (long long)n, index, tensor_get(got, worst), tensor_get(want, worst));
        return false;
    }
    if (n > 0 && !exact && sum / (double)n > tolerance->mean) {
        snprintf(out_message, size, "the mean difference is %.3g, at most %.3g is allowed", sum / (double)n,
                 tolerance->mean);
        return false;
    }
    if (!exact && sqrt(squares) > tolerance->rms * sqrt(all) && sqrt(squares / (double)n) > tolerance->atol) {
        snprintf(out_message, size,
                 "the root mean square of the difference is %.3g of the expected one's, at most %.3g "
                 "is allowed",
                 sqrt(squares / all), tolerance->rms);
        return false;
    }
    return true;
}
