/*
 * Ingot: compile a trained network into one engine file, and run it.
 *
 *     model.onnx --ingot_model_load--> model --ingot_model_build--> engine file
 *     engine file --ingot_engine_load--> engine --ingot_context_create--> context --run--> outputs
 *
 * A *model* is an imported network, independent of any machine. Building it for a target makes an *engine*: one file
 * with the optimised plan, the machine code, the packed weights and the explanation of every choice. An engine is
 * immutable and may serve any number of *contexts*; a context is one sequence of runs, with memory of its own.
 *
 * Conventions that hold for every function below:
 *
 *  - A function that can fail returns an ingot_status and takes a caller-owned `struct ingot_error *` (may be NULL),
 *    which it fills with one complete line of text. Outputs come last, are named out_x, and are untouched on failure.
 *    The library never prints, exits or aborts.
 *  - Option structs start with their size: set `struct_size = sizeof(...)`, zero the rest, and every field keeps its
 *    default; later versions add fields at the end. The INGOT_*_OPTIONS_INIT macros do so.
 *  - A pointer passed in is borrowed for the duration of the call unless stated otherwise.
 *  - Threads: a model, a context or a lease may be used by one thread at a time, an engine or an arena by any number at
 *    once. A lease may be used while another thread uses its context, and ingot_context_cancel is for any thread.
 *
 * Link with libingot to build and run. libingot-rt only runs engines: it has everything in this header, but not what
 * build.h and network.h declare, which this one includes.
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
    INGOT_TIMEOUT,          /* a time limit has passed */
    INGOT_CANCELLED,        /* the run was cancelled */
};

#define INGOT_ERROR_MESSAGE_SIZE 1024

/* Filled by a call that fails: one line that says what failed, where, and what was expected. */
struct ingot_error {
    enum ingot_status status;
    char message[INGOT_ERROR_MESSAGE_SIZE];
};

/* "bad model", "out of memory", …; a static string, never NULL. */
INGOT_API const char *ingot_status_name(enum ingot_status status);

/* The version of the linked library, which may be newer than this header. */
INGOT_API const char *ingot_version(void);

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

/*
 * The source of all memory. `alloc` returns `size` bytes aligned to `alignment` (a power of two, at most 4096) or NULL;
 * `release` frees what alloc returned, given the same size. Both must be thread-safe if contexts are used from several
 * threads, or models are built by more than one job. A NULL allocator in an options struct means the C library's.
 */
struct ingot_allocator {
    void *user;
    void *(*alloc)(void *user, size_t size, size_t alignment);
    void (*release)(void *user, void *memory, size_t size);
};

/* ---- Tensors --------------------------------------------------------------------------------------------------- */

/*
 * Types of elements. Each element has bytes of its own. That holds for types of less than 8 bits too: in memory one element
 * is one byte, whose low bits count and whose others are ignored where it is read; what Ingot writes there repeats the sign
 * (i4, i2) or is 0. That is also how NumPy's extension ml_dtypes keeps them. Files that pack several elements in a byte,
 * such as ONNX's, are unpacked as they are read.
 */
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
    INGOT_I4,   /* -8 to 7 */
    INGOT_U4,
    INGOT_I2, /* -2 to 1 */
    INGOT_U2,
    INGOT_F8E4M3FN,   /* sign, 4 bits of exponent, 3 of mantissa; no infinities; up to 448 */
    INGOT_F8E5M2,     /* up to 57344 */
    INGOT_F8E4M3FNUZ, /* neither infinities nor a negative zero, whose code is NaN; up to 240 */
    INGOT_F8E5M2FNUZ, /* the same, up to 57344 */
    INGOT_F8E8M0,     /* the power of two 2^(code - 127); 255 is NaN */
    INGOT_F4E2M1,     /* 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives */
    INGOT_DTYPE_COUNT
};

#define INGOT_MAX_RANK 8

/* Bytes of one element. */
INGOT_API size_t ingot_dtype_size(enum ingot_dtype dtype);
/* "f32", "i64", …; a static string. */
INGOT_API const char *ingot_dtype_name(enum ingot_dtype dtype);

/* Where a tensor's data reside. */
enum ingot_memory {
    INGOT_HOST = 0, /* any memory that the processor can read and write */
    /* Host memory pinned by the CUDA driver (cuMemHostAlloc, cuMemHostRegister and their like, ingot_context_allocate,
     * ingot_context_pin): the GPU copies to and from it directly, without staging. Ordinary host memory to engines for
     * the CPU. */
    INGOT_PINNED,
    INGOT_CUDA, /* memory of the context's GPU */
};

/* A dense row-major tensor; does not own its data. A scalar has rank 0. `data` may be NULL where a dim is 0. */
struct ingot_tensor {
    enum ingot_dtype dtype;
    int rank;
    int64_t dims[INGOT_MAX_RANK];
    void *data;
    enum ingot_memory memory;
};

/* Product of the dims; 1 for a scalar. */
INGOT_API int64_t ingot_tensor_elements(const struct ingot_tensor *tensor);

/* An input or output before shapes are bound. A dynamic dim is -1 in `dims`; its symbol says which dims are equal
 * ("batch", "2*seq+1"). The symbol of a fixed dim is its number. Strings live as long as the model or engine they come
 * from. */
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
    char target[32];       /* the target that uses all of its features: "cuda:sm_90a" */
    uint64_t memory_bytes; /* total */
    unsigned multiprocessors;
    int driver; /* the newest CUDA version that the driver supports: 13000 is 13.0 */
};

/* The number of GPUs that the NVIDIA driver reports. INGOT_DEVICE where there is no driver; no other part of CUDA is
 * needed. */
INGOT_API enum ingot_status ingot_gpu_count(int *out_count, struct ingot_error *error);
/* `device` counts from 0, in the driver's order. */
INGOT_API enum ingot_status ingot_gpu_describe(int device, struct ingot_gpu_info *out_info, struct ingot_error *error);

