/*
 * Builds loop IR: hash-consed expressions with the simplifications that need no ranges (those of index arithmetic are
 * in affine.c), buffers, and statements.
 */
#include "kernel/affine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/narrow.h"

struct ig_loops *ig_loops_create(struct ig_job *job, struct ig_dims *dims) {
    struct ig_loops *k = IG_NEW(job, struct ig_loops);
    k->job = job;
    k->dims = dims;
    k->x_index = IG_NEW(job, struct ig_map);
    ig_map_init(k->x_index, job);
    return k;
}

/* ---- Expressions ------------------------------------------------------------------------------------------------- */

ig_x ig_x_node_add(struct ig_loops *k, const struct ig_x_node *node) {
    uint64_t key[5] = {(uint64_t)node->kind | (uint64_t)node->dtype << 8 | (uint64_t)node->op << 16 |
                           (uint64_t)node->saturate << 48 | (uint64_t)node->wraps << 49,
                       (uint64_t)node->i, 0, (uint64_t)node->args[0] << 32 | node->args[1], node->args[2]};
    memcpy(&key[2], &node->f, sizeof node->f);
    uint32_t found;
    if (ig_map_get(k->x_index, key, sizeof key, &found)) return found;
    IG_PUSH(k->job, &k->x, *node);
    ig_map_put(k->x_index, key, sizeof key, k->x.count - 1);
    return k->x.count - 1;
}

static struct ig_x_node leaf(enum ig_x_kind kind, enum ingot_dtype dtype) {
    return (struct ig_x_node){.kind = kind, .dtype = dtype, .args = {IG_NO_X, IG_NO_X, IG_NO_X}};
}

/* The two's complement value of `i` in an integer type. */
static int64_t wrapped(enum ingot_dtype dtype, int64_t i) {
    switch (dtype) {
    case INGOT_I8: return (int8_t)i;
    case INGOT_I16: return (int16_t)i;
    case INGOT_I32: return (int32_t)i;
    case INGOT_U8: return (uint8_t)i;
    case INGOT_U16: return (uint16_t)i;
    case INGOT_U32: return (uint32_t)i;
    case INGOT_BOOL: return i != 0;
    default: return i;
    }
}

ig_x ig_x_int(struct ig_loops *k, enum ingot_dtype dtype, int64_t i) {
    struct ig_x_node node = leaf(IG_X_INT, dtype);
    node.i = wrapped(dtype, i);
    return ig_x_node_add(k, &node);
}

ig_x ig_x_index(struct ig_loops *k, int64_t i) {
    return ig_x_int(k, INGOT_I64, i);
}

ig_x ig_x_float(struct ig_loops *k, enum ingot_dtype dtype, double f) {
    struct ig_x_node node = leaf(IG_X_FLOAT, ig_dtype_compute(dtype));
    node.f = node.dtype == INGOT_F32 ? (double)(float)f : f;
    return ig_x_node_add(k, &node);
}

uint32_t ig_loops_dim(struct ig_loops *k, ig_dim dim) {
    uint32_t p = 0;
    while (p < k->dim_params.count && k->dim_params.at[p] != dim)
        p++;
    if (p == k->dim_params.count) IG_PUSH(k->job, &k->dim_params, dim);
    return p;
}

ig_x ig_x_dim(struct ig_loops *k, ig_dim dim) {
    int64_t value;
    if (ig_dim_is_const(k->dims, dim, &value)) return ig_x_index(k, value);
    struct ig_x_node node = leaf(IG_X_DIM, INGOT_I64);
    node.i = ig_loops_dim(k, dim);
    return ig_x_node_add(k, &node);
}

ig_x ig_x_var(struct ig_loops *k, int var) {
    struct ig_x_node node = leaf(IG_X_VAR, INGOT_I64);
    node.i = var;
    return ig_x_node_add(k, &node);
}

ig_x ig_x_free_var(struct ig_loops *k, ig_dim extent) {
    struct ig_loop_var var = {.lo = ig_dim_const(k->dims, 0), .hi = extent};
    IG_PUSH(k->job, &k->vars, var);
    return ig_x_var(k, (int)k->vars.count - 1);
}

ig_x ig_x_begin(struct ig_loops *k) {
    struct ig_x_node node = leaf(IG_X_BEGIN, INGOT_I64);
    return ig_x_node_add(k, &node);
}

ig_x ig_x_end(struct ig_loops *k) {
    struct ig_x_node node = leaf(IG_X_END, INGOT_I64);
    return ig_x_node_add(k, &node);
}

