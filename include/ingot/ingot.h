/*
 * Ingot: compile a trained network into one engine file, and run it.
 *
 * The way of the data is short:
 *
 *     model.onnx --ingot_model_load--> model --ingot_model_build--> engine file
 *     engine file --ingot_engine_load--> engine --ingot_context_create--> context --run--> outputs
 *
 * A *model* is an imported network, independent of any machine. Building it for a target makes an *engine*: one
 * file with the optimised plan, the machine code, the packed weights and the explanation of every choice. An engine
 * is immutable and may serve any number of *contexts*; a context is one flow of execution with memory of its own.
 *
 * Conventions that hold for every function below:
 *
 *  - A function that can fail returns an ingot_status and takes a caller-owned `struct ingot_error *` (NULL: not
 *    interested), which it fills with the whole story in one line. Outputs come last, are named out_x, and are
 *    untouched on failure. The library never prints, exits or aborts.
 *  - Option structs start with their size: set `struct_size = sizeof(...)`, zero the rest, and every field keeps its
 *    default; later versions add fields at the end. The INGOT_*_OPTIONS_INIT macros do so.
 *  - A pointer passed in is borrowed for the duration of the call unless the text says otherwise.
 *  - Threads: models and contexts may be used by one thread at a time; an engine by any number at once.
 *
 * Link with libingot to build and run; libingot-rt has only what an engine needs to run (everything in this header
 * but ingot_model_* and ingot_targets).
 */
#ifndef INGOT_INGOT_H
#define INGOT_INGOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define INGOT_API __attribute__((visibility("default")))
#else
#define INGOT_API
#endif

#define INGOT_VERSION_MAJOR 0
#define INGOT_VERSION_MINOR 1
#define INGOT_VERSION_PATCH 0
#define INGOT_VERSION "0.1.0"

/* ---- Status and errors ---------------------------------------------------------------------------------------- */

enum ingot_status {
    INGOT_OK = 0,
    INGOT_INVALID_ARGUMENT, /* the caller's arguments: a name, a shape, a type, an option */
    INGOT_OUT_OF_MEMORY,    /* an allocation failed */
    INGOT_IO,               /* a file could not be read or written */
    INGOT_BAD_MODEL,        /* the model is malformed or contradicts its own standard */
    INGOT_BAD_ENGINE,       /* the engine is damaged, truncated or no engine at all */
    INGOT_BAD_TENSOR,       /* a tensor file is malformed */
    INGOT_UNSUPPORTED,      /* well-formed, but Ingot does not do this (yet) */
    INGOT_INCOMPATIBLE,     /* the engine is for another version, target or machine */
    INGOT_TOOLCHAIN,        /* no C compiler, or the compiler failed */
    INGOT_DEVICE,           /* the device or the operating system failed */
    INGOT_INTERNAL,         /* a defect in Ingot: please report it */
};

#define INGOT_ERROR_MESSAGE_SIZE 1024

/* Filled by a call that fails: one line that says what, where, and what was expected. */
struct ingot_error {
    enum ingot_status status;
    char message[INGOT_ERROR_MESSAGE_SIZE];
};

/* "bad model", "out of memory", …; a static string, never NULL. */
INGOT_API const char *ingot_status_name(enum ingot_status status);

/* The version of the library that is linked, which may be newer than this header's. */
INGOT_API const char *ingot_version(void);

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

/*
 * Where all memory comes from. `alloc` returns `size` bytes aligned to `alignment` (a power of two, at most 4096) or
 * NULL; `release` gives back what alloc returned, with the same size. Both may be called from several threads at once
 * if contexts are used from several threads. A NULL allocator in an options struct means the C library's.
 */
struct ingot_allocator {
    void *user;
    void *(*alloc)(void *user, size_t size, size_t alignment);
    void (*release)(void *user, void *memory, size_t size);
};

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

enum ingot_dtype {
    INGOT_DTYPE_NONE = 0,
    INGOT_F32,
    INGOT_F16,
    INGOT_BF16,
    INGOT_F64,
    INGOT_I8,
    INGOT_I16,
    INGOT_I32,
    INGOT_I64,
    INGOT_U8,
    INGOT_U16,
    INGOT_U32,
    INGOT_U64,
    INGOT_BOOL, /* one byte, 0 or 1 */
    INGOT_DTYPE_COUNT
};

#define INGOT_MAX_RANK 8

/* Bytes of one element. */
INGOT_API size_t ingot_dtype_size(enum ingot_dtype dtype);
/* "f32", "i64", …; a static string. */
INGOT_API const char *ingot_dtype_name(enum ingot_dtype dtype);

/* A view of a dense row-major tensor; it owns nothing. A scalar has rank 0. `data` may be NULL where a dim is 0. */
struct ingot_tensor {
    enum ingot_dtype dtype;
    int rank;
    int64_t dims[INGOT_MAX_RANK];
    void *data;
};

