/*
 * The schedule for convolutions of images whose windows overlap: lines of output, straight from lines of input.
 *
 * Copying the window of every output position (contract_gemm.c) copies an element once per kernel position. In a
 * channels-last image, neighbouring outputs of a line read at a constant distance from each other, and a kernel row
 * times the channels is one contiguous run. So a block of outputs of one line is a matrix product read in place: row
 * stride stride * channels, one run per kernel row. (The idea of indirect convolution, Dukhan 2019, without the
 * pointers.) If the image has borders, or is of half precision, or there are groups, whose channels do not lie together, the few lines
 * under a tile are copied once, padded with zeros.
 *
 * A tile is a number of lines of one image times a group of panels. Lines shorter than half a block share one. Where a panel
 * would fill the second cache, each block would fetch it from beyond: then the kernel's rows are steps, and all blocks of
 * the tile meet a step's part of the panel before the next is read. A step whose inputs all lie beyond the image is left out. Either
 * way, the blocks of a tile prefetch what comes next of the weights.
 */
#include "kernel/cpu/contract.h"

enum { MOST_TILINGS = 6 };

struct lines {
    struct ig_contract *c;
    struct ig_loops *k;
    struct ig_columns p;
    int64_t height_taps, width_taps, stride[2], dilation;
    int64_t in_width, out_width, channels; /* channels: of a group */
    ig_dim in_height, out_height, before[2];
    bool copied;
    int64_t line;     /* elements per line that the micro-kernel walks: of the input or of the copy */
    int64_t together; /* lines per block */
    int64_t
        pitch; /* rows of a block from line to line: outputs, or with tiles, whose rows lie evenly, positions under them */
    int64_t blocks, per_block, more; /* blocks per line, of which `more` have per_block + 1 outputs */
    int64_t tile_lines, tile_panels;
    bool stepped;          /* kernel rows are steps */
    struct ig_fetch fetch; /* of the next panel, or step */
    ig_dim line_groups, panel_groups;
    int image_lines, sums;         /* buffers */
    ig_x batch, first_line, panel; /* of the current tile; batch: image and group */
    ig_x follow;                   /* kernel rows of the next panel, if this call does that, too; else 0 */
};

static ig_x num(struct lines *s, int64_t i) {
    return ig_x_index(s->k, i);
}

static ig_x dim(struct lines *s, ig_dim d) {
    return ig_x_dim(s->k, d);
}

static ig_dim constant(struct lines *s, int64_t i) {
    return ig_dim_const(s->k->dims, i);
}

static int64_t known(const struct lines *s, ig_dim d, int64_t otherwise) {
    return ig_contract_const(s->c, d, otherwise);
}

static struct ig_stmt *loop(struct lines *s, struct ig_stmt *body, enum ig_for_kind kind, ig_x hi, ig_x *out_var) {
    return ig_s_for(s->k, body, kind, num(s, 0), hi, num(s, 1), out_var);
}

/* ---- Does it apply? ---------------------------------------------------------------------------------------------- */

static bool reads_plainly(const struct ig_contract *c) {
    const struct ig_type *x = ig_contract_in(c, 0), *w = ig_contract_in(c, 1);
    bool images = c->spatial == 2 && c->packed && (c->groups == 1 || c->together == 1) &&
                  !ig_contract_without_panels(c) && c->lower.is_input[c->node.in[0]] &&
                  ig_contract_attr_int(c, IG_ATTR_channels_last);
    if (c->together > 1) return images && x->dtype == c->operand && c->padded == c->depth;
    return images && ig_contract_border(c) == 0 && ig_contract_can_convert(c, x->dtype) &&
           ig_contract_can_convert(c, w->dtype);
}