/* Keeps a GPU initialised while contexts on it come and go. Otherwise each context that finds no other on the GPU pays
 * for the initialisation again, a tenth of a second or more. Release each hold once; releasing NULL does nothing. */
struct ingot_gpu;
INGOT_API enum ingot_status ingot_gpu_hold(int device, struct ingot_gpu **out_gpu, struct ingot_error *error);
INGOT_API void ingot_gpu_release(struct ingot_gpu *gpu);

/* ---- Groups ---------------------------------------------------------------------------------------------------- */

/*
 * A group: processes that compute together, one rank each, on one host or several. A network that was built for N ranks
 * is divided among them; every rank gives the whole inputs and gets the whole outputs:
 *
 *     ingot_group_join                            on every process: waits for the others
 *     ingot_engine_load, with options.group       on every process: compares the engines, and tries the connections
 *     ingot_context_create                        as usual; of GPUs all ranks create the first one together
 *     ingot_context_run                           as usual; all ranks make the same runs in the same order
 *
 * (Ranks that are threads of one process need no group: see ingot_load_options.) On one host ranks share memory; across
 * hosts MPI connects them, whose mpirun has then started them. A group, the engines on it and their contexts belong to one
 * thread at a time. With MPI, that is the thread that initialised it, unless its library lets others call.
 *
 * No wait for another rank is longer than the group's time limit. If a rank dies, stops, leaves, is cancelled or does
 * something else than the others, all ranks' calls end with an error that names it and what it did last, and so do all later
 * calls on that group. What is left to do is to release it and what was made on it; then the processes may join again.
 */
struct ingot_group;

enum ingot_transport {
    INGOT_TRANSPORT_BEST = 0, /* shared memory on one host; across hosts MPI */
    INGOT_TRANSPORT_SHARED_MEMORY,
    INGOT_TRANSPORT_MPI,
};

struct ingot_group_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the group's life; NULL: the C library's */
    /* What the launcher has put into the environment, as "NAME=value" …, NULL: usually the caller's `environ`. Understood are
     * mpirun of Open MPI and MPICH, srun, torchrun, and INGOT_RANK, INGOT_RANKS and INGOT_RENDEZVOUS (HOST:PORT, or the path
     * of a socket that rank 0 makes), which come before all others (docs/distributed.md). Borrowed for the call. */
    const char *const *environment;
    double seconds; /* the longest wait for another rank; 0: 10 */
    enum ingot_transport transport;
    const char *mpi_library; /* the file of MPI's library; NULL: found by its usual names. Borrowed for the call. */
};
#define INGOT_GROUP_OPTIONS_INIT \
    { sizeof(struct ingot_group_options), NULL, NULL, 0, INGOT_TRANSPORT_BEST, NULL }

/* Waits for the other ranks. INGOT_INVALID_ARGUMENT: the environment does not say which rank this is; INGOT_TIMEOUT, which says
 * who is missing; INGOT_INCOMPATIBLE: ranks differ in their number or in the version of the library; INGOT_UNSUPPORTED: there is no
 * way between the ranks' hosts; INGOT_DEVICE: MPI's library is missing or failed. The caller owns one reference. */
INGOT_API enum ingot_status ingot_group_join(const struct ingot_group_options *options, struct ingot_group **out_group,
                                             struct ingot_error *error);
INGOT_API void ingot_group_retain(struct ingot_group *group);
INGOT_API void ingot_group_release(struct ingot_group *group);
/* From 0; and how many there are. */
INGOT_API unsigned ingot_group_rank(const struct ingot_group *group);
INGOT_API unsigned ingot_group_ranks(const struct ingot_group *group);
/* What connects the ranks: "shared memory", "MPI (Open MPI v4.1.4)"; of GPUs "windows, NCCL 2.28.9", or why there are no windows.
 * Lives as long as the group, and says of windows from the first run on. */
INGOT_API const char *ingot_group_transport(const struct ingot_group *group);
/* INGOT_OK, or the failure that has ended the group. */
INGOT_API enum ingot_status ingot_group_failure(const struct ingot_group *group, struct ingot_error *error);
/* Later waits for other ranks are no longer than that; `seconds` must be positive. On GPUs call it before the first run, since
 * kernels keep the limit of then. */
INGOT_API enum ingot_status ingot_group_set_time_limit(struct ingot_group *group, double seconds,
                                                       struct ingot_error *error);

/* ---- Running engines ------------------------------------------------------------------------------------------- */

struct ingot_engine;
struct ingot_context;
struct ingot_lease;

enum ingot_verify {
    INGOT_VERIFY_ALL = 0, /* verify the checksum of every section before load returns */
    /* Verify all but the weights before load returns, and the weights at the end of the first run, whose results are
     * available only if they are sound. */
    INGOT_VERIFY_LATER,
    INGOT_VERIFY_NO_WEIGHTS, /* never verify the weights */
};

struct ingot_load_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the engine's life */
    enum ingot_verify verify;
    /* Threads of this process among which each run is divided as among ranks: the engine must have been built for so
     * many. Each context has threads of its own for them, and is used like any other; on GPUs, a rank has the GPU that many
     * places behind the context's `device`, or shares it (ingot_context_options.gpus). 0 and 1: one. */
    unsigned ranks;
    struct ingot_group *group; /* or the group whose rank this process is; the engine holds a reference. NULL: none */
};
#define INGOT_LOAD_OPTIONS_INIT \
    { sizeof(struct ingot_load_options), NULL, INGOT_VERIFY_ALL, 0, NULL }

/* Maps the engine at `path`. The file must not change while the engine is loaded. The caller owns one reference. */
INGOT_API enum ingot_status ingot_engine_load(const char *path, const struct ingot_load_options *options,
                                              struct ingot_engine **out_engine, struct ingot_error *error);

/* Loads an engine from memory, which must be aligned to 64 bytes and outlive the engine. */
INGOT_API enum ingot_status ingot_engine_load_memory(const void *data, size_t size,
                                                     const struct ingot_load_options *options,
                                                     struct ingot_engine **out_engine, struct ingot_error *error);

