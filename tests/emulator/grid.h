/*
 * Runs grids of CUDA threads on the host: slowly, but strictly. The threads of a block are coroutines that switch where
 * they wait for each other, or poll memory by a load of system scope. Grids that host threads launch at the same time
 * take turns: one runs until it polls or ends. So do the first eight blocks of a grid; others begin when one has ended.
 * Threads and blocks run in ascending or in descending order, so that a missing barrier changes the results; a barrier
 * that not all threads reach ends the kernel with an error. Every memory access is checked: it must lie within memory
 * that the kernel was given and be aligned to its size, and no two threads may access the same byte, at least one of
 * them writing, without a barrier between them (the rule of "compute-sanitizer --tool racecheck", for global memory and
 * between blocks too). Accesses of system scope, and those of different grids, are no races.
 *
 * Kernels are shared objects compiled from CUDA C (translate.h); they call back through `struct emulator`.
 */
#ifndef TESTS_EMULATOR_GRID_H
#define TESTS_EMULATOR_GRID_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATED_STACK = 256 << 10 }; /* bytes of a thread's stack */
/* Flags of an access; an atomic one is no part of a race. */
enum { EMULATED_WRITE = 1, EMULATED_ALIGNED = 2, EMULATED_ATOMIC = 4 };

/* The interface that a kernel sees: its indices, and calls into the emulator. */
struct emulator {
    int thread, block, blocks; /* threadIdx.x, blockIdx.x, gridDim.x */
    int rank;                  /* of the block in its cluster */
    char *shared;              /* dynamic shared memory of the block */
    char *stack;               /* of the thread */
    void (*access)(const void *at, size_t size, int how);
    void (*refuse)(const char *format, ...);
    void (*wait_block)(void);
    /* The same; is `value` not 0 of any thread? */
    int (*wait_block_any)(int value);
    /* Waits for `count` threads at the block's named barrier `name`. */
    void (*wait_named)(int name, int count);
    void (*wait_cluster)(void);
    /* Waits for the warp's lanes in mask `team`; `shown` then returns another lane's `mine` (at most 64 bytes). */
    void (*meet)(unsigned team, const void *mine, size_t size);
    const void *(*shown)(int lane);
    void (*sync_warp)(unsigned team);
    /* Asynchronous copies to shared memory: enqueue one, of `valid` bytes and zeros up to `size`; commit the group;
     * wait until at most `left` groups are in flight. */
    void (*copy)(char *to, const char *from, size_t size, size_t valid);
    void (*close_copies)(void);
    void (*wait_copies)(int left);
    /* Converts pointers to 32-bit addresses of shared memory, those to the same place in another block of the cluster,
     * and addresses back to pointers, checking `size` bytes. */
    unsigned (*shared_address)(const void *at);
    unsigned (*map_rank)(unsigned address, int rank);
    char *(*shared_at)(unsigned address, size_t size, int how);
    /* mbarriers, whose phases are called rounds: initialise with the arrivals per round; arrive, after announcing
     * `bytes` of copies; wait for the end of the round with this parity. */
    void (*start_round)(unsigned barrier, unsigned arrivals);
    void (*arrive)(unsigned barrier, unsigned bytes);
    void (*wait_round)(unsigned barrier, unsigned parity);
    /* The barrier is not used any more, and its memory free. */
    void (*end_rounds)(unsigned barrier);
    /* Copies bytes that lie in one piece to shared memory, and completes them at the barrier. */
    void (*bring_bytes)(unsigned to, const void *from, unsigned bytes, unsigned barrier);
    /* TMA: copies a box of a matrix (struct fake_tensor_map), whose lines may be dealt out, to shared memory and completes
     * its bytes at the barrier. */
    void (*bring)(unsigned to, const void *map, int x, int y, bool dealt, unsigned barrier);
    /* The same for one tap of windows; `at`: the pixel where the first begins, and its image, as many numbers as the map
     * has axes and one; `tap`: one less. */
    void (*bring_windows)(unsigned to, const void *map, int channel, const int *at, const int *tap, unsigned barrier);
    /* The same for a patch of a picture; `at`: its first pixel, and its image. If pixels are `joined`, `channel` counts elements of a
     * line from pixel at[0]. */
    void (*bring_patch)(unsigned to, const void *map, int channel, bool joined, const int *at, unsigned barrier);
    /* Lets other threads, blocks and grids go on. */
    void (*poll)(void);
    /* Accesses of system scope: each of the `count` words of `size` bytes (4 or 8) is atomic by itself. */
    void (*load)(const void *from, void *to, size_t size, int count);
    void (*store)(void *to, const void *from, size_t size, int count);
    unsigned long long (*time)(void); /* in nanoseconds */
};

/* Metadata of an object, symbol "emulated_object". */
struct emulated_object {
    const struct emulator **emulator; /* set by the emulator */
    char *begin, *end;                /* the whole object, which kernels may read */
};

/* Metadata of a kernel, symbol "emulated_<name>". */
struct emulated_kernel {
    void (*start)(void *const *parameters);
    int parameters, maps, threads, cluster; /* the last `maps` parameters are tensor maps */
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
    bool backwards; /* threads and blocks run in descending order */
    bool late;      /* asynchronous copies are executed when waited for, not at once */
    bool races;     /* detect data races */
};

enum { EMULATOR_MESSAGE = 512 };

/* Registers global memory that kernels may access. These functions are thread-safe. */
void emulator_add_memory(void *begin, size_t size);
void emulator_remove_memory(void *begin);
/* Runs a grid; returns false, with a message of at most EMULATOR_MESSAGE bytes, if its kernel errs. */
bool emulator_run(const struct emulated_launch *launch, const struct emulator_options *options, char *message);

#ifdef __cplusplus
}
#endif
#endif
