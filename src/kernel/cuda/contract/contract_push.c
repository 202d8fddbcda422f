/* Products that send their rows to other ranks as they compute them, for the all-reduce behind them (kernel/cuda/exchange_row.c). */
#include "kernel/cuda/contract/contract.h"
#include "kernel/cuda/exchange.h"
#include "kernel/cuda/exchange_block.h"

enum { LINE = 8 /* bytes of data */ };

/* Are the results a matrix of whole lines, whose rows are in one tile? */
static bool is_message(struct ig_contract *c, enum ingot_dtype dtype, int height) {
    const int64_t rows = ig_contract_const(c, ig_cuda_rows(c), 0);
    const bool is_float = dtype == INGOT_F16 || dtype == INGOT_BF16 || dtype == INGOT_F32;
    return is_float && c->region->outputs.count == 1 && !c->has_twin && !c->scaled && c->spatial == 0 &&
           c->dtype == INGOT_F32 && ig_contract_const(c, ig_cuda_batch(c), 0) == 1 && rows > 0 && rows <= height &&
           ig_contract_const(c, c->columns, 1) % (LINE / (int64_t)ingot_dtype_size(dtype)) == 0;
}

const struct ig_cuda_exchange *ig_cuda_contract_push(struct ig_contract *c, int height) {
    const enum ingot_dtype dtype = ig_type_of(c->graph, c->region->outputs.at[0])->dtype;
    if (!is_message(c, dtype, height)) return NULL;
    struct ig_cuda_exchange *e = IG_NEW(c->k->job, struct ig_cuda_exchange);
    *e = (struct ig_cuda_exchange){.kind = IG_ALL_REDUCE,
                                   .reduction = IG_REDUCE_SUM,
                                   .dtype = dtype,
                                   .ranks = (uint32_t)c->region->pushed,
                                   .early = ig_target_has_early_start(c->target),
                                   .row = ig_contract_const(c, c->columns, 0)};
    c->kept = true;
    return e;
}

const struct ig_cuda_exchange *ig_cuda_contract_pushes(const struct ig_kernel *kernel) {
    return kernel->gemm ? kernel->gemm->pushes : kernel->blocks ? kernel->blocks->pushes : NULL;
}

struct ig_call_arg ig_cuda_contract_seat(struct ig_contract *c) {
    return (struct ig_call_arg){ig_exchange_seat(c->k, c->graph, c->region), ig_contract_int(c, 0)};
}

void ig_cuda_contract_send(struct ig_contract *c, struct ig_stmt *body, const struct ig_cuda_push_tile *t) {
    const struct ig_call_arg args[] = {
        {t->tile, ig_contract_int(c, 0)}, {-1, t->first_row}, {-1, ig_contract_dim(c, t->rows)}, {-1, t->first_column}};
    ig_s_call(c->k, body, ig_format(c->k->job, "product.push.send<%d, %d, %d>", t->height, t->width, t->apart), args,
              4);
}