/* The reference count is atomic; each context holds one reference. */
INGOT_API void ingot_engine_retain(struct ingot_engine *engine);
INGOT_API void ingot_engine_release(struct ingot_engine *engine);

/* For how many ranks the engine has plans, ascending. Returns how many such numbers there are, of which at most `capacity` are
 * written; 1 for an engine that is not divided. */
INGOT_API size_t ingot_engine_ranks(const struct ingot_engine *engine, unsigned *ranks, size_t capacity);

INGOT_API size_t ingot_engine_input_count(const struct ingot_engine *engine);
INGOT_API size_t ingot_engine_output_count(const struct ingot_engine *engine);
/* `index` must be below the count; the strings live as long as the engine. */
INGOT_API void ingot_engine_input(const struct ingot_engine *engine, size_t index, struct ingot_tensor_info *out_info);
INGOT_API void ingot_engine_output(const struct ingot_engine *engine, size_t index, struct ingot_tensor_info *out_info);
/*
 * The input in whose memory output `index` is stored, a decoder's cache, say (ingot_network_update); SIZE_MAX: none. Binding such
 * an input binds the output: each run changes the caller's memory, which must be writable, and the next run reads what
 * the last one wrote. Where the data is in host memory and the engine runs on a GPU, it is there when a wait returns.
 */
INGOT_API size_t ingot_engine_updated_input(const struct ingot_engine *engine, size_t index);

/*
 * A size that the inputs decide, such as "batch", and whether the engine treats what it counts independently: batched
 * samples, say. If it does, every input and output has the symbol along at most one axis, where it is the whole dim, and
 * whatever is appended to the inputs along these axes, the results of what was there do not change, but for the rounding
 * of sums whose order depends on the size. `lo` and `hi` are the range that the engine was built for. Strings live as
 * long as the engine.
 */
struct ingot_symbol_info {
    const char *name;
    int64_t lo, hi;
    const char *mixes; /* NULL: independently; else why not: "ReduceMean 'pool' mixes them (...)" */
};
INGOT_API size_t ingot_engine_symbol_count(const struct ingot_engine *engine);
/* `index` must be below the count. */
INGOT_API void ingot_engine_symbol(const struct ingot_engine *engine, size_t index, struct ingot_symbol_info *out_info);

/* The target the engine was built for: "cpu:x86-64-v4", "cuda:sm_90a". Lives as long as the engine. */
INGOT_API const char *ingot_engine_target(const struct ingot_engine *engine);

/*
 * The initialisers of the model that the engine was built from: its weights, by the names that the ONNX file gives them.
 * Refitting (below, and docs/refit.md) replaces the values of those that decided nothing when the engine was built.
 */
enum ingot_initializer_kind {
    INGOT_REFITTABLE = 0, /* the engine's weights are computed from it */
    INGOT_STRUCTURAL,     /* its value decided something: a shape, an attribute, a number in a kernel's code */
    INGOT_UNUSED,         /* nothing in the engine depends on it */
};
struct ingot_initializer_info {
    const char *name;
    /* The name of PyTorch's parameter, where the model tells another one than `name`; or NULL. Refitting knows it by both
     * names. */
    const char *alias;
    bool is_transposed; /* against the parameter of that name: a linear layer's weight */
    enum ingot_initializer_kind kind;
    const char *reason; /* of a structural one: what needed its value: "import node 'r1' (Reshape)"; else NULL */
    enum ingot_dtype dtype;
    int rank;
    int64_t dims[INGOT_MAX_RANK];
    unsigned slot; /* for adapters, from 1, whose matrix it is; 0: it is the model's */
    /* A loaded engine reads it where the caller has it, and has nothing of its own made of it (ingot_engine_refit, with
     * `borrow`). */
    bool is_borrowed;
};
INGOT_API size_t ingot_engine_initializer_count(const struct ingot_engine *engine);
/* `index` must be below the count; the strings live as long as the engine. */
INGOT_API void ingot_engine_initializer(const struct ingot_engine *engine, size_t index,
                                        struct ingot_initializer_info *out_info);

/* What the engine contains and why, as one JSON object (docs/engine.md describes it), which lives as long as the engine.
 * The first call decompresses it; any thread may call. Errors: INGOT_INVALID_ARGUMENT (NULL), INGOT_OUT_OF_MEMORY,
 * INGOT_BAD_ENGINE (it cannot be decompressed). */
INGOT_API enum ingot_status ingot_engine_explanation(struct ingot_engine *engine, const char **out_json,
                                                     struct ingot_error *error);

/*
 * What a run cannot launch in one go, because values decide it that are known only on the device: one row per input
 * whose elements are sizes and per step of control flow, also within others. There the host waits for the device;
 * everything before, between and behind is captured and launched at once. Returns the number of rows, of which at most
 * `capacity` are written; 0: one launch is the whole run. The strings live as long as the engine.
 */
struct ingot_uncaptured_row {
    const char *origin; /* the ONNX nodes of the step, or the name of the input */
    const char *reason;
};
INGOT_API size_t ingot_engine_uncaptured(const struct ingot_engine *engine, struct ingot_uncaptured_row *rows,
                                         size_t capacity);

/*
 * Weights in several processes. On the CPU, the weights are pages of the engine's file, which all processes that load it
 * share. On a GPU, one process exports them and others import them, so that the GPU holds them once:
 *
 *     exporting:  load the engine, ingot_engine_export_weights, send the handle and handle.fd
 *     importing:  load the engine, set handle.fd to the descriptor received, ingot_engine_import_weights
 *
 * and then both create contexts. The handle is plain bytes but for `fd`, a file descriptor, which means something in the
 * process that has it only: it is passed through a Unix socket (SCM_RIGHTS), or inherited by a child. The memory is freed
 * when no process uses it and no descriptor of it is open, so the processes may end in any order, also by a crash. They
 * must trust each other: each could write to it. A process may import from itself, into an engine loaded twice.
 */