static ig_x address(struct ig_loops *k, int buffer) {
    struct ig_x_node node = leaf(IG_X_ADDRESS, INGOT_I64);
    node.i = buffer;
    return ig_x_node_add(k, &node);
}

ig_x ig_x_apart(struct ig_loops *k, int a, int b) {
    return ig_x_map1(k, IG_OP_not, ig_x_map2(k, IG_OP_eq, address(k, a), address(k, b)));
}

ig_x ig_x_acc(struct ig_loops *k, int acc, enum ingot_dtype dtype) {
    struct ig_x_node node = leaf(IG_X_ACC, ig_dtype_compute(dtype));
    node.i = acc;
    return ig_x_node_add(k, &node);
}

ig_x ig_x_load(struct ig_loops *k, int buffer, ig_x index) {
    struct ig_x_node node = leaf(IG_X_LOAD, ig_dtype_compute(k->buffers.at[buffer].dtype));
    node.i = buffer;
    node.args[0] = index;
    return ig_x_node_add(k, &node);
}

/* ---- Operators on data ------------------------------------------------------------------------------------------- */

static bool is_float_const(const struct ig_loops *k, ig_x x, double value) {
    const struct ig_x_node *n = &k->x.at[x];
    return n->kind == IG_X_FLOAT && n->f == value;
}

static bool is_int_const(const struct ig_loops *k, ig_x x, int64_t value) {
    const struct ig_x_node *n = &k->x.at[x];
    return n->kind == IG_X_INT && n->i == value;
}

static bool is_const(const struct ig_loops *k, ig_x x, double value) {
    return is_float_const(k, x, value) || is_int_const(k, x, (int64_t)value);
}

static ig_x map_node(struct ig_loops *k, enum ig_op op, ig_x a, ig_x b) {
    struct ig_x_node node = leaf(IG_X_MAP, ig_op_info(op)->result_bool ? INGOT_BOOL : k->x.at[a].dtype);
    node.op = op;
    node.wraps = true;
    node.args[0] = a;
    node.args[1] = b;
    return ig_x_node_add(k, &node);
}

ig_x ig_x_map1(struct ig_loops *k, enum ig_op op, ig_x a) {
    struct ig_x_node n = k->x.at[a];
    if (op == IG_OP_neg && n.kind == IG_X_FLOAT) return ig_x_float(k, n.dtype, -n.f);
    if (op == IG_OP_not && n.kind == IG_X_INT) return ig_x_int(k, INGOT_BOOL, !n.i);
    if (op == IG_OP_not && n.kind == IG_X_MAP && n.op == IG_OP_not) return n.args[0];
    return map_node(k, op, a, IG_NO_X);
}

/* a to the power of b, without pow if b is a small constant. */
static ig_x power(struct ig_loops *k, ig_x a, ig_x b) {
    enum ingot_dtype dtype = k->x.at[a].dtype;
    if (is_const(k, b, 1)) return a;
    if (is_const(k, b, 2)) return map_node(k, IG_OP_mul, a, a);
    if (is_const(k, b, 3)) return map_node(k, IG_OP_mul, map_node(k, IG_OP_mul, a, a), a);
    if (is_float_const(k, b, -1)) return map_node(k, IG_OP_div, ig_x_float(k, dtype, 1), a);
    if (is_float_const(k, b, 0.5)) {
        /* pow(-0, 0.5) is +0 and pow(-inf, 0.5) is +inf, but sqrt gives -0 and NaN. */
        ig_x root = map_node(k, IG_OP_add, map_node(k, IG_OP_sqrt, a, IG_NO_X), ig_x_float(k, dtype, 0));
        ig_x lowest = map_node(k, IG_OP_eq, a, ig_x_float(k, dtype, -INFINITY));
        return ig_x_select(k, lowest, ig_x_float(k, dtype, INFINITY), root);
    }
    return map_node(k, IG_OP_pow, a, b);
}

static ig_x logic(struct ig_loops *k, enum ig_op op, ig_x a, ig_x b) {
    for (int swap = 0; swap < 2; swap++) {
        ig_x x = swap ? b : a, other = swap ? a : b;
        if (k->x.at[x].kind != IG_X_INT) continue;
        bool value = k->x.at[x].i != 0;
        if (op == IG_OP_and) return value ? other : x;
        if (op == IG_OP_or) return value ? x : other;
        return value ? ig_x_map1(k, IG_OP_not, other) : other;
    }
    if (a == b && op != IG_OP_xor) return a;
    return map_node(k, op, a, b);
}

