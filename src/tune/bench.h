/*
 * Measuring: a device, the memory of one subject on it, and candidates that run there.
 *
 * What is measured is what the kernel will take in the model, so its memory is as cold as it will be there: activations have
 * just been written by the kernel before and may be in the caches; weights were last read a whole run of the model ago. So
 * the launches of a measurement read their weights in turns from copies that together are as large as all weights of the
 * model (96 MiB at most, which no cache holds), and all use the same activations.
 *
 * A measurement is a list of launches, replayed five times and timed by the device's own events; its result is the median,
 * divided by the number of launches. Kernels are started as early as in a run of the model. Before the first measurement of
 * a subject, its list is replayed for a while, because devices that were idle run slowly.
 */
#ifndef IG_TUNE_BENCH_H
#define IG_TUNE_BENCH_H

#include "device/device.h"
#include "toolchain/toolchain.h"
#include "tune/subject.h"

struct ig_bench;

/* "Intel(R) Xeon(R) …, 2 threads", "NVIDIA H100 80GB HBM3, driver 13.0": what the times of this machine are times of.
 * NULL where it has no device for the target; *out_why then says what is missing. `features`: what code for the target
 * needs of a processor; `gpu`: the number of the GPU. */
const char *ig_bench_device(struct ig_job *job, const struct ig_target *target, uint64_t features, int gpu,
                            const char **out_why);
/* Opens the device; gives it back at the end of the job, or before. Raises INGOT_DEVICE or INGOT_INCOMPATIBLE, naming both
 * sides, where this machine has none for the target. */
struct ig_bench *ig_bench_open(struct ig_job *job, const struct ig_target *target, uint64_t features, int gpu);
void ig_bench_close(struct ig_bench *bench);
/* Whether calls of a library can be measured; says what was looked for where it is missing. */
enum ingot_status ig_bench_need_library(struct ig_bench *bench, uint32_t library, struct ingot_error *error);

/* Brings the subject's inputs to the device. `model_weights`: bytes of all weights of the model. */
enum ingot_status ig_bench_begin(struct ig_bench *bench, const struct ig_subject *subject, uint64_t model_weights,
                                 struct ingot_error *error);
/* Gives all of that back; harmless where nothing was begun. */
void ig_bench_end(struct ig_bench *bench);

/* A kernel as compiled: number `index` of the code, which lives until ig_bench_end; of a call of a library, the kernel
 * alone. */
struct ig_candidate_code {
    const struct ig_kernel *kernel;
    const char *symbol;
    const struct ig_code *code;
    uint32_t index;
};
/* Runs it once and copies the results to the host: out_outputs[i] is memory for the subject's output i. */
enum ingot_status ig_bench_run(struct ig_bench *bench, const struct ig_candidate_code *candidate,
                               void *const *out_outputs, struct ingot_error *error);
/* INGOT_OK where the device still works: after some failures of a kernel a GPU does nothing any more in this process. */
enum ingot_status ig_bench_check(struct ig_bench *bench, struct ingot_error *error);
/* How long a launch takes. Stops early with a rough time where that is beyond twice `best` (0: there is none yet). */
enum ingot_status ig_bench_time(struct ig_bench *bench, const struct ig_candidate_code *candidate, uint64_t best,
                                uint64_t *out_nanoseconds, struct ingot_error *error);

#endif
