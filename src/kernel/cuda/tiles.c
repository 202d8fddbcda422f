/*
 * Adapts schedules made for CPUs to the threads of a block: tiles without a vector loop become the iterations of one,
 * so that each thread has a tile of its own.
 */
#include "kernel/schedules.h"

/* Do the threads of a block cooperate on anything: vector loops, calls, templates? */
static bool is_shared(const struct ig_stmt *s) {
    if (s->kind == IG_S_CALL || s->kind == IG_S_TEXT) return true;
    if (s->kind == IG_S_FOR && (s->for_kind == IG_FOR_SIMD || s->for_kind == IG_FOR_TEAM)) return true;
    for (uint32_t i = 0; i < s->body.count; i++) {
        if (is_shared(s->body.at[i])) return true;
    }
    return false;
}

/* Does the kernel need memory of the worker's own, which a thread lacks, or consecutive tiles (IG_X_BEGIN)? */
static bool needs_worker(const struct ig_loops *k) {
    for (ig_x x = 0; x < k->x.count; x++) {
        if (k->x.at[x].kind == IG_X_BEGIN) return true;
    }
    for (uint32_t i = 0; i < k->buffers.count; i++) {
        if (k->buffers.at[i].kind == IG_BUFFER_SCRATCH || k->buffers.at[i].kind == IG_BUFFER_SHARED) return true;
    }
    return false;
}

static void spread_tiles(struct ig_kernel *kernel) {
    struct ig_loops *k = kernel->loops;
    int64_t tiles;
    if (is_shared(k->top) || needs_worker(k)) return;
    if (ig_dim_is_const(k->dims, kernel->tiles, &tiles) && tiles <= 1) return;
    struct ig_stmt *inner = k->top;
    ig_dim threads = ig_dim_const(k->dims, kernel->threads);
    ig_dim blocks = ig_dim_ceil_div(k->dims, kernel->tiles, threads);
    ig_x block, unused, zero = ig_x_index(k, 0), one = ig_x_index(k, 1);
    struct ig_stmt *top = ig_s_for(k, NULL, IG_FOR_TILE, zero, ig_x_dim(k, blocks), one, &block);
    ig_s_name(k, block, "tile");
    ig_x first = ig_x_mul(k, block, ig_x_index(k, kernel->threads));
    ig_x end = ig_x_min(k, ig_x_add(k, first, ig_x_index(k, kernel->threads)), ig_x_dim(k, kernel->tiles));
    struct ig_stmt *loop = ig_s_for(k, top, IG_FOR_SIMD, first, end, one, &unused);
    int var = inner->var;
    loop->var = var;
    k->vars.at[var].name = NULL;
    loop->body.at = inner->body.at;
    loop->body.count = inner->body.count;
    loop->body.capacity = inner->body.capacity;
    kernel->tiles = blocks;
}

void ig_cuda_finish(struct ig_kernel *kernel) {
    spread_tiles(kernel);
    ig_x_dim(kernel->loops, kernel->scratch_bytes);
}
