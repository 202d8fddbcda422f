/*
 * Batches rounded up: a context's policy for one symbol whose rows are independent (engine/plan.h). A run of n rows takes
 * the plan instance of the nearest size b of a list, n <= b, so that few instances serve all sizes. The caller sees
 * n rows only: inputs are read, and results are written and reported, up to there.
 *
 * What kernels read behind the n rows is zeros at first, later what earlier runs have left there; which of these does not
 * matter, since no row affects another. Inputs that are staged have room for b rows where they are staged; others are
 * copied to memory of the context's own, unless n is b. Results go straight to the caller's memory if that has room for
 * b rows, else by memory of the context's own.
 */
#ifndef IG_RUNTIME_BATCH_H
#define IG_RUNTIME_BATCH_H

#include "runtime/runtime.h"

struct ig_instance;

/* Memory with room for b rows that stands in for the caller's; only where the device's memory is the host's. */
struct ig_padding {
    void *memory;
    size_t size;
};

struct ig_batch {
    uint32_t symbol; /* that is rounded; IG_PLAN_NONE: sizes are taken as they are */
    int64_t *sizes;  /* ascending */
    size_t n_sizes;
    /* The symbol of which the current instance has another value than the bound inputs; IG_PLAN_NONE: none. And theirs. */
    uint32_t by;
    int64_t rows;
    uint32_t ran_by; /* `by` and `rows` of the last run, for its results */
    int64_t ran_rows;
    uint32_t parts_symbol;      /* that may be divided; IG_PLAN_NONE: none; see parts.h */
    struct ig_padding *padding; /* by input, then by output; NULL: not needed so far */
    bool cleared;               /* nothing in the transfer's blocks of inputs is uninitialised */
    struct ingot_batch_info info;
};

void ig_batch_init(struct ig_batch *batch);
void ig_batch_deinit(struct ig_context *context);
/* Frees the memory that stands in for the caller's. */
void ig_batch_trim(struct ig_context *context);

/* The first symbol whose rows are independent and lie along the first axis of inputs and outputs; IG_PLAN_NONE: none. */
enum ingot_status ig_batch_find_symbol(const struct ig_context *context, uint32_t *out_symbol,
                                       struct ingot_error *error);
/* Rounds the symbols that were read from the inputs. */
void ig_batch_round(struct ig_context *context);
/* ig_shape_check_inputs for inputs of `rows` rows and an instance of the rounded size. */
enum ingot_status ig_batch_check_inputs(struct ig_context *context, const struct ig_instance *instance,
                                        struct ingot_error *error);
bool ig_batch_has_rows(const struct ig_batch *batch, const struct ig_plan_tensor *tensor);
/* The caller's bytes of an input or output that has `bytes` in the current instance. */
size_t ig_batch_bytes(const struct ig_context *context, const struct ig_plan_tensor *tensor, size_t bytes);
/* A dim of a result of the last run. */
int64_t ig_batch_dim(const struct ig_context *context, ig_slot slot);
/* Do copies from or to the caller's memory follow the number of rows? They cannot be part of a list then, which would be
 * captured anew for each number. The same for all numbers of rows. */
bool ig_batch_copies_vary(const struct ig_context *context);
/* Counts a run that is about to begin, with the current instance. `captured`: it has just been captured for it. */
void ig_batch_count(struct ig_context *context, bool captured);

/* Only for devices with memory of their own: clears the transfer's blocks of inputs, if that has not been done since they
 * moved and rows may be padded. */
enum ingot_status ig_batch_clear(struct ig_context *context, struct ingot_error *error);
/* Only for devices that use host memory: the address that kernels read input i from, after copying its rows there. */
enum ingot_status ig_batch_pad_input(struct ig_context *context, uint32_t i, void **out_data,
                                     struct ingot_error *error);
/* The address that kernels write output i to, whose memory is the caller's; afterwards its rows are copied from there. */
enum ingot_status ig_batch_pad_output(struct ig_context *context, uint32_t i, void **out_data,
                                      struct ingot_error *error);
void ig_batch_deliver(const struct ig_context *context);

#endif
