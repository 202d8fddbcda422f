/*
 * Depthwise convolution, channels-last: every channel is a separate convolution, so vectors run along the channels. The
 * input may be some of the channels, or a part, of an image in memory.
 *
 * A tile is one row of one image's output over a chunk of channels. Kernel rows outside the image are skipped. Output
 * columns whose windows lie inside are done several at a time by the micro-kernel with all kernel columns; the few at
 * the borders one by one, with the kernel columns that are inside.
 *
 * Groups of a few channels are convolved likewise, several of them in a vector (codegen/c/gemm_grouped.c); so are channels
 * of which each gives a few. Then all columns are done several at a time, and the micro-kernel leaves out those of the input
 * that are outside; it keeps the weights of a line in registers. Where windows do not stride, that is faster for single
 * channels, too.
 */
#include "kernel/cpu/contract.h"
#include "kernel/family/taps.h"

enum { MOST_TAPS = 11 }; /* of groups, in a line: the micro-kernel's text has them all */

struct depthwise {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_axis y, x;
    struct ig_contract_image in;
    ig_dim line;             /* between lines of the input */
    int64_t column;          /* between its columns */
    int64_t channels, chunk; /* of the output */
    int64_t per, inputs;     /* channels of a group, and those of the input that it reads */
    bool grouped;            /* by the micro-kernel of groups, of which it keeps the weights of a line in registers */
    int64_t columns;         /* of the output, at a time */
    int sums;
    ig_x image, row, first_channel, width; /* of the tile; width: its channels */
};