struct ingot_weights_handle {
    int fd; /* of the GPU's memory; close it when it has been passed on or imported */
    /* What the memory is, so that an import that does not fit is refused. */
    uint64_t bytes, checksum; /* of the weights */
    unsigned char gpu[16];    /* the GPU's UUID */
};

/*
 * Uploads the weights to GPU `device`, into memory that can be shared (a multiple of 2 MiB), and returns a handle whose
 * `fd` is the caller's. The engine's contexts there use the same copy. The first such call comes before the first of
 * them; later calls return further descriptors. INGOT_INVALID_ARGUMENT if the weights are there already in other memory,
 * or imported; INGOT_UNSUPPORTED for engines for the CPU, and where the driver cannot share memory.
 */
INGOT_API enum ingot_status ingot_engine_export_weights(struct ingot_engine *engine, int device,
                                                        struct ingot_weights_handle *out_handle,
                                                        struct ingot_error *error);
/* Makes all of the engine's contexts on GPU `device` use the memory behind `handle`. Comes before the engine's first
 * context there. INGOT_INVALID_ARGUMENT if the handle is for other weights or another GPU; INGOT_DEVICE, with the driver's
 * message, if its `fd` is no such memory; after any failure, contexts upload weights of their own as usual. So they do
 * after the GPU was lost in this process and found again (see ingot_context_create), unless the import is repeated. */
INGOT_API enum ingot_status ingot_engine_import_weights(struct ingot_engine *engine, int device,
                                                        const struct ingot_weights_handle *handle,
                                                        struct ingot_error *error);

/*
 * An arena: the memory that kernels write their intermediate results to. A context has one of its own unless it is given
 * one to share. Any number of contexts share an arena, of any engines for the same device, and from any number of threads
 * and streams: it belongs to one run at a time, so the memory is that of the largest run, not of all. On a GPU, runs are
 * ordered there, by events: enqueueing a run waits for other threads that are enqueueing, but not for the GPU. On the
 * CPU, and with control flow, where enqueueing a run takes as long as the run, it waits for other contexts' runs, in the
 * order of asking.
 *
 * The arena is as large as the largest run since the last trim, not as the largest that could be. It grows when a run
 * needs more, which blocks until the runs that use the old memory have ended. If it cannot, the run fails with
 * INGOT_OUT_OF_MEMORY, and the message says how many bytes are missing and for which shapes; smaller runs go on.
 *
 * Any thread may call any of these functions at any time.
 */
struct ingot_arena;

struct ingot_arena_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the arena's life; NULL: the C library's */
    enum ingot_memory memory;                /* INGOT_HOST: for engines for the CPU; INGOT_CUDA: for GPU `device` */
    int device;
    size_t max_bytes; /* it never grows beyond; 0: no bound */
    /* The caller's memory of that kind instead, aligned to 64 bytes; the arena never grows. It must exist until the
     * arena has been released by its owner and all its contexts. ingot_context_memory tells the size that is needed. */
    void *data;
    size_t size;
};
#define INGOT_ARENA_OPTIONS_INIT \
    { sizeof(struct ingot_arena_options), NULL, INGOT_HOST, 0, 0, NULL, 0 }

/* The caller owns one reference, and each context made with the arena holds one. */
INGOT_API enum ingot_status ingot_arena_create(const struct ingot_arena_options *options,
                                               struct ingot_arena **out_arena, struct ingot_error *error);
INGOT_API void ingot_arena_retain(struct ingot_arena *arena);
INGOT_API void ingot_arena_release(struct ingot_arena *arena);

/* Shrinks the arena to what the largest run since the last trim needed; to nothing if there was no run. Waits for the
 * runs that use it. Memory of the caller's stays as it is. */
INGOT_API void ingot_arena_trim(struct ingot_arena *arena);

struct ingot_arena_info {
    size_t bytes;        /* held now */
    size_t peak_bytes;   /* the most ever held */
    size_t contexts;     /* that share it */
    uint64_t executions; /* runs that used it */
    uint64_t followed;   /* of these, runs that came after one of another context */
};
INGOT_API enum ingot_status ingot_arena_describe(struct ingot_arena *arena, struct ingot_arena_info *out_info,
                                                 struct ingot_error *error);

struct ingot_context_options {
    size_t struct_size;
    const struct ingot_allocator
        *allocator; /* borrowed for the life of the context and its leases; NULL: the engine's */
    /* Including the caller's; 0: as many as the calling thread may use, by its affinity and the process's cgroups. CPU:
     * threads that compute; runs of several contexts at once that together want more than there are processors get a
     * fair share each, and the other threads sleep. GPU: threads that copy large inputs and results between the
     * caller's memory and pinned memory, up to 4. */
    unsigned threads;
    size_t max_plan_instances; /* how many sets of shapes stay prepared; 0: as many as max_plan_bytes allows */
    bool profile;              /* time every kernel; see ingot_context_profile */
    int device;                /* engines for CUDA: the GPU's number */
    size_t max_plan_bytes;     /* bound on the bytes of all plan instances (one always stays); 0: 256 MiB */
    bool timing;               /* GPU: measure transfers and computation; see ingot_context_timing */
    struct ingot_arena *arena; /* to share; NULL: the context has its own */
    /* CPU: compute batches at once that would be computed in parts whose activations fit the caches. Slower, but the last
     * bits of a sample, which may depend on how many are computed together, do not depend on threads and caches. So it is
     * also with a bound on the number of plan instances, since parts have one of their own. */
    bool whole_batches;
    /* CPU, with `profile`: a file that keeps the fastest that machines were measured to be, for floors; what this one does at
     * best is measured in some ten milliseconds, and added where that is faster. NULL: what is measured now. */
    const char *machines;
    /* Engines for CUDA that were loaded for several ranks: these share so many GPUs, at most one each; rank r of n has GPU
     * `device` + r * gpus / n. Results then have the same bits for every such number, which takes longer where ranks share a
     * GPU (docs/distributed.md). INGOT_UNSUPPORTED where memory of the GPUs cannot be shared; for ranks that are processes, `gpus` is
     * their number, or 0. 0: each rank has a GPU, `device` + r, and large results may have other bits. */
    unsigned gpus;
};
#define INGOT_CONTEXT_OPTIONS_INIT \
    { sizeof(struct ingot_context_options), NULL, 0, 0, false, 0, 0, false, NULL, false, NULL, 0 }

