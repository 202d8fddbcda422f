/*
 * Depthwise convolution, channels-last: every channel is a separate convolution, so vectors run along the channels. The
 * input may be some of the channels, or a part, of an image in memory.
 *
 * A tile is one row of one image's output over a chunk of channels. Kernel rows outside the image are skipped. Output
 * columns whose windows lie inside are done several at a time by the micro-kernel with all kernel columns; the few at
 * the borders one by one, with the kernel columns that are inside.
 */
#include "kernel/cpu/contract.h"
#include "kernel/family/taps.h"

struct depthwise {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_axis y, x;
    struct ig_contract_image in;
    ig_dim line;    /* between lines of the input */
    int64_t column; /* between its columns */
    int64_t channels, chunk;
    int sums;
    ig_x image, row, first_channel, width; /* of the tile; width: its channels */
};

enum { COLUMNS = 8 };

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

/* Emits `count` outputs of the row from `column` on: the sums, then the epilogue. */
static void emit_columns(struct depthwise *s, struct ig_stmt *body, ig_x column, ig_x count, const struct ig_taps *y,
                         const struct ig_taps *x) {
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    ig_x channels = num(s, s->channels), i, ch;
    ig_x from = ig_x_add(k, s->in.base, ig_x_mul(k, s->image, dim(s, s->in.image)));
    from = ig_x_add(k, from, ig_x_mul(k, y->from, dim(s, s->line)));
    from = ig_x_add(k, ig_x_add(k, from, ig_x_mul(k, x->from, num(s, s->column))), s->first_channel);
    ig_x tap = ig_x_add(k, ig_x_mul(k, y->first, num(s, s->x.taps)), x->first);
    ig_x weight = ig_x_add(k, ig_x_mul(k, tap, channels), s->first_channel);
    ig_x x_row = ig_x_mul(k, dim(s, s->line), num(s, s->y.dilation));
    struct ig_call_arg args[] = {
        {-1, count},          {s->in.buffer, from}, {-1, x_row},    {c->lower.buffer_of[c->node.in[1]], weight},
        {s->sums, num(s, 0)}, {-1, y->count},       {-1, x->count}, {-1, s->width}};
    ig_s_call(k, body, "depthwise", args, 8);
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

static void emit_row(struct depthwise *s, struct ig_stmt *body) {
    struct ig_loops *k = s->k;
    struct ig_dims *dims = k->dims;
    struct ig_taps y = ig_taps_inside(k, &s->y, s->row, s->y.in), x;
    ig_dim first, end;
    ig_x column, block, one = num(s, 1);
    ig_taps_inner(s->k, &s->x, &first, &end);
    struct ig_stmt *left = ig_s_for(k, body, IG_FOR_SERIAL, num(s, 0), dim(s, first), one, &column);
    x = ig_taps_inside(k, &s->x, column, s->x.in);
    emit_columns(s, left, column, one, &y, &x);

    /* The inner columns, divided evenly over blocks of at most COLUMNS. */
    ig_dim inner = ig_dim_sub(dims, end, first);
    ig_dim blocks = ig_dim_ceil_div(dims, inner, constant(s, COLUMNS));
    ig_dim each = ig_dim_div(dims, inner, ig_dim_max(dims, blocks, constant(s, 1)));
    ig_dim more = ig_dim_sub(dims, inner, ig_dim_mul(dims, each, blocks));
    struct ig_stmt *middle = ig_s_for(k, body, IG_FOR_SERIAL, num(s, 0), dim(s, blocks), one, &block);
    column = ig_x_add(k, dim(s, first), ig_x_mul(k, block, dim(s, each)));
    column = ig_x_add(k, column, ig_x_min(k, block, dim(s, more)));
    ig_x longer = ig_x_select(k, ig_x_less(k, block, dim(s, more)), one, num(s, 0));
    ig_x origin = ig_x_sub(k, ig_x_mul(k, column, num(s, s->x.stride)), dim(s, s->x.before));
    x = (struct ig_taps){.first = num(s, 0), .count = num(s, s->x.taps), .from = origin};
    emit_columns(s, middle, column, ig_x_add(k, dim(s, each), longer), &y, &x);

    struct ig_stmt *right = ig_s_for(k, body, IG_FOR_SERIAL, dim(s, end), dim(s, s->x.out), one, &column);
    x = ig_taps_inside(k, &s->x, column, s->x.in);
    emit_columns(s, right, column, one, &y, &x);
}

/* Channels per tile. All of them (whole lines, so that memory is read in order) if they are few, or if they are up to
 * 256 and the image exceeds the second cache. Else a number of up to 128 that fills vectors and divides the channels,
 * or 64 with a rest: the input of a tile then stays in the first cache. */
static int64_t choose_chunk(const struct depthwise *s, int lanes) {
    int64_t channels = s->channels, lines = ig_contract_const(s->c, s->y.in, 1024);
    int64_t line = ig_contract_const(s->c, s->x.in, 1024) * channels * (int64_t)ingot_dtype_size(s->c->dtype);
    if (channels <= 128 || (channels <= 256 && lines * line > 1 << 20)) return channels;
    for (int64_t chunk = 128; chunk >= 48; chunk -= lanes) {
        if (channels % chunk == 0) return chunk;
    }
    return 64;
}

static void make_micro(struct depthwise *s) {
    struct ig_micro micro = {.kind = IG_MICRO_DEPTHWISE,
                             .name = "depthwise",
                             .dtype = s->c->dtype,
                             .half = ig_contract_half(ig_contract_in(s->c, 0)->dtype),
                             .rows = (2u << COLUMNS) - 2,
                             .nr = (int)s->chunk,
                             .x_tap = s->x.dilation * s->column,
                             .x_column = s->x.stride * s->column,
                             .w_row = s->x.taps * s->channels,
                             .w_tap = s->channels,
                             .kw = s->x.taps};
    struct ig_dims *dims = s->k->dims;
    ig_dim first, end;
    ig_taps_inner(s->k, &s->x, &first, &end);
    int64_t inner = ig_contract_const(s->c, ig_dim_sub(dims, end, first), -1);
    if (inner >= 0) {
        int64_t blocks = (inner + COLUMNS - 1) / COLUMNS, each = blocks ? inner / blocks : 1;
        micro.rows = 2u | 1u << each | (blocks && inner % blocks ? 2u << each : 0u);
    }
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
}

bool ig_contract_depthwise(struct ig_contract *c) {
    if (!c->spatial || c->spatial > 2 || ig_contract_attr_int(c, IG_ATTR_packed) != 1) return false;
    if (c->groups == 1 || ig_contract_border(c) != 0) return false;
    const struct ig_type *x = ig_contract_in(c, 0), *w = ig_contract_in(c, 1);
    if (!ig_contract_can_convert(c, x->dtype) || w->dtype != x->dtype) return false;
    if (!c->lower.is_input[c->node.in[1]] || !ig_contract_attr_int(c, IG_ATTR_channels_last)) return false;
    struct depthwise s = {.c = c, .k = c->k};
    struct ig_dims *dims = s.k->dims;
    s.y = axis_of(&s, c->spatial == 2 ? 0 : -1);
    s.x = axis_of(&s, c->spatial - 1);
    s.channels = c->groups;
    s.in = ig_contract_view_image(c);
    if (s.in.buffer < 0) return false;
    s.line = c->spatial == 2 ? s.in.stride[0] : constant(&s, 0);
    s.column = ig_contract_const(c, s.in.stride[c->spatial - 1], 0);
    if (s.column == 0) return false;
    int lanes = ig_micro_lanes(c->target, c->dtype);
    s.chunk = choose_chunk(&s, lanes);
    s.sums = ig_loops_local(s.k, c->dtype, COLUMNS * s.chunk, "sums");
    make_micro(&s);
    int64_t chunks = (s.channels + s.chunk - 1) / s.chunk;
    ig_dim images = ig_contract_out(c)->dim[0];
    c->kernel->tiles = ig_dim_mul(dims, ig_dim_mul(dims, images, constant(&s, chunks)), s.y.out);
    c->kernel->scratch_bytes = constant(&s, 0);
    c->kernel->way = IG_WAY_DEPTHWISE;
    c->kernel->tactic = ig_format(s.k->job, "depthwise, %lld channels a tile", (long long)s.chunk);
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