/* Of f32 or f64, with a reciprocal that is a normal number: dividing is multiplying by that. */
static bool is_power_of_two(const struct ig_loops *k, ig_x x) {
    const struct ig_x_node *n = &k->x.at[x];
    int exponent, most = n->dtype == INGOT_F64 ? 1000 : 120;
    if (n->kind != IG_X_FLOAT || (n->dtype != INGOT_F32 && n->dtype != INGOT_F64)) return false;
    return fabs(frexp(n->f, &exponent)) == 0.5 && abs(exponent) < most;
}

/* Is x a byte that saturates, cast from f32? */
static bool is_saturated_byte(const struct ig_loops *k, ig_x x) {
    const struct ig_x_node *n = &k->x.at[x];
    return n->kind == IG_X_CAST && n->saturate && n->i == INGOT_U8 && k->x.at[n->args[0]].dtype == INGOT_F32;
}

/* The larger of a number in f32 and a constant, which it is too where the number is NaN. */
static ig_x at_least(struct ig_loops *k, ig_x x, double least) {
    ig_x constant = ig_x_float(k, INGOT_F32, least);
    return ig_x_select(k, map_node(k, IG_OP_lt, constant, x), x, constant);
}

ig_x ig_x_map2(struct ig_loops *k, enum ig_op op, ig_x a, ig_x b) {
    enum ingot_dtype dtype = k->x.at[a].dtype;
    bool is_float = ig_dtype_is_float(dtype);
    switch (op) {
    case IG_OP_add:
        if (is_int_const(k, a, 0)) return b;
        if (is_int_const(k, b, 0)) return a;
        break;
    case IG_OP_sub:
        if (is_const(k, b, 0) && !(is_float && signbit(k->x.at[b].f))) return a;
        break;
    case IG_OP_mul:
        if (is_const(k, a, 1)) return b;
        if (is_const(k, b, 1)) return a;
        break;
    case IG_OP_div:
        if (is_const(k, b, 1)) return a;
        if (is_power_of_two(k, b)) return map_node(k, IG_OP_mul, a, ig_x_float(k, dtype, 1 / k->x.at[b].f));
        break;
    case IG_OP_pow: return power(k, a, b);
    case IG_OP_min:
    case IG_OP_max:
        if (a == b) return a;
        if (op == IG_OP_max && is_saturated_byte(k, a) && k->x.at[b].kind == IG_X_INT)
            return ig_x_cast(k, at_least(k, k->x.at[a].args[0], (double)k->x.at[b].i), INGOT_U8, true);
        break;
    case IG_OP_and:
    case IG_OP_or:
    case IG_OP_xor: return logic(k, op, a, b);
    case IG_OP_eq:
        if (a == b && !is_float) return ig_x_int(k, INGOT_BOOL, 1);
        break;
    default: break;
    }
    return map_node(k, op, a, b);
}

/* Is x a number in f32 without a fraction: rounded, perhaps bounded, and a constant more? NaN and infinities count as such. */
static bool is_whole(const struct ig_loops *k, ig_x x) {
    const struct ig_x_node *n = &k->x.at[x];
    if (n->kind == IG_X_FLOAT) return n->f == rint(n->f);
    if (n->kind == IG_X_SELECT) return is_whole(k, n->args[1]) && is_whole(k, n->args[2]);
    if (n->kind == IG_X_MAP && n->op == IG_OP_add) return is_whole(k, n->args[0]) && is_whole(k, n->args[1]);
    return n->kind == IG_X_MAP && n->op == IG_OP_round;
}

/* A whole number that saturates to a byte and becomes f32 again, without the byte: compilers have no vectors for that. */
static ig_x saturated(struct ig_loops *k, ig_x x) {
    ig_x low = at_least(k, x, 0), most = ig_x_float(k, INGOT_F32, 255);
    return ig_x_select(k, map_node(k, IG_OP_lt, low, most), low, most);
}

ig_x ig_x_cast(struct ig_loops *k, ig_x a, enum ingot_dtype to, bool saturate) {
    struct ig_x_node n = k->x.at[a];
    if (n.dtype == to) return a;
    if (n.kind == IG_X_LOAD && k->buffers.at[n.i].dtype == to && n.dtype == ig_dtype_compute(to)) return a;
    if (to == INGOT_F32 && is_saturated_byte(k, a) && is_whole(k, n.args[0])) return saturated(k, n.args[0]);
    if (n.kind == IG_X_INT && ig_narrow_is_float(n.dtype)) {
        return ig_x_float(k, to, (double)ig_narrow_to_f32(n.dtype, (uint8_t)n.i));
    }
    if (n.kind == IG_X_INT && ig_dtype_is_integer(to) && !saturate) return ig_x_int(k, to, n.i);
    if (n.kind == IG_X_INT && n.dtype != INGOT_U64 && (to == INGOT_F32 || to == INGOT_F64)) {
        return ig_x_float(k, to, to == INGOT_F32 ? (double)(float)n.i : (double)n.i);
    }
    if (n.kind == IG_X_FLOAT && (to == INGOT_F32 || to == INGOT_F64)) return ig_x_float(k, to, n.f);
    struct ig_x_node node = leaf(IG_X_CAST, ig_dtype_compute(to));
    node.i = to;
    node.saturate = saturate;
    node.args[0] = a;
    return ig_x_node_add(k, &node);
}

