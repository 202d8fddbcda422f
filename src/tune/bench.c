/* Measurements on a device; see bench.h. */
#include "tune/bench.h"

#include <string.h>

#include "base/cpu.h"
#include "ir/build.h"
#include "ir/eval/eval.h"

#define COLD_BYTES ((uint64_t)96 << 20)
enum {
    MOST_BUFFERS = 256,
    MOST_LAUNCHES = 64, /* launches per list */
    MOST_ADAPTED = 8,
    REPLAYS = 5,
    ROUGH_REPLAYS = 3,
    LIST_NANOSECONDS = 2000000,   /* approximate duration of a list */
    READY_NANOSECONDS = 15000000, /* until an idle device runs at full speed */
};

/* An operand in the form that library calls need, in as many copies as the operand itself. */
struct adapted {
    uint32_t library, operand;
    void *memory;
    size_t size, stride;
};

struct ig_bench {
    struct ig_job *job;
    struct ig_device *device;
    bool borrowed; /* the device is not the bench's own */
    struct ig_stream *stream;
    struct ig_event *begin, *end;
    bool early; /* kernels start before their predecessors have ended, and wait by themselves */
    /* State of the current subject. */
    const struct ig_subject *subject;
    const struct ig_code *code; /* the loaded code */
    struct ig_module *module;
    void *memory[MOST_BUFFERS];
    size_t sizes[MOST_BUFFERS];   /* allocated bytes */
    size_t strides[MOST_BUFFERS]; /* bytes between copies of a weight */
    uint32_t copies[MOST_BUFFERS];
    uint32_t n_buffers;
    struct adapted adapted[MOST_ADAPTED];
    uint32_t n_adapted;
    bool ready; /* the device runs at full speed: it has measured something of this subject */
};

/* ---- The device -------------------------------------------------------------------------------------------------- */

static const char *gpu_mismatch(struct ig_job *job, const struct ig_target *target,
                                const struct ig_device_cuda_info *gpu) {
    bool fits = target->sm_own ? gpu->sm == target->sm : gpu->sm >= target->sm && gpu->sm / 10 == target->sm / 10;
    if (fits) return NULL;
    return ig_format(job, "the GPU (%s) is '%s', the target is 'sm_%d%s'", gpu->name, gpu->arch, target->sm,
                     target->sm_own ? "a" : "");
}

static const char *gpu_name(struct ig_job *job, const struct ig_target *target, int ordinal, const char **out_why) {
    struct ig_device_cuda_info gpu;
    struct ingot_error error;
    if (ig_device_cuda_describe(ordinal, &gpu, &error) != INGOT_OK) {
        *out_why = ig_strdup(job, error.message);
        return NULL;
    }
    *out_why = gpu_mismatch(job, target, &gpu);
    if (*out_why) return NULL;
    return ig_format(job, "%s, driver %d.%d", gpu.name, gpu.driver / 1000, gpu.driver % 1000 / 10);
}

const char *ig_bench_device(struct ig_job *job, const struct ig_target *target, uint64_t features, int ordinal,
                            const char **out_why) {
    *out_why = NULL;
    if (ig_target_is_cuda(target)) return gpu_name(job, target, ordinal, out_why);
    char name[IG_CPU_NAME_SIZE];
    uint64_t missing = features & ~ig_cpu_features();
    if (missing) {
        *out_why = ig_format(job, "the target needs %s, which this processor lacks", ig_cpu_feature_name(missing));
        return NULL;
    }
    ig_cpu_name(name);
    unsigned threads = ig_cpu_processors();
    return ig_format(job, "%s, %u thread%s", name, threads, threads == 1 ? "" : "s");
}

static enum ingot_status open_device(struct ig_job *job, const struct ig_target *target, uint64_t features, int ordinal,
                                     struct ig_device **out_device, struct ingot_error *error) {
    if (ig_target_is_cuda(target)) {
        struct ig_device_cuda_info gpu;
        IG_TRY(ig_device_cuda_describe(ordinal, &gpu, error));
        const char *mismatch = gpu_mismatch(job, target, &gpu);
        if (mismatch) return IG_ERR(error, INGOT_INCOMPATIBLE, "%s", mismatch);
        return ig_device_cuda_create(ordinal, job->allocator, out_device, error);
    }
    uint64_t missing = features & ~ig_cpu_features();
    if (missing)
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the target needs %s, which this processor lacks",
                      ig_cpu_feature_name(missing));
    if ((features & IG_CPU_AMX_TILE) && !ig_cpu_request_amx())
        return IG_ERR(error, INGOT_INCOMPATIBLE, "the target needs AMX, which the operating system does not grant");
    return ig_device_cpu_create(0, job->allocator, out_device, error);
}