/*
 * A context of a CPU engine runs on the calling thread and on threads of its own, which have the affinity of the thread
 * that created it. A context of a CUDA engine runs on
 * the GPU options.device: INGOT_DEVICE where there is no driver or no such GPU, INGOT_INCOMPATIBLE where the engine has
 * no code for the GPU's architecture. The first context on a GPU uploads the weights, and kernels are loaded when they
 * are first needed; all of the engine's contexts there share both until the engine is destroyed.
 *
 * An error of one context leaves the others as they were, with one exception: after an illegal access to memory and its
 * like, a GPU serves nobody in the process any more, and the message of every INGOT_DEVICE says so. The way back is to
 * destroy all contexts on that GPU, to release all arenas, leases and holds of it, and to destroy other engines that have
 * had contexts there but have none now; after that, new contexts on the same engines work, unless others in the process
 * (the CUDA runtime) still keep the GPU's context.
 */
INGOT_API enum ingot_status ingot_context_create(struct ingot_engine *engine,
                                                 const struct ingot_context_options *options,
                                                 struct ingot_context **out_context, struct ingot_error *error);
INGOT_API void ingot_context_destroy(struct ingot_context *context);

/*
 * Binds input `index` to `tensor`, whose type and fixed dims must agree, for this and later runs. The data are
 * borrowed, not copied: ingot_context_run and _enqueue read them. Data in GPU memory (INGOT_CUDA) are used in place if
 * they are aligned to 16 bytes.
 */
INGOT_API enum ingot_status ingot_context_set_input(struct ingot_context *context, size_t index,
                                                    const struct ingot_tensor *tensor, struct ingot_error *error);

/* Binds output `index` to `size` bytes of the caller's memory; NULL: back to the context's own memory. One that updates an input
 * (ingot_engine_updated_input) stays where it is. */
INGOT_API enum ingot_status ingot_context_set_output(struct ingot_context *context, size_t index, void *data,
                                                     size_t size, struct ingot_error *error);
/* The same, for any kind of memory. INGOT_CUDA with `data` NULL: the result stays in GPU memory that the context owns,
 * and ingot_context_output returns its address. */
INGOT_API enum ingot_status ingot_context_set_output_in(struct ingot_context *context, size_t index,
                                                        enum ingot_memory memory, void *data, size_t size,
                                                        struct ingot_error *error);

/* Puts output `index` into newly allocated memory in each run, which the caller may take: see ingot_context_take_output.
 * Costs an allocation a run; for INGOT_PINNED, that of the driver takes longer than many a run. */
INGOT_API enum ingot_status ingot_context_set_output_fresh(struct ingot_context *context, size_t index,
                                                           enum ingot_memory memory, struct ingot_error *error);

/* Runs once and waits: ingot_context_enqueue, then ingot_context_wait. Shapes may differ from the last run's. Shapes
 * seen before need no new plan, and further runs with them allocate nothing. */
INGOT_API enum ingot_status ingot_context_run(struct ingot_context *context, struct ingot_error *error);

/*
 * Enqueues a run. `stream` is a CUstream (cudaStream_t) of the context's GPU, and the run is ordered after the work
 * already on it; NULL: the context's own stream. A caller's stream must exist until a wait of the context has
 * returned, other than with INGOT_TIMEOUT or INGOT_CANCELLED, or until the context is destroyed; then it is not used any
 * more.
 *
 * Runs of one context execute in order, whatever their streams. When this returns, inputs in INGOT_HOST memory have
 * been read; inputs in INGOT_PINNED or INGOT_CUDA memory are read in stream order, but on the context's own stream those
 * in INGOT_PINNED memory may be read at once, while earlier runs are under way, unless these have results to write there.
 * Results in GPU memory may be used by work enqueued later on the same stream. All other results are ready when
 * ingot_context_wait returns; after several runs, only those of the last. A failure on the device is also reported there.
 *
 * With shapes seen before, this neither blocks nor allocates, with three exceptions. It blocks where inputs come from
 * INGOT_HOST memory and two runs are still in flight; where a plan has control flow, for the scalars that decide it;
 * and where inputs in GPU memory hold shapes. Profiled contexts wait for every run.
 *
 * Of runs of several ranks on GPUs at most two are under way: this waits for the run before the last. It waits for this very run
 * where shapes are new or come from GPU memory, with control flow and profiles, and where another context of this process has ranks
 * on the GPU. A rank that is lost meanwhile is reported by the next wait or by one of the next two runs, and nobody waits longer than
 * the group's time limit. What was enqueued and not waited for has no results then, nor has it if this fails. Before
 * ingot_context_wait, ingot_context_output and ingot_context_lease wait for the run, so that they give nothing out that a lost rank has
 * spoilt; memory of the caller's may hold anything until a wait has succeeded.
 *
 * While the caller captures `stream` (cuStreamBeginCapture, in any mode), the run becomes part of the caller's graph, with
 * the addresses and sizes that are bound. Such a run must be the first of its context, which makes no others; results
 * must be in GPU memory, and the context and leases of it must exist as long as the graph. A launch of the graph reads the
 * weights that the engine had at the capture, and what inputs in INGOT_HOST memory held then. INGOT_UNSUPPORTED, before the
 * capture is touched, where the host takes part in runs: control flow, sizes in GPU memory, 2 MiB or more of inputs in INGOT_HOST
 * memory, shared arenas, profiles, several ranks.
 *
 * On the CPU, the run is complete when this returns, and `stream` must be NULL. INGOT_CANCELLED or INGOT_TIMEOUT if it
 * was stopped (ingot_context_cancel, ingot_context_set_time_limit).
 */
INGOT_API enum ingot_status ingot_context_enqueue(struct ingot_context *context, void *stream,
                                                  struct ingot_error *error);

