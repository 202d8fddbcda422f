/* What ingot bench measures. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "session.h"

struct bench_arguments {
    struct build_arguments build;
    struct context_arguments context;
    struct option_list inputs;
    unsigned seed;
    double seconds;
    bool profile, json;
};

/* Measured values, sorted when all are there. */
struct samples {
    double *at;
    size_t count, capacity;
};

/* True where it took a while, because memory was needed. */
bool samples_make_room(struct samples *samples);
void samples_add(struct samples *samples, double value);
void samples_sort(struct samples *samples);
/* The value that `part` of them do not exceed: 0.5 for the median. */
double samples_part(const struct samples *samples, double part);

struct gpu_measurement {
    struct samples compute; /* ms of the GPU's time, transfers apart */
    struct samples pinned;  /* ms, end to end, with inputs and results in pinned memory */
    struct samples enqueue; /* us of the host's time to enqueue a run behind one that is under way */
    struct samples row;     /* the same behind two and more */
    struct samples idle;    /* the same while the GPU has nothing to do */
    double input_ms, output_ms;
    double row_per_s; /* runs from the host's memory, enqueued in a row */
};

struct measurement {
    struct samples latency; /* ms, end to end */
    double total_ms;
    size_t peak_bytes;
    struct ingot_memory_info memory;
    struct gpu_measurement gpu; /* empty on the CPU */
    struct ingot_profile_row *profile;
    size_t n_profile;
};

/* How long the host takes to enqueue a run, and a run from end to end, with inputs and results in pinned memory; and how
 * many runs there are in a second where they are enqueued in a row. The context has run before. */
enum ingot_status bench_enqueue(const struct bench_arguments *a, struct session *session,
                                const struct ingot_tensor *tensors, struct gpu_measurement *out_gpu,
                                struct ingot_error *error);
/* How long the GPU takes, by its own clock; the context is one with CLOCK_RUNS. */
enum ingot_status bench_clock(const struct bench_arguments *a, struct session *session, struct gpu_measurement *out_gpu,
                              struct ingot_error *error);

#endif