static void close_bench(void *resource) {
    struct ig_bench *b = resource;
    if (!b->device) return;
    ig_bench_end(b);
    if (b->begin) b->device->api->event_destroy(b->device, b->begin);
    if (b->end) b->device->api->event_destroy(b->device, b->end);
    if (b->stream) b->device->api->stream_destroy(b->device, b->stream);
    if (!b->borrowed) b->device->api->destroy(b->device);
    b->device = NULL;
}

struct ig_bench *ig_bench_open(struct ig_job *job, const struct ig_target *target, uint64_t features, int ordinal,
                               struct ig_device *borrowed) {
    struct ig_bench *b = IG_NEW(job, struct ig_bench);
    struct ingot_error error;
    b->job = job;
    b->early = ig_target_has_early_start(target);
    b->device = borrowed;
    b->borrowed = borrowed != NULL;
    ig_defer(job, close_bench, b);
    enum ingot_status status = borrowed ? INGOT_OK : open_device(job, target, features, ordinal, &b->device, &error);
    if (status == INGOT_OK) status = b->device->api->stream_create(b->device, &b->stream, &error);
    if (status == INGOT_OK) status = b->device->api->event_create(b->device, true, &b->begin, &error);
    if (status == INGOT_OK) status = b->device->api->event_create(b->device, true, &b->end, &error);
    if (status != INGOT_OK) {
        ig_error_prefix(&error, "cannot measure on this machine");
        ig_raise_error(job, &error);
    }
    return b;
}

void ig_bench_close(struct ig_bench *bench) {
    ig_undefer(bench->job, bench);
    close_bench(bench);
}

enum ingot_status ig_bench_need_library(struct ig_bench *bench, uint32_t library, struct ingot_error *error) {
    return bench->device->api->need_library(bench->device, library, error);
}

/* ---- The subject's memory ---------------------------------------------------------------------------------------- */

static size_t bytes_of(const struct ingot_tensor *t) {
    return (size_t)ingot_tensor_elements(t) * ingot_dtype_size(t->dtype);
}

static enum ingot_status add_buffer(struct ig_bench *b, const struct ingot_tensor *t, uint64_t pool,
                                    struct ingot_error *error) {
    uint32_t i = b->n_buffers;
    size_t size = bytes_of(t), stride = (size + 255) / 256 * 256;
    uint64_t copies = stride ? pool / stride : 0;
    b->copies[i] = copies < 1 ? 1 : copies > MOST_LAUNCHES ? MOST_LAUNCHES : (uint32_t)copies;
    b->strides[i] = stride;
    b->sizes[i] = stride * b->copies[i] + 256;
    IG_TRY(b->device->api->allocate(b->device, b->sizes[i], &b->memory[i], error));
    b->n_buffers++;
    for (uint32_t c = 0; t->data && size && c < b->copies[i]; c++)
        IG_TRY(b->device->api->copy(b->device, b->stream, (char *)b->memory[i] + c * stride, t->data, size, error));
    return INGOT_OK;
}

enum ingot_status ig_bench_begin(struct ig_bench *b, const struct ig_subject *s, uint64_t model_weights,
                                 struct ingot_error *error) {
    uint64_t pool = model_weights < COLD_BYTES ? model_weights : COLD_BYTES;
    ig_bench_end(b);
    if (s->n_inputs + s->n_outputs > MOST_BUFFERS)
        return IG_ERR(error, INGOT_UNSUPPORTED, "a kernel of %u buffers is not measured", s->n_inputs + s->n_outputs);
    b->subject = s;
    b->ready = false;
    for (uint32_t i = 0; i < s->n_inputs; i++)
        IG_TRY(add_buffer(b, &s->inputs[i], s->is_const[i] ? pool : 0, error));
    for (uint32_t i = 0; i < s->n_outputs; i++)
        IG_TRY(add_buffer(b, &s->outputs[i], 0, error));
    return b->device->api->stream_wait(b->device, b->stream, error);
}

