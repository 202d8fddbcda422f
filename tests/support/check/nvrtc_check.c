#include "support/check/nvrtc_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "support/support.h"
#include "toolchain/nvrtc.h"
#include "toolchain/nvrtc_api.h"

enum { TOGETHER = 16 };

struct check {
    const char *arch;
    const struct ig_source *sources;
    unsigned count;
    size_t bytes;
};

static void load(struct ig_job *job, void *argument) {
    (void)argument;
    printf("%s\n", ig_nvrtc_version(ig_nvrtc_load(job, getenv("INGOT_NVRTC"))));
}

bool nvrtc_is_found(struct ingot_error *out_error) {
    struct ig_job job;
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, load, NULL, out_error);
    ig_job_deinit(&job);
    return status == INGOT_OK;
}

/* Gives each kernel a namespace and a name of its own, because kernels are extern "C". */
static struct ig_source put_together(struct ig_job *job, const struct ig_source *sources, unsigned count) {
    struct ig_text text;
    ig_text_init(&text, job);
    for (unsigned i = 0; i < count; i++)
        ig_text_printf(&text, "#define kernel kernel_%u\nnamespace unit_%u {\n%s\n}\n#undef kernel\n", i, i,
                       sources[i].text);
    return (struct ig_source){sources[0].symbol, text.at};
}

static void count_bytes(void *user, unsigned index, const struct ig_object_code *object) {
    (void)index;
    ((struct check *)user)->bytes += object->size;
}

static void compile_together(struct ig_job *job, void *argument) {
    struct check *c = argument;
    unsigned count = (c->count + TOGETHER - 1) / TOGETHER;
    struct ig_source *programs = IG_NEW_ARRAY(job, struct ig_source, count);
    for (unsigned i = 0; i < count; i++) {
        unsigned left = c->count - i * TOGETHER;
        programs[i] = put_together(job, c->sources + (size_t)i * TOGETHER, left < TOGETHER ? left : TOGETHER);
    }
    struct ig_nvrtc *nvrtc = ig_nvrtc_load(job, getenv("INGOT_NVRTC"));
    int major = 0, minor = 0;
    nvrtc->get_version(&major, &minor);
    if (major >= 13) nvrtc->option = "--Ofast-compile=mid"; /* older versions reject it */
    ig_nvrtc_objects(job, nvrtc, c->arch, false, 0, programs, count, count_bytes, c);
}

size_t nvrtc_check(struct ig_job *job, const char *arch, const struct ig_source *sources, unsigned count) {
    struct check check = {arch, sources, count, 0};
    struct ig_job own;
    struct ingot_error error;
    if (!count) return 0;
    ig_job_init(&own, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&own, compile_together, &check, &error);
    ig_job_deinit(&own);
    if (status == INGOT_OK) return check.bytes;
    ig_nvrtc_objects(job, ig_nvrtc_load(job, getenv("INGOT_NVRTC")), arch, false, 0, sources, count, count_bytes,
                     &check);
    ig_raise_error(job, &error);
}

void nvrtc_check_losses(struct ig_job *job, const char *arch, const struct ig_source *sources, unsigned count) {
    struct check check = {arch, sources, count, 0};
    struct ig_nvrtc *nvrtc = ig_nvrtc_load(job, getenv("INGOT_NVRTC"));
    nvrtc->refuses_losses = true;
    ig_nvrtc_objects(job, nvrtc, arch, false, 0, sources, count, count_bytes, &check);
}

void nvrtc_check_archs(void (*compile)(struct ig_job *job, void *arch), const char *const *archs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct ig_job job;
        struct ingot_error error = {0};
        ig_job_init(&job, &ig_libc_allocator);
        enum ingot_status status = ig_job_run(&job, compile, (void *)archs[i], &error);
        ig_job_deinit(&job);
        if (status == INGOT_TOOLCHAIN && strstr(error.message, "libnvrtc")) skip();
        if (status != INGOT_OK) fail_msg("%s: %s", archs[i], error.message);
    }
}
