/*
 * Collectives as kernels of emulated GPUs, through the windows of a group whose ranks are threads of the test
 * (codegen/cuda/exchange.cu, dist/windows.h).
 */
#ifndef TESTS_SUPPORT_EXCHANGE_H
#define TESTS_SUPPORT_EXCHANGE_H

#include "base/window.h"
#include "dist/dist.h"
#include "ir/graph.h"
#include "kernel/kernel.h"
#include "support/device/emulated.h"

enum { EXCHANGE_RANKS = 4 }; /* the most */

/* A kernel for any sizes. */
struct exchange_kernel {
    struct ig_collective what;
    uint32_t ranks;
    int64_t multiple; /* the compiler knows that inner sizes are multiples of it; 0: of 1 */
    int sm;           /* 0: 90 */
    /* What follows is filled when it is compiled. */
    const struct ig_kernel *made;
    struct ig_dims *dims;
    char name[24];
};

/* The text of a kernel of this name, made for a rank. */
const char *exchange_text(struct ig_job *job, struct exchange_kernel *kernel, uint32_t rank, const char *name);
/* A program's status: compiles the kernels and runs the tests, which return how many failed. 77: there is no emulator. Raises if
 * ranks do not have the same kernel. */
int exchange_main(struct exchange_kernel *kernels, uint32_t count, int (*tests)(void));
/* The same for a program that compiles kernels of its own, once, by exchange_compile_texts. */
int exchange_program(void (*prepare)(struct ig_job *job), int (*tests)(void));
void exchange_compile_texts(struct ig_job *job, const struct ig_source *sources, uint32_t count);
/* Of the emulator, from then on. */
void exchange_set_order(bool backwards);

struct exchange_rank {
    struct ig_group *seat; /* with windows */
    struct ig_device *device;
    struct ig_module *module;
    struct ig_stream *stream;
    uint32_t rank, ranks;
    uint32_t gpus; /* that the ranks share; 0: each has its own */
    struct ingot_error error;
};

/* Each rank a GPU and a seat, all used by this thread or each by one of exchange_together. No wait of theirs ends because of
 * the time, as long as the emulator itself has patience. */
struct exchange_group {
    uint32_t ranks;
    struct exchange_rank at[EXCHANGE_RANKS];
};
void exchange_open(struct exchange_group *group, uint32_t ranks);
/* The ranks share so many GPUs, so that calls are split if there are fewer. */
void exchange_open_shared(struct exchange_group *group, uint32_t ranks, uint32_t gpus);
void exchange_close(struct exchange_group *group);

/* A rank returns NULL or what is wrong, with which the test then fails. */
typedef const char *(*exchange_body)(struct exchange_rank *rank, void *user);
void exchange_together(struct exchange_group *group, exchange_body body, void *user);

struct exchange_call {
    const struct exchange_kernel *kernel;
    struct ig_collective_sizes sizes;
    uint32_t number;
    int64_t blocks; /* 0: as many as the kernel asks for */
};
/* A rank's part of a call, by memory of the GPU that is exactly as large as what it holds. Returns NULL when it has ended,
 * however that was, or what is wrong. */
const char *exchange_launch(struct exchange_rank *rank, const struct exchange_call *call, const void *source,
                            void *destination);

/* A launch of a program's own kernel: inputs, then outputs, by memory as above; the seat comes behind them. */
enum { EXCHANGE_TENSORS = 12 };
struct exchange_run {
    const char *name;
    const struct ig_kernel *kernel;
    void *tensors[EXCHANGE_TENSORS];
    size_t sizes[EXCHANGE_TENSORS]; /* bytes */
    uint32_t n_inputs, n_tensors;
    int64_t dims[16], tiles;
};
const char *exchange_run(struct exchange_rank *rank, const struct exchange_run *run);

/* The same of all ranks of a group whose calls are split, launch by launch on this thread: a kernel that waits for another rank's
 * would wait in vain. Fails the test if one does. */
void exchange_launch_split(struct exchange_group *group, const struct exchange_call *call, void *const *sources,
                           void *const *destinations);
void exchange_run_split(struct exchange_group *group, const struct exchange_run *runs);

/* The seat, and any memory of the GPU. */
const char *exchange_read(struct exchange_rank *rank, const void *from, void *to, size_t size);
const char *exchange_write(struct exchange_rank *rank, void *to, const void *from, size_t size);

#endif
