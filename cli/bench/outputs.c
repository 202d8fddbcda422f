/* The ways to take results; see outputs.h. */
#include "bench/outputs.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"leased", "given", "fresh"};

bool outputs_mode_read(const char *text, enum outputs_mode *out_mode) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        *out_mode = (enum outputs_mode)i;
        return true;
    }
    return false;
}

const char *outputs_mode_name(enum outputs_mode mode) {
    return names[mode];
}

/* ---- Sizes */

static size_t bytes_of(const struct ingot_tensor *tensor) {
    return (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
}

/* The symbols that these shapes of the inputs give values to. */
static struct symbol_table read_symbols(const struct session *session, const struct ingot_tensor *shapes) {
    struct symbol_table symbols = {0};
    for (size_t i = 0; i < session->n_inputs; i++) {
        const struct ingot_tensor_info *info = &session->inputs[i];
        for (int d = 0; d < info->rank; d++) {
            char *name = info->dims[d] < 0 ? symbol_of(info->symbols[d]) : NULL;
            if (name) symbols_set(&symbols, name, shapes[i].dims[d]);
            free(name);
        }
    }
    return symbols;
}

/* Raises `most` to the bytes of an output. */
static enum ingot_status measure(const struct ingot_tensor_info *info, const struct symbol_table *symbols, size_t *most,
                                 struct ingot_error *error) {
    struct ingot_tensor tensor = {.dtype = info->dtype, .rank = info->rank};
    for (int d = 0; d < info->rank; d++) {
        tensor.dims[d] = info->dims[d];
        if (info->dims[d] >= 0 || symbols_evaluate(symbols, info->symbols[d], &tensor.dims[d])) continue;
        return cli_error(error, INGOT_UNSUPPORTED,
                         "--outputs given: the size '%s' of output '%s' does not follow from those of the inputs",
                         info->symbols[d], info->name);
    }
    if (bytes_of(&tensor) > *most) *most = bytes_of(&tensor);
    return INGOT_OK;
}

enum ingot_status outputs_init(struct outputs *outputs, enum outputs_mode mode, const struct session *session,
                               const struct sizes *sizes, struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    *outputs = (struct outputs){mode, session->n_outputs, cli_alloc(session->n_outputs, sizeof *outputs->bytes)};
    for (size_t i = 0; mode == OUTPUTS_GIVEN && i < sizes->count && status == INGOT_OK; i++) {
        struct symbol_table symbols = read_symbols(session, &sizes->shapes[i * sizes->n_inputs]);
        for (size_t k = 0; k < outputs->count && status == INGOT_OK; k++)
            status = measure(&session->outputs[k], &symbols, &outputs->bytes[k], error);
        symbols_free(&symbols);
    }
    return status;
}

void outputs_deinit(struct outputs *outputs) {
    free(outputs->bytes);
    *outputs = (struct outputs){0};
}

/* ---- Taking */

static enum ingot_status give(struct taker *taker, unsigned run, struct ingot_error *error) {
    const struct outputs *outputs = taker->outputs;
    for (size_t i = 0; i < outputs->count; i++) {
        void *data = taker->given[run * outputs->count + i];
        CLI_TRY(ingot_context_set_output_in(taker->context, i, taker->memory, data, outputs->bytes[i], error));
    }
    return INGOT_OK;
}

/* An output without elements has a byte of memory too, since NULL would be the context's. */
static enum ingot_status allocate_given(struct taker *taker, struct ingot_error *error) {
    const struct outputs *outputs = taker->outputs;
    taker->given = cli_alloc(taker->most * outputs->count, sizeof *taker->given);
    for (size_t i = 0; i < taker->most * outputs->count; i++) {
        size_t bytes = outputs->bytes[i % outputs->count];
        CLI_TRY(ingot_context_allocate(taker->context, taker->memory, bytes + !bytes, &taker->given[i], error));
    }
    return give(taker, 0, error);
}

enum ingot_status taker_init(struct taker *taker, const struct outputs *outputs, struct ingot_context *context,
                             enum ingot_memory memory, unsigned most, struct ingot_error *error) {
    *taker = (struct taker){.outputs = outputs, .context = context, .memory = memory, .most = most};
    taker->leases = cli_alloc(most, sizeof(struct ingot_lease *));
    if (outputs->mode == OUTPUTS_GIVEN) return allocate_given(taker, error);
    for (size_t i = 0; outputs->mode == OUTPUTS_FRESH && i < outputs->count; i++)
        CLI_TRY(ingot_context_set_output_fresh(context, i, INGOT_HOST, error));
    return INGOT_OK;
}

void taker_deinit(struct taker *taker) {
    const struct outputs *outputs = taker->outputs;
    if (!outputs) return;
    for (unsigned i = 0; i < taker->held && outputs->mode == OUTPUTS_LEASED; i++)
        ingot_lease_release(taker->leases[i]);
    for (size_t i = 0; outputs->mode != OUTPUTS_LEASED && i < outputs->count; i++)
        ingot_context_set_output(taker->context, i, NULL, 0, NULL);
    for (size_t i = 0; taker->given && i < taker->most * outputs->count; i++) {
        size_t bytes = outputs->bytes[i % outputs->count];
        ingot_context_free(taker->context, taker->memory, taker->given[i], bytes + !bytes);
    }
    free(taker->given);
    free(taker->leases);
    *taker = (struct taker){0};
}

enum ingot_status taker_enqueue(struct taker *taker, struct ingot_error *error) {
    enum outputs_mode mode = taker->outputs->mode;
    if (mode == OUTPUTS_GIVEN && taker->most > 1) CLI_TRY(give(taker, taker->held, error));
    CLI_TRY(ingot_context_enqueue(taker->context, NULL, error));
    if (mode == OUTPUTS_LEASED) CLI_TRY(ingot_context_lease(taker->context, &taker->leases[taker->held], error));
    taker->held++;
    return INGOT_OK;
}

static enum ingot_status read_lease(const struct taker *taker, const struct ingot_lease *lease,
                                    struct ingot_error *error) {
    for (size_t i = 0; i < taker->outputs->count; i++) {
        struct ingot_tensor tensor;
        CLI_TRY(ingot_lease_output(lease, i, &tensor, error));
    }
    return INGOT_OK;
}

static enum ingot_status take_leased(struct taker *taker, struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    if (taker->held == 0) {
        CLI_TRY(ingot_context_lease(taker->context, &taker->leases[0], error));
        taker->held = 1;
    }
    for (unsigned i = 0; i < taker->held; i++) {
        if (status == INGOT_OK) status = read_lease(taker, taker->leases[i], error);
        ingot_lease_release(taker->leases[i]);
    }
    return status;
}

static enum ingot_status take_fresh(struct taker *taker, struct ingot_error *error) {
    for (size_t i = 0; i < taker->outputs->count; i++) {
        struct ingot_tensor tensor;
        CLI_TRY(ingot_context_take_output(taker->context, i, &tensor, error));
        ingot_context_free(taker->context, tensor.memory, tensor.data, bytes_of(&tensor));
    }
    return INGOT_OK;
}

enum ingot_status taker_take(struct taker *taker, struct ingot_error *error) {
    enum ingot_status status = INGOT_OK;
    switch (taker->outputs->mode) {
    case OUTPUTS_LEASED: status = take_leased(taker, error); break;
    case OUTPUTS_GIVEN: break;
    case OUTPUTS_FRESH: status = take_fresh(taker, error); break;
    }
    taker->held = 0;
    return status;
}
