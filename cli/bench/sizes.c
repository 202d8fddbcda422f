/* The shapes of many runs; see sizes.h. */
#include "bench/sizes.h"

#include <stdlib.h>
#include <string.h>

#include "random.h"

/* Shapes of a stream, drawn before anything is measured: many more than what a context keeps prepared. */
#define STREAM_LENGTH 4096
/* So many are tried whether the model takes them; the largest step between sizes. */
enum { TRIALS = 16, MOST_STEP = 64 };

static void init(struct sizes *sizes, const struct session *session, const struct ingot_tensor *tensors, size_t count) {
    size_t n = session->n_inputs;
    *sizes = (struct sizes){.n_inputs = n,
                            .count = count,
                            .shapes = cli_alloc(count * n, sizeof *sizes->shapes),
                            .largest = cli_alloc(n, sizeof *sizes->largest)};
    if (n) memcpy(sizes->largest, tensors, n * sizeof *tensors);
    const struct ingot_tensor_info *first = n ? &session->inputs[0] : NULL;
    sizes->has_samples = first && first->rank > 0 && first->dims[0] < 0;
}

void sizes_init_fixed(struct sizes *sizes, const struct session *session, const struct ingot_tensor *tensors) {
    init(sizes, session, tensors, 1);
    if (sizes->n_inputs) memcpy(sizes->shapes, tensors, sizes->n_inputs * sizeof *tensors);
}

void sizes_deinit(struct sizes *sizes) {
    free(sizes->shapes);
    free(sizes->largest);
    free(sizes->ranges);
    *sizes = (struct sizes){0};
}

/* ---- Streams */

/* Do the sizes of the inputs depend on the symbol? Some are the value of an input's element instead. */
static bool is_size(const struct session *session, const char *symbol) {
    for (size_t i = 0; i < session->n_inputs; i++) {
        const struct ingot_tensor_info *info = &session->inputs[i];
        for (int d = 0; d < info->rank; d++) {
            char *name = info->dims[d] < 0 ? symbol_of(info->symbols[d]) : NULL;
            bool found = name && strcmp(name, symbol) == 0;
            free(name);
            if (found) return true;
        }
    }
    return false;
}

static enum ingot_status find_range(const struct session *session, const struct ingot_shape_spec *specs, size_t n_specs,
                                    const struct ingot_symbol_info *symbol, struct symbol_range *out_range,
                                    struct ingot_error *error) {
    struct symbol_range range = {symbol->name, symbol->lo, symbol->hi, 1};
    specs_range(session->inputs, session->n_inputs, specs, n_specs, symbol->name, &range.lo, &range.hi);
    if (range.lo < symbol->lo || range.hi > symbol->hi) {
        return cli_error(error, INGOT_INVALID_ARGUMENT,
                         "--shape gives '%s' sizes of %lld to %lld, but the engine was built for %lld to %lld",
                         symbol->name, (long long)range.lo, (long long)range.hi, (long long)symbol->lo,
                         (long long)symbol->hi);
    }
    if (range.hi >= INT32_MAX) {
        return cli_error(error, INGOT_INVALID_ARGUMENT,
                         "--stream-of-sizes: '%s' has no upper bound; give it by --shape '%s=MIN:OPT:MAX'",
                         symbol->name, symbol->name);
    }
    *out_range = range;
    return INGOT_OK;
}

static enum ingot_status find_ranges(struct sizes *sizes, const struct session *session,
                                     const struct option_list *shapes, struct ingot_error *error) {
    struct ingot_shape_spec *specs;
    void *text;
    enum ingot_status status = INGOT_OK;
    size_t n_symbols = ingot_engine_symbol_count(session->engine);
    sizes->ranges = cli_alloc(n_symbols, sizeof *sizes->ranges);
    CLI_TRY(shape_specs(shapes, &specs, &text, error));
    for (size_t i = 0; i < n_symbols && status == INGOT_OK; i++) {
        struct ingot_symbol_info symbol;
        ingot_engine_symbol(session->engine, i, &symbol);
        if (!is_size(session, symbol.name)) continue;
        status = find_range(session, specs, shapes->count, &symbol, &sizes->ranges[sizes->n_ranges++], error);
    }
    free(specs);
    free(text);
    if (status == INGOT_OK && sizes->n_ranges == 0)
        status = cli_error(error, INGOT_INVALID_ARGUMENT, "--stream-of-sizes: all sizes of the inputs are fixed");
    return status;
}

/* Draws the shapes of one run. */
static enum ingot_status draw(const struct sizes *sizes, const struct session *session, uint64_t *random,
                              struct ingot_tensor *out_shapes, struct ingot_error *error) {
    struct symbol_table symbols = {0};
    for (size_t i = 0; i < sizes->n_ranges; i++) {
        const struct symbol_range *range = &sizes->ranges[i];
        int64_t first = (range->lo + range->step - 1) / range->step, last = range->hi / range->step;
        uint64_t count = (uint64_t)(last - first) + 1;
        symbols_set(&symbols, range->name, range->step * (first + (int64_t)(random_next(random) % count)));
    }
    enum ingot_status status = shapes_settle(session->inputs, session->n_inputs, NULL, 0, &symbols, out_shapes, error);
    symbols_free(&symbols);
    return status;
}

