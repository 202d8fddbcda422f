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
 * but ingot_model_*, ingot_blob_release and ingot_pass_list).
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

/* Where data lie. */
enum ingot_memory {
    INGOT_HOST = 0, /* anywhere the processor can read and write */
    INGOT_PINNED,   /* the same, and pinned by the CUDA driver (cuMemHostAlloc, cuMemHostRegister and their like,
                       ingot_context_allocate, ingot_context_pin): goes to and from a GPU without a detour, which reaches for
                       it itself. Ordinary host memory to engines for the CPU */
    INGOT_CUDA,     /* memory of the GPU that the context runs on */
};

/* A view of a dense row-major tensor; it owns nothing. A scalar has rank 0. `data` may be NULL where a dim is 0. */
struct ingot_tensor {
    enum ingot_dtype dtype;
    int rank;
    int64_t dims[INGOT_MAX_RANK];
    void *data;
    enum ingot_memory memory;
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

/* ---- GPUs ------------------------------------------------------------------------------------------------------ */

struct ingot_gpu_info {
    char name[128];        /* "NVIDIA H100 80GB HBM3" */
    char target[32];       /* what to build for to use all of it: "cuda:sm_90a" */
    uint64_t memory_bytes; /* in all */
    unsigned multiprocessors;
    int driver; /* the newest CUDA version that the driver knows: 13000 is 13.0 */
};

/* How many GPUs the NVIDIA driver shows. INGOT_DEVICE where there is no driver; nothing of CUDA is needed otherwise. */
INGOT_API enum ingot_status ingot_gpu_count(int *out_count, struct ingot_error *error);
/* `device` counts from 0, in the driver's order. */
INGOT_API enum ingot_status ingot_gpu_describe(int device, struct ingot_gpu_info *out_info, struct ingot_error *error);

/* Keeps a GPU open while contexts on it come and go: a tenth of a second and more is saved for each that would otherwise be
 * the first. Released once for each hold; NULL is nothing. */
struct ingot_gpu;
INGOT_API enum ingot_status ingot_gpu_hold(int device, struct ingot_gpu **out_gpu, struct ingot_error *error);
INGOT_API void ingot_gpu_release(struct ingot_gpu *gpu);

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

/* What the engine was built for: "cpu:x86-64-v4", "cuda:sm_90a". Lives as long as the engine. */
INGOT_API const char *ingot_engine_target(const struct ingot_engine *engine);

/* What is inside and why, as one JSON object (docs/engine.md describes it). Lives as long as the engine. */
INGOT_API const char *ingot_engine_explanation(const struct ingot_engine *engine);

struct ingot_context_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the context's life; NULL: the engine's */
    unsigned threads; /* the caller's included; 0: as many as this process may use. CPU: that compute. GPU: that
                                  copy large inputs and results between the caller's memory and pinned memory, up to 4 */
    size_t max_plan_instances; /* how many sets of shapes stay prepared; 0: 16 */
    bool profile;              /* time every kernel; see ingot_context_profile */
    int device;                /* engines for CUDA: the number of the GPU */
    size_t max_plan_bytes;     /* what they may take in all (one stays in any case); 0: 256 MiB */
    bool timing;               /* GPU: measure transfers and computation; see ingot_context_timing */
};
#define INGOT_CONTEXT_OPTIONS_INIT \
    { sizeof(struct ingot_context_options), NULL, 0, 0, false, 0, 0, false }

/*
 * A context of an engine for the CPU runs on the calling thread and on threads of its own. One of an engine for CUDA runs
 * on the GPU options.device: INGOT_DEVICE where there is no driver or no such GPU, INGOT_INCOMPATIBLE where the GPU is of
 * an architecture that the engine is not for. The weights are brought to a GPU once per engine, by its first context
 * there, and stay until the engine's end.
 */
INGOT_API enum ingot_status ingot_context_create(struct ingot_engine *engine,
                                                 const struct ingot_context_options *options,
                                                 struct ingot_context **out_context, struct ingot_error *error);
INGOT_API void ingot_context_destroy(struct ingot_context *context);

