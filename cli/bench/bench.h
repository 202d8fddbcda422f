/* The measurements of `ingot bench`. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <jansson.h>

#include "bench/buckets.h"
#include "bench/outputs.h"
#include "bench/sizes.h"
#include "session.h"

struct bench_arguments {
    struct build_arguments build;
    struct context_arguments context;
    struct option_list inputs;
    unsigned seed, contexts, inflight;
    struct option_number stream;
    const char *buckets, *outputs;
    enum outputs_mode mode; /* that `outputs` names */
    double seconds;
    bool profile, json;
    struct option_share cliffs;
};

/* Measured values; sorted after the last one. */
struct samples {
    double *at;
    size_t count, capacity;
};

/* The peak of this process's resident memory. */
size_t peak_bytes(void);

/* Ensures room for another value; true if that took a while, because it allocated. */
bool samples_make_room(struct samples *samples);
void samples_add(struct samples *samples, double value);
void samples_sort(struct samples *samples);
/* The quantile `part`: 0.5 for the median. */
double samples_part(const struct samples *samples, double part);

struct gpu_measurement {
    struct samples compute; /* ms of GPU time, without transfers */
    struct samples pinned;  /* ms, end to end, with inputs and results in pinned memory */
    struct samples enqueue; /* us of host time to enqueue a run while one is in flight */
    struct samples row;     /* the same while two or more are in flight */
    struct samples idle;    /* the same while the GPU is idle */
    double input_ms, output_ms;
    double row_per_s; /* runs per second from ordinary host memory, enqueued back to back */
};

/* What several contexts do at once. */
struct contexts_measurement {
    size_t least, most; /* runs of the least and the most served context */
    double samples;     /* of all runs; 0 where they are not counted */
    struct sizes sizes;
    struct buckets buckets;
};

struct measurement {
    struct samples latency; /* ms, end to end */
    double total_ms;
    size_t peak_bytes;
    struct ingot_memory_info memory;
    struct ingot_exchange_row exchanges[16]; /* the first ones */
    size_t n_exchanges;
    struct gpu_measurement gpu;                 /* empty on the CPU */
    struct contexts_measurement contexts;       /* empty for one context that runs singly with one shape */
    struct ingot_profile_row *profile, *cliffs; /* total_ms is that of as many calls as the shortest */
    size_t n_profile, n_cliffs;
    double *estimates;    /* ms, by row of the profile, of all calls; 0: there is none */
    char *estimated_for;  /* the machine, and the sizes, that they are of; NULL: there are none. To be freed */
    size_t profiled_runs; /* GPU: that the profile is of */
    double apart_us;      /* GPU: what timing a kernel apart from the others adds to its time, already taken off */
};

/* Takes the profile of the session's context: rows by the time lost, the most first; and of the kernels, each with all that it
 * does, those that take over 2% of a run and reach less than `share` of their floor. */
void profile_take(struct session *session, double share, struct measurement *m);
void profile_print(const struct measurement *m);
json_t *profile_json(const struct measurement *m);
void cliffs_print(const struct measurement *m, double share);
json_t *cliffs_json(const struct measurement *m);

/* Measures the host time to enqueue a run, and the end-to-end time, both with inputs and results in pinned memory; and
 * the runs per second when enqueued back to back. The context has run before. */
enum ingot_status bench_enqueue(const struct bench_arguments *a, struct session *session,
                                const struct ingot_tensor *tensors, const struct outputs *outputs,
                                struct gpu_measurement *out_gpu, struct ingot_error *error);
/* Measures GPU time by its own clock; the context was created with CLOCK_RUNS. */
enum ingot_status bench_clock(const struct bench_arguments *a, struct session *session, struct gpu_measurement *out_gpu,
                              struct ingot_error *error);

/* Measures what several contexts do at once, each with a thread of its own, which enqueues up to `inflight` runs before
 * it waits. */
enum ingot_status bench_contexts(const struct bench_arguments *a, struct session *session,
                                 const struct ingot_tensor *tensors, struct tensor_list *given, struct measurement *m,
                                 struct ingot_error *error);

#endif