/* Waits for all enqueued runs. Returns at once where there are none. INGOT_CANCELLED, once, if the last of them was
 * cancelled; INGOT_TIMEOUT if a time limit is set and has passed. */
INGOT_API enum ingot_status ingot_context_wait(struct ingot_context *context, struct ingot_error *error);
/* The same, for at most `seconds` (0: only asks; INFINITY: no limit). INGOT_TIMEOUT if the runs are not done by then;
 * nothing is lost, and the caller may wait again. Asks the driver again and again, with growing pauses, so that it ends
 * up to a sixteenth later than a wait without limit, and a millisecond at most. */
INGOT_API enum ingot_status ingot_context_wait_for(struct ingot_context *context, double seconds,
                                                   struct ingot_error *error);

/* Limits how long runs may take; 0: no limit. GPU: ingot_context_wait and _run wait as ingot_context_wait_for does. CPU:
 * a run that takes longer is stopped, between two kernels, and fails with INGOT_TIMEOUT. */
INGOT_API enum ingot_status ingot_context_set_time_limit(struct ingot_context *context, double seconds,
                                                         struct ingot_error *error);

/*
 * Gives up the results of all runs begun so far that nobody has waited for; without such runs it does nothing. May be
 * called from any thread, at any time before the context is destroyed. The context may be used as before.
 *
 * CPU: a run in progress stops soon, between two kernels, and fails with INGOT_CANCELLED. GPU: the wait in progress, or
 * the next one, returns INGOT_CANCELLED: a wait with a limit does so soon, one without when the GPU has done the work.
 * The enqueued work itself is not stopped, and later runs are ordered behind it: it reads and writes the caller's memory
 * until a later wait returns.
 */
INGOT_API void ingot_context_cancel(struct ingot_context *context);

/* Memory for inputs and outputs of this context, for callers that do not use CUDA themselves: INGOT_PINNED, or
 * INGOT_CUDA on its GPU, aligned to 64 bytes; on the CPU and for INGOT_HOST, ordinary memory. Free it with the same
 * size, before the context is destroyed and when no run uses it. */
INGOT_API enum ingot_status ingot_context_allocate(struct ingot_context *context, enum ingot_memory memory, size_t size,
                                                   void **out_data, struct ingot_error *error);
INGOT_API void ingot_context_free(struct ingot_context *context, enum ingot_memory memory, void *data, size_t size);

/*
 * Pins memory of the caller's, so that it can be bound as INGOT_PINNED and the host need not copy inputs and results
 * through staging memory; it is pinned for all GPUs of the process. Pinning takes about as long as copying the memory
 * once or twice, so it pays for memory that many runs use. Unpin by the same address before the memory is freed and
 * before the context is destroyed, when no run uses it. INGOT_DEVICE with the driver's message where it cannot be
 * pinned (it is pinned already, or mapped in a way that forbids it). On the CPU this does nothing.
 */
INGOT_API enum ingot_status ingot_context_pin(struct ingot_context *context, void *data, size_t size,
                                              struct ingot_error *error);
INGOT_API void ingot_context_unpin(struct ingot_context *context, void *data);

/*
 * Where results are, by output:
 *  - in the context's memory, the default (also INGOT_CUDA memory that it owns): valid until the next run, or leased;
 *  - in the caller's memory (ingot_context_set_output);
 *  - in fresh memory (ingot_context_set_output_fresh).
 */

/* The result of the last run; `out_tensor->data` is valid until the next run or set_output of this context. Before
 * ingot_context_wait, only results that stay in GPU memory are available. */
INGOT_API enum ingot_status ingot_context_output(const struct ingot_context *context, size_t index,
                                                 struct ingot_tensor *out_tensor, struct ingot_error *error);

/* The same for an output in fresh memory, which becomes the caller's: free it with ingot_context_free, size being that of
 * the tensor's elements, before the context is destroyed. What nobody takes, the context frees or uses again. */
INGOT_API enum ingot_status ingot_context_take_output(struct ingot_context *context, size_t index,
                                                      struct ingot_tensor *out_tensor, struct ingot_error *error);

/*
 * Takes a lease on the results of the last run: all outputs that are in the context's memory. No run writes to leased
 * memory. Possible once a run, after it is enqueued; on a GPU also while it is in flight. With k leases held, the context
 * has k + 1 sets of buffers; once these exist, leases and runs allocate nothing.
 *
 * The lease is the caller's until it is released. It outlives its context and engine. Destroying the context waits for
 * its runs. A lease is not affected by ingot_context_cancel.
 */
INGOT_API enum ingot_status ingot_context_lease(struct ingot_context *context, struct ingot_lease **out_lease,
                                                struct ingot_error *error);
/* Waits for the leased run, not for later ones; returns its failure. */
INGOT_API enum ingot_status ingot_lease_wait(struct ingot_lease *lease, struct ingot_error *error);
/* The same, for at most `seconds`, as ingot_context_wait_for: INGOT_TIMEOUT if the run is not done by then, and the lease
 * is still held. */
INGOT_API enum ingot_status ingot_lease_wait_for(struct ingot_lease *lease, double seconds, struct ingot_error *error);
/*
 * Makes work that is enqueued on `stream` (a CUstream of the GPU) from now on come behind the leased run, and be a reader
 * of its results until the lease is released: then their memory is written or freed only after what is on `stream` at that
 * time. Both orders are the GPU's, the host waits for neither. For any number of streams, which must exist until the lease
 * is released; not needed for the one that the run was enqueued on. CU_STREAM_PER_THREAD is, at each call, that of the
 * calling thread. From any thread, also several at once.
 *
 * While the caller captures `stream` into a CUDA graph, the host waits for the run, as ingot_lease_wait does; for results that
 * the graph reads, the lease must be held as long as the graph exists. Such a lease released while a reader's stream is
 * captured leaves its memory out of use until the context and all leases are gone.
 *
 * A failure of the run on the GPU is reported by waits, not here. INGOT_INVALID_ARGUMENT for the NULL stream and on the CPU.
 */
