/*
 * Refitting: an engine with other weights. The recipes of the weights that changed are evaluated again, by the evaluator
 * that a build uses; everything else is copied. So the result has the bytes of a fresh build of the model with these
 * weights, if that would have the same structure.
 */
#ifndef IG_COMPILE_REFIT_H
#define IG_COMPILE_REFIT_H

#include "compile/plan_build.h"
#include "compile/weights.h"
#include "engine/engine.h"

struct ig_refit_copy {
    const void *from;
    void *to; /* host memory */
    size_t size;
};

/* An engine, and tensors that are to replace initialisers of its model; both outlive the refit. */
struct ig_refit_input {
    const struct ig_engine_file *file;
    const struct ingot_named_tensor *tensors; /* of several with one name the last is taken */
    size_t n_tensors;
    const char *const *only; /* patterns (fnmatch): tensors of other names replace nothing; NULL: all do */
    size_t n_only;
    bool
        partial; /* initialisers without a tensor keep their values, and are borrowed if they were; else they are an error */
    bool ignore_unknown; /* skip tensors that are no initialisers of the model; else they are an error */
    void (*progress)(void *user, const char *what, unsigned done, unsigned total); /* may be NULL */
    void *progress_user;
    unsigned jobs; /* threads; 0: one per processor */
    /* Of a loaded engine: */
    bool borrow;                 /* where it has an initialiser as it is, the engine is to read the tensor in place */
    const void *const *borrowed; /* by weight: where it is read now; NULL: in the engine's memory */
    /* Copies tensors from the memory of the engine's GPU; raises what fails. NULL: tensors are in host memory. */
    void (*fetch)(struct ig_job *job, void *user, const struct ig_refit_copy *copies, size_t n);
    void *fetch_user;
};

struct ig_refit {
    struct ig_job *job;
    const struct ig_refit_input *input;
    const struct ig_engine_file *file;
    /* As in the file, but for the hashes of the new values. */
    struct ig_refit_tables tables;
    struct ingot_tensor *tensors; /* by initialiser; data NULL: unknown */
    bool *replaced;               /* by initialiser: its value changes */
    bool *stale;                  /* by weight: it is computed again */
    const void **borrowed;        /* by weight: where it is read from now on; NULL: in the engine's memory */
    bool *is_made;   /* by initialiser: a weight that is not borrowed is made from it, so that its bytes are needed */
    bool *is_turned; /* by initialiser: the tensor given is its transpose */
    struct ig_weight_reader *reader;
    uint32_t *place; /* by weight: its number among the stale ones */
    struct ingot_refit_info info;
};

/*
 * Compares. Raises INGOT_INVALID_ARGUMENT, with the tensor's name, what was expected and what was found: a tensor is
 * missing, unknown or of another type; the value of a structural initialiser differs; or one of the initialisers that a
 * weight is computed from changes and another's value is not given. An engine without weights needs all that can be
 * replaced.
 */
void ig_refit_begin(struct ig_job *job, const struct ig_refit_input *input, struct ig_refit *out_refit);

/* Evaluates the stale weights, in order: by all processors, some slabs ahead of what is read (weights.h). `index` is that of
 * a stale weight; those without bytes are skipped. */
void ig_refit_open(struct ig_refit *refit);
const void *ig_refit_read(struct ig_refit *refit, uint32_t index, size_t *out_size);
void ig_refit_close(struct ig_refit *refit);

/* Writes the engine with its new weights. The others are checked against their checksums first. */
void ig_refit_write(struct ig_refit *refit, const struct ig_engine_sink *sink);

/* Writes the engine without the weights that can be replaced; what ig_compile writes with strip_weights. */
void ig_refit_strip(struct ig_job *job, const struct ig_engine_file *file, const struct ig_engine_sink *sink);

/* Is this an engine without weights, of a model with initialisers of these names and types? */
bool ig_refit_is_of(const struct ig_engine_file *file, const struct ig_initializers *all);
/*
 * Would a build of the model whose initialisers these are give such an engine? Only asked where the model is the same in
 * everything but its initialisers' values (structure_key.h); then it is so if all structural ones have those that the
 * engine was built with, since a build learns of no others.
 */
bool ig_refit_fits(const struct ig_engine_file *file, const struct ig_initializers *all);
/* Writes the engine with the weights of such a model. Of `input`, the tensors are not used. */
void ig_refit_complete(struct ig_job *job, const struct ig_refit_input *input, const struct ig_initializers *all,
                       const struct ig_engine_sink *sink);

/* The initialisers of a model as tensors to refit an engine with; an array in the job's arena. */
struct ingot_named_tensor *ig_refit_tensors(struct ig_job *job, const struct ig_initializers *all, size_t *out_count);

#endif
