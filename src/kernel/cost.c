/*
 * What a region demands: see cost.h. One sweep against the data flow finds how many elements of each value are needed,
 * from the results, of which all are; then what a node does per needed element is counted.
 */
#include "kernel/cost.h"

#include "base/cpu.h"
#include "base/map.h"
#include "ir/canonical.h"
#include "ir/place.h"
#include "ir/winograd.h"
#include "kernel/family/attend.h"
#include "kernel/family/taps.h"

struct counting {
    struct ig_graph *g;
    struct ig_dims *dims;
    const struct ig_region *region;
    struct ig_map need;      /* by value: elements, an ig_dim */
    struct ig_map is_scores; /* ATTEND: by value: the scores, and what becomes of them */
    ig_dim scores;           /* ATTEND: of all heads, those that count */
    struct ig_region_demand *demand;
};

static ig_dim number(const struct counting *c, int64_t value) {
    return ig_dim_const(c->dims, value);
}

static ig_dim times(const struct counting *c, ig_dim a, ig_dim b) {
    return ig_dim_mul(c->dims, a, b);
}

/* ---- Elements ----------------------------------------------------------------------------------------------------- */

/* All elements of a value that count. */
static ig_dim all(const struct counting *c, ig_value v) {
    uint32_t found;
    if (ig_map_get(&c->is_scores, &v, sizeof v, &found)) return c->scores;
    return ig_type_elements(c->dims, ig_type_of(c->g, v));
}

/* Those that are needed as far as the sweep has come. */
static ig_dim needed(const struct counting *c, ig_value v) {
    uint32_t dim;
    return ig_map_get(&c->need, &v, sizeof v, &dim) ? dim : number(c, 0);
}

/* `count` elements of v are needed besides those that are needed already. */
static void need(struct counting *c, ig_value v, ig_dim count) {
    ig_dim most = all(c, v), sum = ig_dim_add(c->dims, needed(c, v), count);
    ig_map_put(&c->need, &v, sizeof v, count == most ? most : ig_dim_min(c->dims, most, sum));
}

static void need_all(struct counting *c, ig_value v) {
    need(c, v, all(c, v));
}

static bool is_needed_whole(const struct counting *c, ig_value v) {
    return needed(c, v) == all(c, v);
}

/* ---- Operations ---------------------------------------------------------------------------------------------------- */

static void count(struct counting *c, enum ig_unit unit, ig_dim operations) {
    c->demand->operations[unit] = ig_dim_add(c->dims, c->demand->operations[unit], operations);
}

/* The unit that multiplies operands of a type. */
static enum ig_unit unit_of(enum ingot_dtype dtype, int64_t math) {
    switch (dtype) {
    case INGOT_F64: return IG_UNIT_F64;
    case INGOT_F32: return math == IG_MATH_TF32 ? IG_UNIT_TF32 : IG_UNIT_F32;
    case INGOT_F16: return IG_UNIT_F16;
    case INGOT_BF16: return IG_UNIT_BF16;
    case INGOT_F8E4M3FN:
    case INGOT_F8E5M2: /* wherever they are multiplied as such */
    case INGOT_I8:
    case INGOT_U8: return IG_UNIT_I8;
    default: return IG_UNIT_SIMPLE;
    }
}

static bool is_special(enum ig_op op) {
    switch (op) {
    case IG_OP_abs:
    case IG_OP_neg:
    case IG_OP_sign:
    case IG_OP_floor:
    case IG_OP_ceil:
    case IG_OP_round:
    case IG_OP_isnan:
    case IG_OP_isinf: return false;
    case IG_OP_div:
    case IG_OP_mod:
    case IG_OP_fmod:
    case IG_OP_pow: return true;
    default: return ig_op_info(op)->is_map && ig_op_info(op)->operands == IG_OPERANDS_FLOAT;
    }
}

