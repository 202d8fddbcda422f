/* Shared by run, bench, inspect and verify: an engine from a file or built from a model, a context, inputs. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "folder.h"
#include "shape.h"

/* The build options that all commands share. */
struct build_arguments {
    const char *target, *cc, *nvrtc, *dump_after;
    unsigned opt_level, jobs, variants, adapters, adapter_rank;
    const char *precision, *tactics, *cache;
    struct option_list shapes, passes, precision_of, fuse_of, io_types, timing_caches, adapter_layers;
    double tune;
    bool joins; /* of a process that a launcher started: its ranks are processes (session_open) */
    bool portable, verify_passes, strip_weights, strict_qdq, quiet;
    unsigned device; /* the GPU that the target "cuda" means */
    const char *ranks, *sharding, *objective;
    double memory; /* GB */
    struct option_list shard_of;
};
#define BUILD_ARGUMENTS_DEFAULT \
    { .opt_level = 3 }
/* Rows for option tables; `b` is a struct build_arguments. */
#define BUILD_OPTION_ROWS(b)                                                                                           \
    {"target",                                                                                                         \
     't',                                                                                                              \
     OPTION_TEXT,                                                                                                      \
     "T",                                                                                                              \
     "cpu (this machine's, the default), cpu:x86-64-v3,\ncpu:x86-64-v4, either with +vnni, cpu:amx,\n"                 \
     "cuda (this machine's GPU) or "                                                                                   \
     "cuda:ARCH (such as sm_80, sm_90a, sm_100)",                                                                      \
     &(b).target},                                                                                                     \
        {"opt", 'O', OPTION_UNSIGNED, "N", "optimisation level, 0 to 5 (default 3)", &(b).opt_level},                  \
        {"precision",                                                                                                  \
         0,                                                                                                            \
         OPTION_TEXT,                                                                                                  \
         "TYPE",                                                                                                       \
         "fp32 (the default), tf32, fp16 or bf16: what products and\nconvolutions read and memory holds",              \
         &(b).precision},                                                                                              \
        {"precision-of",                                                                                               \
         0,                                                                                                            \
         OPTION_LIST,                                                                                                  \
         "PATTERN=TYPE",                                                                                               \
         "the same for nodes whose name or operator fits, with *\nand ?; repeatable, the last one counts",             \
         &(b).precision_of},                                                                                           \
        {"io-type",                                                                                                    \
         0,                                                                                                            \
         OPTION_LIST,                                                                                                  \
         "PATTERN=TYPE",                                                                                               \
         "fp32, fp16 or bf16 for inputs and outputs of floats whose name\nfits, in place of the model's type; "        \
         "repeatable, the last one counts",                                                                            \
         &(b).io_types},                                                                                               \
        {"strict-qdq",                                                                                                 \
         0,                                                                                                            \
         OPTION_FLAG,                                                                                                  \
         NULL,                                                                                                         \
         "computes quantised models as they are written, in floats\ninstead of in integers",                           \
         &(b).strict_qdq},                                                                                             \
        {"pass", 0, OPTION_LIST, "NAME=on|off", "switches a pass; repeatable", &(b).passes},                           \
        {"fuse",                                                                                                       \
         0,                                                                                                            \
         OPTION_LIST,                                                                                                  \
         "PATTERN=on|off",                                                                                             \
         "GPUs: whether to fuse where estimates would decide, for nodes\nlike above; repeatable, the last one counts", \
         &(b).fuse_of},                                                                                                \
        {"cc", 0, OPTION_TEXT, "PATH", "C compiler (default: $INGOT_CC, else the first of cc,\ngcc, clang)", &(b).cc}, \
        {"nvrtc",                                                                                                      \
         0,                                                                                                            \
         OPTION_TEXT,                                                                                                  \
         "PATH",                                                                                                       \
         "NVIDIA's compiler for CUDA targets: libnvrtc, or a folder\nthat has it (default: $INGOT_NVRTC, else the "    \
         "system's)",                                                                                                  \
         &(b).nvrtc},                                                                                                  \
        {"portable", 0, OPTION_FLAG, NULL, "CUDA: PTX too, for newer GPUs than the target", &(b).portable},            \
        {"tune",                                                                                                       \
         0,                                                                                                            \
         OPTION_NUMBER,                                                                                                \
         "SECONDS",                                                                                                    \
         "measures the ways to compute each kernel on this machine, for\nat most so long (default: 0, the first "      \
         "choice is taken)",                                                                                           \
         &(b).tune},                                                                                                   \
        {"timing-cache",                                                                                               \
         0,                                                                                                            \
         OPTION_LIST,                                                                                                  \
         "FILE",                                                                                                       \
         "what was measured before, and now; repeatable: all are read,\nthe last one is written",                      \
         &(b).timing_caches},                                                                                          \
        {"tactics",                                                                                                    \
         0,                                                                                                            \
         OPTION_TEXT,                                                                                                  \
         "all|generated",                                                                                              \
         "CUDA: whether NVIDIA's cuBLASLt and cuDNN may be taken where\nthey were measured as faster (default: all)",  \
         &(b).tactics},                                                                                                \
        {"variants",                                                                                                   \
         0,                                                                                                            \
         OPTION_UNSIGNED,                                                                                              \
         "N",                                                                                                          \
         "the most kernels for one part of the network, each for some\nof its sizes (default 12; 1: the one that is "  \
         "best at OPT)",                                                                                               \
         &(b).variants},                                                                                               \
        {"cache", 0, OPTION_TEXT, "DIR|off", CACHE_OPTION_HELP, &(b).cache},                                           \
        {"jobs", 'j', OPTION_UNSIGNED, "N", "compilers, threads at once (default: one per processor)", &(b).jobs}, {   \
        "quiet", 'q', OPTION_FLAG, NULL, "no progress on stderr", &(b).quiet                                           \
    }

