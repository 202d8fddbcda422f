/*
 * Recurrences of a few sequences whose weights exceed a processor's own cache (ir/turns.h): threads share each step, and with it
 * the weights. A tile is a panel of units in one step, a turn all panels of all recurrences of the kernel in that step.
 *
 * A thread gets the same panels in each turn, so that they stay in its cache as far as they fit; every other turn it walks
 * them backwards. The first tile of a call copies the states of the step before, which lie in y, to where the micro-kernel
 * reads rows from. An LSTM's cells are only of concern to the thread that has their units: they stay in the result.
 */
#include "kernel/family/scan_recurrent.h"

static ig_x num(struct ig_recurrence *r, int64_t i) {
    return ig_x_index(r->k, i);
}

static ig_x dim(struct ig_recurrence *r, ig_dim d) {
    return ig_x_dim(r->k, d);
}

static struct ig_stmt *units(struct ig_recurrence *r, struct ig_stmt *body, ig_x first, ig_x end) {
    return ig_s_for(r->k, body, IG_FOR_SIMD, first, end, num(r, 1), &r->unit);
}

static ig_x is_first_step(struct ig_recurrence *r) {
    return ig_x_less(r->k, r->step, num(r, 1));
}

static void copy_states(struct ig_recurrence *r, struct ig_stmt *body) {
    struct ig_loops *k = r->k;
    ig_x first = is_first_step(r), step = r->step, zero = num(r, 0);
    struct ig_stmt *given = ig_s_if(k, body, first);
    given = units(r, ig_recurrence_rows(r, given), zero, dim(r, r->hidden));
    ig_s_store(k, given, r->states, ig_recurrence_position(r), ig_recurrence_in_batch(r, r->node.in[2], r->unit));
    struct ig_stmt *later = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, first));
    later = units(r, ig_recurrence_rows(r, later), zero, dim(r, r->hidden));
    r->step = ig_x_sub(k, step, num(r, 1));
    ig_s_store(k, later, r->states, ig_recurrence_position(r), ig_x_load(k, r->out_y, ig_recurrence_y_at(r)));
    r->step = step;
}

static void start_cells(struct ig_recurrence *r, struct ig_stmt *body) {
    struct ig_loops *k = r->k;
    if (r->node.op != IG_OP_lstm) return;
    ig_x first = ig_x_mul(k, r->panel, num(r, r->units)), end = ig_x_add(k, first, num(r, r->units));
    body = ig_s_if(k, body, is_first_step(r));
    body = units(r, ig_recurrence_rows(r, body), first, ig_x_min(k, end, dim(r, r->hidden)));
    ig_s_store(k, body, r->cells, ig_recurrence_cell_at(r), ig_recurrence_in_batch(r, r->node.in[3], r->unit));
}

static void emit_panel(struct ig_recurrence *r, struct ig_stmt *body) {
    struct ig_recurrence_round all = {.gates = r->gates, .a = r->states, .a_at = num(r, 0)};
    start_cells(r, body);
    for (int first = 0; first < r->most_rows; first += r->block_rows) {
        int rows = r->most_rows - first < r->block_rows ? r->most_rows - first : r->block_rows;
        ig_recurrence_sums(r, body, &all, num(r, first), num(r, rows));
    }
    ig_recurrence_units(r, body, &all);
}

void ig_recurrence_emit_turns(struct ig_recurrence *all, uint32_t count) {
    struct ig_loops *k = all->k;
    int64_t panels = 1;
    ig_dim_is_const(k->dims, all->panels, &panels);
    const int64_t turn = panels * count;
    ig_x tile;
    all->kernel->turn = (int)turn;
    all->kernel->tiles = ig_dim_mul(k->dims, all->time, ig_dim_const(k->dims, turn));
    struct ig_stmt *body =
        ig_s_for(k, NULL, IG_FOR_TILE, num(all, 0), dim(all, all->kernel->tiles), num(all, 1), &tile);
    ig_s_name(k, tile, "tile");
    ig_x step = ig_x_div(k, tile, num(all, turn)), start = ig_x_mul(k, step, num(all, turn));
    ig_x low = ig_x_max(k, ig_x_begin(k), start), high = ig_x_min(k, ig_x_end(k), ig_x_add(k, start, num(all, turn)));
    ig_x mirrored = ig_x_sub(k, ig_x_add(k, low, high), ig_x_add(k, tile, num(all, 1)));
    ig_x odd = ig_x_less(k, num(all, 0), ig_x_mod(k, step, num(all, 2)));
    ig_x at = ig_x_sub(k, ig_x_select(k, odd, mirrored, tile), start);
    struct ig_stmt *copies = ig_s_if(k, body, ig_x_map1(k, IG_OP_not, ig_x_less(k, low, tile)));
    for (uint32_t i = 0; i < count; i++) {
        struct ig_recurrence *r = &all[i];
        r->first_row = r->old_at = num(r, 0);
        r->rows = num(r, r->most_rows);
        r->step = step;
        r->length = IG_NO_X;
        copy_states(r, copies);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct ig_stmt *own = body;
        const int64_t first = panels * i;
        all[i].panel = ig_x_sub(k, at, num(all, first));
        if (count > 1) {
            ig_x begun = ig_x_less(k, num(all, first - 1), at), ends = ig_x_less(k, at, num(all, first + panels));
            own = ig_s_if(k, body, ig_x_and(k, begun, ends));
        }
        emit_panel(&all[i], own);
    }
}