/* Product of the dims; 1 for a scalar. */
INGOT_API int64_t ingot_tensor_elements(const struct ingot_tensor *tensor);

/* What is known of an input or output before shapes are bound. A dim that is not fixed is -1 in `dims`; its symbol
 * says which dims are equal ("batch", "2*seq+1"); a fixed dim's symbol is its number. Strings live as long as the
 * model or engine that was asked. */
struct ingot_tensor_info {
    const char *name;
    enum ingot_dtype dtype;
    int rank;
    int64_t dims[INGOT_MAX_RANK];
    const char *symbols[INGOT_MAX_RANK];
};

/* ---- Running engines ------------------------------------------------------------------------------------------- */

struct ingot_engine;
struct ingot_context;

enum ingot_verify {
    INGOT_VERIFY_ALL = 0, /* check every section's checksum before load returns */
    INGOT_VERIFY_LATER, /* everything but the weights before load returns; the weights at the end of the first run, whose
                                results are given out only if they are sound */
    INGOT_VERIFY_NO_WEIGHTS, /* never the weights */
};

struct ingot_load_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the engine's life */
    enum ingot_verify verify;
};
#define INGOT_LOAD_OPTIONS_INIT \
    { sizeof(struct ingot_load_options), NULL, INGOT_VERIFY_ALL }

/* Maps the engine at `path`. The file must not change while it is loaded. One reference is the caller's. */
INGOT_API enum ingot_status ingot_engine_load(const char *path, const struct ingot_load_options *options,
                                              struct ingot_engine **out_engine, struct ingot_error *error);

/* The same from memory, which must be aligned to 64 bytes and outlive the engine. */
INGOT_API enum ingot_status ingot_engine_load_memory(const void *data, size_t size,
                                                     const struct ingot_load_options *options,
                                                     struct ingot_engine **out_engine, struct ingot_error *error);

/* References are counted atomically; each context holds one. */
INGOT_API void ingot_engine_retain(struct ingot_engine *engine);
INGOT_API void ingot_engine_release(struct ingot_engine *engine);

INGOT_API size_t ingot_engine_input_count(const struct ingot_engine *engine);
INGOT_API size_t ingot_engine_output_count(const struct ingot_engine *engine);
/* `index` below the count; the strings live as long as the engine. */
INGOT_API void ingot_engine_input(const struct ingot_engine *engine, size_t index, struct ingot_tensor_info *out_info);
INGOT_API void ingot_engine_output(const struct ingot_engine *engine, size_t index, struct ingot_tensor_info *out_info);

/* What is inside and why, as one JSON object (docs/engine.md describes it). Lives as long as the engine. */
INGOT_API const char *ingot_engine_explanation(const struct ingot_engine *engine);

struct ingot_context_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the context's life; NULL: the engine's */
    unsigned threads;          /* that compute, the caller's included; 0: as many as this process may use */
    size_t max_plan_instances; /* how many sets of shapes stay prepared; 0: 16 */
    bool profile;              /* time every kernel; see ingot_context_profile */
};
#define INGOT_CONTEXT_OPTIONS_INIT \
    { sizeof(struct ingot_context_options), NULL, 0, 0, false }

INGOT_API enum ingot_status ingot_context_create(struct ingot_engine *engine,
                                                 const struct ingot_context_options *options,
                                                 struct ingot_context **out_context, struct ingot_error *error);
INGOT_API void ingot_context_destroy(struct ingot_context *context);

/* Binds input `index` to `tensor` (type and fixed dims must agree; the data is read by ingot_context_run, not before,
 * and is not copied). Stays bound for later runs. */
INGOT_API enum ingot_status ingot_context_set_input(struct ingot_context *context, size_t index,
                                                    const struct ingot_tensor *tensor, struct ingot_error *error);

/* Binds output `index` to caller's memory of `size` bytes; NULL: back to the context's own memory. */
INGOT_API enum ingot_status ingot_context_set_output(struct ingot_context *context, size_t index, void *data,
                                                     size_t size, struct ingot_error *error);

/* Runs once and waits. Shapes may differ from the last run's; shapes seen before cost nothing. After the first run
 * with some shapes, further runs with them allocate nothing. */
INGOT_API enum ingot_status ingot_context_run(struct ingot_context *context, struct ingot_error *error);

/* The result of the last run; `out_tensor->data` is valid until the next run or set_output of this context. */
INGOT_API enum ingot_status ingot_context_output(const struct ingot_context *context, size_t index,
                                                 struct ingot_tensor *out_tensor, struct ingot_error *error);

/* One row per step of the plan of the last run. `origin` names the ONNX nodes that the kernel came from. */
struct ingot_profile_row {
    const char *kernel;
    const char *origin;
    uint64_t calls;
    double total_ms;
};
INGOT_API size_t ingot_context_profile(const struct ingot_context *context, struct ingot_profile_row *rows,
                                       size_t capacity);

