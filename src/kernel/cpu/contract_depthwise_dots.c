/*
 * Depthwise convolution of bytes, channels-last: as in contract_depthwise.c vectors run along the channels, and the products
 * of four lines of the window are summed at once (codegen/c/depthwise_dots.c), or of two without VNNI (depthwise_pairs.c).
 *
 * A tile is some lines of one image's output over a chunk of channels, of whole vectors. The lines of the input under it are
 * copied with the border around them, which costs little beside the rest: so all columns are alike.
 */
#include "kernel/cpu/contract.h"

struct dots {
    struct ig_contract *c;
    struct ig_loops *k;
    int64_t kernel[2], stride[2], dilation[2], left; /* of lines and columns */
    ig_dim top, in_height, out_height;
    int64_t in_width, out_width, width; /* width: columns of a copied line */
    int64_t channels, chunk, chunks;
    int64_t lines, columns; /* of a tile, of a block */
    int copy, sums;
    ig_x image, first_line, first_channel, count; /* of the tile; count: its channels */
};

static ig_x num(struct dots *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct dots *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static struct ig_stmt *loop(struct dots *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi, ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), hi, num(s, 1), out_var);
}

/* False if the width or the border on the left is not known. */
static bool read_problem(struct dots *s) {
    struct ig_contract *c = s->c;
    const struct ig_type *x = ig_contract_in(c, 0), *y = ig_contract_out(c);
    for (int i = 0; i < 2; i++) {
        s->kernel[i] = ig_contract_attr(c, IG_ATTR_kernel)->ints[i];
        s->stride[i] = ig_contract_attr(c, IG_ATTR_strides)->ints[i];
        s->dilation[i] = ig_contract_attr(c, IG_ATTR_dilations)->ints[i];
    }
    const struct ig_attr *before = ig_contract_attr(c, IG_ATTR_before);
    s->top = before->dims[0];
    s->left = ig_contract_const(c, before->dims[1], -1);
    s->in_height = x->dim[1];
    s->out_height = y->dim[1];
    s->in_width = ig_contract_const(c, x->dim[2], 0);
    s->out_width = ig_contract_const(c, y->dim[2], 0);
    s->channels = c->groups;
    s->width = (s->out_width - 1) * s->stride[1] + (s->kernel[1] - 1) * s->dilation[1] + 1;
    return s->left >= 0 && s->in_width > 0 && s->out_width > 0;
}

static int64_t input_lines(const struct dots *s, int64_t lines) {
    return (lines - 1) * s->stride[0] + (s->kernel[0] - 1) * s->dilation[0] + 1;
}

/* Columns of a block, of which a register holds a vector of sums each, or four with VNNI; evenly where there is a choice. */
static int64_t block_columns(const struct dots *s) {
    enum { PAIRS = 6 };
    int64_t most = s->c->target->vector_registers >= 32 ? 4 : 2;
    if (s->c->target->vnni) return s->out_width < most ? s->out_width : most;
    int64_t blocks = (s->out_width + PAIRS - 1) / PAIRS;
    return (s->out_width + blocks - 1) / blocks;
}

/* Chunks of up to four vectors of 16 channels, evenly; as many lines as leave room in the first cache, but enough to not
 * copy each line several times; blocks of as many columns as there are registers for. */
static void choose_tiles(struct dots *s) {
    enum { BUDGET = 40 << 10, LEAST = 4, MOST = 32 };
    int64_t vectors = (s->channels + 15) / 16, chunks = (vectors + 3) / 4,
            height = ig_contract_const(s->c, s->out_height, 64);
    s->chunk = 16 * ((vectors + chunks - 1) / chunks);
    s->chunks = (s->channels + s->chunk - 1) / s->chunk;
    s->lines = LEAST;
    while (s->lines < MOST && input_lines(s, s->lines + 1) * s->width * s->chunk <= BUDGET)
        s->lines++;
    if (s->lines >= height) s->lines = height > 0 ? height : 1;
    int64_t blocks = (height + s->lines - 1) / s->lines;
    s->lines = blocks > 0 ? (height + blocks - 1) / blocks : 1;
    s->columns = block_columns(s);
}

