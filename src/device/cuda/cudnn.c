/*
 * The cuDNN binding: convolutions. See binding.h.
 *
 * For an operation graph, the heuristics return engine configurations, best first. Filtered out are engines that round
 * f32 operands where that is not allowed, that accumulate in a type of less precision or in no fixed order, or that use
 * transforms; and engines that are compiled at run time, which takes seconds for every new shape. The call's choice is
 * an index into the rest. Configurations that no plan can be built from are skipped: the next one is taken and, past
 * the last, the one before.
 */
#include "device/cuda/cudnn_graph.h"

/* The oldest supported version, in cuDNN's own numbering. */
#define OLDEST ((size_t)90000)
#define MOST_WORKSPACE ((int64_t)128 << 20)
enum { MOST_CONFIGURATIONS = 64, MOST_NOTES = 32 };

/* A prepared convolution: its plan, and the descriptors that the plan consists of. */
struct convolution {
    struct ig_cudnn_set set;
    cudnnBackendDescriptor plan;
    int64_t workspace;
};

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static bool is_about_memory(cudnnStatus status) {
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

static enum ingot_status check(const struct ig_cudnn *cudnn, cudnnStatus result, const char *what,
                               struct ingot_error *error) {
    enum ingot_status status = INGOT_DEVICE;
    if (result == CUDNN_STATUS_SUCCESS) return INGOT_OK;
    int kind = result / 1000 * 1000;
    if (kind == CUDNN_STATUS_BAD_PARAM || kind == CUDNN_STATUS_NOT_SUPPORTED) status = INGOT_UNSUPPORTED;
    if (is_about_memory(result)) status = INGOT_OUT_OF_MEMORY;
    const char *text = cudnn->cudnnGetErrorString(result);
    return IG_ERR(error, status, "%s: %s (error %d of cuDNN)", what, text ? text : "no text", result);
}

/* Before version 9, numbers have one digit less: 8907 is 8.9.7. */
static enum ingot_status check_version(size_t version, struct ingot_error *error) {
    size_t major = version < OLDEST ? version / 1000 : version / 10000;
    size_t minor = version < OLDEST ? version / 100 % 10 : version / 100 % 100;
    if (version >= OLDEST) return INGOT_OK;
    return IG_ERR(error, INGOT_DEVICE, "the cuDNN that was found is %zu.%zu.%zu, Ingot needs 9.0 or later", major,
                  minor, version % 100);
}

static enum ingot_status load(struct ig_cudnn *cudnn, const char *file, struct ingot_error *error) {
    void *library;
    IG_TRY(ig_cuda_binding_load(IG_LIBRARY_CUDNN, file, &library, error));
    if (!ig_cuda_binding_find(library, "cudnnGetVersion", &cudnn->cudnnGetVersion) ||
        !ig_cuda_binding_find(library, "cudnnGetErrorString", &cudnn->cudnnGetErrorString))
        return IG_ERR(error, INGOT_DEVICE, "the cuDNN that was found tells neither its version nor its errors");
    cudnn->version = cudnn->cudnnGetVersion();
    IG_TRY(check_version(cudnn->version, error));
#define FIND(function, parameters)                                   \
    if (!ig_cuda_binding_find(library, #function, &cudnn->function)) \
        return IG_ERR(error, INGOT_DEVICE, "the cuDNN that was found has no %s", #function);
    IG_CUDNN_FUNCTIONS(FIND)
#undef FIND
    return check(cudnn, cudnn->cudnnCreate(&cudnn->handle), "cannot open cuDNN", error);
}

static void close_library(void *library) {
    struct ig_cudnn *cudnn = library;
    if (cudnn->handle) cudnn->cudnnDestroy(cudnn->handle);
    ig_release(cudnn->allocator, cudnn, sizeof *cudnn);
}

static enum ingot_status open_library(const struct ingot_allocator *allocator, const char *file, void **out_library,
                                      struct ingot_error *error) {
    struct ig_cudnn *cudnn = ig_allocate(allocator, sizeof *cudnn, _Alignof(struct ig_cudnn));
    if (!cudnn) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a library");
    cudnn->allocator = allocator;
    enum ingot_status status = load(cudnn, file, error);
    if (status != INGOT_OK)
        close_library(cudnn);
    else
        *out_library = cudnn;
    return status;
}

/* ---- Configurations ---------------------------------------------------------------------------------------------- */

struct configurations {
    const struct ig_cudnn *cudnn;
    int count;
    cudnnBackendDescriptor at[MOST_CONFIGURATIONS];
};

static void drop_configurations(struct configurations *c, int kept) {
    while (c->count > kept)
        c->cudnn->cudnnBackendDestroyDescriptor(c->at[--c->count]);
}

/* One kind of notes on an engine. An engine with an unwelcome note is not used. */
struct notes {
    int attribute, type;
    bool (*is_welcome)(int note, const struct ig_library_call *call);
};

static bool is_exact_enough(int note, const struct ig_library_call *call) {
    bool exact = call->a_type == INGOT_F32 && !call->rounded;
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return !exact;
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: return true;
    default: return false;
    }
}

static bool is_ready(int note, const struct ig_library_call *call) {
    (void)call;
    return note != CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
}

static cudnnStatus read_notes(const struct ig_cudnn *cudnn, cudnnBackendDescriptor engine, const struct notes *n,
                              const struct ig_library_call *call, bool *out_welcome) {
    int notes[MOST_NOTES];
    int64_t count = 0;
    cudnnStatus status = cudnn->cudnnBackendGetAttribute(engine, n->attribute, n->type, MOST_NOTES, &count, notes);
    *out_welcome = !status;
    for (int64_t i = 0; i < count && i < MOST_NOTES && *out_welcome; i++)
        *out_welcome = n->is_welcome(notes[i], call);
    return status;
}

/* Does the configuration's engine compute what the call wants, without being compiled first? */
static cudnnStatus look_at(const struct ig_cudnn *cudnn, cudnnBackendDescriptor configuration,
                           const struct ig_library_call *call, bool *out_fits) {
    static const struct notes lists[] = {{CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, is_exact_enough},
                                         {CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, is_ready}};
    cudnnBackendDescriptor engine;
    int64_t count = 0;
    cudnnStatus status = cudnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    if (status) return status;
    status = cudnn->cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                             1, &count, &engine);
    *out_fits = !status;
    for (int i = 0; i < 2 && *out_fits; i++)
        status = read_notes(cudnn, engine, &lists[i], call, out_fits);
    cudnn->cudnnBackendDestroyDescriptor(engine);
    return status;
}

/* Keeps the configurations that fit, in order. */
static cudnnStatus sift(struct configurations *c, const struct ig_library_call *call) {
    cudnnStatus status = CUDNN_STATUS_SUCCESS;
    int kept = 0;
    for (int i = 0; i < c->count && !is_about_memory(status); i++) {
        bool fits = false;
        status = look_at(c->cudnn, c->at[i], call, &fits);
        if (!fits) continue;
        cudnnBackendDescriptor taken = c->at[i];
        c->at[i] = c->at[kept];
        c->at[kept++] = taken;
    }
    drop_configurations(c, kept);
    return is_about_memory(status) ? status : CUDNN_STATUS_SUCCESS;
}

static void fetch(struct ig_cudnn_set *set, cudnnBackendDescriptor heuristics, struct configurations *c) {
    int64_t found = 0;
    while (!set->status && c->count < MOST_CONFIGURATIONS) {
        set->status = c->cudnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &c->at[c->count]);
        if (!set->status) c->count++;
    }
    if (!set->status)
        set->status = c->cudnn->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, c->count, &found, c->at);
    if (set->status) found = 0;
    if (found < c->count) drop_configurations(c, (int)found);
}