/* What the bound shapes need. */
struct ingot_memory_info {
    size_t weights_bytes;     /* mapped, shared between processes */
    size_t arena_bytes;       /* activations as planned */
    size_t lower_bound_bytes; /* the largest sum of live activations at any step: no plan can be smaller */
    size_t scratch_bytes;     /* per-thread work space, all threads */
};
INGOT_API enum ingot_status ingot_context_memory(struct ingot_context *context, struct ingot_memory_info *out_info,
                                                 struct ingot_error *error);

/* ---- Models and building (libingot) ---------------------------------------------------------------------------- */

struct ingot_model;

struct ingot_model_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the model's life */
};
#define INGOT_MODEL_OPTIONS_INIT \
    { sizeof(struct ingot_model_options), NULL }

/* Imports an ONNX file; external data is looked for beside it, and nowhere else. */
INGOT_API enum ingot_status ingot_model_load(const char *path, const struct ingot_model_options *options,
                                             struct ingot_model **out_model, struct ingot_error *error);
/* The same from memory, which is copied where needed. `folder` is where external data lies; NULL refuses it. */
INGOT_API enum ingot_status ingot_model_load_memory(const void *data, size_t size, const char *folder,
                                                    const struct ingot_model_options *options,
                                                    struct ingot_model **out_model, struct ingot_error *error);
INGOT_API void ingot_model_destroy(struct ingot_model *model);

INGOT_API size_t ingot_model_input_count(const struct ingot_model *model);
INGOT_API size_t ingot_model_output_count(const struct ingot_model *model);
INGOT_API void ingot_model_input(const struct ingot_model *model, size_t index, struct ingot_tensor_info *out_info);
INGOT_API void ingot_model_output(const struct ingot_model *model, size_t index, struct ingot_tensor_info *out_info);

/* Where text goes that a call produces piece by piece. */
struct ingot_sink {
    void *user;
    void (*write)(void *user, const char *text, size_t length);
};

/* The imported graph in its text form (docs/ir.md), which the library can parse back. */
INGOT_API enum ingot_status ingot_model_print(struct ingot_model *model, const struct ingot_sink *sink,
                                              struct ingot_error *error);

/* Runs the model in the reference evaluator: slow, plain C, double accumulation; the oracle of `ingot verify`.
 * `inputs` are in the model's order. `out_outputs` gets one tensor per output, whose data the model owns until the
 * next evaluation or its end. */
INGOT_API enum ingot_status ingot_model_evaluate(struct ingot_model *model, const struct ingot_tensor *inputs,
                                                 size_t n_inputs, struct ingot_tensor *out_outputs, size_t n_outputs,
                                                 struct ingot_error *error);

/* Limits one dynamic dim, or one input's dims, before building. `name` is a symbol ("batch") or an input's name; `spec`
 * is "4", "1:8:64" (min:opt:max) for a symbol and "1x3x224x224", possibly with ranges, for an input. */
struct ingot_shape_spec {
    const char *name;
    const char *spec;
};

struct ingot_build_options {
    size_t struct_size;
    const char *target; /* "cpu" (this machine's, the default), "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:amx" */
    int opt_level;      /* 0 to 5; default 3 */
    const struct ingot_shape_spec *shapes;
    size_t n_shapes;
    const char *const *pass_switches; /* "NAME=on" or "NAME=off" */
    size_t n_pass_switches;
    const char *dump_after;        /* a pass's name, or "all"; NULL: none */
    const struct ingot_sink *dump; /* gets the dumps */
    const char *cc;                /* C compiler; NULL: the first of $PATH's cc, gcc, clang */
    unsigned jobs;                 /* compiler processes at once; 0: one per processor */
    bool verify_passes;            /* check the graph after every pass */
    /* Called as work goes on, from the building thread: `done` of `total` of `what`. NULL: silent. */
    void (*progress)(void *user, const char *what, unsigned done, unsigned total);
    void *progress_user;
};
#define INGOT_BUILD_OPTIONS_INIT \
    { sizeof(struct ingot_build_options), NULL, 3, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, false, NULL, NULL }

/* Compiles into the engine file `path`, which appears whole or not at all. */
INGOT_API enum ingot_status ingot_model_build(struct ingot_model *model, const struct ingot_build_options *options,
                                              const char *path, struct ingot_error *error);

/* Compiles into memory: `*out_data` (aligned to 64 bytes) belongs to the caller, to be given to ingot_blob_release. */
INGOT_API enum ingot_status ingot_model_build_memory(struct ingot_model *model,
                                                     const struct ingot_build_options *options, void **out_data,
                                                     size_t *out_size, struct ingot_error *error);
INGOT_API void ingot_blob_release(struct ingot_model *model, void *data, size_t size);

/* The optimisation passes in the order in which they run. */
struct ingot_pass_info {
    const char *name;
    const char *description;
    int level; /* runs at this opt_level and above */
};
INGOT_API size_t ingot_pass_list(struct ingot_pass_info *passes, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