static void unload(struct ig_bench *b) {
    if (b->module) b->device->api->module_destroy(b->device, b->module);
    b->module = NULL;
    b->code = NULL;
}

static enum ingot_status load(struct ig_bench *b, const struct ig_code *code, struct ingot_error *error) {
    if (b->code == code) return INGOT_OK;
    unload(b);
    IG_TRY(b->device->api->module_create(b->device, code->bytes, code->size, &b->module, error));
    b->code = code;
    return INGOT_OK;
}

void ig_bench_end(struct ig_bench *b) {
    struct ingot_error ignored;
    if (!b->device) return;
    if (b->stream) (void)b->device->api->stream_wait(b->device, b->stream, &ignored);
    for (uint32_t i = 0; i < b->n_buffers; i++)
        b->device->api->release(b->device, b->memory[i], b->sizes[i]);
    b->n_buffers = 0;
    for (uint32_t i = 0; i < b->n_adapted; i++)
        b->device->api->release(b->device, b->adapted[i].memory, b->adapted[i].size);
    b->n_adapted = 0;
    unload(b);
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

struct launches {
    struct ig_launch launch;
    const struct ig_kernel *kernel;
    void *buffers[MOST_BUFFERS];
    int64_t *dims;
};

/* Computing sizes may raise, so it runs in a job of its own. */
struct sizing {
    const struct ig_bench *bench;
    const struct ig_kernel *kernel;
    struct launches *out;
};

static void compute_sizes(struct ig_job *job, void *argument) {
    struct sizing *z = argument;
    const struct ig_kernel *k = z->kernel;
    const struct ig_sizes *sizes = z->bench->subject->sizes;
    z->out->dims = IG_NEW_ARRAY(job, int64_t, k->dims.count + 1);
    for (uint32_t i = 0; i < k->dims.count; i++)
        z->out->dims[i] = ig_sizes_of(sizes, job, k->dims.at[i]);
    z->out->launch.turn = (uint32_t)k->turn;
    z->out->launch.whole = k->whole;
    z->out->launch.tiles = ig_sizes_of(sizes, job, k->tiles);
    z->out->launch.scratch = (size_t)ig_sizes_of(sizes, job, k->scratch_bytes);
}

/* ---- Calls of libraries ------------------------------------------------------------------------------------------ */

struct adaptation {
    const struct ig_subject *subject;
    const struct ig_kernel *kernel;
    uint32_t operand;
    struct ingot_tensor result;
};

/* Computes the operand's other form as it is computed for the engine. */
static void adapt(struct ig_job *job, void *argument) {
    struct adaptation *a = argument;
    const struct ig_subject *s = a->subject;
    struct ig_graph *g = ig_graph_create(job, s->graph->dims);
    const struct ig_type *type = ig_type_of(s->alone, s->alone->inputs.at[a->operand].value);
    ig_value v = ig_build_input(g, "x", type);
    ig_build_output(g, "y", ig_library_adapted(g, a->kernel, a->operand, v));
    ig_eval_graph(job, g, &s->inputs[a->operand], &a->result);
}

static struct adapted *find_adapted(struct ig_bench *b, uint32_t library, uint32_t operand) {
    for (uint32_t i = 0; i < b->n_adapted; i++) {
        if (b->adapted[i].library == library && b->adapted[i].operand == operand) return &b->adapted[i];
    }
    return NULL;
}

static enum ingot_status bring(struct ig_bench *b, const struct ingot_tensor *t, uint32_t copies, struct adapted *a,
                               struct ingot_error *error) {
    size_t size = bytes_of(t);
    a->stride = (size + 255) / 256 * 256;
    a->size = a->stride * copies + 256;
    IG_TRY(b->device->api->allocate(b->device, a->size, &a->memory, error));
    b->n_adapted++;
    for (uint32_t c = 0; c < copies; c++)
        IG_TRY(b->device->api->copy(b->device, b->stream, (char *)a->memory + c * a->stride, t->data, size, error));
    return b->device->api->stream_wait(b->device, b->stream, error);
}

static enum ingot_status bring_adapted(struct ig_bench *b, const struct ig_kernel *k, uint32_t operand,
                                       struct ingot_error *error) {
    struct adaptation a = {.subject = b->subject, .kernel = k, .operand = operand};
    uint32_t library = k->library->library;
    if (find_adapted(b, library, operand)) return INGOT_OK;
    if (b->n_adapted == MOST_ADAPTED)
        return IG_ERR(error, INGOT_UNSUPPORTED, "calls of libraries with so many operands are not measured");
    IG_TRY(ig_job_run(b->job, adapt, &a, error));
    struct adapted *slot = &b->adapted[b->n_adapted];
    *slot = (struct adapted){.library = library, .operand = operand};
    enum ingot_status status = bring(b, &a.result, b->copies[operand], slot, error);
    ig_eval_release(b->job, &a.result);
    return status;
}

/* A library call has no code; operands that it needs in another form are uploaded in that form, as in the engine. */
static enum ingot_status prepare_call(struct ig_bench *b, const struct ig_kernel *k, struct launches *out,
                                      struct ingot_error *error) {
    *out = (struct launches){.kernel = k,
                             .launch = {.library = k->library, .n_buffers = b->n_buffers, .n_dims = k->dims.count}};
    for (uint32_t i = 0; i < b->subject->n_inputs; i++) {
        if (ig_library_is_adapted(k, i)) IG_TRY(bring_adapted(b, k, i, error));
    }
    return INGOT_OK;
}

/* ---- Code -------------------------------------------------------------------------------------------------------- */

static enum ingot_status prepare_code(struct ig_bench *b, const struct ig_candidate_code *candidate,
                                      struct launches *out, struct ingot_error *error) {
    const struct ig_kernel *k = candidate->kernel;
    IG_TRY(load(b, candidate->code, error));
    *out = (struct launches){.kernel = k,
                             .launch = {.module = b->module,
                                        .entry = b->code->entries[candidate->index],
                                        .portable = UINT64_MAX,
                                        .name = candidate->symbol,
                                        .threads = (uint32_t)k->threads,
                                        .shared = (uint32_t)k->shared_bytes,
                                        .waits = b->early,
                                        .lasting = (uint32_t)k->lasting,
                                        .maps = k->maps,
                                        .n_maps = (uint32_t)k->n_maps,
                                        .n_buffers = b->n_buffers,
                                        .n_dims = k->dims.count}};
    return INGOT_OK;
}

static enum ingot_status prepare(struct ig_bench *b, const struct ig_candidate_code *candidate, struct launches *out,
                                 struct ingot_error *error) {
    const struct ig_kernel *k = candidate->kernel;
    IG_TRY(k->library ? prepare_call(b, k, out, error) : prepare_code(b, candidate, out, error));
    struct sizing sizing = {b, k, out};
    IG_TRY(ig_job_run(b->job, compute_sizes, &sizing, error));
    out->launch.buffers = out->buffers;
    out->launch.dims = out->dims;
    return b->device->api->reserve_scratch(b->device, b->stream, out->launch.scratch, error);
}

/* Enqueues launch `n` of a list, with the next copy of each weight. */
static enum ingot_status launch(struct ig_bench *b, struct launches *l, uint32_t n, struct ingot_error *error) {
    for (uint32_t i = 0; i < b->n_buffers; i++) {
        const struct adapted *a =
            ig_library_is_adapted(l->kernel, i) ? find_adapted(b, l->kernel->library->library, i) : NULL;
        uint32_t copy = n % b->copies[i];
        l->buffers[i] = a ? (char *)a->memory + copy * a->stride : (char *)b->memory[i] + copy * b->strides[i];
    }
    return b->device->api->launch(b->device, b->stream, &l->launch, error);
}

enum ingot_status ig_bench_run(struct ig_bench *b, const struct ig_candidate_code *candidate, void *const *out_outputs,
                               struct ingot_error *error) {
    const struct ig_device_api *api = b->device->api;
    const struct ig_subject *s = b->subject;
    struct launches l;
    IG_TRY(prepare(b, candidate, &l, error));
    /* Overwrites the outputs, so that the preceding candidate's results cannot pass for this one's. */
    for (uint32_t i = 0; i < s->n_outputs; i++) {
        size_t size = bytes_of(&s->outputs[i]);
        memset(out_outputs[i], 0xff, size);
        IG_TRY(api->copy(b->device, b->stream, b->memory[s->n_inputs + i], out_outputs[i], size, error));
    }
    IG_TRY(launch(b, &l, 0, error));
    for (uint32_t i = 0; i < s->n_outputs; i++)
        IG_TRY(api->copy(b->device, b->stream, out_outputs[i], b->memory[s->n_inputs + i], bytes_of(&s->outputs[i]),
                         error));
    return api->stream_wait(b->device, b->stream, error);
}

enum ingot_status ig_bench_check(struct ig_bench *b, struct ingot_error *error) {
    return b->device->api->stream_wait(b->device, b->stream, error);
}

/* ---- Time -------------------------------------------------------------------------------------------------------- */

static enum ingot_status record(struct ig_bench *b, struct launches *l, uint32_t count, struct ig_list **out_list,
                                struct ingot_error *error) {
    const struct ig_device_api *api = b->device->api;
    struct ig_list *list = NULL;
    enum ingot_status status = INGOT_OK;
    IG_TRY(api->list_begin(b->device, b->stream, error));
    for (uint32_t i = 0; i < count && status == INGOT_OK; i++)
        status = launch(b, l, i, error);
    struct ingot_error second;
    enum ingot_status ended = api->list_end(b->device, b->stream, &list, status == INGOT_OK ? error : &second);
    if (status == INGOT_OK) status = ended;
    if (status == INGOT_OK && api->list_ready) status = api->list_ready(b->device, b->stream, list, error);
    if (status != INGOT_OK && ended == INGOT_OK) api->list_destroy(b->device, list);
    if (status == INGOT_OK) *out_list = list;
    return status;
}

static enum ingot_status replay(struct ig_bench *b, struct ig_list *list, uint64_t *out_nanoseconds,
                                struct ingot_error *error) {
    const struct ig_device_api *api = b->device->api;
    IG_TRY(api->event_record(b->device, b->stream, b->begin, error));
    IG_TRY(api->list_launch(b->device, b->stream, list, error));
    IG_TRY(api->event_record(b->device, b->stream, b->end, error));
    IG_TRY(api->stream_wait(b->device, b->stream, error));
    return api->event_elapsed(b->device, b->begin, b->end, out_nanoseconds, error);
}

static uint64_t median(uint64_t *times, int count) {
    for (int i = 1; i < count; i++) {
        uint64_t t = times[i];
        int at = i;
        for (; at > 0 && times[at - 1] > t; at--)
            times[at] = times[at - 1];
        times[at] = t;
    }
    return times[count / 2];
}

/* Replays a list without counting: once, to get the device ready for it; for a new subject, until it runs at full
 * speed. */
static enum ingot_status get_ready(struct ig_bench *b, struct ig_list *list, struct ingot_error *error) {
    uint64_t time, sum = 0;
    do {
        IG_TRY(replay(b, list, &time, error));
        sum += time + 1000;
    } while (!b->ready && sum < READY_NANOSECONDS);
    b->ready = true;
    return INGOT_OK;
}

static enum ingot_status time_list(struct ig_bench *b, struct launches *l, uint32_t count, int replays,
                                   uint64_t *out_nanoseconds, struct ingot_error *error) {
    struct ig_list *list;
    uint64_t times[REPLAYS] = {0};
    IG_TRY(record(b, l, count, &list, error));
    enum ingot_status status = get_ready(b, list, error);
    for (int i = 0; i < replays && status == INGOT_OK; i++)
        status = replay(b, list, &times[i], error);
    b->device->api->list_destroy(b->device, list);
    if (status == INGOT_OK) *out_nanoseconds = median(times, replays) / count;
    return status;
}

enum ingot_status ig_bench_time(struct ig_bench *b, const struct ig_candidate_code *candidate, uint64_t best,
                                uint64_t *out_nanoseconds, struct ingot_error *error) {
    struct launches l;
    uint64_t rough;
    IG_TRY(prepare(b, candidate, &l, error));
    IG_TRY(time_list(b, &l, 2, ROUGH_REPLAYS, &rough, error));
    if (best > 0 && rough > 2 * best) {
        *out_nanoseconds = rough;
        return INGOT_OK;
    }
    uint64_t count = LIST_NANOSECONDS / (rough ? rough : 1);
    count = count < 2 ? 2 : count > MOST_LAUNCHES ? MOST_LAUNCHES : count;
    return time_list(b, &l, (uint32_t)count, REPLAYS, out_nanoseconds, error);
}
