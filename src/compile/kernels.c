/* Regions to kernels; see kernels.h. */
#include "compile/kernels.h"

#include <string.h>

#include "base/hash.h"
#include "codegen/c/print.h"
#include "codegen/cuda/print.h"

void ig_kernel_set_init(struct ig_kernel_set *set, struct ig_job *job, const struct ig_kernel_compiler *compiler,
                        const struct ig_tuner *tuner) {
    *set = (struct ig_kernel_set){.job = job, .target = compiler->target, .compiler = compiler, .tuner = tuner};
    ig_map_init(&set->by_fingerprint, job);
}

static const char *family_name(enum ig_family family) {
    static const char *const names[] = {
        [IG_FAMILY_MAP] = "map",       [IG_FAMILY_ROW] = "row",       [IG_FAMILY_CONTRACT] = "contract",
        [IG_FAMILY_ATTEND] = "attend", [IG_FAMILY_WINDOW] = "window", [IG_FAMILY_SCAN] = "scan",
        [IG_FAMILY_REST] = "rest",
    };
    return names[family] ? names[family] : "kernel";
}

uint32_t ig_kernel_set_add(struct ig_kernel_set *set, struct ig_graph *graph, const struct ig_region *region) {
    const char *text = ig_region_fingerprint(graph, region, set->target);
    uint32_t index;
    if (ig_map_get_name(&set->by_fingerprint, text, &index)) {
        set->kernels.at[index].uses++;
        return index;
    }
    struct ig_compiled_kernel k = {.graph = graph, .region = region, .uses = 1};
    char *digits = ig_alloc(set->job, 33);
    ig_hash128_print(ig_hash128(text, strlen(text)), digits);
    k.fingerprint = digits;
    k.symbol = ig_format(set->job, "%s_%u", family_name(region->family), set->kernels.count);
    k.tuned = set->tuner ? ig_tuner_get(set->tuner, digits) : NULL;
    k.kernel = ig_kernel_candidate(graph, region, set->target, k.tuned ? k.tuned->choice : 0);
    IG_ASSERT(set->job, k.kernel != NULL);
    k.source = ig_kernel_compiler_print(set->job, set->compiler, k.kernel, k.symbol);
    index = set->kernels.count;
    IG_PUSH(set->job, &set->kernels, k);
    ig_map_put_name(&set->by_fingerprint, text, index);
    return index;
}

void ig_kernel_compiler_find(struct ig_job *job, const struct ig_target *target,
                             const struct ingot_build_options *options, struct ig_kernel_compiler *out) {
    *out = (struct ig_kernel_compiler){.target = target, .jobs = options->jobs, .portable = options->portable};
    if (ig_target_is_cuda(target)) {
        out->nvrtc = ig_nvrtc_load(job, options->nvrtc);
        out->version = ig_nvrtc_version(out->nvrtc);
        out->arch = ig_format(job, "sm_%d%s", target->sm, target->sm_own ? "a" : "");
        return;
    }
    if (options->portable)
        ig_raise(job, INGOT_INVALID_ARGUMENT,
                 "portable code is for CUDA targets: a CPU engine runs on its level and up");
    ig_toolchain_find(job, options->cc, options->jobs, &out->c);
    out->version = out->c.version;
}

/* The target's share of the compiler's command line. */
static const char *const *target_flags(const struct ig_target *target) {
    static const char *const v3[] = {"-march=x86-64-v3", NULL};
    static const char *const v4[] = {"-march=x86-64-v4", "-mprefer-vector-width=512", NULL};
    return target->isa == IG_ISA_X86_64_V3 ? v3 : v4;
}

const char *ig_kernel_compiler_print(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                                     const struct ig_kernel *kernel, const char *symbol) {
    const struct ig_target *target = compiler->target;
    return ig_target_is_cuda(target) ? ig_cuda_kernel(job, kernel, symbol, target)
                                     : ig_c_kernel(job, kernel, symbol, target);
}

void ig_kernel_compiler_run(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                            const struct ig_source *sources, unsigned count,
                            void (*progress)(void *user, unsigned done, unsigned total), void *user,
                            struct ig_code *out_code) {
    if (ig_target_is_cuda(compiler->target)) {
        ig_nvrtc_compile(job, compiler->nvrtc, compiler->arch, compiler->portable, compiler->jobs, sources, count,
                         progress, user, out_code);
        return;
    }
    ig_toolchain_compile(job, &compiler->c, target_flags(compiler->target), sources, count, progress, user, out_code);
}

void ig_kernel_set_compile(struct ig_kernel_set *set, void (*progress)(void *user, unsigned done, unsigned total),
                           void *user) {
    struct ig_source *sources = IG_NEW_ARRAY(set->job, struct ig_source, set->kernels.count + 1);
    for (uint32_t i = 0; i < set->kernels.count; i++)
        sources[i] = (struct ig_source){set->kernels.at[i].symbol, set->kernels.at[i].source};
    ig_kernel_compiler_run(set->job, set->compiler, sources, set->kernels.count, progress, user, &set->code);
}
