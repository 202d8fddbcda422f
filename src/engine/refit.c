/* The rules of what refitting needs. See refit.h. */
#include "engine/refit.h"

#include "engine/format.h"

static uint64_t aligned(uint64_t size) {
    return (size + IG_ENGINE_ALIGNMENT - 1) / IG_ENGINE_ALIGNMENT * IG_ENGINE_ALIGNMENT;
}

uint64_t ig_refit_weights_size(const struct ig_refit_tables *t) {
    const struct ig_weight_entry *last = t->n_weights ? &t->weights[t->n_weights - 1] : NULL;
    return last ? aligned(last->offset + last->size) : 0;
}

uint64_t ig_refit_kept_size(const struct ig_refit_tables *t) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < t->n_weights; i++) {
        if (!t->weights[i].recipe_size) size += aligned(t->weights[i].size);
    }
    return size;
}

/* The first weight that ends behind a byte. */
static uint32_t first_behind(const struct ig_refit_tables *t, uint64_t offset) {
    uint32_t low = 0, high = t->n_weights;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->weights[middle].offset + t->weights[middle].size > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void ig_refit_find_apart(const struct ig_refit_tables *t, const struct ig_plan *plan, bool *out_apart) {
    for (uint32_t i = 0; i < t->n_weights; i++)
        out_apart[i] = t->weights[i].size > 0;
    for (uint32_t b = 0; b < plan->n_buffers; b++) {
        const struct ig_plan_buffer *buffer = &plan->buffers[b];
        if (buffer->kind != IG_PLAN_WEIGHT) continue;
        const uint64_t begin = 64 * (uint64_t)buffer->index, bytes = ig_plan_fixed_bytes(plan, buffer);
        for (uint32_t i = first_behind(t, begin); i < t->n_weights; i++) {
            const struct ig_weight_entry *w = &t->weights[i];
            if (w->offset >= begin && w->offset - begin >= bytes) break;
            if (w->offset != begin || bytes > w->size) out_apart[i] = false;
        }
    }
    for (uint32_t k = 0; k < plan->n_copies; k++) { /* each is of one weight */
        uint32_t i = first_behind(t, plan->copies[k].from);
        if (i < t->n_weights) out_apart[i] = false;
    }
}

#define REQUIRE(condition, ...)                                                \
    do {                                                                       \
        if (!(condition)) return IG_ERR(error, INGOT_BAD_ENGINE, __VA_ARGS__); \
    } while (0)

static bool in_table(uint64_t first, uint64_t count, uint64_t size) {
    return first <= size && count <= size - first;
}

static enum ingot_status check_weight(const struct ig_refit_tables *t, uint32_t i, uint64_t end, uint64_t weights_size,
                                      struct ingot_error *error) {
    const struct ig_weight_entry *w = &t->weights[i];
    bool begins = w->offset % IG_ENGINE_ALIGNMENT == 0 || (w->offset == end && i > 0);
    REQUIRE(begins && w->offset >= end && in_table(w->offset, w->size, weights_size),
            "weight %u has no place of its own", i);
    REQUIRE(in_table(w->recipe, w->recipe_size, t->recipes_size), "weight %u has no recipe", i);
    REQUIRE(in_table(w->sources, w->n_sources, t->n_sources), "weight %u has no sources", i);
    REQUIRE((w->n_sources == 0) == (w->recipe_size == 0), "weight %u has a recipe or sources, but not both", i);
    return INGOT_OK;
}

static enum ingot_status check_initializer(const struct ig_refit_tables *t, uint32_t i, struct ingot_error *error) {
    const struct ig_initializer_entry *one = &t->initializers[i];
    size_t size = ingot_dtype_size((enum ingot_dtype)one->dtype);
    REQUIRE(one->name < t->names_size, "initialiser %u has no name", i);
    REQUIRE(one->alias == IG_PLAN_NONE || one->alias < t->names_size, "initialiser %u has no other name", i);
    REQUIRE(one->is_transposed <= (one->alias != IG_PLAN_NONE && one->rank == 2),
            "initialiser %u is the transpose of nothing", i);
    REQUIRE(one->kind <= INGOT_UNUSED, "initialiser %u is of the unknown kind %u", i, one->kind);
    REQUIRE((one->kind == INGOT_STRUCTURAL) == (one->reason != IG_PLAN_NONE) &&
                (one->reason == IG_PLAN_NONE || one->reason < t->names_size),
            "initialiser %u is structural for no reason", i);
    REQUIRE(one->dtype > INGOT_DTYPE_NONE && one->dtype < INGOT_DTYPE_COUNT, "initialiser %u has no type", i);
    REQUIRE(one->rank <= INGOT_MAX_RANK, "initialiser %u has rank %u", i, one->rank);
    for (uint32_t k = 0; k < INGOT_MAX_RANK; k++) {
        REQUIRE(one->dims[k] >= 0 && (k < one->rank || one->dims[k] == 0), "initialiser %u has the dim %lld", i,
                (long long)one->dims[k]);
        REQUIRE(k >= one->rank || !__builtin_mul_overflow(size, (size_t)one->dims[k], &size),
                "initialiser %u is too large", i);
    }
    return INGOT_OK;
}

enum ingot_status ig_refit_check(const struct ig_refit_tables *t, uint64_t weights_size, struct ingot_error *error) {
    uint64_t end = 0;
    REQUIRE(t->names_size == 0 || t->names[t->names_size - 1] == '\0', "the names of initialisers are not terminated");
    for (uint32_t i = 0; i < t->n_weights; i++) {
        IG_TRY(check_weight(t, i, end, weights_size, error));
        end = t->weights[i].offset + t->weights[i].size;
    }
    for (uint32_t i = 0; i < t->n_initializers; i++)
        IG_TRY(check_initializer(t, i, error));
    for (uint32_t i = 0; i < t->n_sources; i++) {
        REQUIRE(t->sources[i] < t->n_initializers && t->initializers[t->sources[i]].kind == INGOT_REFITTABLE,
                "source %u is no initialiser that can be replaced", i);
    }
    return INGOT_OK;
}