/* The same, of engines for several ranks. */
#define RANK_OPTION_ROWS(b)                                                                                           \
    {"ranks",                                                                                                         \
     0,                                                                                                               \
     OPTION_TEXT,                                                                                                     \
     "N[,N...]",                                                                                                      \
     "divides the network among N processes or GPUs that compute a\nrun together; a plan for each of several N",      \
     &(b).ranks},                                                                                                     \
        {"gpus", 0, OPTION_TEXT, "N[,N...]", "the same", &(b).ranks},                                                 \
        {"sharding",                                                                                                  \
         0,                                                                                                           \
         OPTION_TEXT,                                                                                                 \
         "HOW",                                                                                                       \
         "auto (the default: what is estimated to be fastest), none,\nbatch, tensor, mixed or pipeline",              \
         &(b).sharding},                                                                                              \
        {"objective", 0, OPTION_TEXT, "WHAT", "latency of a run (the default), or throughput", &(b).objective},       \
        {"memory", 0, OPTION_NUMBER, "GB", "what a rank may need, by an estimate at the usual sizes", &(b).memory}, { \
        "shard", 0, OPTION_LIST, "PATTERN=HOW",                                                                       \
            "how nodes whose name or operator fits are divided: auto, whole,\ndivided, batch, columns, rows, axis0 "  \
            "...; repeatable, the last one counts",                                                                   \
            &(b).shard_of                                                                                             \
    }

/* Where and how an engine runs; shared by run, bench and verify. */
struct context_arguments {
    unsigned threads, device, gpus;
    const char *machines; /* as in struct ingot_context_options */
};
#define CONTEXT_OPTION_ROWS(c)                                                                                  \
    {"threads",                                                                                                 \
     0,                                                                                                         \
     OPTION_UNSIGNED,                                                                                           \
     "N",                                                                                                       \
     "that compute; for a GPU, that copy what is large\n(default: as many as there are processors)",            \
     &(c).threads},                                                                                             \
        {"device", 'd', OPTION_UNSIGNED, "N", "CUDA: the number of the GPU (default 0)", &(c).device}, {        \
        "gpus", 0, OPTION_UNSIGNED, "N",                                                                        \
            "that the ranks share, with the same bits for every N\n(default: each rank has its own)", &(c).gpus \
    }

