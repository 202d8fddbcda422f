/*
 * Measures on a device: owns the memory of one subject there, and runs candidates on it.
 *
 * A measurement reproduces the cache state that the kernel will meet in the model: activations have just been written
 * by the preceding kernel and may be cached; weights were last read one whole run earlier. So the launches of a
 * measurement rotate through copies of their weights that together are as large as all weights of the model (96 MiB at
 * most, which no cache holds), and share the same activations.
 *
 * A measurement is a list of launches, replayed five times and timed by the device's own events; its result is the
 * median, divided by the number of launches. Kernels are started as early as in a run of the model. Before the first
 * measurement of a subject, its list is replayed for a while, because idle devices run slowly at first.
 */
#ifndef IG_TUNE_BENCH_H
#define IG_TUNE_BENCH_H

#include "device/device.h"
#include "toolchain/toolchain.h"
#include "tune/subject.h"

struct ig_bench;

/* Identifies the machine in timings: "Intel(R) Xeon(R) …, 2 threads", "NVIDIA H100 80GB HBM3, driver 13.0". NULL if it
 * has no device for the target; *out_why then says what is missing. `features`: processor features that code for the
 * target needs; `gpu`: the GPU's number. */
const char *ig_bench_device(struct ig_job *job, const struct ig_target *target, uint64_t features, int gpu,
                            const char **out_why);
/* Opens the device; it is closed at the end of the job, or by ig_bench_close. Raises INGOT_DEVICE or
 * INGOT_INCOMPATIBLE, naming target and machine, if there is no device for the target. `borrowed`: measures on that
 * device instead, and leaves it open. */
struct ig_bench *ig_bench_open(struct ig_job *job, const struct ig_target *target, uint64_t features, int gpu,
                               struct ig_device *borrowed);
void ig_bench_close(struct ig_bench *bench);
/* Can calls of a library be measured? If it is missing, the error names the files tried. */
enum ingot_status ig_bench_need_library(struct ig_bench *bench, uint32_t library, struct ingot_error *error);

/* Uploads the subject's inputs. `model_weights`: bytes of all weights of the model. */
enum ingot_status ig_bench_begin(struct ig_bench *bench, const struct ig_subject *subject, uint64_t model_weights,
                                 struct ingot_error *error);
/* Frees them; harmless if nothing was begun. */
void ig_bench_end(struct ig_bench *bench);

/* A compiled kernel: entry `index` of the code, which lives until ig_bench_end. For a library call, only `kernel` is
 * used. */
struct ig_candidate_code {
    const struct ig_kernel *kernel;
    const char *symbol;
    const struct ig_code *code;
    uint32_t index;
};
/* Runs it once and copies the results to the host: out_outputs[i] is memory for the subject's output i. */
enum ingot_status ig_bench_run(struct ig_bench *bench, const struct ig_candidate_code *candidate,
                               void *const *out_outputs, struct ingot_error *error);
/* Is the device still usable? Some kernel failures leave a GPU unusable for the rest of the process. */
enum ingot_status ig_bench_check(struct ig_bench *bench, struct ingot_error *error);
/* The time of one launch. Stops early with a rough time if that exceeds twice `best` (0: none yet). */
enum ingot_status ig_bench_time(struct ig_bench *bench, const struct ig_candidate_code *candidate, uint64_t best,
                                uint64_t *out_nanoseconds, struct ingot_error *error);

#endif