/* Reads the problem; false if lines have no fixed length or kernel rows are not contiguous runs. */
static bool read_problem(struct lines *s) {
    const struct ig_contract *c = s->c;
    const struct ig_type *x = ig_contract_in(c, 0), *y = ig_contract_out(c);
    const struct ig_attr *dilations = ig_contract_attr(c, IG_ATTR_dilations);
    const struct ig_attr *strides = ig_contract_attr(c, IG_ATTR_strides);
    const struct ig_attr *before = ig_contract_attr(c, IG_ATTR_before);
    s->height_taps = known(s, c->depth_dim[0], 0);
    s->width_taps = known(s, c->depth_dim[1], 0);
    s->channels = known(s, c->depth_dim[2], 0);
    s->in_width = known(s, x->dim[2], 0);
    s->out_width = known(s, y->dim[2], 0);
    s->in_height = x->dim[1];
    s->out_height = y->dim[1];
    s->dilation = dilations->ints[0];
    for (int i = 0; i < 2; i++) {
        s->stride[i] = strides->ints[i];
        s->before[i] = before->dims[i];
    }
    s->copied = ig_contract_padded(c) || x->dtype != c->operand || c->groups > 1;
    bool pointwise =
        s->height_taps == 1 && s->width_taps == 1 && !ig_contract_padded(c) && s->stride[0] == 1 && s->stride[1] == 1;
    bool sized = s->in_width > 0 && s->out_width > 0 && s->channels > 0 && s->height_taps > 0 && s->width_taps > 0;
    bool borders = known(s, s->before[0], -1) >= 0 && known(s, s->before[1], -1) >= 0;
    return sized && borders && !pointwise && (dilations->ints[1] == 1 || s->width_taps == 1);
}

/* Lines in a block of tiles: as many as fit with the rows in between; false if there are not enough rows for a tile. */
static bool join_lines(struct lines *s) {
    enum { TILE = 16 };
    int64_t down = s->stride[0] * s->line, across = s->stride[1] * s->channels;
    s->pitch = down / across;
    s->together = 1;
    while (down % across == 0 && s->together * s->pitch + s->out_width <= s->p.mr)
        s->together++;
    return (s->together - 1) * s->pitch + s->out_width >= TILE;
}