static void visit_map(struct counting *c, const struct ig_node *n) {
    ig_dim elements = needed(c, n->out);
    if (n->op != IG_OP_cast) count(c, is_special(n->op) ? IG_UNIT_SPECIAL : IG_UNIT_SIMPLE, elements);
    for (uint32_t i = 0; i < n->n_in; i++)
        need(c, n->in[i], is_needed_whole(c, n->out) ? all(c, n->in[i]) : elements);
}

/* ---- Views --------------------------------------------------------------------------------------------------------- */

/* The whole operand, if it takes all of it to make the result; else at most as many elements as are needed of that. */
static void visit_view(struct counting *c, const struct ig_node *n) {
    bool chooses =
        n->op == IG_OP_slice || n->op == IG_OP_gather || n->op == IG_OP_gather_elements || n->op == IG_OP_gather_nd;
    bool whole = is_needed_whole(c, n->out);
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] == IG_NO_VALUE) continue;
        bool all_of_it = whole && (i > 0 || !chooses);
        need(c, n->in[i], all_of_it ? all(c, n->in[i]) : needed(c, n->out));
    }
}

/* ---- Reductions, prefix sums, and what has a kernel of its own ------------------------------------------------------- */

static void visit_row(struct counting *c, const struct ig_node *n) {
    need_all(c, n->in[0]);
    count(c, IG_UNIT_SIMPLE, all(c, n->in[0]));
}

static void visit_rest(struct counting *c, const struct ig_node *n) {
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE) need_all(c, n->in[i]);
    }
    count(c, IG_UNIT_SIMPLE, all(c, n->in[n->n_in - 1])); /* updates of a scatter, the operand of topk */
}

static void visit_recurrence(struct counting *c, const struct ig_node *n) {
    const struct ig_type *x = ig_type_of(c->g, n->in[0]), *state = ig_type_of(c->g, n->in[2]);
    ig_dim hidden = state->dim[1], rows = times(c, x->dim[0], x->dim[1]);
    int gates = n->op == IG_OP_lstm ? 4 : n->op == IG_OP_gru ? 3 : 1, special = n->op == IG_OP_lstm ? 5 : gates;
    ig_dim units = times(c, rows, hidden);
    count(c, unit_of(ig_type_of(c->g, n->in[1])->dtype, IG_MATH_EXACT),
          times(c, times(c, units, hidden), number(c, gates)));
    count(c, IG_UNIT_SPECIAL, times(c, units, number(c, special)));
    ig_dim turns = ig_dim_max(c->dims, ig_dim_sub(c->dims, x->dim[0], number(c, 1)), number(c, 0));
    c->demand->turns = ig_dim_max(c->dims, c->demand->turns, turns);
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE) need_all(c, n->in[i]);
    }
}

/* ---- Windows -------------------------------------------------------------------------------------------------------- */

/* The axes of a convolution or pooling; returns their number. */
static int spatial_axes(const struct counting *c, const struct ig_node *n, struct ig_axis *axes) {
    const struct ig_type *in = ig_type_of(c->g, n->in[0]), *out = ig_type_of(c->g, n->out);
    int first = ig_attr_int(c->g, n, IG_ATTR_channels_last) ? 1 : 2;
    for (int i = 0; i < in->rank - 2; i++)
        axes[i] = (struct ig_axis){.in = in->dim[first + i],
                                   .out = out->dim[first + i],
                                   .before = ig_attr(c->g, n, IG_ATTR_before)->dims[i],
                                   .taps = ig_attr(c->g, n, IG_ATTR_kernel)->ints[i],
                                   .stride = ig_attr(c->g, n, IG_ATTR_strides)->ints[i],
                                   .dilation = ig_attr(c->g, n, IG_ATTR_dilations)->ints[i]};
    return in->rank - 2;
}

