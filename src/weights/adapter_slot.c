/* Adapters for the slots of an engine; see adapter.h. */
#include <stdio.h>
#include <string.h>

#include "weights/adapter.h"
#include "weights/adapter_read.h"

struct filler {
    struct ig_tensors *out; /* A and B of each layer in turn */
    struct ig_job *job;
    struct ig_adapter adapter;
    const struct ingot_initializer_info *slots;
    size_t n_slots;
    const char *end; /* of the names of the slot's matrices A: ".lora_A.1.weight" */
};

/* ---- The slot's matrices ----------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a > b && strcmp(text + a - b, end) == 0;
}

static void add_empty(struct filler *f, const struct ingot_initializer_info *info) {
    struct ingot_named_tensor one = {.name = ig_format(f->job, "%s", info->name)};
    one.tensor = (struct ingot_tensor){.dtype = info->dtype, .rank = info->rank};
    memcpy(one.tensor.dims, info->dims, sizeof one.tensor.dims);
    one.tensor.data =
        ig_alloc_array(f->job, (size_t)ingot_tensor_elements(&one.tensor) + 1, ingot_dtype_size(info->dtype));
    IG_PUSH(f->job, &f->out->list, one);
}

/* All zeros, which add nothing: what the adapter before had there goes. */
static void empty_slot(struct filler *f, unsigned slot) {
    unsigned most = 0;
    for (size_t i = 0; i < f->n_slots; i++) {
        most = f->slots[i].slot > most ? f->slots[i].slot : most;
        if (f->slots[i].slot == slot) add_empty(f, &f->slots[i]);
    }
    if (most == 0)
        ig_raise(f->job, INGOT_INVALID_ARGUMENT, "the engine has no slots for adapters (it was built without them)");
    if (f->out->list.count == 0)
        ig_raise(f->job, INGOT_INVALID_ARGUMENT, "there is no slot %u: the engine has slots 1 to %u", slot, most);
}

static const struct ingot_tensor *find_matrix(const struct filler *f, const char *layer, const char *which) {
    const char *name = ig_format(f->job, "%s.lora_%s%s", layer, which, f->end);
    for (uint32_t i = 0; i < f->out->list.count; i++) {
        if (strcmp(f->out->list.at[i].name, name) == 0) return &f->out->list.at[i].tensor;
    }
    ig_raise(f->job, INGOT_BAD_ENGINE, "the engine's slot lacks '%.200s'", name);
}

/* The engine's name for a module, which may stand behind a prefix. */
static const char *find_layer(struct filler *f, const char *module) {
    const char *end = ig_format(f->job, ".lora_A%s", f->end), *found = NULL;
    for (uint32_t i = 0; i < f->out->list.count; i++) {
        const char *name = f->out->list.at[i].name;
        if (!ends_with(name, end)) continue;
        const char *layer = ig_strndup(f->job, name, strlen(name) - strlen(end));
        if (strcmp(layer, module) == 0) return layer;
        if (!ig_adapter_is_behind_prefix(layer, module)) continue;
        if (found)
            ig_raise(f->job, INGOT_BAD_TENSOR, "the adapter's '%.200s' could be '%.200s' or '%.200s'", module, found,
                     layer);
        found = layer;
    }
    if (!found)
        ig_raise(f->job, INGOT_BAD_TENSOR, "the adapter changes '%.200s', which has no slots in the engine", module);
    return found;
}

/* ---- Filling them ------------------------------------------------------------------------------------------------ */

/* Smaller ranks leave zeros behind; the scale goes into B. */
static void put_pair(void *user, const struct ig_adapter_pair *p) {
    struct filler *f = user;
    const char *layer = find_layer(f, p->module);
    const struct ingot_tensor *a = find_matrix(f, layer, "A"), *b = find_matrix(f, layer, "B");
    const int64_t rank = p->a->dims[0], most = a->dims[0], in = a->dims[1], out = b->dims[0];
    if (p->is_embedding || p->a->rank != 2 || p->a->dims[1] != in || p->b->dims[0] != out)
        ig_raise(f->job, INGOT_BAD_TENSOR, "the adapter's matrices of '%.200s' are %s and %s, and the slot's %s and %s",
                 p->module, ig_adapter_shape(f->job, p->a), ig_adapter_shape(f->job, p->b), ig_adapter_shape(f->job, a),
                 ig_adapter_shape(f->job, b));
    if (rank > most)
        ig_raise(f->job, INGOT_BAD_TENSOR,
                 "the adapter has rank %lld for '%.200s', and the engine's slots have rank %lld", (long long)rank,
                 p->module, (long long)most);
    const double scale = ig_adapter_scale(&f->adapter, p->module, rank);
    for (int64_t i = 0; i < rank * in; i++)
        ig_adapter_store(a, i, ig_adapter_load(p->a, i));
    for (int64_t o = 0; o < out; o++) {
        for (int64_t k = 0; k < rank; k++)
            ig_adapter_store(b, o * most + k, scale * ig_adapter_load(p->b, o * rank + k));
    }
}

static void refuse_whole(void *user, const char *name, const struct ingot_tensor *tensor) {
    struct filler *f = user;
    (void)tensor;
    ig_raise(f->job, INGOT_UNSUPPORTED,
             "the adapter replaces '%.200s', which all runs of the engine share: only products have slots", name);
}

void ig_adapter_fill(struct ig_tensors *out, const void *config, size_t config_size, const struct ig_tensors *adapter,
                     const struct ingot_initializer_info *slots, size_t n_slots, unsigned slot) {
    struct filler f = {.out = out, .job = out->job, .slots = slots, .n_slots = n_slots};
    f.end = ig_format(f.job, ".%u.weight", slot);
    empty_slot(&f, slot);
    if (!config) return;
    ig_adapter_open(f.job, config, config_size, adapter, &f.adapter);
    ig_adapter_each(&f.adapter, put_pair, refuse_whole, &f);
    ig_adapter_close(&f.adapter);
}