/* Divides lines into blocks; false if these would leave too many registers idle. */
static bool divide_lines(struct lines *s) {
    s->pitch = s->out_width;
    s->together = s->out_width <= s->p.mr / 2 ? s->p.mr / s->out_width : 1;
    if (s->p.tile_groups && !join_lines(s)) return false;
    s->blocks = (s->out_width + s->p.mr - 1) / s->p.mr;
    s->per_block = s->out_width / s->blocks;
    s->more = s->out_width % s->blocks;
    double busy = (double)(s->together * s->out_width) / (double)(s->blocks * s->p.mr);
    /* Copying every window costs as much as the products of 4 to 6 columns. */
    double copying = 1 + s->p.transfer / (double)known(s, s->c->columns, 64);
    return busy * copying >= 0.95 || busy >= 0.8;
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

static int64_t input_lines(const struct lines *s, int64_t lines) {
    return (lines - 1) * s->stride[0] + (s->height_taps - 1) * s->dilation + 1;
}

/* As in contract_gemm.c: the time of all tiles, in multiply-adds. */
static double tiling_cost(const struct lines *s, int64_t lines, int64_t panels) {
    int64_t height = known(s, s->out_height, 64), all = known(s, s->p.panels, 1);
    int64_t tiles = (height + lines - 1) / lines * ((all + panels - 1) / panels);
    double depth = (double)(s->height_taps * s->width_taps * s->channels), columns = (double)(panels * s->p.nr);
    double products = (double)(lines * s->out_width) * columns * depth;
    double copies = s->copied ? s->p.transfer * (double)(input_lines(s, lines) * s->line) : 0;
    double weights = s->p.transfer * columns * depth;
    return (products + copies + weights) * ig_contract_turns(tiles * s->c->groups, 1);
}

/* The cheapest number of panels for that many lines. */
static struct ig_tiling choose_panels(const struct lines *s, int64_t lines) {
    struct ig_tiling best = {.chunk = lines};
    for (int64_t panels = 1; panels <= known(s, s->p.panels, 1); panels++) {
        double cost = tiling_cost(s, lines, panels);
        if (best.cost > 0 && cost >= best.cost) continue;
        best.cost = cost;
        best.group = panels;
    }
    return best;
}

/* Lists the candidates and takes number c->choice; false if it is beyond the last. */
static bool choose_tiles(struct lines *s) {
    struct ig_tiling tilings[MOST_TILINGS + 1];
    int64_t height = known(s, s->out_height, 64);
    int count = 0;
    for (int64_t lines = s->together; lines < height + s->together; lines += s->together) {
        int64_t bytes = input_lines(s, lines) * s->line * s->p.element;
        if (lines > s->together && bytes > (s->copied ? s->p.second / 2 : s->p.second)) break;
        struct ig_tiling t = choose_panels(s, lines);
        if (t.group > 0) ig_tilings_keep(tilings, &count, MOST_TILINGS, &t);
    }
    if (count == 0) tilings[count++] = (struct ig_tiling){0};
    s->c->choices = count;
    if (s->c->choice >= count) return false;
    s->tile_lines = tilings[s->c->choice].chunk;
    s->tile_panels = tilings[s->c->choice].group;
    struct ig_dims *dims = s->k->dims;
    s->line_groups = ig_dim_ceil_div(dims, s->out_height, constant(s, s->tile_lines));
    s->panel_groups = ig_dim_ceil_div(dims, s->p.panels, constant(s, s->tile_panels));
    return true;
}

/* The rows of so many lines in a block. */
static int64_t block_rows(const struct lines *s, int64_t lines) {
    return (lines - 1) * s->pitch + s->out_width;
}

/* Panels that fill the first cache are prefetched, as in contract_gemm.c. */
static void choose_fetch(struct lines *s) {
    int64_t line = s->p.nr * (int64_t)ingot_dtype_size(ig_contract_in(s->c, 1)->dtype);
    int64_t rows = s->stepped ? 1 : s->height_taps, depth = rows * s->width_taps * s->channels;
    int64_t blocks = s->tile_lines / s->together * s->blocks;
    if (s->c->together > 1 || blocks <= 1 || depth * line <= s->p.first) return;
    s->fetch = ig_fetch_of(line, depth, blocks, 16, false);
}

static void make_micro(struct lines *s) {
    struct ig_micro micro = {.kind = IG_MICRO_GEMM,
                             .name = "gemm",
                             .dtype = s->c->dtype,
                             .half = ig_contract_half(ig_contract_in(s->c, 1)->dtype),
                             .vectors = ig_columns_vector_set(s->c, &s->p, false),
                             .nr = s->p.nr,
                             .lda = s->stride[1] * s->channels,
                             .prefetch = s->fetch.rate ? 0 : 2048 / s->p.element,
                             .rate = s->fetch.rate,
                             .segments = s->stepped ? 1 : s->height_taps,
                             .jump = s->dilation * s->line};
    if (s->p.tile_groups) {
        micro.together = s->c->together;
        micro.tile_groups = s->p.tile_groups;
    }
    for (int64_t lines = 1; s->together > 1 && lines <= s->together; lines++)
        micro.rows |= (uint64_t)1 << block_rows(s, lines);
    if (s->together > 1 && s->pitch == s->out_width) {
        micro.group = s->out_width;
        micro.group_stride = s->stride[0] * s->line;
    } else if (s->together == 1) {
        micro.rows = (s->more < s->blocks ? 1u << s->per_block : 0) | (s->more > 0 ? 2u << s->per_block : 0);
    }
    IG_PUSH(s->k->job, &s->c->kernel->micros, micro);
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

/* Fills memory beside the image: with zeros, or with the border of bytes. */
static void zeros(struct lines *s, struct ig_stmt *body, ig_x at, int64_t count) {
    ig_x i, border;
    border = ig_dtype_is_float(s->c->dtype) ? ig_x_float(s->k, s->c->dtype, 0)
                                            : ig_x_int(s->k, s->c->operand, ig_contract_border(s->c));
    if (count <= 0) return;
    body = loop(s, body, IG_FOR_SIMD, num(s, count), &i);
    ig_s_store(s->k, body, s->image_lines, ig_x_add(s->k, at, i), border);
}

/* Copies the input lines under `count` output lines from first_line on, with zeros around the image. */
static void copy_lines(struct lines *s, struct ig_stmt *body, ig_x image, ig_x count) {
    struct ig_loops *k = s->k;
    ig_x i, j;
    int64_t left = known(s, s->before[1], 0) * s->channels, all = s->in_width * s->channels;
    int64_t middle = all < s->line - left ? all : s->line - left;
    if (middle < 0) middle = 0;
    int64_t reach = (s->height_taps - 1) * s->dilation + 1;
    ig_x lines = ig_x_add(k, ig_x_mul(k, ig_x_sub(k, count, num(s, 1)), num(s, s->stride[0])), num(s, reach));
    body = loop(s, body, IG_FOR_SERIAL, lines, &i);
    ig_x y = ig_x_sub(k, ig_x_mul(k, s->first_line, num(s, s->stride[0])), dim(s, s->before[0]));
    y = ig_x_add(k, y, i);
    ig_x inside = ig_x_and(k, ig_x_less(k, num(s, -1), y), ig_x_less(k, y, dim(s, s->in_height)));
    ig_x to = ig_x_mul(k, i, num(s, s->line));
    zeros(s, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, inside)), to, s->line);
    body = ig_s_if(k, body, inside);
    zeros(s, body, to, left < s->line ? left : s->line);
    ig_x from = ig_x_add(k, ig_x_mul(k, image, dim(s, s->in_height)), y);
    to = ig_x_add(k, to, num(s, left));
    zeros(s, body, ig_x_add(k, to, num(s, middle)), s->line - left - middle);
    from = ig_x_mul(k, from, num(s, all * s->c->groups));
    if (s->c->groups > 1) { /* pixel by pixel */
        ig_x pixel, group = ig_x_mod(k, s->batch, num(s, s->c->groups));
        body = loop(s, body, IG_FOR_SERIAL, num(s, middle / s->channels), &pixel);
        from = ig_x_add(k, from, ig_x_mul(k, pixel, num(s, s->channels * s->c->groups)));
        from = ig_x_add(k, from, ig_x_mul(k, group, num(s, s->channels)));
        to = ig_x_add(k, to, ig_x_mul(k, pixel, num(s, s->channels)));
        middle = s->channels;
    }
    struct ig_stmt *run = loop(s, body, IG_FOR_SIMD, num(s, middle), &j);
    ig_x value = ig_x_load(k, s->c->lower.buffer_of[s->c->node.in[0]], ig_x_add(k, from, j));
    ig_s_store(k, run, s->image_lines, ig_x_add(k, to, j), value);
}