/* How many ranks a run is divided among, and how a model is built for that. */
#define RUN_RANK_OPTION_ROWS(b)                                                                                       \
    {"ranks",                                                                                                         \
     0,                                                                                                               \
     OPTION_TEXT,                                                                                                     \
     "N",                                                                                                             \
     "divides each run among N threads with parts of the network, for\nwhich the engine was built; 'run' also among " \
     "N processes that\nmpirun, srun or torchrun started (docs/distributed.md)",                                      \
     &(b).ranks},                                                                                                     \
        {"sharding", 0, OPTION_TEXT, "HOW", "of a model: as for 'ingot build'", &(b).sharding}, {                     \
        "shard", 0, OPTION_LIST, "PATTERN=HOW", "the same", &(b).shard_of                                             \
    }

struct build_job {
    struct ingot_build_options options; /* points into the other fields */
    struct ingot_shape_spec *specs;
    void *text;
    unsigned ranks[64];
    struct ingot_sink dump;
    struct progress *progress;
    struct ingot_build_report report;
};
/* Fills `job` for ingot_model_build; dumps go to stdout. */
enum ingot_status build_job_begin(const struct build_arguments *arguments, struct build_job *job,
                                  struct ingot_error *error);
void build_job_end(struct build_job *job);
void build_arguments_free(struct build_arguments *arguments);

/* "…/model.onnx" for a folder that contains it, else the path itself; the caller frees it. */
char *model_path(const char *path);
bool is_engine_path(const char *path); /* does it end in .ingot? */

struct session {
    struct ingot_engine *engine;
    struct ingot_context *context;
    unsigned rank;            /* of this process in its group, or 0: only rank 0 has anything to say */
    double build_ms, load_ms; /* build_ms is negative if the engine was loaded from a file */
    size_t n_inputs, n_outputs;
    struct ingot_tensor_info *inputs, *outputs;
};

/*
 * Loads the engine at `path`, or builds one from the model there into a temporary file first. If `build` has a number of ranks,
 * contexts divide each run among so many threads; or, if a launcher started this process as one of so many and `joins` allows it,
 * among processes, of which all but the first write no more to stdout.
 */
enum ingot_status session_open(struct session *session, const char *path, const struct build_arguments *build,
                               struct ingot_error *error);
/* Builds from a loaded model. */
enum ingot_status session_build(struct session *session, struct ingot_model *model, const struct build_arguments *build,
                                struct ingot_error *error);
/* The measurements that a context is created for. */
enum session_clock { CLOCK_NONE, CLOCK_KERNELS /* ingot_context_profile */, CLOCK_RUNS /* ingot_context_timing */ };
/* Creates a context of the session's engine. */
enum ingot_status session_context_create(const struct session *session, const struct context_arguments *arguments,
                                         enum session_clock clock, struct ingot_context **out_context,
                                         struct ingot_error *error);
/* Creates the session's own context and replaces the previous one. */
enum ingot_status session_context(struct session *session, const struct context_arguments *arguments,
                                  enum session_clock clock, struct ingot_error *error);
/* Does the engine run on a GPU? */
bool session_is_gpu(const struct session *session);
/* Finds out what inputs and outputs the loaded engine has. */
void session_ask(struct session *session);
void session_close(struct session *session);

/*
 * The inputs of a run: files of "--input NAME=FILE" (NAME is optional for an .npz, for a .pb that names its tensor, and
 * if there is only one input), random numbers for the others. `given` may already hold tensors (an image).
 */
enum ingot_status inputs_prepare(const struct ingot_tensor_info *infos, size_t n, const struct option_list *files,
                                 const struct option_list *shapes, unsigned seed, struct tensor_list *given,
                                 struct ingot_tensor **out_tensors, struct ingot_error *error);
/* Binds them to the context. */
enum ingot_status inputs_bind(struct session *session, const struct ingot_tensor *tensors, struct ingot_error *error);

#endif
