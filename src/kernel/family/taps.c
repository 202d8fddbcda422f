/* Taps inside the input; see taps.h. All divisions are of non-negative numbers. */
#include "kernel/family/taps.h"

struct ig_taps ig_taps_inside(struct ig_loops *k, const struct ig_axis *axis, ig_x o, ig_dim end) {
    ig_x zero = ig_x_index(k, 0), round = ig_x_index(k, axis->dilation - 1), by = ig_x_index(k, axis->dilation);
    ig_x all = ig_x_index(k, axis->taps);
    ig_x origin = ig_x_sub(k, ig_x_mul(k, o, ig_x_index(k, axis->stride)), ig_x_dim(k, axis->before));
    ig_x before = ig_x_max(k, zero, ig_x_sub(k, zero, origin));
    ig_x until = ig_x_max(k, zero, ig_x_sub(k, ig_x_dim(k, end), origin));
    struct ig_taps t;
    t.first = ig_x_min(k, ig_x_div(k, ig_x_add(k, before, round), by), all);
    ig_x last = ig_x_min(k, ig_x_div(k, ig_x_add(k, until, round), by), all);
    t.count = ig_x_max(k, zero, ig_x_sub(k, last, t.first));
    t.from = ig_x_add(k, origin, ig_x_mul(k, t.first, by));
    return t;
}

void ig_taps_inner(struct ig_loops *k, const struct ig_axis *axis, ig_dim *out_first, ig_dim *out_end) {
    struct ig_dims *dims = k->dims;
    ig_dim zero = ig_dim_const(dims, 0), stride = ig_dim_const(dims, axis->stride);
    ig_dim reach = ig_dim_const(dims, (axis->taps - 1) * axis->dilation + 1);
    ig_dim first = ig_dim_min(dims, ig_dim_ceil_div(dims, axis->before, stride), axis->out);
    ig_dim last = ig_dim_sub(dims, ig_dim_add(dims, axis->in, axis->before), reach);
    ig_dim end = ig_dim_div(dims, ig_dim_max(dims, ig_dim_add(dims, last, stride), zero), stride);
    *out_first = first;
    *out_end = ig_dim_max(dims, first, ig_dim_min(dims, end, axis->out));
}