/* What the nth block of a tile prefetches while it is multiplied by part `b` of the weights, a kernel row of a panel: its share of what
 * this call multiplies by next. */
static ig_x fetched(struct lines *s, ig_x b, ig_x step, ig_x nth) {
    struct ig_loops *k = s->k;
    int64_t run = s->width_taps * s->channels, parts = s->stepped ? 1 : s->height_taps;
    ig_x within = ig_x_less(k, step, num(s, s->height_taps - parts));
    ig_x more = s->stepped ? ig_x_select(k, within, num(s, parts), s->follow) : s->follow;
    ig_x next = ig_x_mul(k, ig_x_add(k, b, more), num(s, run * s->p.nr));
    return ig_fetch_from(s->c, &s->fetch, next, nth, (int64_t)ingot_dtype_size(ig_contract_in(s->c, 1)->dtype));
}

/* Multiplies the tile's nth block, `rows` outputs from `column` of its line `at` on, by the panel, or if there are steps, by
 * its part of this one. */
static void multiply(struct lines *s, struct ig_stmt *body, ig_x nth, ig_x at, ig_x column, ig_x rows, ig_x step,
                     ig_x sums_at) {
    struct ig_loops *k = s->k;
    struct ig_contract *c = s->c;
    ig_x y = ig_x_add(k, s->first_line, at);
    ig_x line = ig_x_add(k, ig_x_mul(k, at, num(s, s->stride[0])), ig_x_mul(k, step, num(s, s->dilation)));
    int buffer = s->image_lines;
    if (!s->copied) {
        buffer = c->lower.buffer_of[c->node.in[0]];
        line = ig_x_add(k, ig_x_mul(k, s->batch, dim(s, s->in_height)), ig_x_mul(k, y, num(s, s->stride[0])));
        line = ig_x_add(k, line, ig_x_mul(k, step, num(s, s->dilation)));
    }
    ig_x a = ig_x_add(k, ig_x_mul(k, line, num(s, s->line)), ig_x_mul(k, column, num(s, s->stride[1] * s->channels)));
    int64_t run = s->width_taps * s->channels;
    ig_x panel = ig_x_add(k, ig_x_mul(k, ig_x_mod(k, s->batch, num(s, c->groups)), dim(s, s->p.panels)), s->panel);
    ig_x b = ig_x_add(k, ig_x_mul(k, panel, num(s, s->height_taps)), step);
    ig_x first = s->stepped ? ig_x_select(k, ig_x_less(k, step, num(s, 1)), num(s, 1), num(s, 0)) : num(s, 1);
    int weights = c->lower.buffer_of[c->node.in[1]], n = 8;
    struct ig_call_arg args[9] = {{-1, rows},
                                  {-1, ig_columns_vectors(c, &s->p, s->panel, false)},
                                  {buffer, a},
                                  {-1, num(s, s->stride[1] * s->channels)},
                                  {weights, ig_x_mul(k, b, num(s, run * s->p.nr))},
                                  {s->sums, sums_at},
                                  {-1, num(s, run)},
                                  {-1, first}};
    if (s->fetch.rate) args[n++] = (struct ig_call_arg){weights, fetched(s, b, step, nth)};
    ig_s_call(k, body, "gemm", args, n);
}