static ig_x num(struct depthwise *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct depthwise *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct depthwise *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static struct ig_axis axis_of(struct depthwise *s, int i) {
    const struct ig_contract *c = s->c;
    const struct ig_graph *g = c->graph;
    if (i < 0) return (struct ig_axis){constant(s, 1), constant(s, 1), constant(s, 0), 1, 1, 1};
    return (struct ig_axis){.in = ig_type_of(g, c->node.in[0])->dim[i + 1],
                            .out = ig_type_of(g, c->node.out)->dim[i + 1],
                            .before = ig_attr(g, &c->node, IG_ATTR_before)->dims[i],
                            .taps = ig_attr(g, &c->node, IG_ATTR_kernel)->ints[i],
                            .stride = ig_attr(g, &c->node, IG_ATTR_strides)->ints[i],
                            .dilation = ig_attr(g, &c->node, IG_ATTR_dilations)->ints[i]};
}

/* Emits `count` outputs of the row from `column` on: the sums, then the epilogue. Of groups, x is not of taps but of
 * columns of the input: those from first to count - 1 are inside, counted from `from`, which may be outside. */
static void emit_columns(struct depthwise *s, struct ig_stmt *body, ig_x column, ig_x count, const struct ig_taps *y,
                         const struct ig_taps *x) {
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    ig_x i, ch;
    ig_x from = ig_x_add(k, s->in.base, ig_x_mul(k, s->image, dim(s, s->in.image)));
    from = ig_x_add(k, from, ig_x_mul(k, y->from, dim(s, s->line)));
    from = ig_x_add(k, from, ig_x_mul(k, x->from, num(s, s->column)));
    ig_x first_group = ig_x_div(k, s->first_channel, num(s, s->per));
    from = ig_x_add(k, from, ig_x_mul(k, first_group, num(s, s->inputs)));
    ig_x tap = ig_x_mul(k, y->first, num(s, s->x.taps));
    if (!s->grouped) tap = ig_x_add(k, tap, x->first);
    ig_x weight = ig_x_add(k, ig_x_mul(k, tap, num(s, s->inputs * s->channels)), s->first_channel);
    ig_x x_row = ig_x_mul(k, dim(s, s->line), num(s, s->y.dilation));
    struct ig_call_arg args[9] = {{-1, count},          {s->in.buffer, from},
                                  {-1, x_row},          {c->lower.buffer_of[c->node.in[1]], weight},
                                  {s->sums, num(s, 0)}, {-1, y->count}};
    int n = 6;
    if (s->grouped) args[n++] = (struct ig_call_arg){-1, x->first};
    args[n++] = (struct ig_call_arg){-1, x->count};
    args[n++] = (struct ig_call_arg){-1, s->width};
    ig_s_call(k, body, "depthwise", args, n);
    struct ig_stmt *around = ig_s_for(k, body, IG_FOR_SERIAL, num(s, 0), count, num(s, 1), &i);
    body = ig_s_for(k, around, IG_FOR_SIMD, num(s, 0), s->width, num(s, 1), &ch);
    c->line = (struct ig_line){around, ch, s->width, s->chunk};
    int at = 0;
    c->position[at++] = s->image;
    if (c->spatial == 2) c->position[at++] = s->row;
    c->position[at++] = ig_x_add(k, column, i);
    c->position[at] = ig_x_add(k, s->first_channel, ch);
    ig_contract_store(c, body, s->sums, ig_x_add(k, ig_x_mul(k, i, num(s, s->chunk)), ch));
    c->line = (struct ig_line){0};
}

/* Outputs from `first` to end - 1 divided evenly over blocks of at most s->columns. */
struct blocks {
    ig_dim first, each, more, count; /* `more` of them have one output more than `each` */
};

static struct blocks divide(struct depthwise *s, ig_dim first, ig_dim end) {
    struct ig_dims *dims = s->k->dims;
    ig_dim outputs = ig_dim_sub(dims, end, first);
    struct blocks b = {.first = first, .count = ig_dim_ceil_div(dims, outputs, constant(s, s->columns))};
    b.each = ig_dim_div(dims, outputs, ig_dim_max(dims, b.count, constant(s, 1)));
    b.more = ig_dim_sub(dims, outputs, ig_dim_mul(dims, b.each, b.count));
    return b;
}

/* A loop over the blocks: their first column, and how many there are. */
static struct ig_stmt *loop(struct depthwise *s, struct ig_stmt *body, const struct blocks *b, ig_x *out_column,
                            ig_x *out_count) {
    struct ig_loops *k = s->k;
    ig_x block, one = num(s, 1);
    struct ig_stmt *each = ig_s_for(k, body, IG_FOR_SERIAL, num(s, 0), dim(s, b->count), one, &block);
    ig_x column = ig_x_add(k, dim(s, b->first), ig_x_mul(k, block, dim(s, b->each)));
    *out_column = ig_x_add(k, column, ig_x_min(k, block, dim(s, b->more)));
    ig_x longer = ig_x_select(k, ig_x_less(k, block, dim(s, b->more)), one, num(s, 0));
    *out_count = ig_x_add(k, dim(s, b->each), longer);
    return each;
}

/* Outputs with windows in part outside, one by one. */
static void emit_border(struct depthwise *s, struct ig_stmt *body, ig_dim first, ig_dim end, const struct ig_taps *y) {
    ig_x column;
    body = ig_s_for(s->k, body, IG_FOR_SERIAL, dim(s, first), dim(s, end), num(s, 1), &column);
    struct ig_taps x = ig_taps_inside(s->k, &s->x, column, s->x.in);
    emit_columns(s, body, column, num(s, 1), y, &x);
}

static void emit_row(struct depthwise *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    struct ig_taps y = ig_taps_inside(k, &s->y, s->row, s->y.in);
    ig_dim first = constant(s, 0), end = s->x.out;
    ig_x column, count;
    if (!s->grouped) ig_taps_inner(k, &s->x, &first, &end);
    struct blocks b = divide(s, first, end);
    if (!s->grouped) emit_border(s, body, constant(s, 0), first, &y);
    struct ig_stmt *inner = loop(s, body, &b, &column, &count);
    ig_x origin = ig_x_sub(k, ig_x_mul(k, column, num(s, s->x.stride)), dim(s, s->x.before));
    struct ig_taps x = {.first = num(s, 0), .count = num(s, s->x.taps), .from = origin};
    if (s->grouped) {
        x.first = ig_x_sub(k, num(s, 0), origin);
        x.count = ig_x_sub(k, dim(s, s->x.in), origin);
    }
    emit_columns(s, inner, column, count, &y, &x);
    if (!s->grouped) emit_border(s, body, end, s->x.out, &y);
}

/* Channels per tile. All of them (whole lines, so that memory is read in order) if they are few, or, not of groups, if
 * they are up to 256 and the image exceeds the second cache. Else a number of up to 128 that fills vectors and divides
 * the channels, or 64 with a rest: the input of a tile then stays in the first cache. Of groups, a rest fills a vector. */
static int64_t choose_chunk(const struct depthwise *s, int lanes) {
    int64_t channels = s->channels, lines = ig_contract_const(s->c, s->y.in, 1024);
    int64_t line = ig_contract_const(s->c, s->x.in, 1024) * channels * (int64_t)ingot_dtype_size(s->c->dtype);
    int64_t step = s->per > lanes ? s->per : lanes; /* whole groups and vectors */
    if (channels <= 128 || (s->per == 1 && channels <= 256 && lines * line > 1 << 20)) return channels;
    for (int64_t chunk = 128 / step * step; chunk >= 48; chunk -= step) {
        if (channels % chunk == 0) return chunk;
    }
    if (!s->grouped) return 64;
    for (int64_t chunk = (64 + step - 1) / step * step; chunk < channels; chunk += step) {
        if (channels % chunk >= lanes) return chunk;
    }
    return channels;
}

/* How many columns of the input can be outside on either side of a block; as many as the block reads if it is not known. */
static void find_outside(const struct depthwise *s, int64_t *out_before, int64_t *out_after) {
    const struct ig_axis *x = &s->x;
    int64_t last = (s->columns - 1) * x->stride + (x->taps - 1) * x->dilation,
            out = ig_contract_const(s->c, x->out, -1);
    int64_t before = ig_contract_const(s->c, x->before, -1), in = ig_contract_const(s->c, x->in, -1);
    *out_before = before < 0 || before > last ? last + 1 : before;
    *out_after = last + 1;
    if (before < 0 || in < 0 || out < 1) return;
    int64_t after = (out - 1) * x->stride + (x->taps - 1) * x->dilation - before - (in - 1);
    if (after <= last) *out_after = after < 0 ? 0 : after;
}

static void make_micro(struct depthwise *s) {
    bool grouped = s->grouped;
    struct ig_micro micro = {.kind = grouped ? IG_MICRO_GROUPED : IG_MICRO_DEPTHWISE,
                             .name = "depthwise",
                             .dtype = s->c->dtype,
                             .half = ig_contract_half(ig_contract_in(s->c, 0)->dtype),
                             .rows = (2u << s->columns) - 2,
                             .nr = (int)s->chunk,
                             .x_tap = grouped ? s->column : s->x.dilation * s->column,
                             .x_column = grouped ? s->x.stride : s->x.stride * s->column,
                             .dilation = s->x.dilation,
                             .w_row = s->x.taps * s->inputs * s->channels,
                             .w_tap = s->inputs * s->channels,
                             .kw = s->x.taps,
                             .group = s->per,
                             .inputs = s->inputs};
    struct ig_dims *dims = s->k->dims;
    ig_dim first = constant(s, 0), end = s->x.out;
    if (grouped)
        find_outside(s, &micro.before, &micro.after);
    else
        ig_taps_inner(s->k, &s->x, &first, &end);
    int64_t inner = ig_contract_const(s->c, ig_dim_sub(dims, end, first), -1);
    if (inner >= 0) {
        int64_t blocks = (inner + s->columns - 1) / s->columns, each = blocks ? inner / blocks : 1;
        micro.rows = 1u << each | (blocks && inner % blocks ? 2u << each : 0u);
        if (!grouped) micro.rows |= 2u;
    }
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
}

/* Columns at a time: of groups as many as leave registers for the weights of a line of the window and a vector of the
 * input. */
static int64_t choose_columns(const struct depthwise *s) {
    enum { DEPTHWISE = 8, LEAST = 4, MOST = 14 };
    if (!s->grouped) return DEPTHWISE;
    int64_t left = s->c->target->vector_registers - s->x.taps - 1;
    return left < LEAST ? LEAST : left > MOST ? MOST : left;
}

bool ig_contract_depthwise(struct ig_contract *c) {
    if (!ig_contract_without_panels(c) || c->spatial > 2 || ig_contract_border(c) != 0) return false;
    const struct ig_type *x = ig_contract_in(c, 0), *w = ig_contract_in(c, 1);
    if (!ig_contract_can_convert(c, x->dtype) || w->dtype != x->dtype) return false;
    if (!c->lower.is_input[c->node.in[1]] || !ig_contract_attr_int(c, IG_ATTR_channels_last)) return false;
    struct depthwise s = {.c = c, .k = c->k, .per = 1, .inputs = 1};
    struct ig_dims *dims = s.k->dims;
    int lanes = ig_micro_lanes(c->target, c->dtype);
    s.y = axis_of(&s, c->spatial == 2 ? 0 : -1);
    s.x = axis_of(&s, c->spatial - 1);
    if (w->rank > c->spatial + 1) {
        s.per = ig_contract_const(c, c->columns, 0);
        s.inputs = ig_contract_const(c, c->depth_dim[c->spatial], 0);
        if (s.per < 1 || (s.inputs != s.per && (s.inputs != 1 || x->dtype != c->dtype))) return false;
    }
    s.channels = s.per * c->groups;
    bool fits = lanes % s.per == 0 || (s.inputs == 1 && s.per % lanes == 0 && s.per <= IG_TARGET_MOST_OUTPUTS);
    bool groups = fits && s.channels >= lanes && s.x.taps <= MOST_TAPS;
    if (s.per > 1 && !groups) return false;
    s.grouped = s.per > 1 || (groups && x->dtype == c->dtype && s.x.taps > 1 && s.x.stride == 1);
    s.in = ig_contract_view_image(c);
    if (s.in.buffer < 0) return false;
    s.line = c->spatial == 2 ? s.in.stride[0] : constant(&s, 0);
    s.column = ig_contract_const(c, s.in.stride[c->spatial - 1], 0);
    if (s.column == 0) return false;
    s.columns = choose_columns(&s);
    s.chunk = choose_chunk(&s, lanes);
    s.sums = ig_loops_local(s.k, c->dtype, s.columns * s.chunk, "sums");
    make_micro(&s);
    int64_t chunks = (s.channels + s.chunk - 1) / s.chunk;
    ig_dim images = ig_contract_out(c)->dim[0];
    c->kernel->tiles = ig_dim_mul(dims, ig_dim_mul(dims, images, constant(&s, chunks)), s.y.out);
    c->kernel->scratch_bytes = constant(&s, 0);
    c->kernel->way = IG_WAY_DEPTHWISE;
    c->kernel->tactic = ig_format(s.k->job, "%s, %lld channels a tile", s.per > 1 ? "groups side by side" : "depthwise",
                                  (long long)s.chunk);
    ig_x tile;
    struct ig_stmt *body = ig_s_for(s.k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, c->kernel->tiles), num(&s, 1), &tile);
    s.row = ig_x_mod(s.k, tile, dim(&s, s.y.out));
    ig_x rest = ig_x_div(s.k, tile, dim(&s, s.y.out));
    s.image = ig_x_div(s.k, rest, num(&s, chunks));
    s.first_channel = ig_x_mul(s.k, ig_x_mod(s.k, rest, num(&s, chunks)), num(&s, s.chunk));
    s.width = s.channels % s.chunk == 0
                  ? num(&s, s.chunk)
                  : ig_x_min(s.k, num(&s, s.chunk), ig_x_sub(s.k, num(&s, s.channels), s.first_channel));
    emit_row(&s, body);
    return !c->astray;
}