/* The number of positions of the operand that windows touch: not more than they have taps, not more than they span. */
static ig_dim touched(const struct counting *c, const struct ig_axis *a) {
    struct ig_dims *dims = c->dims;
    ig_dim taps = times(c, a->out, number(c, a->taps));
    ig_dim span = ig_dim_add(dims, times(c, a->out, number(c, a->stride)),
                             number(c, (a->taps - 1) * a->dilation + 1 - a->stride));
    ig_dim most = ig_dim_max(dims, ig_dim_min(dims, taps, span), number(c, 0));
    return ig_dim_min(dims, a->in, most);
}

/* The number of pairs of an output and a tap that lies inside the operand. */
static ig_dim inside(const struct counting *c, const struct ig_axis *a) {
    struct ig_dims *dims = c->dims;
    ig_dim sum = number(c, 0), zero = sum, stride = number(c, a->stride);
    for (int64_t tap = 0; tap < a->taps; tap++) {
        /* Output o reads at o * stride - left. */
        ig_dim left = ig_dim_sub(dims, a->before, number(c, tap * a->dilation));
        ig_dim end = ig_dim_min(dims, a->out, ig_dim_ceil_div(dims, ig_dim_add(dims, a->in, left), stride));
        ig_dim begin = ig_dim_max(dims, ig_dim_ceil_div(dims, left, stride), zero);
        sum = ig_dim_add(dims, sum, ig_dim_max(dims, ig_dim_sub(dims, end, begin), zero));
    }
    return sum;
}

/* Images times channels: the elements of a windowed operand or result per position. */
static ig_dim planes(const struct counting *c, const struct ig_node *n, ig_value v) {
    const struct ig_type *type = ig_type_of(c->g, v);
    bool last = ig_attr_int(c->g, n, IG_ATTR_channels_last) != 0;
    return times(c, type->dim[0], type->dim[last ? type->rank - 1 : 1]);
}

static void need_windows(struct counting *c, const struct ig_node *n, const struct ig_axis *axes, int count_of_axes) {
    ig_dim elements = planes(c, n, n->in[0]);
    for (int i = 0; i < count_of_axes; i++)
        elements = times(c, elements, touched(c, &axes[i]));
    need(c, n->in[0], elements);
}

static void visit_window(struct counting *c, const struct ig_node *n) {
    struct ig_axis axes[INGOT_MAX_RANK];
    need_windows(c, n, axes, spatial_axes(c, n, axes));
    count(c, IG_UNIT_SIMPLE, needed(c, n->in[0]));
}

/* ---- Contractions --------------------------------------------------------------------------------------------------- */

static void visit_matmul(struct counting *c, const struct ig_node *n) {
    const struct ig_type *a = ig_type_of(c->g, n->in[0]), *out = ig_type_of(c->g, n->out);
    bool whole = is_needed_whole(c, n->out);
    ig_dim depth = a->dim[a->rank - 1], products = times(c, needed(c, n->out), depth);
    uint32_t found;
    if (ig_map_get(&c->is_scores, &n->in[0], sizeof n->in[0], &found))
        products = times(c, c->scores, out->dim[out->rank - 1]);
    bool coded = n->op == IG_OP_matmul_blocks || n->op == IG_OP_matmul_scaled;
    count(c, unit_of(a->dtype, coded ? IG_MATH_EXACT : ig_attr_int(c->g, n, IG_ATTR_math)), products);
    if (n->op == IG_OP_matmul_scaled) { /* each block's sum is scaled and added */
        ig_dim block = number(c, ig_attr_int(c->g, n, IG_ATTR_block)), blocks = ig_dim_ceil_div(c->dims, depth, block);
        count(c, IG_UNIT_SIMPLE, times(c, needed(c, n->out), blocks));
    }
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE) need(c, n->in[i], whole || coded ? all(c, n->in[i]) : products);
    }
}