ig_x ig_x_select(struct ig_loops *k, ig_x condition, ig_x a, ig_x b) {
    if (k->x.at[condition].kind == IG_X_INT) return k->x.at[condition].i ? a : b;
    if (a == b) return a;
    struct ig_x_node node = leaf(IG_X_SELECT, k->x.at[a].dtype);
    node.args[0] = condition;
    node.args[1] = a;
    node.args[2] = b;
    return ig_x_node_add(k, &node);
}

ig_x ig_x_call(struct ig_loops *k, enum ingot_dtype dtype, const char *function, ig_x a, ig_x b, ig_x c) {
    uint32_t name = 0;
    while (name < k->functions.count && strcmp(k->functions.at[name], function) != 0)
        name++;
    if (name == k->functions.count) IG_PUSH(k->job, &k->functions, function);
    struct ig_x_node node = {.kind = IG_X_CALL, .dtype = dtype, .i = name, .args = {a, b, c}};
    return ig_x_node_add(k, &node);
}

bool ig_x_contains(const struct ig_loops *k, ig_x x, ig_x what) {
    if (x == what) return true;
    if (x == IG_NO_X || x < what) return false; /* operands have smaller numbers than the expression */
    for (int i = 0; i < 3; i++) {
        if (k->x.at[x].args[i] != IG_NO_X && ig_x_contains(k, k->x.at[x].args[i], what)) return true;
    }
    return false;
}

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

static int add_buffer(struct ig_loops *k, const struct ig_buffer *buffer) {
    IG_PUSH(k->job, &k->buffers, *buffer);
    return (int)k->buffers.count - 1;
}

int ig_loops_param(struct ig_loops *k, int param, enum ingot_dtype dtype, bool written, const char *name) {
    struct ig_buffer b = {.kind = IG_BUFFER_PARAM,
                          .dtype = dtype,
                          .written = written,
                          .param = param,
                          .name = name,
                          .offset = IG_NO_X,
                          .nothing = IG_NO_X};
    return add_buffer(k, &b);
}

int ig_loops_scratch(struct ig_loops *k, enum ingot_dtype dtype, ig_x offset, const char *name) {
    struct ig_buffer b = {
        .kind = IG_BUFFER_SCRATCH, .dtype = dtype, .written = true, .offset = offset, .name = name, .nothing = IG_NO_X};
    return add_buffer(k, &b);
}

int ig_loops_local(struct ig_loops *k, enum ingot_dtype dtype, int64_t elements, const char *name) {
    struct ig_buffer b = {.kind = IG_BUFFER_LOCAL,
                          .dtype = dtype,
                          .written = true,
                          .elements = elements,
                          .name = name,
                          .offset = IG_NO_X,
                          .nothing = IG_NO_X};
    return add_buffer(k, &b);
}

int ig_loops_shared(struct ig_loops *k, enum ingot_dtype dtype, int64_t offset, const char *name) {
    int buffer = ig_loops_scratch(k, dtype, ig_x_index(k, offset), name);
    k->buffers.at[buffer].kind = IG_BUFFER_SHARED;
    return buffer;
}

int ig_loops_spread(struct ig_loops *k, enum ingot_dtype dtype, int64_t iterations, int64_t width, const char *name) {
    int buffer = ig_loops_local(k, dtype, iterations * width, name);
    k->buffers.at[buffer].kind = IG_BUFFER_SPREAD;
    k->buffers.at[buffer].width = width;
    return buffer;
}

void ig_loops_store_once(struct ig_loops *k) {
    for (uint32_t i = 0; i < k->buffers.count; i++)
        k->buffers.at[i].once = k->buffers.at[i].kind == IG_BUFFER_PARAM;
}

/* ---- Statements -------------------------------------------------------------------------------------------------- */

