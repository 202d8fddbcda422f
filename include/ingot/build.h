/*
 * The part of ingot.h that needs libingot: models, builds, the cache, tensor files, refitting. Include ingot.h, which
 * includes this.
 */
#ifndef INGOT_BUILD_H
#define INGOT_BUILD_H

#ifndef INGOT_INGOT_H
#error "include ingot/ingot.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models and building (libingot) ---------------------------------------------------------------------------- */

struct ingot_model;

struct ingot_model_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the model's life */
    /* Initialisers whose data were left out of the file are zeros instead of an error: for ingot_model_count, to which values
     * hardly matter. */
    bool missing_weights;
};
#define INGOT_MODEL_OPTIONS_INIT \
    { sizeof(struct ingot_model_options), NULL, false }

/*
 * Imports an ONNX file. External data is looked for in the file's folder only. The model's tensors are read where they lie,
 * in the mapped files, until the model is destroyed: a file may be replaced by another (renamed over), but must not be
 * changed in place meanwhile, which could end the process (SIGBUS if it is cut).
 */
INGOT_API enum ingot_status ingot_model_load(const char *path, const struct ingot_model_options *options,
                                             struct ingot_model **out_model, struct ingot_error *error);
/* Imports from memory, which is copied where needed. `folder` is the folder of external data; NULL refuses it. */
INGOT_API enum ingot_status ingot_model_load_memory(const void *data, size_t size, const char *folder,
                                                    const struct ingot_model_options *options,
                                                    struct ingot_model **out_model, struct ingot_error *error);
INGOT_API void ingot_model_destroy(struct ingot_model *model);

INGOT_API size_t ingot_model_input_count(const struct ingot_model *model);
INGOT_API size_t ingot_model_output_count(const struct ingot_model *model);
INGOT_API void ingot_model_input(const struct ingot_model *model, size_t index, struct ingot_tensor_info *out_info);
INGOT_API void ingot_model_output(const struct ingot_model *model, size_t index, struct ingot_tensor_info *out_info);

/* What a model's file says about itself. What it does not say is "" or 0. Strings live as long as the model. */
struct ingot_model_property {
    const char *key, *value;
};
struct ingot_model_metadata {
    const char *producer, *producer_version; /* "pytorch", "2.15.0" */
    const char *domain;                      /* whose model it is: "com.example" */
    const char *description;
    const char *graph_name, *graph_description;
    int64_t version;
    const struct ingot_model_property *properties; /* anything: a vocabulary, the names of classes */
    size_t n_properties;
};
INGOT_API void ingot_model_describe(const struct ingot_model *model, struct ingot_model_metadata *out_metadata);

/* Receives text that a call produces piece by piece. */
struct ingot_sink {
    void *user;
    void (*write)(void *user, const char *text, size_t length);
};

/* The imported graph in its text form (docs/ir.md), which the library can parse back. */
INGOT_API enum ingot_status ingot_model_print(struct ingot_model *model, const struct ingot_sink *sink,
                                              struct ingot_error *error);

/* Runs the model in the reference evaluator: slow, plain C, double accumulation; the oracle of `ingot verify`. `inputs`
 * are in the model's order. `out_outputs` gets one tensor per output; the model owns their data until the next
 * evaluation or until it is destroyed. */
INGOT_API enum ingot_status ingot_model_evaluate(struct ingot_model *model, const struct ingot_tensor *inputs,
                                                 size_t n_inputs, struct ingot_tensor *out_outputs, size_t n_outputs,
                                                 struct ingot_error *error);

/*
 * A cache of what builds make, so that nothing is made twice: the compiled code of kernels, found again by other models
 * with equal parts, too (docs/reuse.md). It holds what was used last in memory, and all of it in a folder, which any number
 * of processes use at once. What two of them need at the same time is built by one, and the other waits for it.
 *
 * A cache is never needed. A full disk, a read-only folder or a damaged entry is reported by `note` of the build options,
 * and the build goes on. Entries are code: whoever can write to the folder can make those run code who build with it.
 *
 * Any thread may use a cache at any time, and any number of builds at once.
 */