/* The products of Winograd's algorithm: t x t for m x m outputs. */
static ig_dim winograd_products(struct counting *c, const struct ig_node *n, const struct ig_axis *axes, int m) {
    struct ig_winograd w;
    const int64_t dilation = ig_attr(c->g, n, IG_ATTR_dilations)->ints[0];
    ig_dim tiles = number(c, dilation * dilation);
    ig_winograd_init(&w, m);
    for (int i = 0; i < 2; i++) {
        ig_dim phase = ig_dim_ceil_div(c->dims, axes[i].out, number(c, dilation));
        tiles = times(c, tiles, ig_dim_ceil_div(c->dims, phase, number(c, m)));
    }
    return times(c, tiles, number(c, (int64_t)w.t * w.t));
}

static void visit_conv(struct counting *c, const struct ig_node *n) {
    struct ig_axis axes[INGOT_MAX_RANK] = {{0}};
    const struct ig_type *x = ig_type_of(c->g, n->in[0]);
    int count_of_axes = spatial_axes(c, n, axes), winograd = ig_winograd_of(c->g, n);
    bool last = ig_attr_int(c->g, n, IG_ATTR_channels_last) != 0;
    ig_dim groups = number(c, ig_attr_int(c->g, n, IG_ATTR_groups));
    ig_dim channels = ig_dim_div(c->dims, x->dim[last ? x->rank - 1 : 1], groups);
    ig_dim products = times(c, planes(c, n, n->out), channels);
    for (int i = 0; i < count_of_axes && !winograd; i++)
        products = times(c, products, inside(c, &axes[i]));
    if (winograd) products = times(c, products, winograd_products(c, n, axes, winograd));
    count(c, unit_of(x->dtype, ig_attr_int(c->g, n, IG_ATTR_math)), products);
    need_windows(c, n, axes, count_of_axes);
    for (uint32_t i = 1; i < n->n_in; i++) {
        if (n->in[i] != IG_NO_VALUE) need_all(c, n->in[i]);
    }
}

/* ---- Regions -------------------------------------------------------------------------------------------------------- */

static void visit_node(struct counting *c, const struct ig_node *n) {
    switch (ig_op_info(n->op)->family) {
    case IG_FAMILY_VIEW: visit_view(c, n); return;
    case IG_FAMILY_MAP: visit_map(c, n); return;
    case IG_FAMILY_ROW: visit_row(c, n); return;
    case IG_FAMILY_WINDOW: visit_window(c, n); return;
    case IG_FAMILY_CONTRACT:
        if (n->op == IG_OP_conv) {
            visit_conv(c, n);
        } else {
            visit_matmul(c, n);
        }
        return;
    case IG_FAMILY_SCAN:
        n->op == IG_OP_cumsum || n->op == IG_OP_cumprod ? visit_row(c, n) : visit_recurrence(c, n);
        return;
    case IG_FAMILY_REST: visit_rest(c, n); return;
    default: return; /* sources cost nothing; control flow has no kernel */
    }
}

static ig_dim bytes(const struct counting *c, ig_value v, ig_dim elements) {
    return times(c, elements, number(c, (int64_t)ingot_dtype_size(ig_type_of(c->g, v)->dtype)));
}

/* The value in whose memory v lies: inputs may be parts of it that overlap. */
static ig_value memory_of(const struct counting *c, ig_value v) {
    const struct ig_node *n;
    while (!ig_info(c->g, v)->is_const && (n = ig_def(c->g, v)) && n->region == IG_NO_REGION &&
           (n->op == IG_OP_reshape || n->op == IG_OP_slice))
        v = n->in[0];
    return v;
}