static void make_micro(struct dots *s) {
    int lanes = ig_micro_lanes(s->c->target, INGOT_I32);
    struct ig_micro micro = {.kind = IG_MICRO_DEPTHWISE_DOTS,
                             .name = "depthwise",
                             .dtype = INGOT_I32,
                             .rows = 1u << s->columns |
                                     1u << (s->out_width % s->columns ? s->out_width % s->columns : s->columns),
                             .vectors = 1u << s->chunk / lanes % 4,
                             .nr = (int)s->chunk,
                             .x_row = s->dilation[0] * s->width * s->chunk,
                             .x_tap = s->chunk,
                             .x_column = s->stride[1],
                             .w_tap = 4 * ((s->channels + 15) / 16 * 16),
                             .kh = s->kernel[0],
                             .kw = s->kernel[1],
                             .dilation = s->dilation[1]};
    int64_t rest = (s->channels + 15) / 16 * 16 % s->chunk;
    if (rest) micro.vectors |= 1u << rest / lanes % 4;
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
}

/* How many of that many channels belong to the tile. */
static ig_x channels_of(struct dots *s, int64_t all) {
    if (all % s->chunk == 0) return num(s, s->chunk);
    return ig_x_min(s->k, num(s, s->chunk), ig_x_sub(s->k, num(s, all), s->first_channel));
}

/* Stores `count` columns of the border from `to` on. */
static void fill(struct dots *s, struct ig_stmt *body, ig_x to, int64_t columns) {
    ig_x i;
    if (columns <= 0) return;
    body = loop(s, body, IG_FOR_SIMD, num(s, columns * s->chunk), &i);
    ig_s_store(s->k, body, s->copy, ig_x_add(s->k, to, i), ig_x_int(s->k, INGOT_U8, ig_contract_border(s->c)));
}

/* Copies the lines under `lines` lines of output. Channels beyond the last are left as they are: nobody reads their sums. */
static void copy_lines(struct dots *s, struct ig_stmt *body, ig_x lines) {
    struct ig_loops *k = s->k;
    ig_x i, column, channel;
    int64_t middle = s->width - s->left < s->in_width ? s->width - s->left : s->in_width;
    if (middle < 0) middle = 0;
    ig_x reach = num(s, (s->kernel[0] - 1) * s->dilation[0] + 1);
    ig_x all = ig_x_add(k, ig_x_mul(k, ig_x_sub(k, lines, num(s, 1)), num(s, s->stride[0])), reach);
    body = loop(s, body, IG_FOR_SERIAL, all, &i);
    ig_x y = ig_x_sub(k, ig_x_mul(k, s->first_line, num(s, s->stride[0])), dim(s, s->top));
    y = ig_x_add(k, y, i);
    ig_x inside = ig_x_and(k, ig_x_less(k, num(s, -1), y), ig_x_less(k, y, dim(s, s->in_height)));
    ig_x to = ig_x_mul(k, i, num(s, s->width * s->chunk));
    fill(s, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, inside)), to, s->width);
    body = ig_s_if(k, body, inside);
    fill(s, body, to, s->left < s->width ? s->left : s->width);
    ig_x from = ig_x_add(k, ig_x_mul(k, s->image, dim(s, s->in_height)), y);
    from = ig_x_mul(k, from, num(s, s->in_width * s->channels));
    from = ig_x_add(k, from, s->first_channel);
    to = ig_x_add(k, to, num(s, s->left * s->chunk));
    struct ig_stmt *run = loop(s, body, IG_FOR_SERIAL, num(s, middle), &column);
    run = loop(s, run, IG_FOR_SIMD, s->count, &channel);
    ig_x at = ig_x_add(k, ig_x_add(k, from, ig_x_mul(k, column, num(s, s->channels))), channel);
    ig_x value = ig_x_load(k, s->c->lower.buffer_of[s->c->node.in[0]], at);
    at = ig_x_add(k, ig_x_add(k, to, ig_x_mul(k, column, num(s, s->chunk))), channel);
    ig_s_store(k, run, s->copy, at, value);
    fill(s, body, ig_x_add(k, to, num(s, middle * s->chunk)), s->width - s->left - middle);
}