/*
 * Binds input `index` to `tensor` (type and fixed dims must agree; the data are read by ingot_context_run or _enqueue, not
 * before, and are not copied). Stays bound for later runs. Data in GPU memory (INGOT_CUDA) are used where they lie if they
 * are aligned to 16 bytes.
 */
INGOT_API enum ingot_status ingot_context_set_input(struct ingot_context *context, size_t index,
                                                    const struct ingot_tensor *tensor, struct ingot_error *error);

/* Binds output `index` to caller's memory of `size` bytes; NULL: back to the context's own memory. */
INGOT_API enum ingot_status ingot_context_set_output(struct ingot_context *context, size_t index, void *data,
                                                     size_t size, struct ingot_error *error);
/* The same, for any memory. INGOT_CUDA with `data` NULL: the result stays in GPU memory of the context's own, and
 * ingot_context_output tells where. */
INGOT_API enum ingot_status ingot_context_set_output_in(struct ingot_context *context, size_t index,
                                                        enum ingot_memory memory, void *data, size_t size,
                                                        struct ingot_error *error);

/* Runs once and waits: ingot_context_enqueue and ingot_context_wait. Shapes may differ from the last run's; shapes seen
 * before cost nothing. After the first run with some shapes, further runs with them allocate nothing. */
INGOT_API enum ingot_status ingot_context_run(struct ingot_context *context, struct ingot_error *error);

/*
 * Begins a run. `stream` is a CUstream (cudaStream_t) of the context's GPU, behind whose work the run is put; NULL: a
 * stream of the context's own. It must exist until the next call of ingot_context_wait or the context's end.
 *
 * Runs of a context come after each other, whatever their streams. When this returns, inputs in INGOT_HOST memory have
 * been read; those in INGOT_PINNED or INGOT_CUDA memory are read behind the stream's work. Results in GPU memory may be
 * used by work that is put behind it on that stream; all others are there when ingot_context_wait returns, of the last run
 * alone if there were several. A failure on the device comes back there too.
 *
 * With shapes seen before, this waits for nothing and allocates nothing, with three exceptions: it lets the GPU fall
 * behind by two runs at most where inputs come from INGOT_HOST memory; it waits for the scalars that decide on the way in
 * plans with control flow; and for inputs in GPU memory that hold shapes. Profiled contexts wait for every run.
 *
 * On the CPU, the run is over when this returns, and `stream` must be NULL.
 */
INGOT_API enum ingot_status ingot_context_enqueue(struct ingot_context *context, void *stream,
                                                  struct ingot_error *error);

/* Waits for what was enqueued. At once where nothing was. */
INGOT_API enum ingot_status ingot_context_wait(struct ingot_context *context, struct ingot_error *error);

/* Memory for inputs and outputs of this context, for those who do not use CUDA themselves: INGOT_PINNED or INGOT_CUDA of
 * its GPU, aligned to 64 bytes; on the CPU and for INGOT_HOST ordinary memory. Given back with the same size before the
 * context's end, when no run uses it. */
INGOT_API enum ingot_status ingot_context_allocate(struct ingot_context *context, enum ingot_memory memory, size_t size,
                                                   void **out_data, struct ingot_error *error);
INGOT_API void ingot_context_free(struct ingot_context *context, enum ingot_memory memory, void *data, size_t size);

/*
 * Pins memory that the caller has already, so that it can be bound as INGOT_PINNED and inputs and results need not be
 * copied by the host on their way; for all GPUs of the process. It takes a while (about as long as copying the memory once
 * or twice): for memory that many runs use. Unpinned with the same address before it is given back and before the
 * context's end, when no run uses it. INGOT_DEVICE with the driver's words where it cannot be pinned (it is already, or
 * mapped in a way that forbids it). On the CPU this does nothing.
 */
INGOT_API enum ingot_status ingot_context_pin(struct ingot_context *context, void *data, size_t size,
                                              struct ingot_error *error);
INGOT_API void ingot_context_unpin(struct ingot_context *context, void *data);

/* The result of the last run; `out_tensor->data` is valid until the next run or set_output of this context. Before
 * ingot_context_wait only what stays in GPU memory can be had. */
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

/* How long the last run took on the GPU, by its own clock: of contexts that were made with the option `timing`, after
 * ingot_context_wait. INGOT_UNSUPPORTED for others, and on the CPU. */