static void count_memory(struct counting *c) {
    struct ig_region_demand *d = c->demand;
    const uint32_t n_inputs = c->region->inputs.count;
    for (uint32_t i = 0; i < n_inputs; i++) {
        ig_value v = c->region->inputs.at[i], memory = memory_of(c, v);
        if (memory != v) need(c, memory, needed(c, v));
    }
    for (uint32_t i = 0; i < n_inputs; i++) {
        ig_value v = c->region->inputs.at[i], memory = memory_of(c, v);
        if (ig_is_literal(c->g, v) || ig_follows_from_place(c->g, v)) continue;
        ig_dim *sum = ig_info(c->g, v)->is_const ? &d->constants : &d->reads;
        *sum = ig_dim_add(c->dims, *sum, bytes(c, memory, needed(c, memory)));
        ig_map_put(&c->need, &memory, sizeof memory, number(c, 0)); /* once */
    }
    for (uint32_t i = 0; i < c->region->outputs.count; i++) {
        ig_value v = c->region->outputs.at[i];
        d->writes = ig_dim_add(c->dims, d->writes, bytes(c, v, ig_type_elements(c->dims, ig_type_of(c->g, v))));
    }
}

static void find_scores(struct counting *c) {
    struct ig_attend parts;
    if (!ig_attend_match(c->g, NULL, c->region->anchor, &parts)) return;
    const struct ig_type type = *ig_type_of(c->g, c->g->nodes.at[parts.scores].out);
    for (uint32_t i = 0; i < parts.nodes.count; i++) {
        ig_value v = c->g->nodes.at[parts.nodes.at[i]].out;
        if (ig_same_dims(ig_type_of(c->g, v), &type)) ig_map_put(&c->is_scores, &v, sizeof v, 1);
    }
    c->scores = times(c, ig_attention_count_scores(c->g, c->region), ig_dim_product(c->dims, type.dim, type.rank - 2));
}

void ig_region_demand(struct ig_graph *g, const struct ig_region *region, struct ig_region_demand *out_demand) {
    struct counting c = {.g = g, .dims = g->dims, .region = region, .demand = out_demand};
    ig_dim zero = number(&c, 0);
    *out_demand = (struct ig_region_demand){.constants = zero, .reads = zero, .writes = zero, .turns = zero};
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        out_demand->operations[u] = zero;
    ig_map_init(&c.need, g->job);
    ig_map_init(&c.is_scores, g->job);
    if (region->family == IG_FAMILY_ATTEND) find_scores(&c);
    struct ig_walk walk;
    ig_region_walk(g, region, &walk);
    for (uint32_t i = 0; i < region->outputs.count; i++)
        need_all(&c, region->outputs.at[i]);
    for (uint32_t i = walk.nodes.count; i > 0; i--) {
        const struct ig_node n = g->nodes.at[walk.nodes.at[i - 1]];
        visit_node(&c, &n);
    }
    count_memory(&c);
}

static double at_sizes(const struct ig_sizes *at, ig_dim dim) {
    return (double)ig_sizes_guess(at, dim);
}

struct ig_demand ig_region_demand_at(const struct ig_region_demand *d, const struct ig_sizes *at) {
    struct ig_demand demand = {.constants = at_sizes(at, d->constants),
                               .reads = at_sizes(at, d->reads),
                               .writes = at_sizes(at, d->writes),
                               .turns = at_sizes(at, d->turns)};
    for (int u = 0; u < IG_UNIT_COUNT; u++)
        demand.operations[u] = at_sizes(at, d->operations[u]);
    return demand;
}

struct ig_machine ig_target_machine(const struct ig_target *target, unsigned threads) {
    static const uint64_t features[IG_ISA_COUNT] = {
        [IG_ISA_X86_64_V3] = IG_CPU_X86_64_V3, [IG_ISA_X86_64_V4] = IG_CPU_X86_64_V4, [IG_ISA_AMX] = IG_CPU_AMX};
    if (ig_target_is_cuda(target)) return ig_machine_of_gpu(&(struct ig_gpu_figures){.sm = target->sm});
    uint64_t vnni = target->isa == IG_ISA_X86_64_V3 ? IG_CPU_AVX_VNNI : IG_CPU_AVX512_VNNI;
    return ig_machine_of_cpu(features[target->isa] | (target->vnni ? vnni : 0), threads);
}
