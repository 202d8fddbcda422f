/* Reading low-rank adapters as PEFT writes them: for the files adapter*.c only. */
#ifndef IG_WEIGHTS_ADAPTER_READ_H
#define IG_WEIGHTS_ADAPTER_READ_H

#include <jansson.h>

#include "weights/weights.h"

/* An adapter: its configuration, adapter_config.json, and its tensors. */
struct ig_adapter {
    struct ig_job *job;
    json_t *config;
    const struct ig_tensors *tensors;
    bool fan_in_fan_out; /* the model's weights are [in, out], as in GPT-2's Conv1D */
    bool rank_stabilized;
    double alpha;
};

/* A layer's matrices, A [rank, in...] and B [out, rank]. */
struct ig_adapter_pair {
    const char *module;
    const struct ingot_tensor *a, *b;
    bool is_embedding; /* its weight is [rows of the table, out], so that B A is its transpose */
};

/* Raises INGOT_BAD_TENSOR for what is malformed and INGOT_UNSUPPORTED for adapters of other kinds. */
void ig_adapter_open(struct ig_job *job, const void *config, size_t size, const struct ig_tensors *tensors,
                     struct ig_adapter *out_adapter);
void ig_adapter_close(struct ig_adapter *adapter);

/*
 * Calls pair(user, ...) for each layer's matrices, which fit each other and are of float types, and whole(user, name,
 * tensor) for each tensor that replaces one of the model.
 */
void ig_adapter_each(const struct ig_adapter *adapter, void (*pair)(void *user, const struct ig_adapter_pair *pair),
                     void (*whole)(void *user, const char *name, const struct ingot_tensor *tensor), void *user);
/* What the product of a layer's matrices is multiplied by. */
double ig_adapter_scale(const struct ig_adapter *adapter, const char *module, int64_t rank);

/* Elements of the float types. The data that load reads need not be aligned. */
double ig_adapter_load(const struct ingot_tensor *tensor, int64_t i);
void ig_adapter_store(const struct ingot_tensor *tensor, int64_t i, double value);
void ig_adapter_check_float(struct ig_job *job, const char *name, const struct ingot_tensor *tensor);
const char *ig_adapter_shape(struct ig_job *job, const struct ingot_tensor *tensor);
/* Does `whole` end with ".NAME"? */
bool ig_adapter_is_behind_prefix(const char *whole, const char *name);

#endif
