/*
 * The times of collectives by kind and size, over what connects the ranks; and the row of the compiler's table of links
 * (compile/shard/links.c) that fits such times best:
 *
 *     links_bench RANKS                                threads of this process
 *     mpirun -n RANKS links_bench launched|mpi         processes that a launcher started
 *     links_bench gpus RANKS                           GPUs of this host, a thread for each
 *     links_bench fit NAME < LINES                     of one or several of the above: one row for medians, and one for least times
 *
 * A line has the median and the least time of a call on rank 0; tensors are of f32, on GPUs of f16. GPUs' calls are enqueued in
 * rows, as long as a host's call takes less. bench/links does all that a machine can.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "compile/shard/links.h"
#include "device/device.h"
#include "dist/dist.h"
#include "dist/nccl.h"

extern char **environ;

enum { SMALLEST = 4 << 10, LARGEST = 64 << 20, MOST_CALLS = 5000, FEWEST_CALLS = 15, ROW = 20 };

static const enum ig_collective_kind kinds[] = {IG_ALL_REDUCE, IG_ALL_GATHER, IG_REDUCE_SCATTER};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void must(enum ingot_status status, const struct ingot_error *error) {
    if (status == INGOT_OK) return;
    fprintf(stderr, "links_bench: %s\n", error->message);
    exit(4);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

struct rank {
    pthread_t thread;
    struct ig_group *seat;
    struct ig_device *gpu; /* NULL: this rank is a processor */
    struct ig_stream *stream;
    void *source, *destination; /* LARGEST bytes */
    double times[MOST_CALLS];   /* microseconds */
};

/* The whole tensor has about so many bytes; ranks have equal parts of it, as far as they can. */
static void set_sizes(struct ig_collective_sizes *sizes, enum ig_collective_kind kind, size_t elements,
                      uint32_t ranks) {
    *sizes = (struct ig_collective_sizes){.outer = 1, .inner = ig_collective_divides(kind) ? 1 : elements};
    for (uint32_t r = 0; ig_collective_divides(kind) && r < ranks; r++)
        sizes->parts[r] = elements * (r + 1) / ranks - elements * r / ranks;
}

static double call_host(struct rank *rank, const struct ig_collective_call *call) {
    struct ingot_error error;
    uint64_t begin = ig_clock();
    must(ig_group_call(rank->seat, call, &error), &error);
    return (double)(ig_clock() - begin) / 1e3;
}

/* A call of a row. */
static double call_gpu(struct rank *rank, const struct ig_collective_call *call) {
    const struct ig_device_api *api = rank->gpu->api;
    struct ingot_error error;
    uint64_t begin = ig_clock();
    for (int i = 0; i < ROW; i++)
        must(ig_group_enqueue(rank->seat, call, rank->gpu, api->stream_native(rank->gpu, rank->stream), &error),
             &error);
    must(api->stream_wait(rank->gpu, rank->stream, &error), &error);
    must(ig_group_look(rank->seat, &error), &error);
    return (double)(ig_clock() - begin) / 1e3 / ROW;
}

static void measure_one(struct rank *rank, enum ig_collective_kind kind, size_t bytes) {
    const enum ingot_dtype dtype = rank->gpu ? INGOT_F16 : INGOT_F32;
    const uint32_t ranks = ig_group_ranks(rank->seat);
    double (*call_once)(struct rank *, const struct ig_collective_call *) = rank->gpu ? call_gpu : call_host;
    struct ig_collective_sizes sizes;
    set_sizes(&sizes, kind, bytes / ingot_dtype_size(dtype), ranks);
    const struct ig_collective_call call = {
        .what = {kind, dtype, IG_REDUCE_SUM, 0},
        .sizes = &sizes,
        .source = rank->source,
        .destination = kind == IG_ALL_REDUCE ? rank->source : rank->destination,
        .label = "links_bench",
    };
    /* The same number on all ranks. */
    size_t calls = ((size_t)256 << 20) / bytes / (rank->gpu ? ROW : 1);
    if (calls > MOST_CALLS) calls = MOST_CALLS;
    if (calls < FEWEST_CALLS) calls = FEWEST_CALLS;
    for (size_t i = 0; i < 3 + calls; i++) {
        double time = call_once(rank, &call);
        if (i >= 3) rank->times[i - 3] = time;
    }
    if (ig_group_rank(rank->seat) != 0) return;
    qsort(rank->times, calls, sizeof *rank->times, by_size);
    printf("%u ranks  %-14s %9zu bytes  median %10.2f us  least %10.2f us\n", ranks, ig_collective_name(kind), bytes,
           rank->times[calls / 2], rank->times[0]);
    fflush(stdout);
}