INGOT_API enum ingot_status ingot_lease_follow(struct ingot_lease *lease, void *stream, struct ingot_error *error);
/* `out_tensor->data` is valid until the lease is released. Before ingot_lease_wait (or a wait of the context for this
 * run), only results in GPU memory are available. */
INGOT_API enum ingot_status ingot_lease_output(const struct ingot_lease *lease, size_t index,
                                               struct ingot_tensor *out_tensor, struct ingot_error *error);
/* Returns the memory to the context, or frees it if that is destroyed. From any thread, in any order, also while the run
 * is in flight. Nothing may read the memory any more, but for work on streams of ingot_lease_follow. NULL does nothing. */
INGOT_API void ingot_lease_release(struct ingot_lease *lease);
/* The same, where work enqueued on `stream` (a CUstream of the GPU), too, still reads the memory: it is written or freed
 * only after that work. On failure the lease is still held: INGOT_UNSUPPORTED while the caller captures `stream`. Where that is
 * the stream that the run was enqueued on, this calls no driver, and is the cheaper for it; a later run on another stream then
 * fails with INGOT_UNSUPPORTED while the caller captures the first. */
INGOT_API enum ingot_status ingot_lease_release_after(struct ingot_lease *lease, void *stream,
                                                      struct ingot_error *error);

/*
 * Gives back the memory that grew with the runs of a context: sets of result buffers that are not leased, buffers for
 * transfers and padding, fresh results that nobody took, and the context's own arena; a shared one has ingot_arena_trim.
 * Plan instances and workspaces stay. The next run allocates what it needs.
 *
 * Waits for enqueued runs first, as ingot_context_wait does; if that fails, nothing is given back. Afterwards results of
 * the last run in the context's own memory are available only through a lease.
 */
INGOT_API enum ingot_status ingot_context_trim(struct ingot_context *context, struct ingot_error *error);

/*
 * One row per step of the plan, and per kernel that does the same step at other sizes, without calls in this run.
 * `origin` names the ONNX nodes that the kernel was made from.
 *
 * The floor is the least time in which the machine can make these calls, whatever the kernel, for the shapes that were bound
 * last: the longest of the time to move the bytes that have to be moved and, for each unit, of the time to do the
 * operations that have to be done. docs/floors.md says what counts.
 */
struct ingot_profile_row {
    const char *kernel;
    const char *origin;
    uint64_t calls;
    double total_ms;
    double floor_ms;   /* of all calls; 0: not known (control flow, a size that only a run tells) */
    const char *bound; /* what takes that long, such as "memory" or "f16 products"; NULL: not known */
    double bytes;      /* of one call, as it is for the floor: read and written once */
    double operations; /* of one call, of all kinds; a multiply-add is one */
    /* Of the shortest call, which nothing else on the machine has lengthened; 0: there was none. */
    double shortest_ms;
    /* CPUs: what all calls are expected to take on this machine, by few terms; 0: not known. Estimates for GPUs are in the
     * explanation. */
    double estimate_ms;
};
INGOT_API size_t ingot_context_profile(const struct ingot_context *context, struct ingot_profile_row *rows,
                                       size_t capacity);

/* How long the last run took on the GPU, by the GPU's clock. Available after ingot_context_wait, for contexts created
 * with the option `timing`; INGOT_UNSUPPORTED for others, and on the CPU. */
struct ingot_timing {
    double input_ms;   /* copies of inputs from host memory */
    double compute_ms; /* all work between the copies */
    double output_ms;  /* copies of outputs to host memory */
};
INGOT_API enum ingot_status ingot_context_timing(const struct ingot_context *context, struct ingot_timing *out_timing,
                                                 struct ingot_error *error);

/* The memory that the bound shapes need, whether or not it has been allocated: asking allocates none of it. On a GPU all
 * of it is GPU memory, except for the host's half of the transfers. */
struct ingot_memory_info {
    /* CPU: mapped, shared between processes; GPU: shared by the engine's contexts, and by processes that import them.
     * Without those that are read in the caller's memory. */
    size_t weights_bytes;
    size_t arena_bytes;       /* exactly what a run takes of its arena */
    size_t lower_bound_bytes; /* the largest sum of live activations at any step: no plan can be smaller */
    size_t scratch_bytes;     /* workspace of all threads or blocks */
    size_t transfer_bytes;    /* GPU: buffers for inputs and outputs, on the device and on the host */
    /* GPU: independent steps run concurrently where that is estimated to gain. */
    size_t parallel_steps; /* steps that run beside others; 0: all run in sequence */
    size_t parallel_bytes; /* arena bytes that this concurrency costs */
    double parallel_gain;  /* estimated fraction of the time that it saves */
    /* Through which the ranks exchange, where the run does. On CPUs: what all ranks of the host share, or a rank's buffers for MPI;
     * GPU: this rank's window. What MPI takes for itself is not known. */
    size_t exchange_bytes;
    /* GPU: what NCCL takes for itself, as measured: by how much this rank's GPU had less free memory after NCCL had connected the ranks,
     * and after the first calls of each kind and size. So it is 0 before NCCL has been used, and what others take meanwhile counts
     * too. It is that of all contexts which share the group. */
    size_t nccl_bytes;
};
INGOT_API enum ingot_status ingot_context_memory(struct ingot_context *context, struct ingot_memory_info *out_info,
                                                 struct ingot_error *error);

/*
 * Between GPUs, kernels exchange short messages and NCCL long ones. Of those near the size from which on NCCL is faster, both ways have
 * been measured before the first run that has such a message, where both give the same bits (docs/distributed.md).
 */
struct ingot_exchange_row {
    const char *collective; /* "all_reduce"; a static string */
    size_t bytes; /* of the message; the choice is for all up to the next power of two, and down to the last */
    double kernel_us, nccl_us;
    bool by_nccl; /* what has been chosen */
};
/* Fills up to `capacity` rows and returns how many there are. No run may be under way. */
INGOT_API size_t ingot_context_exchanges(const struct ingot_context *context, struct ingot_exchange_row *rows,
                                         size_t capacity);

