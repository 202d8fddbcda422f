/* Parses and checks the public build options. */
#ifndef IG_COMPILE_OPTIONS_H
#define IG_COMPILE_OPTIONS_H

#include "base/job.h"
#include "ir/target.h"

struct ig_target_choice {
    struct ig_target target;
    const char *name;           /* "cpu:x86-64-v4", "cuda:sm_90a" */
    uint64_t required_features; /* IG_CPU_* bits */
};

/* Parses a target. "cpu" is the best level of this machine; the caller has replaced "cuda" by this machine's GPU.
 * Raises INGOT_INVALID_ARGUMENT naming the known targets. */
void ig_target_parse(struct ig_job *job, const char *text, struct ig_target_choice *out_choice);

/* Checks the names of passes in switches and in dump_after. Raises naming the unknown one. */
void ig_pass_switches_check(struct ig_job *job, const struct ingot_build_options *options);
/* Does pass `index` of ig_passes run with these options? */
bool ig_pass_enabled(const struct ingot_build_options *options, int index);

#endif