static void measure(struct rank *rank) {
    for (size_t k = 0; k < N_KINDS; k++)
        for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes *= 4)
            measure_one(rank, kinds[k], bytes);
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

static void *processor(void *argument) {
    struct rank *rank = argument;
    rank->source = calloc(LARGEST, 1);
    rank->destination = calloc(LARGEST, 1);
    if (!rank->source || !rank->destination) abort();
    measure(rank);
    free(rank->source);
    free(rank->destination);
    return NULL;
}

static void *gpu(void *argument) {
    struct rank *rank = argument;
    struct ingot_error error;
    must(ig_device_cuda_create((int)ig_group_rank(rank->seat), &ig_libc_allocator, &rank->gpu, &error), &error);
    const struct ig_device_api *api = rank->gpu->api;
    must(api->enter(rank->gpu, &error), &error);
    must(api->stream_create(rank->gpu, &rank->stream, &error), &error);
    must(api->allocate(rank->gpu, LARGEST, &rank->source, &error), &error);
    must(api->allocate(rank->gpu, LARGEST, &rank->destination, &error), &error);
    measure(rank);
    api->release(rank->gpu, rank->source, LARGEST);
    api->release(rank->gpu, rank->destination, LARGEST);
    api->stream_destroy(rank->gpu, rank->stream);
    api->leave(rank->gpu);
    return NULL;
}

static void measure_threads(uint32_t ranks, bool gpus) {
    static struct rank all[IG_MOST_RANKS];
    struct ig_group *seats[IG_MOST_RANKS];
    struct ingot_error error;
    must(ig_group_create_local(ranks, NULL, seats, &error), &error);
    for (uint32_t r = 0; r < ranks; r++) {
        all[r].seat = seats[r];
        if (gpus) must(ig_nccl_create(seats[r], NULL, &all[r].seat, &error), &error);
    }
    for (uint32_t r = 0; r < ranks; r++)
        if (pthread_create(&all[r].thread, NULL, gpus ? gpu : processor, &all[r])) abort();
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(all[r].thread, NULL);
    for (uint32_t r = 0; r < ranks; r++) {
        ig_group_destroy(all[r].seat);
        if (gpus) ig_device_release(all[r].gpu);
    }
}

static void measure_processes(enum ig_transport transport) {
    static struct rank rank;
    const struct ig_join_options options = {.environment = (const char *const *)environ, .transport = transport};
    struct ingot_error error;
    must(ig_group_join(&options, &rank.seat, &error), &error);
    processor(&rank);
    ig_group_destroy(rank.seat);
}

/* ---- Fitting ----------------------------------------------------------------------------------------------------- */

/* A time is start + step (ranks - 2) + seconds per byte x bytes: what each of these counts in it. */
enum { START, STEP, PER_BYTE, N_TERMS };

struct line {
    enum ig_op op;
    double bytes, us; /* the median, or the least */
    int ranks;
};

static bool read_line(const char *text, bool least, struct line *out_line) {
    static const enum ig_op ops[N_KINDS] = {IG_OP_all_reduce, IG_OP_all_gather, IG_OP_reduce_scatter};
    char kind[32];
    double us[2];
    if (sscanf(text, "%d ranks %31s %lf bytes median %lf us least %lf us", &out_line->ranks, kind, &out_line->bytes,
               &us[0], &us[1]) != 5)
        return false;
    out_line->us = us[least];
    for (size_t k = 0; k < N_KINDS; k++) {
        if (strcmp(kind, ig_collective_name(kinds[k])) != 0) continue;
        out_line->op = ops[k];
        return out_line->us > 0 && out_line->ranks >= 2;
    }
    return false;
}

/* The compiler's formula is linear in what is sought. */
static double term_of(const struct line *line, int term) {
    static const struct ig_link units[N_TERMS] = {{"", 1, 0, INFINITY}, {"", 0, 1, INFINITY}, {"", 0, 0, 1}};
    return ig_link_time(&units[term], line->op, line->bytes, line->ranks);
}

