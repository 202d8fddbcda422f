/* How many blocks do a long row together, and what they keep of it. See row.h. */
#include "kernel/cuda/row.h"

#include <math.h>

enum {
    MOST_BLOCKS = 8, /* of a cluster, on all chips that have them */
    RATE = 33,       /* KB that a multiprocessor moves in a microsecond */
};

static const double SYNC = 1; /* microseconds that blocks of a cluster wait for each other */

/*
 * Clusters of so many blocks that 132 multiprocessors hold if each takes one block. A cluster lies within one group of processors, most of
 * which have 16 or 18: 15 of 8 and 66 of 2 blocks is what an H200 says (cudaOccupancyMaxActiveClusters), so that 16 of 8 are done
 * in two rounds. The others follow from groups like that.
 */
static int clusters_at_once(int blocks) {
    static const int clusters[MOST_BLOCKS + 1] = {0, IG_CUDA_PROCESSORS, 66, 40, 30, 22, 19, 15, 15};
    return clusters[blocks];
}

/* Of clusters that begin together. Unless each block has a multiprocessor for itself, some of these take as many as they have room for. */
static double round_time(double clusters, int blocks, int slots, double bytes) {
    int each = clusters <= clusters_at_once(blocks) ? 1 : slots;
    return each * bytes / RATE / 1e3 + (blocks > 1 ? SYNC : 0);
}

double ig_row_share_time(double clusters, int blocks, int slots, double bytes) {
    double most = (double)clusters_at_once(blocks) * slots, rounds = floor(clusters / most);
    double rest = clusters - rounds * most, time = rounds * round_time(most, blocks, slots, bytes);
    return rest > 0 ? time + round_time(rest, blocks, slots, bytes) : time;
}

bool ig_row_share_alone(int64_t clusters, int blocks) {
    return clusters <= clusters_at_once(blocks);
}

int ig_row_share_bytes(const struct ig_target *target, int64_t clusters, int blocks) {
    return blocks > 1 && ig_row_share_alone(clusters, blocks) ? ig_target_shared_bytes(target) / 2 + 1024 : 0;
}

int ig_row_share_choose(ig_row_share_model model, const void *user, bool shares) {
    int best = 1;
    double least = model(user, 1);
    for (int blocks = 2; shares && blocks <= MOST_BLOCKS; blocks++) {
        double time = model(user, blocks);
        if (time < 0 || time > 0.98 * least) continue;
        best = blocks;
        least = time;
    }
    return best;
}

ig_value ig_row_halves_cuda(struct ig_row *r) {
    const uint32_t *passes = ig_row_passes_of(r);
    ig_value found = IG_NO_VALUE;
    for (uint32_t i = 0; i < r->region->inputs.count; i++) {
        ig_value v = r->region->inputs.at[i];
        const struct ig_type *type = ig_type_of(r->graph, v);
        if (!ig_row_is_space_shape(r, type)) continue;
        bool again = (passes[v] & (passes[v] - 1)) != 0;
        if (found != IG_NO_VALUE || !again || !r->lower.is_input[v] || ingot_dtype_size(type->dtype) != 2)
            return IG_NO_VALUE;
        found = v;
    }
    return found;
}

void ig_row_keep_halves_cuda(struct ig_row *r, ig_value v, int64_t offset, bool comes) {
    r->place = ig_x_free_var(r->k, r->count);
    r->cache_of[v] = ig_loops_shared(r->k, ig_type_of(r->graph, v)->dtype, offset, "kept");
    r->cache_pass[v] = comes ? -2 : __builtin_ctz(ig_row_passes_of(r)[v]);
    if (comes) r->k->buffers.at[r->cache_of[v]].written = true;
}
