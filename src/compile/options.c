/* Parses the public build options; see options.h. */
#include "compile/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/text.h"
#include "pass/pass.h"
#include "pass/passes.h"

struct level {
    const char *name;
    struct ig_target target;
    uint64_t features;
};

static const struct level levels[] = {
    {"x86-64-v3", {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16}, IG_CPU_X86_64_V3},
    {"x86-64-v3+vnni",
     {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16, .vnni = true},
     IG_CPU_X86_64_V3 | IG_CPU_AVX_VNNI},
    {"x86-64-v4", {.isa = IG_ISA_X86_64_V4, .vector_bytes = 64, .vector_registers = 32}, IG_CPU_X86_64_V4},
    {"x86-64-v4+vnni",
     {.isa = IG_ISA_X86_64_V4, .vector_bytes = 64, .vector_registers = 32, .vnni = true},
     IG_CPU_X86_64_V4 | IG_CPU_AVX512_VNNI},
    {"amx", {.isa = IG_ISA_AMX, .vector_bytes = 64, .vector_registers = 32, .vnni = true}, IG_CPU_AMX},
};
enum { n_levels = sizeof levels / sizeof *levels };

static const struct level *best_level(void) {
    const struct level *best = NULL;
    uint64_t features = ig_cpu_features();
    for (int i = 0; i < n_levels; i++) {
        if ((levels[i].features & ~features) == 0) best = &levels[i];
    }
    return best;
}

/* "sm_90a": an architecture that the kernels can be printed for. NVRTC knows whether there is such a GPU. */
static bool parse_sm(const char *text, struct ig_target *out) {
    char *end;
    if (strncmp(text, "sm_", 3) != 0 || text[3] < '1' || text[3] > '9') return false;
    long sm = strtol(text + 3, &end, 10);
    bool own = strcmp(end, "a") == 0;
    if ((!own && *end) || sm < 80 || sm > 999 || (own && sm < 90)) return false;
    *out = (struct ig_target){
        .isa = IG_ISA_CUDA, .vector_bytes = 64, .vector_registers = 32, .sm = (int)sm, .sm_own = own};
    return true;
}

void ig_target_parse(struct ig_job *job, const char *text, struct ig_target_choice *out) {
    const struct level *level = NULL;
    if (text && strncmp(text, "cuda:", 5) == 0 && parse_sm(text + 5, &out->target)) {
        out->required_features = 0;
        out->name = ig_strdup(job, text);
        return;
    }
    if (!text || strcmp(text, "cpu") == 0) {
        level = best_level();
        if (!level)
            ig_raise(job, INGOT_UNSUPPORTED, "this processor lacks AVX2, FMA or F16C, which every CPU target needs");
    }
    for (int i = 0; !level && i < n_levels; i++) {
        if (strncmp(text, "cpu:", 4) == 0 && strcmp(text + 4, levels[i].name) == 0) level = &levels[i];
    }
    if (!level)
        ig_raise(job, INGOT_INVALID_ARGUMENT,
                 "unknown target '%s': expected cpu, cpu:x86-64-v3, cpu:x86-64-v4, either with +vnni, cpu:amx, cuda or "
                 "cuda:sm_N (sm_80, sm_90a, sm_100, ...)",
                 text);
    out->target = level->target;
    out->required_features = level->features;
    out->name = ig_format(job, "cpu:%s", level->name);
}

/* 1 or 0 if the switch is for that pass, else -1. */
static int switch_value(const char *text, const char *pass) {
    size_t length = strlen(pass);
    if (strncmp(text, pass, length) != 0 || text[length] != '=') return -1;
    if (strcmp(text + length + 1, "on") == 0) return 1;
    return strcmp(text + length + 1, "off") == 0 ? 0 : -1;
}

static const char *pass_names(struct ig_job *job) {
    struct ig_text text;
    ig_text_init(&text, job);
    for (int p = 0; p < ig_pass_count; p++)
        ig_text_printf(&text, "%s%s", p ? ", " : "", ig_passes[p].name);
    return text.at;
}

static bool is_dumped(const char *name) {
    for (int p = 0; p < ig_pass_count; p++) {
        if (strcmp(name, ig_passes[p].name) == 0) return true;
    }
    return strcmp(name, "all") == 0 || strcmp(name, "import") == 0;
}

void ig_pass_switches_check(struct ig_job *job, const struct ingot_build_options *options) {
    if (options->dump_after && !is_dumped(options->dump_after))
        ig_raise(job, INGOT_INVALID_ARGUMENT,
                 "there is no pass '%s' to print the graph after: expected all, import, %s", options->dump_after,
                 pass_names(job));
    for (size_t i = 0; i < options->n_pass_switches; i++) {
        const char *text = options->pass_switches[i];
        bool known = false;
        for (int p = 0; p < ig_pass_count && !known; p++) {
            int value = switch_value(text, ig_passes[p].name);
            if (value == 0 && ig_passes[p].required)
                ig_raise(job, INGOT_INVALID_ARGUMENT, "pass '%s' cannot be switched off: code generation needs it",
                         ig_passes[p].name);
            known = value >= 0;
        }
        if (!known)
            ig_raise(job, INGOT_INVALID_ARGUMENT,
                     "unknown pass switch '%s': expected PASS=on or PASS=off, where PASS is one of %s", text,
                     pass_names(job));
    }
}

bool ig_pass_enabled(const struct ingot_build_options *options, int index) {
    const struct ig_pass *pass = &ig_passes[index];
    bool enabled = pass->required || options->opt_level >= pass->level;
    for (size_t i = 0; i < options->n_pass_switches; i++) {
        int value = switch_value(options->pass_switches[i], pass->name);
        if (value >= 0) enabled = value == 1;
    }
    bool requantises =
        pass->run == ig_pass_block_scales || pass->run == ig_pass_integers || pass->run == ig_pass_float8;
    if (options->strict_qdq && requantises) return false;
    return enabled;
}
