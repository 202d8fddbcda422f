#include "support/device/exchange.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "codegen/cuda/print.h"
#include "dist/nccl.h"
#include "ir/build.h"
#include "kernel/cuda/exchange.h"
#include "support/check/passes.h"
#include "support/support.h"

/* Longer than ranks ever wait for each other, and less than the emulator lets a kernel poll. */
#define SECONDS 60

static struct emulator_options *how;
static struct ig_device *devices[EXCHANGE_RANKS];
static struct ig_code code;

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static const char *const parts_names[EXCHANGE_RANKS] = {"part0", "part1", "part2", "part3"};

static ig_value build_node(struct ig_graph *g, const struct exchange_kernel *k, int rank) {
    struct ig_dims *dims = g->dims;
    const struct ig_collective *what = &k->what;
    ig_dim parts[EXCHANGE_RANKS], whole = ig_dim_const(dims, 0), one = ig_dim_const(dims, 1);
    ig_dim inner = ig_dim_mul(dims, ig_dim_symbol(dims, "inner"), ig_dim_const(dims, k->multiple));
    ig_dim shape[3] = {ig_dim_symbol(dims, "outer"), one, inner};
    for (uint32_t r = 0; r < k->ranks; r++) {
        parts[r] = ig_dim_symbol(dims, parts_names[r]);
        whole = ig_dim_add(dims, whole, parts[r]);
    }
    if (what->kind == IG_ALL_GATHER) shape[1] = parts[rank];
    if (what->kind == IG_REDUCE_SCATTER) shape[1] = whole;
    if (what->kind == IG_ALL_TO_ALL) shape[1] = shape[0], shape[0] = ig_dim_const(dims, k->ranks);
    const struct ig_type type = ig_type_make((enum ingot_dtype)what->dtype, 3, shape);
    ig_value x = ig_build_input(g, "x", &type);
    const struct ig_attr root[] = {ig_attr_of_int(0), ig_attr_of_int(k->ranks), ig_attr_of_int(what->peer)};
    const enum ig_reduction reduction = (enum ig_reduction)what->reduction;
    switch (what->kind) {
    case IG_ALL_REDUCE: return ig_build_all_reduce(g, x, 0, (int)k->ranks, reduction);
    case IG_ALL_GATHER: return ig_build_all_gather(g, x, 0, rank, 1, parts, (int)k->ranks);
    case IG_REDUCE_SCATTER: return ig_build_reduce_scatter(g, x, 0, rank, 1, parts, (int)k->ranks, reduction);
    case IG_ALL_TO_ALL: return ig_build_all_to_all(g, x, 0, (int)k->ranks);
    default: return ig_build_node(g, IG_OP_broadcast_from, &x, 1, 1, root, NULL);
    }
}

const char *exchange_text(struct ig_job *job, struct exchange_kernel *k, uint32_t rank, const char *name) {
    if (k->multiple == 0) k->multiple = 1;
    if (k->sm == 0) k->sm = 90;
    const struct ig_target target = {.isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = k->sm};
    const struct ig_pass_options options = {.target = &target};
    struct ig_graph *g = ig_graph_create(job, ig_dims_create(job));
    ig_build_output(g, "y", build_node(g, k, (int)rank));
    g = passes_named(g, "fuse", &options);
    const struct ig_region *region = &g->regions.at[0];
    IG_ASSERT(job, g->regions.count == 1 && ig_exchange_has_kernel(g, region, &target));
    k->made = ig_kernel_make(g, region, &target);
    k->dims = g->dims;
    return ig_cuda_kernel(job, k->made, name, &target);
}

void exchange_compile_texts(struct ig_job *job, const struct ig_source *sources, uint32_t count) {
    emulated_compile(job, sources, count, 90, &code);
}