static void finish(struct lines *s, struct ig_stmt *body, ig_x at, ig_x column, ig_x rows, ig_x sums_at) {
    ig_x y = ig_x_add(s->k, s->first_line, at);
    ig_x first_row = ig_x_add(s->k, ig_x_mul(s->k, y, num(s, s->out_width)), column);
    ig_columns_epilogue(s->c, &s->p, body, s->batch, s->panel, first_row, rows, s->sums, sums_at);
}

/* Loops over the blocks of the tile's line `at`. */
static struct ig_stmt *block_loop(struct lines *s, struct ig_stmt *body, ig_x at, ig_x *out_nth, ig_x *out_column,
                                  ig_x *out_width) {
    struct ig_loops *k = s->k;
    ig_x block, more = num(s, s->more), each = num(s, s->per_block);
    body = loop(s, body, IG_FOR_SERIAL, num(s, s->blocks), &block);
    *out_nth = ig_x_add(k, ig_x_mul(k, at, num(s, s->blocks)), block);
    *out_column = ig_x_add(k, ig_x_mul(k, block, each), ig_x_min(k, block, more));
    *out_width = ig_x_add(k, each, ig_x_select(k, ig_x_less(k, block, more), num(s, 1), num(s, 0)));
    return body;
}

/* The first step sets the sums. */
static void emit_steps(struct lines *s, struct ig_stmt *body, ig_x count) {
    struct ig_loops *k = s->k;
    ig_x step, nth, at, column, width, zero = num(s, 0);
    struct ig_stmt *steps = loop(s, body, IG_FOR_SERIAL, num(s, s->height_taps), &step);
    steps = loop(s, steps, IG_FOR_SERIAL, count, &at);
    ig_x y = ig_x_mul(k, ig_x_add(k, s->first_line, at), num(s, s->stride[0]));
    y = ig_x_sub(k, ig_x_add(k, y, ig_x_mul(k, step, num(s, s->dilation))), dim(s, s->before[0]));
    ig_x inside = ig_x_and(k, ig_x_less(k, num(s, -1), y), ig_x_less(k, y, dim(s, s->in_height)));
    ig_x left_out = ig_x_and(k, ig_x_less(k, zero, step), ig_x_map1(k, IG_OP_not, inside));
    steps = ig_s_if(k, steps, ig_x_map1(k, IG_OP_not, left_out));
    steps = block_loop(s, steps, at, &nth, &column, &width);
    ig_x sums_at = ig_x_mul(k, ig_x_add(k, ig_x_mul(k, at, num(s, s->out_width)), column), num(s, s->p.nr));
    multiply(s, steps, nth, at, column, width, step, sums_at);
    body = loop(s, body, IG_FOR_SERIAL, count, &at);
    finish(s, body, at, zero, num(s, s->out_width), ig_x_mul(k, at, num(s, s->out_width * s->p.nr)));
}

/* Blocks of several lines. */
static void emit_joined(struct lines *s, struct ig_stmt *body, ig_x count) {
    struct ig_loops *k = s->k;
    ig_x nth, at, line, together = num(s, s->together), zero = num(s, 0);
    ig_x groups = ig_x_div(k, ig_x_add(k, count, num(s, s->together - 1)), together);
    body = loop(s, body, IG_FOR_SERIAL, groups, &nth);
    at = ig_x_mul(k, nth, together);
    ig_x lines = ig_x_min(k, together, ig_x_sub(k, count, at)), width = num(s, s->out_width);
    ig_x rows = ig_x_add(k, ig_x_mul(k, ig_x_sub(k, lines, num(s, 1)), num(s, s->pitch)), width);
    multiply(s, body, nth, at, zero, rows, zero, zero);
    if (s->pitch == s->out_width) {
        finish(s, body, at, zero, rows, zero);
        return;
    }
    body = loop(s, body, IG_FOR_SERIAL, lines, &line);
    finish(s, body, ig_x_add(k, at, line), zero, width, ig_x_mul(k, line, num(s, s->pitch * s->p.nr)));
}

