/* Kernels to machine code; see compiler.h. */
#include "compile/compiler.h"

#include <string.h>

#include "codegen/c/print.h"
#include "codegen/cuda/print.h"
#include "compile/objects.h"
#include "toolchain/rename.h"

/* The target's share of the compiler's command line. */
static const char *const *target_flags(const struct ig_target *target) {
    static const char *const v3[] = {"-march=x86-64-v3", NULL};
    static const char *const v4[] = {"-march=x86-64-v4", "-mprefer-vector-width=512", NULL};
    return target->isa == IG_ISA_X86_64_V3 ? v3 : v4;
}

void ig_kernel_compiler_find(struct ig_job *job, const struct ig_target *target,
                             const struct ingot_build_options *options, struct ig_cache_session *session,
                             struct ig_kernel_compiler *out) {
    *out = (struct ig_kernel_compiler){.target = target, .jobs = options->jobs, .portable = options->portable};
    if (ig_target_is_cuda(target)) {
        out->nvrtc = ig_nvrtc_load(job, options->nvrtc);
        out->version = ig_nvrtc_version(out->nvrtc);
        out->arch = ig_format(job, "sm_%d%s", target->sm, target->sm_own ? "a" : "");
    } else {
        if (options->portable)
            ig_raise(job, INGOT_INVALID_ARGUMENT,
                     "portable code is for CUDA targets: a CPU engine runs on its level and up");
        ig_toolchain_find(job, options->cc, options->jobs, &out->c);
        out->version = out->c.version;
        out->arch = target_flags(target)[0] + strlen("-march=");
    }
    out->objects = ig_objects_create(job, out, session);
}

const char *ig_kernel_compiler_identity(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                                        bool is_portable) {
    if (compiler->nvrtc) return ig_nvrtc_identity(job, compiler->nvrtc, compiler->arch, is_portable);
    return ig_toolchain_identity(job, &compiler->c, target_flags(compiler->target));
}

void ig_kernel_compiler_objects(struct ig_job *job, const struct ig_kernel_compiler *compiler, bool is_portable,
                                const struct ig_source *sources, unsigned count, ig_compiled *compiled, void *user) {
    if (compiler->nvrtc) {
        ig_nvrtc_objects(job, compiler->nvrtc, compiler->arch, is_portable, compiler->jobs, sources, count, compiled,
                         user);
    } else {
        ig_toolchain_objects(job, &compiler->c, target_flags(compiler->target), sources, count, compiled, user);
    }
}

const char *ig_kernel_compiler_print(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                                     const struct ig_kernel *kernel, const char *symbol) {
    const struct ig_target *target = compiler->target;
    return ig_target_is_cuda(target) ? ig_cuda_kernel(job, kernel, symbol, target)
                                     : ig_c_kernel(job, kernel, symbol, target);
}

/* Cubins, and PTX, under the names that the plan calls them by. */
static void lay_out(struct ig_job *job, const struct ig_kernel_compiler *compiler, const struct ig_source *sources,
                    struct ig_object_code *cubins, unsigned count, struct ig_code *out_code) {
    struct ig_object_code *texts = NULL;
    if (compiler->portable) {
        texts = IG_NEW_ARRAY(job, struct ig_object_code, count + 1);
        ig_objects_get(job, compiler->objects, true, sources, count, NULL, NULL, texts, NULL);
    }
    for (unsigned i = 0; i < count; i++) {
        cubins[i] = ig_cubin_rename(job, &cubins[i], sources[i].symbol);
        if (texts) texts[i] = ig_ptx_rename(job, &texts[i], sources[i].symbol);
    }
    ig_nvrtc_lay_out(job, cubins, texts, count, out_code);
}

static void link(struct ig_job *job, const struct ig_kernel_compiler *compiler, const struct ig_source *sources,
                 const struct ig_object_code *objects, unsigned count, struct ig_code *out_code) {
    const char **labels = IG_NEW_ARRAY(job, const char *, count + 1);
    const char **symbols = IG_NEW_ARRAY(job, const char *, count + 1);
    for (unsigned i = 0; i < count; i++) {
        labels[i] = sources[i].symbol;
        symbols[i] = IG_ANY_KERNEL;
    }
    struct ig_object_code support;
    bool needs_support = ig_toolchain_needs_support(job, objects, count);
    if (needs_support)
        ig_objects_get(job, compiler->objects, false, &ig_toolchain_support, 1, NULL, NULL, &support, NULL);
    ig_toolchain_link(job, objects, labels, symbols, count, needs_support ? &support : NULL, out_code);
}

void ig_kernel_compiler_run(struct ig_job *job, const struct ig_kernel_compiler *compiler,
                            const struct ig_source *sources, unsigned count,
                            void (*progress)(void *user, unsigned done, unsigned total), void *user,
                            struct ig_code *out_code) {
    struct ig_source *nameless = IG_NEW_ARRAY(job, struct ig_source, count + 1);
    struct ig_object_code *objects = IG_NEW_ARRAY(job, struct ig_object_code, count + 1);
    bool *is_new = IG_NEW_ARRAY(job, bool, count + 1);
    for (unsigned i = 0; i < count; i++) {
        const char *symbol = sources[i].symbol;
        nameless[i] = (struct ig_source){symbol, ig_source_rename(job, sources[i].text, symbol, IG_ANY_KERNEL)};
    }
    ig_objects_get(job, compiler->objects, false, nameless, count, progress, user, objects, is_new);
    if (compiler->nvrtc) {
        lay_out(job, compiler, nameless, objects, count, out_code);
    } else {
        link(job, compiler, nameless, objects, count, out_code);
    }
    out_code->is_new = is_new;
}