struct ingot_cache;

struct ingot_cache_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the cache's life */
    const char *folder;                      /* made if it is missing, for its owner alone; NULL: memory only */
    uint64_t max_bytes;                      /* of the folder's entries, least recently used out first; 0: 10^10 */
    size_t max_memory_bytes;                 /* of the entries in memory; 0: 64 MiB */
    /* A server that machines share, asked after memory and folder: "http://HOST/FOLDER" (https too; GET and PUT, as nginx's
     * WebDAV has them), "s3+https://KEY:SECRET@HOST/BUCKET?region=REGION" or "redis://[:PASSWORD@]HOST[:PORT]". NULL: none. Once it fails or is too slow, a build does
     * without it. */
    const char *shared;
    double shared_seconds; /* the longest that a request takes; 0: 5 */
    /* Entries of the server count only if they were signed (Ed25519) by a key among these: 64 hexadecimal digits each. */
    const char *const *trusted_keys;
    size_t n_trusted_keys;
    const char *key_file; /* the secret key that signs new entries for the server; NULL: none are added */
    /* Keep whole engines too, of at most an eighth of max_bytes each, which pass through memory: a build with the same weights
     * is then a copy. Without, it computes them, which mostly takes as long. */
    bool engines;
};
#define INGOT_CACHE_OPTIONS_INIT \
    { sizeof(struct ingot_cache_options), NULL, NULL, 0, 0, NULL, 0, NULL, 0, NULL, false }

/* INGOT_IO where there is no such folder and it cannot be made, or everybody may write to it. */
INGOT_API enum ingot_status ingot_cache_open(const struct ingot_cache_options *options, struct ingot_cache **out_cache,
                                             struct ingot_error *error);
/* Makes a pair of keys: the secret one in a new file for its owner alone; the public one, which is its own trust, in
 * hexadecimal digits. */
INGOT_API enum ingot_status ingot_cache_generate_key(const char *key_file, char out_public[65],
                                                     struct ingot_error *error);

/* After all builds that use it. NULL does nothing. */
INGOT_API void ingot_cache_close(struct ingot_cache *cache);

/* An entry in the folder. Strings are valid during the call that passes them. */
struct ingot_cache_entry {
    const char *kind;        /* "kernel", "structure", "engine" */
    const char *key;         /* 32 hexadecimal digits */
    const char *label;       /* what it is, for people; NULL if it is damaged */
    const char *damage;      /* what is wrong; NULL: nothing */
    uint64_t bytes;          /* of its file */
    uint64_t contents_bytes; /* of what it holds, not compressed; 0 if it is damaged */
    int64_t used;            /* last use, in seconds since 1970 */
};
/* Reads and checks every entry of the folder, those that were used last first. Damaged ones are removed. */
INGOT_API enum ingot_status ingot_cache_list(struct ingot_cache *cache,
                                             void (*entry)(void *user, const struct ingot_cache_entry *entry),
                                             void *user, struct ingot_error *error);

/* The rest of these functions are about the folder, too: INGOT_INVALID_ARGUMENT where there is none. */
struct ingot_cache_info {
    const char *folder; /* lives as long as the cache */
    uint64_t max_bytes;
    uint64_t entries, bytes;
    uint64_t kernels, structures, engines; /* entries by kind */
    uint64_t kernel_bytes, structure_bytes, engine_bytes;
};
INGOT_API enum ingot_status ingot_cache_describe(struct ingot_cache *cache, struct ingot_cache_info *out_info,
                                                 struct ingot_error *error);
/* Removes the entries that were used longest ago until at most `max_bytes` are left. Each out_ may be NULL. */
INGOT_API enum ingot_status ingot_cache_prune(struct ingot_cache *cache, uint64_t max_bytes, uint64_t *out_entries,
                                              uint64_t *out_bytes, struct ingot_error *error);