static void emit_tile(struct lines *s, struct ig_stmt *body, ig_x tile) {
    struct ig_loops *k = s->k;
    ig_x rest = tile, nth, at, column, rows, zero = num(s, 0), one = num(s, 1);
    ig_x group = ig_x_split_off(s->k, &rest, s->panel_groups);
    ig_x line_group = ig_x_split_off(s->k, &rest, s->line_groups);
    s->batch = rest;
    s->first_line = ig_x_mul(k, line_group, num(s, s->tile_lines));
    ig_x count = ig_x_min(k, num(s, s->tile_lines), ig_x_sub(k, dim(s, s->out_height), s->first_line));
    if (s->copied) {
        ig_x same = ig_x_and(k, ig_x_less(k, ig_x_begin(k), tile), ig_x_less(k, num(s, 0), group));
        ig_x image = ig_x_div(k, s->batch, num(s, s->c->groups));
        copy_lines(s, ig_s_if(k, body, ig_x_map1(k, IG_OP_not, same)), image, count);
    }
    ig_x first_panel = ig_x_mul(k, group, num(s, s->tile_panels));
    ig_x panels = ig_x_min(k, num(s, s->tile_panels), ig_x_sub(k, dim(s, s->p.panels), first_panel));
    body = loop(s, body, IG_FOR_SERIAL, panels, &nth);
    s->panel = ig_x_add(k, first_panel, nth);
    /* The panels of the next tile follow those of this one, unless it has other lines. */
    ig_x follows = ig_x_less(k, ig_x_add(k, nth, one), panels),
         goes_on = ig_x_less(k, ig_x_add(k, tile, one), ig_x_end(k));
    s->follow = ig_x_select(k, follows, num(s, s->height_taps), ig_x_select(k, goes_on, num(s, s->height_taps), zero));
    if (s->stepped) {
        emit_steps(s, body, count);
        return;
    }
    if (s->together > 1) {
        emit_joined(s, body, count);
        return;
    }
    body = loop(s, body, IG_FOR_SERIAL, count, &at);
    body = block_loop(s, body, at, &nth, &column, &rows);
    multiply(s, body, nth, at, column, rows, zero, zero);
    finish(s, body, at, column, rows, zero);
}

/* Would a panel leave no room in the second cache? */
static bool wants_steps(const struct lines *s) {
    int64_t depth = s->height_taps * s->width_taps * s->channels;
    bool large = depth * s->p.nr * s->p.element > s->p.second / 2;
    return large && s->together == 1 && s->height_taps > 1 && ig_contract_border(s->c) == 0;
}

bool ig_contract_lines(struct ig_contract *c) {
    struct lines s = {.c = c, .k = c->k};
    struct ig_dims *dims = c->k->dims;
    if (!reads_plainly(c) || !read_problem(&s)) return false;
    ig_columns_init(c, &s.p);
    s.line = s.channels * (s.copied ? (s.out_width - 1) * s.stride[1] + s.width_taps : s.in_width);
    s.p.tile_groups = ig_columns_tile_groups(c, &s.p, s.width_taps * s.channels);
    if (c->together > 1 && s.p.tile_groups == 0) return false;
    if (!divide_lines(&s) || ig_columns_rows_conflict(&s.p, s.stride[1] * s.channels)) return false;
    if (!choose_tiles(&s)) return true;
    if (s.copied) {
        s.image_lines =
            ig_kernel_scratch(c->kernel, c->operand, constant(&s, input_lines(&s, s.tile_lines) * s.line), "lines");
    }
    s.stepped = wants_steps(&s);
    if (s.stepped)
        s.sums = ig_kernel_scratch(c->kernel, c->dtype, constant(&s, s.tile_lines * s.out_width * s.p.nr), "sums");
    else
        s.sums = ig_loops_local(c->k, c->dtype, (int64_t)s.p.mr * s.p.nr, "sums");
    choose_fetch(&s);
    make_micro(&s);
    c->kernel->whole = s.fetch.rate > 0; /* what follows is known within a call only */
    c->kernel->tactic = ig_format(c->k->job, "lines %lldx%d, tiles of %lld lines and %lld panels%s%s",
                                  (long long)s.per_block * s.together + (s.more > 0), s.p.nr, (long long)s.tile_lines,
                                  (long long)s.tile_panels, s.copied ? ", lines copied" : "",
                                  s.stepped ? ", kernel rows as steps" : "");
    c->kernel->tiles = ig_dim_mul(dims, c->batch, ig_dim_mul(dims, s.line_groups, s.panel_groups));
    ig_x tile;
    struct ig_stmt *body = ig_s_for(c->k, NULL, IG_FOR_TILE, num(&s, 0), dim(&s, c->kernel->tiles), num(&s, 1), &tile);
    emit_tile(&s, body, tile);
    return !c->astray;
}