/*
 * The plan instances of a context: what is derived from one set of shapes, the captured launches included, is kept for
 * the next run with these shapes. Beyond max_plan_bytes (or max_plan_instances) the least recently used ones go. Runs
 * of shapes that are kept ("hits") allocate nothing.
 */
struct ingot_plans_info {
    size_t instances;   /* kept */
    size_t bytes;       /* of these, on host and device; of the driver's part an estimate */
    uint64_t hits;      /* times that an instance was there */
    uint64_t misses;    /* instances made */
    uint64_t captures;  /* instances captured; more than misses where bindings changed what is captured */
    uint64_t evictions; /* instances dropped */
};
INGOT_API enum ingot_status ingot_context_plans(const struct ingot_context *context, struct ingot_plans_info *out_info,
                                                struct ingot_error *error);

/*
 * Batches whose sizes vary: a plan instance for each size costs memory, and time when the size comes for the first time.
 * A context can round the sizes of one symbol up instead, to the nearest of a list: a run of n rows then computes as
 * many rows as the next size b has, and its time is that of b. The caller sees n rows only: no more are read, reported
 * or copied to its memory. Results are those of b rows of which n are the caller's, bit by bit.
 *
 * Output memory of the caller's with room for b rows is written in place, and what it has behind the n rows is undefined
 * afterwards; with room for n rows, the results are copied there. Inputs in INGOT_HOST memory cost no further copy on a
 * GPU. Other inputs and results of n < b rows cost one each; where the copies of INGOT_PINNED or INGOT_CUDA memory depend
 * on n, they are calls of their own and no part of the captured launch.
 */
struct ingot_batch_options {
    size_t struct_size;
    /* Whose sizes are rounded up: one that counts independent rows (ingot_engine_symbol), along the first axis of every
     * input and output that has it. */
    const char *symbol;
    /* Ascending, within the symbol's range; copied. Sizes above the last one are not rounded. NULL: the powers of two in
     * the range, and its end. */
    const int64_t *sizes;
    size_t n_sizes;
};
#define INGOT_BATCH_OPTIONS_INIT \
    { sizeof(struct ingot_batch_options), NULL, NULL, 0 }

/* For later runs. `options` NULL: sizes are taken as they are, the default. INGOT_UNSUPPORTED for a symbol whose rows
 * affect each other, or cannot be padded; the message names the node or the input. */
INGOT_API enum ingot_status ingot_context_set_batch(struct ingot_context *context,
                                                    const struct ingot_batch_options *options,
                                                    struct ingot_error *error);

/* Since sizes were last set. The padded part of the work is (computed_rows - rows) / computed_rows. */
struct ingot_batch_info {
    const char *symbol;   /* NULL: nothing is rounded, and the rest is 0; lives as long as the engine */
    const int64_t *sizes; /* valid until sizes are set again */
    size_t n_sizes;
    uint64_t runs;
    uint64_t hits;     /* runs whose size was captured already */
    uint64_t captures; /* the other runs */
    uint64_t rows, computed_rows;
    size_t plan_bytes;    /* of all plan instances of the context */
    size_t padding_bytes; /* CPU: memory that stands in for the caller's; on a GPU it is part of transfer_bytes */
};
INGOT_API enum ingot_status ingot_context_batch(const struct ingot_context *context, struct ingot_batch_info *out_info,
                                                struct ingot_error *error);

/*
 * Prepares shapes before a run needs them: makes the plan instance, and captures what a run launches. `inputs` are the
 * shapes of all inputs, in order, with the kinds of memory that runs will have; data are needed only where an input's
 * elements are sizes, and then in host memory. With a batch policy, sizes are rounded up. Outputs are as they are bound,
 * with room enough.
 * Waits for enqueued runs first, as ingot_context_wait does; results of the last run in the context's own memory are then
 * available only through a lease.
 *
 * With INGOT_PREPARE_IN_BACKGROUND the capture, most of the work, is done by a thread of the context's own, while the
 * context runs other shapes: the instance serves runs once it is complete. A run that comes earlier does not wait, but
 * prepares its shapes itself. A capture delays runs that are enqueued meanwhile, since the driver does one thing at a time;
 * so while the context is run, the thread works for less than a hundredth of the time, but without rest while
 * ingot_context_prepare_wait waits. Prepare the largest shapes first: memory that grows later costs the others' first runs some
 * calls more. Instances count in max_plan_bytes like those of runs.
 *
 * Without data, inputs in INGOT_PINNED memory of exact sizes are prepared without the capture, which the first run makes.
 */
enum { INGOT_PREPARE_IN_BACKGROUND = 1 };
INGOT_API enum ingot_status ingot_context_prepare(struct ingot_context *context, const struct ingot_tensor *inputs,
                                                  size_t n_inputs, unsigned flags, struct ingot_error *error);
/* Waits until all shapes are prepared. Returns the first failure in the background since the last call; a run with those
 * shapes tries again. */
INGOT_API enum ingot_status ingot_context_prepare_wait(struct ingot_context *context, struct ingot_error *error);

/*
 * Chooses at most `most` sizes for batches, given how often each size was observed: `counts[i]` times `observed[i]`, n
 * pairs in any order, sizes at least 0. Each observed size is rounded up to the next chosen one, and no choice pads fewer
 * rows in all. Plan instances of an engine have about the same size, whatever the sizes of their batches, so that a
 * budget of bytes is one of numbers too: see plan_bytes. `out_sizes` has room for `most` sizes, and gets them ascending.
 * INGOT_INVALID_ARGUMENT if all counts are 0, or the rows are over 2^63 in all.
 */
INGOT_API enum ingot_status ingot_choose_sizes(const int64_t *observed, const uint64_t *counts, size_t n, size_t most,
                                               int64_t *out_sizes, size_t *out_n_sizes, struct ingot_error *error);

#ifdef __cplusplus
}
#endif

#include "ingot/build.h"
#include "ingot/network.h"

#endif
