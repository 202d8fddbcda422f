/* The rows of a product: blocks that the micro-kernel takes at once. */
#include "kernel/cpu/contract.h"

static int64_t known(const struct ig_contract *c, ig_dim d) {
    return ig_contract_const(c, d, -1);
}

void ig_row_blocks_init(struct ig_contract *c, ig_dim rows, int mr, struct ig_row_blocks *out_blocks) {
    struct ig_dims *dims = c->graph->dims;
    out_blocks->count = ig_dim_ceil_div(dims, rows, ig_dim_const(dims, mr));
    ig_dim count = ig_dim_max(dims, out_blocks->count, ig_dim_const(dims, 1));
    out_blocks->each = ig_dim_div(dims, rows, count);
    out_blocks->more = ig_dim_sub(dims, rows, ig_dim_mul(dims, out_blocks->each, count));
}

uint64_t ig_row_blocks_set(const struct ig_contract *c, const struct ig_row_blocks *b, int mr) {
    int64_t each = known(c, b->each), more = known(c, b->more);
    uint64_t set = 0;
    for (int r = 1; r <= mr; r++) {
        bool all_longer = more >= 0 && more == known(c, b->count);
        if (each < 0 || (r == each && !all_longer) || (r == each + 1 && more != 0)) set |= (uint64_t)1 << r;
    }
    return set;
}

ig_x ig_row_blocks_start(struct ig_contract *c, const struct ig_row_blocks *b, ig_x block) {
    ig_x longer = ig_x_min(c->k, block, ig_contract_dim(c, b->more));
    return ig_x_add(c->k, ig_x_mul(c->k, block, ig_contract_dim(c, b->each)), longer);
}

ig_x ig_row_blocks_rows(struct ig_contract *c, const struct ig_row_blocks *b, ig_x block) {
    ig_x is_longer = ig_x_less(c->k, block, ig_contract_dim(c, b->more));
    ig_x longer = ig_x_select(c->k, is_longer, ig_contract_int(c, 1), ig_contract_int(c, 0));
    return ig_x_add(c->k, ig_contract_dim(c, b->each), longer);
}