/* Writes all sound entries to one file. */
INGOT_API enum ingot_status ingot_cache_export(struct ingot_cache *cache, const char *path, uint64_t *out_entries,
                                               struct ingot_error *error);
/* Adds the entries of such a file, each checked against damage; import only what you trust. `out_new`: of these, the
 * ones that were not there. On failure the entries before the damaged one are kept. */
INGOT_API enum ingot_status ingot_cache_import(struct ingot_cache *cache, const char *path, uint64_t *out_entries,
                                               uint64_t *out_new, struct ingot_error *error);

/* What a build did. */
struct ingot_build_report {
    size_t struct_size;
    unsigned kernels_cached;   /* taken from the cache */
    unsigned kernels_compiled; /* candidates that were measured are among both */
    unsigned regions;          /* parts of the network, each computed by kernels; equal ones share theirs */
    unsigned regions_new;      /* those of which a kernel was compiled */
    bool structure_cached;     /* all but the weights was taken from the cache; then the counts are 0 */
    bool engine_cached;        /* the weights too */
    /* Of weights that are multiplied as bytes on CPUs without VNNI: parts whose sums are proved to fit 16 bits, and those that
     * are widened, which takes longer (docs/quantisation.md). Weights that are left for a refit are in neither. */
    uint64_t quads_proved, quads_widened;
};
#define INGOT_BUILD_REPORT_INIT \
    { sizeof(struct ingot_build_report), 0, 0, 0, 0, false, false, 0, 0 }

/* Restricts one dynamic dim, or the dims of one input, before building. `name` is a symbol ("batch") or an input's
 * name. `spec` is "4" or "1:8:64" (min:opt:max) for a symbol, and "1x3x224x224", possibly with ranges, for an input. */
struct ingot_shape_spec {
    const char *name;
    const char *spec;
};