/* By elimination. An unknown that nothing depends on (the step, where all lines are of two ranks) is 0. */
static void solve(double equations[N_TERMS][N_TERMS + 1], double *out_solution) {
    for (int i = 0; i < N_TERMS; i++) {
        if (equations[i][i] < 1e-30) continue;
        for (int k = 0; k < N_TERMS; k++) {
            double share = k == i ? 0 : equations[k][i] / equations[i][i];
            for (int j = 0; j <= N_TERMS; j++)
                equations[k][j] -= share * equations[i][j];
        }
    }
    for (int i = 0; i < N_TERMS; i++)
        out_solution[i] = equations[i][i] < 1e-30 ? 0 : equations[i][N_TERMS] / equations[i][i];
}

/* Adds a line to the normal equations of a step by Gauss and Newton. What is sought are the logarithms of the terms' factors,
 * which are positive; what is made least are squares of the logarithms of how many times a time is off, since times span four
 * orders of magnitude, and those that were disturbed are too long. */
static void add_line(const struct line *line, const double *factors, double equations[N_TERMS][N_TERMS + 1]) {
    double parts[N_TERMS + 1], sum = 0;
    for (int i = 0; i < N_TERMS; i++)
        sum += parts[i] = factors[i] * term_of(line, i);
    for (int i = 0; i < N_TERMS; i++)
        parts[i] /= sum;
    parts[N_TERMS] = log(line->us / sum);
    for (int i = 0; i < N_TERMS; i++)
        for (int k = 0; k <= N_TERMS; k++)
            equations[i][k] += parts[i] * parts[k];
}

static struct ig_link fit_link(const char *name, const struct line *lines, size_t n) {
    double factors[N_TERMS] = {1, 1, 1e-4}, change[N_TERMS];
    bool has_step = false;
    for (size_t i = 0; i < n; i++)
        has_step |= lines[i].ranks > 2;
    for (int turn = 0; turn < 200; turn++) {
        double equations[N_TERMS][N_TERMS + 1] = {{0}};
        for (size_t i = 0; i < n; i++)
            add_line(&lines[i], factors, equations);
        for (int i = 0; i < N_TERMS; i++)
            equations[i][i] *= 1 + 1e-9; /* a factor may vanish */
        solve(equations, change);
        for (int i = 0; i < N_TERMS; i++)
            factors[i] = fmax(factors[i] * exp(fmax(-0.5, fmin(0.5, change[i]))), 1e-12);
    }
    return (struct ig_link){name, factors[START], has_step ? factors[STEP] : 0, 1 / factors[PER_BYTE]};
}

static void print_row(const struct line *lines, size_t n, struct ig_link link) {
    double *off = calloc(n, sizeof *off);
    if (!off) abort();
    for (size_t i = 0; i < n; i++)
        off[i] = exp(fabs(log(ig_link_time(&link, lines[i].op, lines[i].bytes, lines[i].ranks) / lines[i].us)));
    qsort(off, n, sizeof *off, by_size);
    printf("{\"%s\", %.2f, %.2f, %.1fe3}: of %zu times, half are off by a factor of %.2f and less, the worst by %.2f\n",
           link.name, link.start, link.step, link.rate / 1e3, n, off[n / 2], off[n - 1]);
    free(off);
}

static int fit(const char *name) {
    static struct line lines[2][4096]; /* medians, least times */
    const size_t most = sizeof *lines / sizeof **lines;
    char text[256];
    size_t n = 0;
    while (n < most && fgets(text, sizeof text, stdin))
        n += read_line(text, false, &lines[0][n]) && read_line(text, true, &lines[1][n]);
    if (n < N_TERMS) {
        fprintf(stderr, "links_bench: %zu times, at least %d are wanted\n", n, N_TERMS);
        return 3;
    }
    fputs("medians      ", stdout);
    print_row(lines[0], n, fit_link(name, lines[0], n));
    fputs("least times  ", stdout);
    print_row(lines[1], n, fit_link(name, lines[1], n));
    return 0;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "2";
    const bool gpus = strcmp(how, "gpus") == 0;
    const int ranks = atoi(gpus && argc > 2 ? argv[2] : how);
    if (strcmp(how, "fit") == 0) return fit(argc > 2 ? argv[2] : "link");
    if (strcmp(how, "launched") == 0) {
        measure_processes(IG_TRANSPORT_BEST);
    } else if (strcmp(how, "mpi") == 0) {
        measure_processes(IG_TRANSPORT_MPI);
    } else if (ranks >= 2 && ranks <= (int)IG_MOST_RANKS) {
        measure_threads((uint32_t)ranks, gpus);
    } else {
        fputs("usage: links_bench RANKS | gpus RANKS | launched | mpi | fit NAME\n", stderr);
        return 2;
    }
    return 0;
}