/* Ensures that the data of an input are enough for all its shapes. */
static enum ingot_status make_room(struct sizes *sizes, const struct ingot_tensor_info *info, size_t input,
                                   unsigned seed, struct tensor_list *given, struct ingot_error *error) {
    const struct ingot_tensor *largest = &sizes->largest[input];
    for (size_t i = 0; i < sizes->count; i++) {
        const struct ingot_tensor *shape = &sizes->shapes[i * sizes->n_inputs + input];
        if (ingot_tensor_elements(shape) > ingot_tensor_elements(largest)) largest = shape;
    }
    if (largest == &sizes->largest[input]) return INGOT_OK;
    struct named_tensor made = {cli_strdup(info->name), *largest};
    enum ingot_status status = tensor_allocate(&made.tensor, error);
    if (status == INGOT_OK) random_fill(&made.tensor, info->name, seed);
    sizes->largest[input] = made.tensor;
    tensor_list_add(given, made);
    return status;
}

/* Draws all shapes; fails if the context's engine does not take the first of them. */
static enum ingot_status draw_all(struct sizes *sizes, const struct session *session, unsigned seed,
                                  struct ingot_context *context, struct ingot_error *error) {
    uint64_t random = seed;
    for (size_t i = 0; i < sizes->count; i++)
        CLI_TRY(draw(sizes, session, &random, &sizes->shapes[i * sizes->n_inputs], error));
    for (size_t s = 0; s < TRIALS; s++) {
        for (size_t i = 0; i < sizes->n_inputs; i++) {
            struct ingot_tensor input = sizes->largest[i]; /* whose data, not enough perhaps, nobody reads */
            memcpy(input.dims, sizes->shapes[s * sizes->n_inputs + i].dims, sizeof input.dims);
            CLI_TRY(ingot_context_set_input(context, i, &input, error));
        }
        struct ingot_memory_info memory;
        CLI_TRY(ingot_context_memory(context, &memory, error)); /* binds the shapes */
    }
    return INGOT_OK;
}

/* Doubles the step between sizes until the engine takes them, and goes back to 1 for the symbols that need none: a model
 * that halves an image some times, and joins the parts again, takes multiples of a power of two, but any batch. */
static enum ingot_status draw_accepted(struct sizes *sizes, const struct session *session, unsigned seed,
                                       struct ingot_context *context, struct ingot_error *error) {
    enum ingot_status status = draw_all(sizes, session, seed, context, error);
    if (status != INGOT_INVALID_ARGUMENT) return status;
    for (int64_t step = 2; step <= MOST_STEP && status == INGOT_INVALID_ARGUMENT; step *= 2) {
        for (size_t i = 0; i < sizes->n_ranges; i++) {
            struct symbol_range *range = &sizes->ranges[i];
            if (range->hi / step * step >= range->lo) range->step = step;
        }
        status = draw_all(sizes, session, seed, context, error);
    }
    for (size_t i = 0; i < sizes->n_ranges && status == INGOT_OK; i++) {
        int64_t step = sizes->ranges[i].step;
        sizes->ranges[i].step = 1;
        if (draw_all(sizes, session, seed, context, error) != INGOT_OK) sizes->ranges[i].step = step;
    }
    return status == INGOT_OK ? draw_all(sizes, session, seed, context, error) : status;
}

enum ingot_status sizes_init_stream(struct sizes *sizes, const struct session *session,
                                    const struct ingot_tensor *tensors, const struct stream *stream,
                                    struct tensor_list *given, struct ingot_error *error) {
    struct ingot_context *context;
    init(sizes, session, tensors, STREAM_LENGTH);
    CLI_TRY(find_ranges(sizes, session, stream->shapes, error));
    CLI_TRY(session_context_create(session, stream->context, CLOCK_NONE, &context, error));
    enum ingot_status status = draw_accepted(sizes, session, stream->seed, context, error);
    ingot_context_destroy(context);
    for (size_t i = 0; i < sizes->n_inputs && status == INGOT_OK; i++)
        status = make_room(sizes, &session->inputs[i], i, stream->data_seed, given, error);
    return status;
}

static bool same_shape(const struct sizes *sizes, size_t a, size_t b) {
    for (size_t i = 0; i < sizes->n_inputs; i++) {
        const struct ingot_tensor *x = &sizes->shapes[a * sizes->n_inputs + i],
                                  *y = &sizes->shapes[b * sizes->n_inputs + i];
        if (memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) != 0) return false;
    }
    return true;
}

size_t sizes_find_distinct(const struct sizes *sizes, size_t most, size_t *out) {
    size_t n = 0;
    for (size_t s = 0; s < sizes->count && n < most; s++) {
        bool known = false;
        for (size_t i = 0; i < n && !known; i++)
            known = same_shape(sizes, out[i], s);
        if (!known) out[n++] = s;
    }
    return n;
}