/* The sums of a block of columns of the tile's line `line`, and the epilogue. */
static void emit_block(struct dots *s, struct ig_stmt *body, ig_x line, ig_x column, ig_x columns) {
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    ig_x i, ch, x = ig_x_mul(k, line, num(s, s->stride[0] * s->width * s->chunk));
    x = ig_x_add(k, x, ig_x_mul(k, column, num(s, s->stride[1] * s->chunk)));
    struct ig_call_arg args[] = {{-1, columns},
                                 {s->copy, x},
                                 {c->lower.buffer_of[c->node.in[1]], ig_x_mul(k, s->first_channel, num(s, 4))},
                                 {s->sums, num(s, 0)},
                                 {-1, channels_of(s, (s->channels + 15) / 16 * 16)}};
    ig_s_call(k, body, "depthwise", args, 5);
    struct ig_stmt *around = loop(s, body, IG_FOR_SERIAL, columns, &i);
    body = loop(s, around, IG_FOR_SIMD, s->count, &ch);
    c->position[0] = s->image;
    c->position[1] = ig_x_add(k, s->first_line, line);
    c->position[2] = ig_x_add(k, column, i);
    c->position[3] = ig_x_add(k, s->first_channel, ch);
    c->line = (struct ig_line){around, ch, s->count, s->chunk};
    ig_contract_store(c, body, s->sums, ig_x_add(k, ig_x_mul(k, i, num(s, s->chunk)), ch));
    c->line = (struct ig_line){0};
}

static void emit_tile(struct dots *s, struct ig_stmt *body, ig_x tile, ig_dim blocks) {
    struct ig_loops *k = s->k;
    ig_x rest = tile, line, block;
    s->first_channel = ig_x_mul(k, ig_x_split_off(k, &rest, ig_dim_const(k->dims, s->chunks)), num(s, s->chunk));
    s->first_line = ig_x_mul(k, ig_x_split_off(k, &rest, blocks), num(s, s->lines));
    s->image =
        rest; /* so a thread, whose tiles follow each other, reads lines that it has computed itself as a product's rows */
    s->count = channels_of(s, s->channels);
    ig_x lines = ig_x_min(k, num(s, s->lines), ig_x_sub(k, dim(s, s->out_height), s->first_line));
    copy_lines(s, body, lines);
    body = loop(s, body, IG_FOR_SERIAL, lines, &line);
    int64_t full = s->out_width / s->columns, left = s->out_width % s->columns;
    struct ig_stmt *each = loop(s, body, IG_FOR_SERIAL, num(s, full), &block);
    emit_block(s, each, line, ig_x_mul(k, block, num(s, s->columns)), num(s, s->columns));
    if (left) emit_block(s, body, line, num(s, full * s->columns), num(s, left));
}

bool ig_contract_depthwise_dots(struct ig_contract *c) {
    enum { MOST_TAPS = 128 };
    struct dots s = {.c = c, .k = c->k};
    struct ig_dims *dims = c->k->dims;
    if (!ig_contract_lines_together(c) || ig_contract_in(c, 0)->dtype != INGOT_U8) return false;
    if (ig_contract_in(c, 1)->dtype != INGOT_I8 || c->dtype != INGOT_I32) return false;
    if (!c->lower.is_input[c->node.in[0]] || !c->lower.is_input[c->node.in[1]]) return false;
    if (!ig_contract_attr_int(c, IG_ATTR_channels_last) || !read_problem(&s)) return false;
    if (s.kernel[0] * s.kernel[1] > MOST_TAPS) return false;
    choose_tiles(&s);
    /* Vectors are loaded four at a time. */
    ig_dim bytes = ig_dim_const(dims, input_lines(&s, s.lines) * s.width * s.chunk + 64);
    s.copy = ig_kernel_scratch(c->kernel, INGOT_U8, bytes, "lines");
    s.sums = ig_loops_local(s.k, INGOT_I32, s.columns * s.chunk, "sums");
    make_micro(&s);
    ig_dim blocks = ig_dim_ceil_div(dims, s.out_height, ig_dim_const(dims, s.lines));
    ig_dim images = ig_dim_mul(dims, ig_contract_out(c)->dim[0], ig_dim_const(dims, s.chunks));
    c->kernel->tiles = ig_dim_mul(dims, images, blocks);
    c->kernel->way = IG_WAY_DEPTHWISE;
    c->kernel->tactic = ig_format(s.k->job, "depthwise dots, tiles of %lld lines and %lld channels", (long long)s.lines,
                                  (long long)s.chunk);
    ig_x tile;
    struct ig_stmt *body = ig_s_for(s.k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, c->kernel->tiles), num(&s, 1), &tile);
    emit_tile(&s, body, tile, blocks);
    return !c->astray;
}