struct ingot_timing {
    double input_ms;   /* copies of inputs from host memory */
    double compute_ms; /* everything between */
    double output_ms;  /* copies of outputs to host memory */
};
INGOT_API enum ingot_status ingot_context_timing(const struct ingot_context *context, struct ingot_timing *out_timing,
                                                 struct ingot_error *error);

/* What the bound shapes need. On a GPU it is the GPU's memory, but for half of what transfers take. */
struct ingot_memory_info {
    size_t weights_bytes;     /* CPU: mapped, shared between processes; GPU: shared by the engine's contexts */
    size_t arena_bytes;       /* activations as planned */
    size_t lower_bound_bytes; /* the largest sum of live activations at any step: no plan can be smaller */
    size_t scratch_bytes;     /* work space of all threads or blocks */
    size_t transfer_bytes;    /* GPU: inputs and outputs on both sides */
    /* GPU: steps that do not wait for each other run side by side where that is estimated to gain. */
    size_t parallel_steps; /* that have others beside them; 0: one after the other */
    size_t parallel_bytes; /* that arena_bytes has more for it */
    double parallel_gain;  /* the part of the time that is estimated to be saved */
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
    /* "cpu" (this machine's, the default), "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:amx"; "cuda" (this machine's GPU), or
     * "cuda:sm_80", "cuda:sm_90a" and so on: an architecture, which needs no GPU to build for */
    const char *target;
    int opt_level; /* 0 to 5; default 3 */
    const struct ingot_shape_spec *shapes;
    size_t n_shapes;
    const char *const *pass_switches; /* "NAME=on" or "NAME=off" */
    size_t n_pass_switches;
    const char *dump_after;        /* a pass's name, or "all"; NULL: none */
    const struct ingot_sink *dump; /* gets the dumps */
    const char *cc;                /* C compiler; NULL: the first of $PATH's cc, gcc, clang */
    unsigned jobs;                 /* kernels compiled at once; 0: one per processor */
    bool verify_passes;            /* check the graph after every pass */
    /* Called as work goes on, from the building thread: `done` of `total` of `what`. NULL: silent. */
    void (*progress)(void *user, const char *what, unsigned done, unsigned total);
    void *progress_user;
    const char *nvrtc; /* CUDA targets: the library libnvrtc, or a folder that has it; NULL: the system's */
    bool portable;     /* CUDA targets: PTX beside the machine code, for newer architectures than the target's */
    /* What matrix products and convolutions read, and what is stored between kernels: "fp32" (the default), "tf32" (fp32
     * whose products GPUs may round), "fp16" or "bf16". Sums, statistics and what could overflow stay in fp32, the types
     * of inputs and outputs as they are (docs/precision.md). */
    const char *precision;
    /* The same for parts of the model: "PATTERN=TYPE", where PATTERN is compared with the names and the operators of ONNX
     * nodes and may have * and ?. The last one that fits a node counts. */
    const char *const *precision_of;
    size_t n_precision_of;
    int device; /* the number of the GPU that the target "cuda" means */
    /* Measure the ways to compute each kernel on this machine, for at most so many seconds: see docs/tuning.md. 0: do not
     * measure. At optimisation level 0, the first choice is taken in any case. */
    double tune_seconds;
    /* Files with what was measured before, read one after the other; a later one wins. What is measured is written to the
     * last one, together with what was read; it need not exist. */
    const char *const *timing_caches;
    size_t n_timing_caches;
    /* Called with what was not done and is no failure, in a sentence: "not tuned, the first choices are taken: no NVIDIA
     * driver ...". NULL: silent. */
    void (*note)(void *user, const char *text);
    void *note_user;
    /* "all" (or NULL) or "generated": whether NVIDIA's libraries are among the ways to compute a kernel. They are taken only
     * where they were measured as faster; an engine that has such a kernel needs the library where it runs. */
    const char *tactics;
};
#define INGOT_BUILD_OPTIONS_INIT                                                                                     \
    {                                                                                                                \
        sizeof(struct ingot_build_options), NULL, 3, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, false, NULL, NULL, NULL, \
            false, NULL, NULL, 0, 0, 0, NULL, 0, NULL, NULL, NULL                                                    \
    }

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