struct ingot_build_options {
    size_t struct_size;
    /* "cpu" (this machine's, the default), "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:amx"; with AVX-VNNI or AVX512-VNNI
     * "cpu:x86-64-v3+vnni", "cpu:x86-64-v4+vnni"; "cuda" (this machine's GPU), or an architecture such as "cuda:sm_80"
     * or "cuda:sm_90a", for which no GPU is needed. */
    const char *target;
    int opt_level; /* 0 to 5; default 3 */
    const struct ingot_shape_spec *shapes;
    size_t n_shapes;
    const char *const *pass_switches; /* "NAME=on" or "NAME=off" */
    size_t n_pass_switches;
    const char *dump_after;        /* a pass's name, or "all"; NULL: none */
    const struct ingot_sink *dump; /* receives the dumps */
    const char *cc;                /* C compiler; NULL: the first of cc, gcc and clang on $PATH */
    unsigned jobs;                 /* kernels compiled, and threads that compute weights; 0: one per processor */
    bool verify_passes;            /* check the graph after every pass */
    /* Progress, called on the building thread: `done` of `total` of `what`. NULL: silent. */
    void (*progress)(void *user, const char *what, unsigned done, unsigned total);
    void *progress_user;
    const char *nvrtc; /* CUDA targets: path of libnvrtc, or of a folder that has it; NULL: the system's */
    bool portable;     /* CUDA targets: include PTX, for architectures newer than the target's */
    /* The type that matrix products and convolutions read and that is stored between kernels: "fp32" (the default),
     * "tf32" (fp32 in memory; GPUs may round the operands of products), "fp16" or "bf16". Sums, statistics and what
     * could overflow stay in fp32, and the types of inputs and outputs do not change (docs/precision.md). */
    const char *precision;
    /* Precision for parts of the model: "PATTERN=TYPE", where PATTERN is matched against the names and the operators of
     * ONNX nodes and may contain * and ?. The last match of a node wins. */
    const char *const *precision_of;
    size_t n_precision_of;
    int device; /* the GPU that the target "cuda" means */
    /* Measure the candidates of each kernel on this machine, for at most this many seconds (docs/tuning.md). 0: do not
     * measure. Optimisation level 0 always takes the first candidate. */
    double tune_seconds;
    /* Timing caches to read, in order; later files win. New measurements are written to the last file, together with
     * everything read; that file need not exist. */
    const char *const *timing_caches;
    size_t n_timing_caches;
    /* Called with a sentence on what was skipped without being a failure: "not tuned, the first choices are taken: no
     * NVIDIA driver ...". NULL: silent. */
    void (*note)(void *user, const char *text);
    void *note_user;
    /* "all" (or NULL) or "generated": whether calls of NVIDIA's libraries are candidates for kernels. They are chosen
     * only where they were measured to be faster. An engine with such a kernel needs the library at run time. */
    const char *tactics;
    /* The most kernels for one region whose sizes depend on symbols: which of them runs is decided when shapes are bound.
     * A further one is built only where it is estimated to save time. 0: the default (12). 1: the kernel that is best at
     * OPT, for all sizes; then the results of a sample on a GPU have the same bits at every size of the
     * batch. */
    unsigned variants;
    struct ingot_cache *cache;         /* NULL: none */
    struct ingot_build_report *report; /* filled when the build succeeds; NULL: not asked for */
    /* Leave out the weights that depend on the model's initialisers: the engine does not run until refitting has put them
     * in (ingot_refit_file). */
    bool strip_weights;
    /* Slots for low-rank adapters (LoRA) beside the weights; 0: none. The engine then has the further input 'adapter',
     * i64[batch] (i64[1], for all samples, where the model mixes them): k for the adapter in slot k, from 1 on; any other
     * number for none. Slots begin empty; ingot_tensors_open_slot has what fills them. */
    unsigned adapters;
    unsigned adapter_rank; /* the largest rank of these adapters; 0: the default (16) */
    /* Patterns (fnmatch: * and ?) of the linear layers that have slots, by their PyTorch names ("encoder.layer.*.query") or
     * their weights' initialisers. NULL: all. */
    const char *const *adapter_layers;
    size_t n_adapter_layers;
    /* Override what is decided by estimates (docs/passes.md), for GPUs: "PATTERN=on" fuses where there is a choice, "PATTERN=off"
     * does not, with patterns as for precision_of. The last match of a node wins. */
    const char *const *fuse_of;
    size_t n_fuse_of;
    /* Types of inputs and outputs in place of the model's, such as caches in half precision: "PATTERN=TYPE", where PATTERN
     * (fnmatch: * and ?) is matched against their names, and TYPE is "fp32", "fp16" or "bf16". The last match counts. Only
     * floats change. */
    const char *const *io_types;
    size_t n_io_types;
    /* Compute quantised models as they are written, each operator by itself in the types that it names, instead of in integers
     * (docs/quantisation.md): slower, and what ONNX's operators say to the last bit. */
    bool strict_qdq;
    /* Numbers of ranks, ascending, that the engine has plans for: GPUs, or processes on CPUs, that compute one run together
     * (docs/distributed.md). NULL: it is for one. */
    const unsigned *ranks;
    size_t n_ranks;
    /* How the network is divided among ranks: "auto" (or NULL), whatever is estimated to be fastest; "none", "batch", "tensor",
     * "mixed", or "pipeline": stages, whose results only rank 0 has. */
    const char *sharding;
    /* The same for parts of the network (docs/distributed.md): "PATTERN=HOW", with patterns as for precision_of; HOW is "auto", "whole"
     * (on every rank), "divided", "batch", "columns", "rows", or "axis0" and so on, of the node's result. The last match
     * of a node counts. A build fails where a node cannot be divided so. */
    const char *const *shard_of;
    size_t n_shard_of;
    /* What dividing is for: "latency" (or NULL), the time of a run; or "throughput", samples per second, where each rank may also
     * compute samples of its own. */
    const char *objective;
    /* The bytes that a rank may need, by an estimate of its weights and of what it holds between nodes at the usual sizes. Plans that
     * need more are not taken; if all do, the build fails and says what they need. 0: no limit. */
    uint64_t memory;
};
#define INGOT_BUILD_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(struct ingot_build_options), NULL, 3, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, false, NULL, NULL, NULL,   \
            false, NULL, NULL, 0, 0, 0, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL, false, 0, 0, NULL, 0, NULL, 0, NULL, \
            0, false, NULL, 0, NULL, NULL, 0, NULL, 0                                                                  \
    }