static struct ig_stmt *append(struct ig_loops *k, struct ig_stmt *body, enum ig_stmt_kind kind) {
    struct ig_stmt *s = IG_NEW(k->job, struct ig_stmt);
    s->kind = kind;
    s->lo = s->hi = s->step = s->index = s->value = IG_NO_X;
    s->buffer = s->var = -1;
    if (body) {
        IG_PUSH(k->job, &body->body, s);
    } else {
        k->top = s;
    }
    return s;
}

static bool is_one_apart(struct ig_loops *k, ig_x lo, ig_x hi) {
    struct ig_affine from, to;
    ig_affine_of(k, lo, &from);
    ig_affine_of(k, hi, &to);
    bool same = from.count == to.count;
    for (int i = 0; same && i < to.count; i++)
        same = from.term[i].atom == to.term[i].atom && from.term[i].factor == to.term[i].factor;
    return same && ig_dim_sub(k->dims, to.constant, from.constant) == ig_dim_const(k->dims, 1);
}

struct ig_stmt *ig_s_for(struct ig_loops *k, struct ig_stmt *body, enum ig_for_kind kind, ig_x lo, ig_x hi, ig_x step,
                         ig_x *out_var) {
    struct ig_loop_var var = {0};
    ig_dim unused;
    ig_x_bounds(k, lo, &var.lo, &unused);
    ig_x_bounds(k, hi, &unused, &var.hi);
    IG_PUSH(k->job, &k->vars, var);
    struct ig_stmt *s = append(k, body, IG_S_FOR);
    s->for_kind = kind;
    s->var = (int)k->vars.count - 1;
    s->lo = lo;
    s->hi = hi;
    s->step = step;
    s->once = kind == IG_FOR_SERIAL && is_one_apart(k, lo, hi);
    *out_var = ig_x_var(k, s->var);
    return s;
}

void ig_s_store(struct ig_loops *k, struct ig_stmt *body, int buffer, ig_x index, ig_x value) {
    const struct ig_x_node *v = &k->x.at[value];
    /* The store rounds to the buffer's type, so a cast to it is redundant. */
    if (v->kind == IG_X_CAST && v->i == (int64_t)k->buffers.at[buffer].dtype && k->x.at[v->args[0]].dtype == v->dtype) {
        value = v->args[0];
    }
    struct ig_stmt *s = append(k, body, IG_S_STORE);
    s->buffer = buffer;
    s->index = index;
    s->value = value;
}

int ig_loops_acc(struct ig_loops *k) {
    return k->n_accs++;
}

void ig_s_acc_declare(struct ig_loops *k, struct ig_stmt *body, int acc, enum ingot_dtype dtype, ig_x initial) {
    struct ig_stmt *s = append(k, body, IG_S_ACC);
    s->var = acc;
    s->dtype = ig_dtype_compute(dtype);
    s->value = initial;
}

int ig_s_acc(struct ig_loops *k, struct ig_stmt *body, enum ingot_dtype dtype, ig_x initial) {
    int acc = ig_loops_acc(k);
    ig_s_acc_declare(k, body, acc, dtype, initial);
    return acc;
}

void ig_s_update(struct ig_loops *k, struct ig_stmt *body, int acc, enum ig_op op, ig_x value) {
    struct ig_stmt *s = append(k, body, IG_S_UPDATE);
    s->var = acc;
    s->op = op;
    s->value = value;
    s->dtype = k->x.at[value].dtype;
}

struct ig_stmt *ig_s_if(struct ig_loops *k, struct ig_stmt *body, ig_x condition) {
    struct ig_stmt *s = append(k, body, IG_S_IF);
    s->value = condition;
    return s;
}

void ig_s_text(struct ig_loops *k, struct ig_stmt *body, const char *text) {
    append(k, body, IG_S_TEXT)->text = text;
}

void ig_s_name(struct ig_loops *k, ig_x var, const char *name) {
    k->vars.at[k->x.at[var].i].name = ig_format(k->job, "%s%d", name, (int)k->x.at[var].i);
}

void ig_s_move_before(struct ig_stmt *body, const struct ig_stmt *s) {
    uint32_t i = body->body.count - 1;
    struct ig_stmt *last = body->body.at[i];
    for (; last != s && body->body.at[i] != s; i--)
        body->body.at[i] = body->body.at[i - 1];
    body->body.at[i] = last;
}

void ig_s_call(struct ig_loops *k, struct ig_stmt *body, const char *function, const struct ig_call_arg *args,
               int count) {
    struct ig_stmt *s = append(k, body, IG_S_CALL);
    s->text = function;
    s->args = ig_memdup(k->job, args, (size_t)count * sizeof *args);
    s->n_args = count;
}
