/*
 * Grids of CUDA threads on this processor, slowly and strictly. The threads of a block are coroutines that take turns
 * where they wait for each other, in either direction, so that a barrier that is missing shows in the results; one that
 * not all threads reach ends the kernel with an error. Every access to memory is checked: it must lie within memory that
 * the kernel was given, at a multiple of its size, and no two threads may touch a byte, one of them writing, without a
 * barrier between them (the rule of "compute-sanitizer --tool racecheck", for global memory and between blocks too).
 *
 * Kernels are shared objects made from their CUDA text (translate.h), which calls back through `struct emulator`.
 */
#ifndef TESTS_EMULATOR_GRID_H
#define TESTS_EMULATOR_GRID_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How memory is touched. */
enum { EMULATED_WRITE = 1, EMULATED_ALIGNED = 2 };

/* What a kernel has of its surroundings. */
struct emulator {
    int thread, block, blocks; /* threadIdx.x, blockIdx.x, gridDim.x */
    int rank;                  /* of the block in its cluster */
    char *shared;              /* dynamic shared memory of the block */
    void (*access)(const void *at, size_t size, int how);
    void (*refuse)(const char *format, ...);
    void (*wait_block)(void);
    /* Waits for `count` threads at barrier `name` of the block. */
    void (*wait_named)(int name, int count);
    void (*wait_cluster)(void);
    /* Waits for the lanes of the warp in `team`; each sees the others' `mine` (64 bytes at most) by `shown`. */
    void (*meet)(unsigned team, const void *mine, size_t size);
    const void *(*shown)(int lane);
    void (*sync_warp)(unsigned team);
    /* Copies to shared memory that are under way until waited for: `valid` bytes and zeros up to `size`. */
    void (*copy)(char *to, const char *from, size_t size, size_t valid);
    void (*close_copies)(void);
    void (*wait_copies)(int left);
    /* Addresses of shared memory in 32 bits, of this block or one of the cluster, and back; checks `size` bytes. */
    unsigned (*shared_address)(const void *at);
    unsigned (*map_rank)(unsigned address, int rank);
    char *(*shared_at)(unsigned address, size_t size, int how);
    /* Barriers in shared memory: how many arrivals a round takes; an arrival, before which so many bytes are announced; the
     * end of the round of a parity. */
    void (*start_round)(unsigned barrier, unsigned arrivals);
    void (*arrive)(unsigned barrier, unsigned bytes);
    void (*wait_round)(unsigned barrier, unsigned parity);
    /* Brings a box of a matrix (struct fake_tensor_map) to shared memory and tells the barrier. */
    void (*bring)(unsigned to, const void *map, int x, int y, unsigned barrier);
};

/* What an object tells of itself: the function "emulated_object". */
struct emulated_object {
    const struct emulator **emulator; /* to be set */
    char *begin, *end;                /* of the whole object: kernels may read it */
};

/* What an object tells of each kernel: "emulated_<name>". */
struct emulated_kernel {
    void (*start)(void *const *parameters);
    int parameters, maps, threads, cluster; /* maps: the last ones of the parameters */
    int alignment;                          /* of dynamic shared memory */
    char *shared, *shared_end;              /* __shared__ variables, one set for all blocks */
};

struct emulated_launch {
    const char *name;
    const struct emulated_object *object;
    const struct emulated_kernel *kernel;
    void *const *parameters;
    int blocks, threads;
    size_t shared; /* bytes of dynamic shared memory */
};

struct emulator_options {
    bool backwards; /* threads and blocks take their turns in the other direction */
    bool late;      /* asynchronous copies happen when they are waited for, and not at once */
    bool races;     /* look for them */
};

/* Memory that kernels may use. */
void emulator_add_memory(void *begin, size_t size);
void emulator_remove_memory(void *begin);
/* Runs a grid; returns NULL, or what the kernel did wrong. One at a time. */
const char *emulator_run(const struct emulated_launch *launch, const struct emulator_options *options);

#ifdef __cplusplus
}
#endif
#endif