/* Compiles into the engine file `path`. The file is created atomically. */
INGOT_API enum ingot_status ingot_model_build(struct ingot_model *model, const struct ingot_build_options *options,
                                              const char *path, struct ingot_error *error);

/* Compiles into memory. The caller owns `*out_data` (aligned to 64 bytes) and frees it with ingot_blob_release. */
INGOT_API enum ingot_status ingot_model_build_memory(struct ingot_model *model,
                                                     const struct ingot_build_options *options, void **out_data,
                                                     size_t *out_size, struct ingot_error *error);

/*
 * Writes what a build by these options would make, in numbers, as text: regions by family, kernels, and, at the smallest, usual
 * and largest sizes, the bytes that they have to move, their operations, floor and estimated time (docs/floors.md), and the
 * arena. It follows from the model and the options alone, and needs no compiler. Tuning and caches play no part.
 */
INGOT_API enum ingot_status ingot_model_count(struct ingot_model *model, const struct ingot_build_options *options,
                                              const struct ingot_sink *sink, struct ingot_error *error);
/*
 * Writes the model with device configurations of ONNX's IR version 11, as a build by these options, which have one number of ranks,
 * would divide it (docs/distributed.md); they replace those that it has. Nothing else of the file changes, and external data
 * stays where it is. INGOT_UNSUPPORTED of networks that were not loaded from ONNX, or are one rank's already.
 */
INGOT_API enum ingot_status ingot_model_write_sharding(struct ingot_model *model,
                                                       const struct ingot_build_options *options,
                                                       const struct ingot_sink *sink, struct ingot_error *error);
INGOT_API void ingot_blob_release(struct ingot_model *model, void *data, size_t size);

/* The optimisation passes, in the order they run. */
struct ingot_pass_info {
    const char *name;
    const char *description;
    int level; /* runs at this opt_level and above */
};
INGOT_API size_t ingot_pass_list(struct ingot_pass_info *passes, size_t capacity);

/* ---- Tensor files (libingot) ----------------------------------------------------------------------------------- */

struct ingot_named_tensor {
    const char *name;
    struct ingot_tensor tensor;
    /* Of an ONNX model's: as in ingot_initializer_info. */
    const char *alias;
    bool is_transposed;
};

/* The tensors of a file. Read-only; any number of threads may use it. */
struct ingot_tensors;

/*
 * Reads the tensors of a file by the end of its name: the initialisers of an .onnx model (its operators need not be
 * supported), .safetensors, NumPy's .npz, or the one tensor of an .npy file, whose name is "". Large ones are mapped where
 * the format allows, so the file must not change meanwhile. `allocator` is borrowed for the object's life; NULL: the C
 * library's. INGOT_IO if the file cannot be read, INGOT_BAD_TENSOR or INGOT_BAD_MODEL if it is malformed,
 * INGOT_UNSUPPORTED for types that Ingot does not have.
 */
INGOT_API enum ingot_status ingot_tensors_open(const char *path, const struct ingot_allocator *allocator,
                                               struct ingot_tensors **out_tensors, struct ingot_error *error);