/* Fills `out` with the fitting configurations that the heuristics return for a graph; none if they fail. */
static cudnnStatus ask(struct convolution *v, cudnnBackendDescriptor graph, int mode,
                       const struct ig_library_call *call, struct configurations *out) {
    struct ig_cudnn_set *set = &v->set;
    int before = set->count;
    cudnnBackendDescriptor heuristics = ig_cudnn_begin(set, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    ig_cudnn_put(set, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    ig_cudnn_put(set, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    ig_cudnn_finish(set, heuristics);
    fetch(set, heuristics, out);
    ig_cudnn_drop(set, before);
    cudnnStatus status = set->status;
    set->status = CUDNN_STATUS_SUCCESS;
    if (status) return is_about_memory(status) ? status : CUDNN_STATUS_SUCCESS;
    return sift(out, call);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

/* `out_done` is false if the configuration is impossible here or needs too much workspace. */
static cudnnStatus try_plan(struct convolution *v, cudnnBackendDescriptor configuration, bool *out_done) {
    struct ig_cudnn_set *set = &v->set;
    const struct ig_cudnn *cudnn = set->cudnn;
    int before = set->count;
    int64_t count = 0, workspace = 0;
    cudnnBackendDescriptor plan = ig_cudnn_begin(set, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    ig_cudnn_put(set, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &cudnn->handle);
    ig_cudnn_put(set, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration);
    ig_cudnn_finish(set, plan);
    if (!set->status)
        set->status = cudnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                                      1, &count, &workspace);
    cudnnStatus status = set->status;
    set->status = CUDNN_STATUS_SUCCESS;
    *out_done = !status && workspace >= 0 && workspace <= MOST_WORKSPACE;
    if (!*out_done) {
        ig_cudnn_drop(set, before);
        return is_about_memory(status) ? status : CUDNN_STATUS_SUCCESS;
    }
    v->plan = plan;
    v->workspace = workspace;
    return CUDNN_STATUS_SUCCESS;
}

/* Tries the wanted configuration, then those behind it, then those before it, nearest first. */
static cudnnStatus choose(struct convolution *v, const struct configurations *c, uint32_t choice, bool *out_done) {
    cudnnStatus status = CUDNN_STATUS_SUCCESS;
    int first = choice < (uint32_t)c->count ? (int)choice : c->count - 1;
    for (int i = 0; i < c->count && !status && !*out_done; i++) {
        int behind = c->count - first;
        status = try_plan(v, c->at[i < behind ? first + i : c->count - 1 - i], out_done);
    }
    return status;
}

static enum ingot_status nothing_fits(const struct ig_cudnn *cudnn, const struct ig_cuda_call *call,
                                      struct ingot_error *error) {
    const int64_t *z = call->sizes;
    return IG_ERR(
        error, INGOT_UNSUPPORTED,
        "cuDNN %zu.%zu.%zu has no way to convolve %lld x %lld x %lld x %lld by %lld filters of %lld x %lld in "
        "%lld group%s, and what follows (%s)",
        cudnn->version / 10000, cudnn->version / 100 % 100, cudnn->version % 100, (long long)z[IG_LIBRARY_IMAGES],
        (long long)z[IG_LIBRARY_IN], (long long)z[IG_LIBRARY_IN + 1], (long long)z[IG_LIBRARY_CHANNELS],
        (long long)z[IG_LIBRARY_FILTERS], (long long)z[IG_LIBRARY_KERNEL], (long long)z[IG_LIBRARY_KERNEL + 1],
        (long long)z[IG_LIBRARY_GROUPS], z[IG_LIBRARY_GROUPS] == 1 ? "" : "s",
        ingot_dtype_name((enum ingot_dtype)call->what->a_type));
}

static enum ingot_status decide(const struct ig_cudnn *cudnn, const struct ig_cuda_call *call, struct convolution *v,
                                struct ingot_error *error) {
    static const int modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    bool done = false;
    v->set.cudnn = cudnn;
    cudnnBackendDescriptor graph = ig_cudnn_graph(&v->set, call);
    IG_TRY(check(cudnn, v->set.status, "cannot describe a convolution to cuDNN", error));
    for (int i = 0; i < 2 && !done; i++) {
        struct configurations c = {.cudnn = cudnn};
        cudnnStatus status = ask(v, graph, modes[i], call->what, &c);
        if (!status) status = choose(v, &c, call->what->choice, &done);
        drop_configurations(&c, 0);
        IG_TRY(check(cudnn, status, "cannot ask cuDNN how to convolve", error));
    }
    return done ? INGOT_OK : nothing_fits(cudnn, call, error);
}

/* ---- Convolutions ------------------------------------------------------------------------------------------------ */

static void discard(void *library, void *way) {
    const struct ig_cudnn *cudnn = library;
    struct convolution *v = way;
    ig_cudnn_drop(&v->set, 0);
    ig_release(cudnn->allocator, v, sizeof *v);
}

static enum ingot_status prepare(void *library, const struct ig_cuda_call *call, void **out_way, size_t *out_workspace,
                                 struct ingot_error *error) {
    const struct ig_cudnn *cudnn = library;
    struct convolution *v = ig_allocate(cudnn->allocator, sizeof *v, _Alignof(struct convolution));
    if (!v) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a convolution");
    enum ingot_status status = decide(cudnn, call, v, error);
    if (status != INGOT_OK) {
        discard(library, v);
        return status;
    }
    *out_way = v;
    *out_workspace = (size_t)v->workspace;
    return INGOT_OK;
}

/* The addresses of operands and workspace. */
static cudnnBackendDescriptor pack(struct ig_cudnn_set *set, const struct ig_cuda_call *call, void *workspace) {
    const struct ig_library_call *c = call->what;
    const struct {
        int64_t id;
        uint32_t operand;
    } all[] = {{IG_CUDNN_X, c->a},
               {IG_CUDNN_W, c->b},
               {IG_CUDNN_OUT, c->out},
               {IG_CUDNN_ADDEND, c->addend},
               {IG_CUDNN_BIAS, c->bias}};
    int64_t ids[5], count = 0;
    void *addresses[5];
    for (int i = 0; i < 5; i++) {
        if (all[i].operand == IG_LIBRARY_NO_OPERAND) continue;
        ids[count] = all[i].id;
        addresses[count++] = call->operands[all[i].operand];
    }
    cudnnBackendDescriptor d = ig_cudnn_begin(set, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    ig_cudnn_put(set, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    ig_cudnn_put(set, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses);
    ig_cudnn_put(set, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    ig_cudnn_finish(set, d);
    return d;
}

static enum ingot_status enqueue(void *library, const void *way, const struct ig_cuda_call *call, void *workspace,
                                 CUstream stream, struct ingot_error *error) {
    struct ig_cudnn *cudnn = library;
    const struct convolution *v = way;
    struct ig_cudnn_set set = {.cudnn = cudnn};
    cudnnBackendDescriptor addresses = pack(&set, call, workspace);
    if (!set.status && cudnn->stream != stream) {
        set.status = cudnn->cudnnSetStream(cudnn->handle, stream);
        cudnn->stream = set.status ? NULL : stream;
    }
    if (!set.status) set.status = cudnn->cudnnBackendExecute(cudnn->handle, v->plan, addresses);
    ig_cudnn_drop(&set, 0);
    return check(cudnn, set.status, "cannot convolve by cuDNN", error);
}

const struct ig_cuda_binding ig_cudnn_binding = {open_library, close_library, prepare, discard, enqueue};
