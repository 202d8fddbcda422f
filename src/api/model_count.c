/* ingot_model_count: what a build would make, in numbers, as text. */
#include <stdio.h>
#include <string.h>

#include "api/model.h"
#include "api/options.h"
#include "base/text.h"
#include "compile/compile.h"
#include "device/device.h"
#include "runtime/frame/instance.h"

struct counting {
    struct ingot_model *model;
    const struct ingot_build_options *options;
    const struct ingot_sink *sink;
    struct ig_engine_memory engine;
    struct ig_engine_file file;
    struct ig_device *device;
};

/* ---- Text --------------------------------------------------------------------------------------------------------- */

/* Four digits: what changes less is no change of the network. */
static void put_bytes(struct ig_text *t, const char *what, double bytes) {
    ig_text_printf(t, "%s%.4g MB", what, bytes / 1e6);
}

static void put_operations(struct ig_text *t, const struct ig_demand *d) {
    bool first = true;
    ig_text_add(t, "    operations  ");
    for (int u = 0; u < IG_UNIT_COUNT; u++) {
        if (d->operations[u] == 0) continue;
        ig_text_printf(t, "%s%s %.4g M", first ? "" : ", ", ig_unit_name((enum ig_unit)u), d->operations[u] / 1e6);
        first = false;
    }
    ig_text_printf(t, "%s\n", first ? "none" : "");
}

static void put_regions(struct ig_text *t, const struct ig_counts *counts) {
    uint32_t regions = 0;
    bool first = true;
    for (int f = 0; f < IG_FAMILY_COUNT; f++)
        regions += counts->families[f];
    ig_text_printf(t, "  regions       %u (", regions);
    for (int f = 0; f < IG_FAMILY_COUNT; f++) {
        if (!counts->families[f]) continue;
        ig_text_printf(t, "%s%s %u", first ? "" : ", ", ig_family_name((enum ig_family)f), counts->families[f]);
        first = false;
    }
    ig_text_printf(t, ")\n  kernels       %u\n", counts->kernels);
}

static void put_point(struct ig_text *t, const struct ig_figures *f, size_t arena) {
    ig_text_printf(t, "  at %s\n", *f->sizes ? f->sizes : "fixed sizes");
    put_bytes(t, "    bytes       weights ", f->demand.constants);
    put_bytes(t, ", read ", f->demand.reads);
    put_bytes(t, ", written ", f->demand.writes);
    ig_text_add(t, "\n");
    put_operations(t, &f->demand);
    ig_text_printf(t, "    floor       %.4g us on %s\n", f->floor, f->machine.name);
    if (f->estimated)
        ig_text_printf(t, "    estimate    %.4g us, from cost models of %u of %u regions\n", f->estimate, f->estimated,
                       f->regions);
    put_bytes(t, "    arena       ", (double)arena);
    ig_text_add(t, "\n");
}

/* ---- Memory ------------------------------------------------------------------------------------------------------- */

/* Of kernels that run one after the other. */
static enum ingot_status plan_arena(struct counting *c, const int64_t *symbols, size_t *out_bytes,
                                    struct ingot_error *error) {
    struct ig_frame_env env = {.file = &c->file, .device = c->device, .allocator = c->model->allocator};
    struct ig_instance *instance;
    IG_TRY(ig_instance_create(&env, symbols, &instance, error));
    *out_bytes = instance->frame->arena_bytes;
    ig_instance_destroy(instance, &env);
    return INGOT_OK;
}

static void release(void *argument) {
    struct counting *c = argument;
    if (c->device) c->device->api->destroy(c->device);
    if (c->file.data) ig_engine_close(&c->file);
    ig_engine_memory_release(&c->engine);
}

static void must(struct ig_job *job, enum ingot_status status, const struct ingot_error *error) {
    if (status != INGOT_OK) ig_raise_error(job, error);
}

static void count_body(struct ig_job *job, void *argument) {
    struct counting *c = argument;
    struct ig_counts counts;
    struct ingot_error error = {INGOT_INTERNAL, ""};
    struct ig_text text;
    const struct ig_engine_sink sink = ig_engine_memory_sink(&c->engine);
    ig_defer(job, release, c);
    ig_compile_count(job, c->model->graph, c->options, &sink, &counts);
    must(job,
         ig_engine_open_memory(c->engine.data, c->engine.size, INGOT_VERIFY_NO_WEIGHTS, job->allocator, &c->file,
                               &error),
         &error);
    must(job, ig_device_null_create(job->allocator, &c->device, &error), &error);
    ig_text_init(&text, job);
    ig_text_printf(&text, "%s, %s\n", counts.target, counts.precision);
    put_regions(&text, &counts);
    put_bytes(&text, "  weights       ", (double)counts.weights);
    ig_text_add(&text, "\n");
    for (uint32_t i = 0; i < counts.n_points; i++) {
        size_t arena;
        must(job, plan_arena(c, counts.points[i].symbols, &arena, &error), &error);
        put_point(&text, &counts.points[i].figures, arena);
    }
    c->sink->write(c->sink->user, text.at, text.length);
    ig_undefer(job, c);
    release(c);
}

enum ingot_status ingot_model_count(struct ingot_model *model, const struct ingot_build_options *options,
                                    const struct ingot_sink *sink, struct ingot_error *error) {
    if (!model || !sink) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "ingot_model_count: NULL argument");
    struct ingot_build_options whole = INGOT_BUILD_OPTIONS_INIT;
    char target[IG_TARGET_SIZE];
    IG_TRY(ig_build_options_read(options, &whole, target, error));
    struct counting counting = {
        .model = model, .options = &whole, .sink = sink, .engine = {.allocator = model->allocator}};
    return ig_job_run(&model->job, count_body, &counting, error);
}