/*
 * The tensors that a low-rank adapter (LoRA) makes of the `n_base` tensors of a checkpoint: of each layer that it adapts, the
 * weight W + scale * B A, under its name in `base`, whose later tensors win. Give them to a refit with `partial`; the
 * tensors of `base` themselves take the adapter off again, to the bit. `folder` is what PEFT's save_pretrained writes:
 * adapter_config.json and adapter_model.safetensors. A layer is found by its PyTorch name, also behind a prefix that the
 * model puts before it. Errors as above; INGOT_BAD_TENSOR also if the adapter does not fit, INGOT_UNSUPPORTED for other kinds
 * of adapters. The tensors are the new object's; `base` is needed for the call alone.
 */
INGOT_API enum ingot_status ingot_tensors_open_adapter(const char *folder, const struct ingot_named_tensor *base,
                                                       size_t n_base, const struct ingot_allocator *allocator,
                                                       struct ingot_tensors **out_tensors, struct ingot_error *error);
/*
 * The tensors that put an adapter into slot `slot`, from 1 on, of an engine that was built with slots
 * (ingot_build_options.adapters): the matrices of the slot in all layers, zeros in those that the adapter does not change. Give
 * them to a refit with `partial`. `folder` as above; NULL empties the slot. Errors as above; INGOT_INVALID_ARGUMENT if the
 * engine has no such slot, INGOT_UNSUPPORTED also for adapters with whole tensors, such as biases, which have no slots. The
 * engine is only asked for its initialisers.
 */
INGOT_API enum ingot_status ingot_tensors_open_slot(const char *folder, const struct ingot_engine *engine,
                                                    unsigned slot, const struct ingot_allocator *allocator,
                                                    struct ingot_tensors **out_tensors, struct ingot_error *error);
/* In the file's order; they live as long as the object. Those of a model lie where they are in the file, which need not be
 * an address that is aligned to their type: read them by memcpy. */
INGOT_API const struct ingot_named_tensor *ingot_tensors_list(const struct ingot_tensors *tensors, size_t *out_count);
INGOT_API void ingot_tensors_close(struct ingot_tensors *tensors);
/* Writes one tensor in host memory as .npy. */
INGOT_API enum ingot_status ingot_tensors_write_npy(const char *path, const struct ingot_tensor *tensor,
                                                    struct ingot_error *error);

/* ---- Refitting (libingot) -------------------------------------------------------------------------------------- */

/*
 * Refitting gives an engine other weights without building it again: whatever the compiler computed from the
 * initialisers that change (folded, transposed, converted, packed) is computed again, and nothing else. The result has
 * the bytes of an engine that is built from the model with these weights by the same version of Ingot.
 */
struct ingot_refit_options {
    size_t struct_size;
    const struct ingot_allocator *allocator; /* borrowed for the call */
    /* Patterns of names (fnmatch: * and ?): other tensors that are given replace nothing. Initialisers that match none
     * keep their values. NULL: all. */
    const char *const *only;
    size_t n_only;
    /* Initialisers for which no tensor is given keep their values. Else each that can be replaced must be given. */
    bool partial;
    bool ignore_unknown; /* skip tensors that are no initialisers of the engine's model; else they are an error */
    /* Progress, called on the calling thread: `done` of `total` weights. NULL: silent. */
    void (*progress)(void *user, const char *what, unsigned done, unsigned total);
    void *progress_user;
    /* Of a loaded engine: read the tensors in place where that may be; see ingot_engine_refit. */
    bool borrow;
    int device; /* the GPU that tensors in GPU memory are on */
};
#define INGOT_REFIT_OPTIONS_INIT \
    { sizeof(struct ingot_refit_options), NULL, NULL, 0, false, false, NULL, NULL, false, 0 }

struct ingot_refit_info {
    /* Initialisers given whose values differ from the engine's, or not; of those that are borrowed, whether they are in
     * other places. */
    size_t changed, unchanged;
    size_t weights; /* of the engine, that were made anew */
    uint64_t weight_bytes;
    /* All weights of the engine as they are now: in the caller's memory, and in its own. */
    size_t borrowed;
    uint64_t borrowed_bytes, owned_bytes;
};

