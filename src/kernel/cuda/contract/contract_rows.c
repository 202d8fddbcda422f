/* See contract_rows.h. */
#include "kernel/cuda/contract/contract_rows.h"

#include "kernel/cuda/contract/contract.h"
#include "kernel/cuda/row.h"

struct ig_cuda_rows {
    struct ig_row row;
    struct ig_region region; /* the part of the product's that computes them */
    int most, buffer;
    struct ig_row_lines *lines;
};

static bool is_among(const ig_value *values, uint32_t count, ig_value v) {
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] == v) return true;
    }
    return false;
}

/* The node of the region that computes v; NULL: it is an input. */
static const struct ig_node *own(const struct ig_contract *c, ig_value v) {
    if (v == IG_NO_VALUE || is_among(c->region->inputs.at, c->region->inputs.count, v)) return NULL;
    return ig_def(c->graph, v);
}

/* Notes the values from which the region computes v, itself and inputs included. */
static void note(const struct ig_contract *c, ig_value v, bool *noted) {
    if (v == IG_NO_VALUE || noted[v]) return;
    noted[v] = true;
    const struct ig_node *n = own(c, v);
    for (uint32_t i = 0; n && i < n->n_in; i++)
        note(c, n->in[i], noted);
}

/* What computes v. */
static struct ig_region part_of(const struct ig_contract *c, ig_value v) {
    bool *noted = IG_NEW_ARRAY(c->k->job, bool, c->graph->values.count);
    struct ig_region part = {.family = IG_FAMILY_ROW, .anchor = ig_info(c->graph, v)->node};
    note(c, v, noted);
    for (uint32_t i = 0; i < c->region->nodes.count; i++) {
        ig_node_id id = c->region->nodes.at[i];
        if (noted[c->graph->nodes.at[id].out]) IG_PUSH(c->k->job, &part.nodes, id);
    }
    for (uint32_t i = 0; i < c->region->inputs.count; i++) {
        if (noted[c->region->inputs.at[i]]) IG_PUSH(c->k->job, &part.inputs, c->region->inputs.at[i]);
    }
    IG_PUSH(c->k->job, &part.outputs, v);
    return part;
}

/* The most that there can be, of one matrix; 0: too many, or several. */
static int most_rows(struct ig_contract *c) {
    int64_t lo, most;
    ig_dim_range(c->graph->dims, c->rows, &lo, &most);
    bool single = ig_contract_is_one(c, c->batch);
    return single && most >= 1 && most <= IG_CUDA_ROWS_FIRST ? (int)most : 0;
}

/* Is each line of v a row of the product? Means of several lines, or the norms of several heads, make one row together. */
static bool are_lines(const struct ig_contract *c, const struct ig_row *row, ig_value v) {
    return row->count == c->depth && ig_row_is_space_shape(row, ig_type_of(c->graph, v));
}

struct ig_cuda_rows *ig_cuda_rows_find(struct ig_contract *c) {
    const int most = most_rows(c);
    ig_value v = c->node.in[0];
    for (const struct ig_node *n; (n = own(c, v)) && n->op == IG_OP_reshape;)
        v = n->in[0];
    if (most == 0 || !own(c, v)) return NULL;
    struct ig_cuda_rows *rows = IG_NEW(c->k->job, struct ig_cuda_rows);
    rows->most = most;
    rows->region = part_of(c, v);
    rows->buffer = ig_loops_shared(c->k, ig_type_of(c->graph, v)->dtype, 0, "rows");
    struct ig_lower lower = {.loops = c->k, .graph = c->graph, .region = &rows->region};
    const uint32_t values = c->graph->values.count;
    lower.buffer_of = ig_memdup(c->k->job, c->lower.buffer_of, values * sizeof *lower.buffer_of);
    lower.is_input = ig_memdup(c->k->job, c->lower.is_input, values * sizeof *lower.is_input);
    lower.buffer_of[v] = c->lower.buffer_of[v] = rows->buffer;
    c->lower.is_input[v] = true; /* of the product */
    ig_row_init_within(&rows->row, c->kernel, &lower, c->at);
    return rows->row.regular && !rows->row.columns && are_lines(c, &rows->row, v) ? rows : NULL;
}

int ig_cuda_rows_most(const struct ig_cuda_rows *rows) {
    return rows ? rows->most : 0;
}

double ig_cuda_rows_time(int most, int64_t depth, int64_t tiles) {
    enum { PASS = 1024 };
    const double passes = depth > PASS ? (double)depth / PASS : 1;
    const int64_t turns = (tiles + 2 * IG_CUDA_PROCESSORS - 1) / (2 * IG_CUDA_PROCESSORS);
    return (200 + 150 * most) * passes * (double)turns;
}

bool ig_cuda_rows_prepare(struct ig_cuda_rows *rows, int offset) {
    struct ig_loops *k = rows->row.k;
    k->buffers.at[rows->buffer].offset = ig_x_index(k, offset);
    rows->lines = ig_row_within_cuda(&rows->row, rows->most == 1);
    return rows->lines != NULL;
}

void ig_cuda_rows_emit_constants(struct ig_cuda_rows *rows, struct ig_stmt *body) {
    ig_row_within_constants_cuda(rows->lines, body);
}

void ig_cuda_rows_emit(struct ig_cuda_rows *rows, struct ig_stmt *body) {
    ig_row_within_emit_cuda(rows->lines, body);
}