static void compile_kernels(struct ig_job *job, struct exchange_kernel *kernels, uint32_t count) {
    struct ig_source *sources = IG_NEW_ARRAY(job, struct ig_source, count);
    for (uint32_t i = 0; i < count; i++) {
        struct exchange_kernel *k = &kernels[i];
        snprintf(k->name, sizeof k->name, "exchange_%u", i);
        sources[i] = (struct ig_source){.symbol = k->name, .text = exchange_text(job, k, 0, k->name)};
        for (uint32_t rank = 1; rank < k->ranks; rank++)
            IG_ASSERT(job, strcmp(exchange_text(job, k, rank, k->name), sources[i].text) == 0);
    }
    exchange_compile_texts(job, sources, count);
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

void exchange_set_order(bool backwards) {
    if (!devices[0]) devices[0] = emulated_create(0, &how);
    *how = (struct emulator_options){.backwards = backwards, .late = backwards, .races = true};
}

struct thread {
    pthread_t thread;
    struct exchange_rank *rank;
    exchange_body body;
    void *user;
    char wrong[INGOT_ERROR_MESSAGE_SIZE + 100];
};

static void *thread_main(void *argument) {
    struct thread *t = argument;
    const char *wrong = t->body(t->rank, t->user);
    if (wrong) snprintf(t->wrong, sizeof t->wrong, "%s", wrong);
    return NULL;
}

void exchange_together(struct exchange_group *group, exchange_body body, void *user) {
    struct thread threads[EXCHANGE_RANKS] = {0};
    for (uint32_t r = 0; r < group->ranks; r++) {
        threads[r].rank = &group->at[r];
        threads[r].body = body;
        threads[r].user = user;
        assert_int_equal(pthread_create(&threads[r].thread, NULL, thread_main, &threads[r]), 0);
    }
    for (uint32_t r = 0; r < group->ranks; r++)
        pthread_join(threads[r].thread, NULL);
    for (uint32_t r = 0; r < group->ranks; r++)
        if (threads[r].wrong[0]) fail_msg("rank %u: %s", r, threads[r].wrong);
}

static const char *open_windows(struct exchange_rank *r, void *user) {
    if (ig_group_open_windows(r->seat, r->device, &r->error)) return r->error.message;
    return ig_group_seat(r->seat) ? NULL : ig_group_transport(r->seat);
}

static void open_rank(struct exchange_rank *r, uint32_t rank, uint32_t ranks, uint32_t gpus, struct ig_group *host) {
    if (!gpus && !devices[rank]) devices[rank] = emulated_create((int)rank, &how);
    *r = (struct exchange_rank){.rank = rank, .ranks = ranks, .gpus = gpus, .device = devices[rank]};
    if (gpus) r->device = emulated_create((int)(rank * gpus / ranks), &how);
    const struct ig_device_api *api = r->device->api;
    if (ig_nccl_create(host, NULL, &r->seat, &r->error)) fail_msg("%s", r->error.message);
    ig_group_share_gpus(r->seat, gpus);
    if (api->module_create(r->device, code.bytes, code.size, &r->module, &r->error) ||
        api->stream_create(r->device, &r->stream, &r->error))
        fail_msg("%s", r->error.message);
}

void exchange_open(struct exchange_group *group, uint32_t ranks) {
    exchange_open_shared(group, ranks, 0);
}

void exchange_open_shared(struct exchange_group *group, uint32_t ranks, uint32_t gpus) {
    struct ig_group *hosts[EXCHANGE_RANKS];
    struct ingot_error error;
    const struct ig_group_options options = {.seconds = SECONDS};
    group->ranks = ranks;
    if (ig_group_create_local(ranks, &options, hosts, &error)) fail_msg("%s", error.message);
    for (uint32_t r = 0; r < ranks; r++)
        open_rank(&group->at[r], r, ranks, gpus, hosts[r]);
    exchange_together(group, open_windows, NULL);
}

void exchange_close(struct exchange_group *group) {
    for (uint32_t i = 0; i < group->ranks; i++) {
        struct exchange_rank *r = &group->at[i];
        r->device->api->stream_destroy(r->device, r->stream);
        r->device->api->module_destroy(r->device, r->module);
        ig_group_destroy(r->seat);
        if (r->gpus) r->device->api->destroy(r->device);
    }
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static int64_t size_of(const struct exchange_call *call, ig_dim dim) {
    const struct exchange_kernel *k = call->kernel;
    ig_dim symbols[3 + EXCHANGE_RANKS] = {ig_exchange_number(k->dims), ig_dim_symbol(k->dims, "outer"),
                                          ig_dim_symbol(k->dims, "inner")};
    int64_t values[3 + EXCHANGE_RANKS] = {call->number, (int64_t)call->sizes.outer,
                                          (int64_t)call->sizes.inner / k->multiple};
    int64_t value = -1;
    for (uint32_t r = 0; r < k->ranks; r++) {
        symbols[3 + r] = ig_dim_symbol(k->dims, parts_names[r]);
        values[3 + r] = (int64_t)call->sizes.parts[r];
    }
    if (!ig_dim_eval(k->dims, dim, symbols, values, 3 + (int)k->ranks, &value)) value = -1;
    return value;
}

static enum ingot_status launch(struct exchange_rank *r, const struct exchange_call *call, void *const *memory) {
    const struct ig_kernel *kernel = call->kernel->made;
    int64_t dims[8 + EXCHANGE_RANKS];
    if (kernel->dims.count > sizeof dims / sizeof *dims) return IG_ERR(&r->error, INGOT_INTERNAL, "too many dims");
    for (uint32_t i = 0; i < kernel->dims.count; i++)
        dims[i] = size_of(call, kernel->dims.at[i]);
    void *buffers[] = {memory[0], memory[1], ig_group_seat(r->seat)};
    const struct ig_launch l = {.module = r->module,
                                .portable = UINT64_MAX,
                                .name = call->kernel->name,
                                .threads = (uint32_t)kernel->threads,
                                .waits = call->kernel->sm >= 90,
                                .buffers = buffers,
                                .n_buffers = 3,
                                .dims = dims,
                                .n_dims = kernel->dims.count,
                                .tiles = call->blocks ? call->blocks : size_of(call, kernel->tiles)};
    return r->device->api->launch(r->device, r->stream, &l, &r->error);
}

static enum ingot_status copy(struct exchange_rank *r, void *to, const void *from, size_t size) {
    if (size > 0) IG_TRY(r->device->api->copy(r->device, r->stream, to, from, size, &r->error));
    return r->device->api->stream_wait(r->device, r->stream, &r->error);
}

/* Memory of tensors on the rank's GPU, with what they hold. */
static enum ingot_status bring(struct exchange_rank *r, void *const *tensors, const size_t *sizes, uint32_t count,
                               void **memory) {
    for (uint32_t i = 0; i < count; i++) {
        IG_TRY(r->device->api->allocate(r->device, sizes[i] ? sizes[i] : 1, &memory[i], &r->error));
        IG_TRY(copy(r, memory[i], tensors[i], sizes[i]));
    }
    return INGOT_OK;
}

/* What came of those from number `first` on. Releases all, whatever has happened. */
static enum ingot_status take(struct exchange_rank *r, void *const *tensors, const size_t *sizes, uint32_t first,
                              uint32_t count, void **memory) {
    enum ingot_status status = INGOT_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (memory[i] && i >= first && status == INGOT_OK) status = copy(r, tensors[i], memory[i], sizes[i]);
        if (memory[i]) r->device->api->release(r->device, memory[i], sizes[i] ? sizes[i] : 1);
    }
    return status;
}

static enum ingot_status launch_run(struct exchange_rank *r, const struct exchange_run *run, void **memory) {
    memory[run->n_tensors] = ig_group_seat(r->seat);
    const struct ig_launch l = {.module = r->module,
                                .portable = UINT64_MAX,
                                .name = run->name,
                                .threads = (uint32_t)run->kernel->threads,
                                .shared = (uint32_t)run->kernel->shared_bytes,
                                .waits = true,
                                .buffers = memory,
                                .n_buffers = run->n_tensors + 1,
                                .dims = run->dims,
                                .n_dims = run->kernel->dims.count,
                                .tiles = run->tiles};
    return r->device->api->launch(r->device, r->stream, &l, &r->error);
}

const char *exchange_run(struct exchange_rank *r, const struct exchange_run *run) {
    void *memory[EXCHANGE_TENSORS + 1] = {NULL};
    enum ingot_status status = bring(r, run->tensors, run->sizes, run->n_tensors, memory);
    if (status == INGOT_OK) status = launch_run(r, run, memory);
    enum ingot_status taken =
        take(r, run->tensors, run->sizes, status ? run->n_tensors : run->n_inputs, run->n_tensors, memory);
    return status || taken ? r->error.message : NULL;
}

static size_t count_launches(const struct exchange_call *call) {
    const struct ig_collective *what = &call->kernel->what;
    size_t longest = ig_collective_divides(what->kind) ? 0 : 1;
    for (uint32_t r = 0; r < call->kernel->ranks; r++)
        if (call->sizes.parts[r] > longest) longest = call->sizes.parts[r];
    return ig_window_launches(call->sizes.outer * longest * call->sizes.inner,
                              ingot_dtype_size((enum ingot_dtype)what->dtype),
                              (size_t)(call->blocks ? call->blocks : size_of(call, call->kernel->made->tiles)));
}

const char *exchange_launch(struct exchange_rank *r, const struct exchange_call *call, const void *source,
                            void *destination) {
    size_t sizes[2];
    void *memory[2] = {NULL}, *tensors[2] = {(void *)(uintptr_t)source, destination};
    if (!ig_collective_bytes(&call->kernel->what, &call->sizes, r->rank, r->ranks, &sizes[0], &sizes[1]))
        return "impossible sizes";
    enum ingot_status status = bring(r, tensors, sizes, 2, memory);
    const size_t launches = ig_group_splits_calls(r->seat) ? count_launches(call) : 1;
    for (size_t l = 0; l < launches && status == INGOT_OK; l++) {
        if (l % 2 == 1) status = ig_group_meet(r->seat, r->stream, &r->error);
        if (status == INGOT_OK) status = launch(r, call, memory);
    }
    enum ingot_status taken = take(r, tensors, sizes, status ? 2 : 1, 2, memory);
    return status || taken ? r->error.message : NULL;
}

/* ---- Split calls -------------------------------------------------------------------------------------------------- */

/* The ranks in their order, and the other way round. */
static struct exchange_rank *next(struct exchange_group *group, size_t launch, uint32_t i) {
    return &group->at[launch % 2 ? group->ranks - 1 - i : i];
}

void exchange_launch_split(struct exchange_group *group, const struct exchange_call *call, void *const *sources,
                           void *const *destinations) {
    size_t sizes[EXCHANGE_RANKS][2];
    void *memory[EXCHANGE_RANKS][2] = {{NULL}};
    const struct ig_collective *what = &call->kernel->what;
    for (uint32_t r = 0; r < group->ranks; r++) {
        void *const tensors[2] = {sources[r], destinations[r]};
        assert_true(ig_collective_bytes(what, &call->sizes, r, group->ranks, &sizes[r][0], &sizes[r][1]));
        if (bring(&group->at[r], tensors, sizes[r], 2, memory[r])) fail_msg("%s", group->at[r].error.message);
    }
    for (size_t l = 0; l < count_launches(call); l++)
        for (uint32_t i = 0; i < group->ranks; i++) {
            struct exchange_rank *r = next(group, l, i);
            if (launch(r, call, memory[r->rank])) fail_msg("%s", r->error.message);
        }
    for (uint32_t r = 0; r < group->ranks; r++) {
        void *const tensors[2] = {sources[r], destinations[r]};
        if (take(&group->at[r], tensors, sizes[r], 1, 2, memory[r]) ||
            ig_group_look(group->at[r].seat, &group->at[r].error))
            fail_msg("%s", group->at[r].error.message);
    }
}

void exchange_run_split(struct exchange_group *group, const struct exchange_run *runs) {
    void *memory[EXCHANGE_RANKS][EXCHANGE_TENSORS + 1] = {{NULL}};
    for (uint32_t r = 0; r < group->ranks; r++)
        if (bring(&group->at[r], runs[r].tensors, runs[r].sizes, runs[r].n_tensors, memory[r]))
            fail_msg("%s", group->at[r].error.message);
    for (size_t l = 0; l < 2; l++)
        for (uint32_t i = 0; i < group->ranks; i++) {
            struct exchange_rank *r = next(group, l, i);
            if (launch_run(r, &runs[r->rank], memory[r->rank])) fail_msg("%s", r->error.message);
        }
    for (uint32_t r = 0; r < group->ranks; r++)
        if (take(&group->at[r], runs[r].tensors, runs[r].sizes, runs[r].n_inputs, runs[r].n_tensors, memory[r]) ||
            ig_group_look(group->at[r].seat, &group->at[r].error))
            fail_msg("%s", group->at[r].error.message);
}

const char *exchange_read(struct exchange_rank *r, const void *from, void *to, size_t size) {
    return copy(r, to, from, size) ? r->error.message : NULL;
}

const char *exchange_write(struct exchange_rank *r, void *to, const void *from, size_t size) {
    return copy(r, to, from, size) ? r->error.message : NULL;
}

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

struct program {
    void (*prepare)(struct ig_job *job);
    struct exchange_kernel *kernels; /* if not prepared otherwise */
    uint32_t count;
    int (*tests)(void);
    int failed;
};

static void run_program(struct ig_job *job, void *argument) {
    struct program *p = argument;
    if (p->prepare)
        p->prepare(job);
    else
        compile_kernels(job, p->kernels, p->count);
    p->failed = p->tests();
}

static int program_main(struct program *program) {
    struct ig_job job;
    struct ingot_error error = {0};
    if (!emulated_is_present()) return 77;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, run_program, program, &error);
    ig_job_deinit(&job);
    if (status != INGOT_OK) printf("%s\n", error.message);
    return status == INGOT_OK ? program->failed : 1;
}

int exchange_main(struct exchange_kernel *kernels, uint32_t count, int (*tests)(void)) {
    return program_main(&(struct program){.kernels = kernels, .count = count, .tests = tests});
}

int exchange_program(void (*prepare)(struct ig_job *job), int (*tests)(void)) {
    return program_main(&(struct program){.prepare = prepare, .tests = tests});
}