/*
 * Writes the engine file `path` with the values of `tensors` (in host memory; `borrow` is for loaded engines) to `out_path`, atomically; that may be `path`
 * itself, which processes that have loaded it do not notice. With `out_path` NULL only `out_info` is filled: nothing would
 * change if `changed` is 0. `out_info` may be NULL.
 *
 * Of several tensors with one name the last is taken. INGOT_INVALID_ARGUMENT, with the name, what was expected and what was
 * found: a tensor is missing, unknown or of another type or shape; it is a structural initialiser with another value; or
 * the engine has an initialiser that changes combined with one that is not given (a convolution with its batch
 * normalisation), whose present value is then needed too. An engine without weights (strip_weights) becomes whole.
 */
INGOT_API enum ingot_status ingot_refit_file(const char *path, const struct ingot_named_tensor *tensors,
                                             size_t n_tensors, const struct ingot_refit_options *options,
                                             const char *out_path, struct ingot_refit_info *out_info,
                                             struct ingot_error *error);

/*
 * The same for an engine that is loaded, while any number of threads run its contexts: runs in flight end with the weights
 * that they began with, each run that begins after the return has the new ones, and none sees both. Runs take no lock for
 * that. An engine without weights runs from then on.
 *
 * The new weights are made beside the old ones: on a GPU that takes the size of the weights once more, on the CPU that of
 * the pages that change. A context is bound to the weights of its last run, and its next run waits for its runs in flight
 * before it takes newer ones. So memory for a third set is needed where a context does not run between two refits. The next
 * refit writes to the set that is no longer used. The file stays as it is, and so do the engine's other instances.
 *
 * With `borrow`, kernels read the tensors where the caller has them, and the engine has no copy, wherever a weight has the
 * bytes of one initialiser, on the CPU for tensors aligned to their elements, for an engine for a GPU for tensors in the
 * memory of GPU `device`, aligned to 16 bytes. Whatever is computed from several initialisers, laid out in another way or
 * converted is made and owned as without; on a GPU this reads the tensor's memory at once, so work that writes it must have
 * ended. An engine without weights (strip_weights) never has a copy of what is borrowed.
 *
 *  - The caller keeps borrowed memory as it is during runs. Between runs, or on a GPU by work that is ordered before a run,
 *    it may be written: the next run sees that by itself. Only what is made of an initialiser (those without is_borrowed)
 *    needs a refit then, with the tensors.
 *  - The memory may be freed when the engine is destroyed, or when a refit has given the engine another value, or lent it
 *    other memory, and ingot_engine_borrows says no.
 *  - A later refit borrows, or makes its own, what it is given; with `partial`, the rest stays as it is.
 *  - Contexts are on GPU `device` alone: INGOT_UNSUPPORTED where there are others. A GPU that was lost and is found again
 *    (ingot_context_create) has none of the memory, so lend it anew before the next context.
 *
 * Any thread may call; calls for one engine follow each other. Fails as ingot_refit_file does, and with INGOT_UNSUPPORTED
 * for weights that are shared with other processes (ingot_engine_export_weights), INGOT_DEVICE or INGOT_OUT_OF_MEMORY: then
 * the weights are what they were.
 */
INGOT_API enum ingot_status ingot_engine_refit(struct ingot_engine *engine, const struct ingot_named_tensor *tensors,
                                               size_t n_tensors, const struct ingot_refit_options *options,
                                               struct ingot_refit_info *out_info, struct ingot_error *error);

/* Might a run that is under way, or a later one, read the initialiser that was borrowed at this address? Also yes as long
 * as a context has not run since a refit replaced it; on a GPU, no means that no run in flight does. Any thread may call. */
INGOT_API bool ingot_engine_borrows(struct ingot_engine *engine, const void *data);

#ifdef __cplusplus
}
#endif
#endif
