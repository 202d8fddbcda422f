/* Batches rounded up; see buckets.h. */
#include "bench/buckets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum ingot_status refuse(const char *spec, struct ingot_error *error) {
    return cli_error(error, INGOT_INVALID_ARGUMENT,
                     "--buckets: expected pow2, sizes such as 1,2,4 or a number of sizes, got '%s'", spec);
}

/* Reads a positive number up to a comma or the end; false if there is none. */
static bool read_number(const char *text, const char **out_end, int64_t *out_number) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || errno || number < 1 || (*end && *end != ',')) return false;
    *out_end = end;
    *out_number = number;
    return true;
}

static enum ingot_status read_list(struct buckets *buckets, const char *spec, struct ingot_error *error) {
    size_t most = 1;
    for (const char *at = spec; *at; at++)
        most += *at == ',';
    buckets->sizes = cli_alloc(most, sizeof *buckets->sizes);
    for (const char *at = spec; *at; at += *at == ',') {
        if (!read_number(at, &at, &buckets->sizes[buckets->n_sizes++])) return refuse(spec, error);
    }
    return INGOT_OK;
}

static enum ingot_status choose(struct buckets *buckets, const char *spec, const struct sizes *stream,
                                struct ingot_error *error) {
    const char *end;
    int64_t most;
    if (!read_number(spec, &end, &most)) return refuse(spec, error);
    if (most > (int64_t)stream->count) most = (int64_t)stream->count;
    int64_t *observed = cli_alloc(stream->count, sizeof *observed);
    uint64_t *counts = cli_alloc(stream->count, sizeof *counts);
    for (size_t i = 0; i < stream->count; i++) {
        observed[i] = stream->shapes[i * stream->n_inputs].dims[0];
        counts[i] = 1;
    }
    buckets->sizes = cli_alloc((size_t)most, sizeof *buckets->sizes);
    enum ingot_status status =
        ingot_choose_sizes(observed, counts, stream->count, (size_t)most, buckets->sizes, &buckets->n_sizes, error);
    free(observed);
    free(counts);
    return status;
}

enum ingot_status buckets_init(struct buckets *buckets, const char *spec, const struct session *session,
                               const struct sizes *stream, struct ingot_error *error) {
    if (!spec) return INGOT_OK;
    if (!stream->has_samples)
        return cli_error(error, INGOT_INVALID_ARGUMENT, "--buckets: the first dim of the first input is fixed");
    buckets->symbol = session->inputs[0].symbols[0];
    if (strcmp(spec, "pow2") == 0) return INGOT_OK;
    return strchr(spec, ',') ? read_list(buckets, spec, error) : choose(buckets, spec, stream, error);
}

void buckets_deinit(struct buckets *buckets) {
    free(buckets->sizes);
    *buckets = (struct buckets){0};
}

enum ingot_status buckets_set(const struct buckets *buckets, struct ingot_context *context, struct ingot_error *error) {
    struct ingot_batch_options options = INGOT_BATCH_OPTIONS_INIT;
    if (!buckets->symbol) return INGOT_OK;
    options.symbol = buckets->symbol;
    options.sizes = buckets->sizes;
    options.n_sizes = buckets->n_sizes;
    return ingot_context_set_batch(context, &options, error);
}

enum ingot_status buckets_add(struct buckets *buckets, const struct ingot_context *context, struct ingot_error *error) {
    struct ingot_batch_info info;
    if (!buckets->symbol) return INGOT_OK;
    CLI_TRY(ingot_context_batch(context, &info, error));
    buckets->info.runs += info.runs;
    buckets->info.hits += info.hits;
    buckets->info.captures += info.captures;
    buckets->info.rows += info.rows;
    buckets->info.computed_rows += info.computed_rows;
    buckets->info.plan_bytes += info.plan_bytes;
    buckets->info.padding_bytes += info.padding_bytes;
    if (buckets->sizes) return INGOT_OK;
    buckets->n_sizes = info.n_sizes; /* the powers of two */
    buckets->sizes = cli_alloc(info.n_sizes, sizeof *buckets->sizes);
    memcpy(buckets->sizes, info.sizes, info.n_sizes * sizeof *info.sizes);
    return INGOT_OK;
}

double buckets_padded(const struct buckets *buckets) {
    const struct ingot_batch_info *info = &buckets->info;
    return info->computed_rows ? 1 - (double)info->rows / (double)info->computed_rows : 0;
}
