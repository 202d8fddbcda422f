/*
 * Accesses of up to 16 bytes: what a vector loop (IG_FOR_VECTOR) loads from contiguous elements, starting at a multiple
 * of their number, is copied to registers before the loop, and what it stores there is copied from registers after it.
 * This applies to loops and registers of single threads; loops that the block executes together are left alone.
 */
#include <string.h>

#include "codegen/cuda/printer.h"
#include "kernel/affine.h"

enum { MOST_BYTES = 128 }; /* that a call copies */

struct vectors {
    struct ig_loops *k;
    const struct ig_stmt *loop;
    ig_x var;
    int64_t count;
    IG_VEC(ig_x) from;
    IG_VEC(ig_x) to;
    IG_VEC(struct ig_stmt *) before;
    IG_VEC(struct ig_stmt *) after;
    bool *written; /* by buffer: written in the loop */
    int *loads;    /* by buffer: loads in the loop */
};

/* A copy, executed if `condition` holds; IG_NO_X: always. */
static struct ig_stmt *new_call(struct vectors *v, int64_t bytes, int to, ig_x to_index, int from, ig_x from_index,
                                ig_x condition) {
    struct ig_job *job = v->k->job;
    struct ig_stmt *s = IG_NEW(job, struct ig_stmt);
    struct ig_call_arg *args = IG_NEW_ARRAY(job, struct ig_call_arg, 3);
    args[0] = (struct ig_call_arg){to, to_index};
    args[1] = (struct ig_call_arg){from, from_index};
    args[2] = (struct ig_call_arg){-1, condition};
    *s = (struct ig_stmt){.kind = IG_S_CALL,
                          .text = ig_format(job, "ig_copy_%s%lld", condition == IG_NO_X ? "" : "if_", (long long)bytes),
                          .args = args,
                          .n_args = condition == IG_NO_X ? 2 : 3,
                          .lo = IG_NO_X,
                          .hi = IG_NO_X,
                          .step = IG_NO_X,
                          .index = IG_NO_X,
                          .value = IG_NO_X,
                          .buffer = -1,
                          .var = -1};
    return s;
}

/* ---- Finding vectors --------------------------------------------------------------------------------------------- */

static bool contains(const struct ig_loops *k, ig_x x, ig_x what) {
    if (x == what) return true;
    for (int i = 0; i < 3; i++) {
        if (k->x.at[x].args[i] != IG_NO_X && contains(k, k->x.at[x].args[i], what)) return true;
    }
    return false;
}

/* The statement itself, or the store that is all that an IF has inside and whose condition is that of all iterations. */
static struct ig_stmt *without_condition(const struct vectors *v, struct ig_stmt *s) {
    bool one = s->kind == IG_S_IF && s->body.count == 1 && s->body.at[0]->kind == IG_S_STORE;
    return one && !contains(v->k, s->value, v->var) ? s->body.at[0] : s;
}

/* Is x the loop variable plus something that does not change with it? */
static bool steps_by_one(const struct vectors *v, ig_x x) {
    const struct ig_x_node *n = &v->k->x.at[x];
    if (x == v->var) return true;
    if (n->kind != IG_X_MAP || n->wraps || (n->op != IG_OP_add && n->op != IG_OP_sub)) return false;
    bool left = contains(v->k, n->args[0], v->var), right = contains(v->k, n->args[1], v->var);
    if (left && !right) return steps_by_one(v, n->args[0]);
    return right && !left && n->op == IG_OP_add && steps_by_one(v, n->args[1]);
}

static int64_t common(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

static const struct ig_stmt *find_loop(const struct ig_stmt *s, int64_t var) {
    if (s->kind == IG_S_FOR && s->var == var) return s;
    for (uint32_t i = 0; i < s->body.count; i++) {
        const struct ig_stmt *found = find_loop(s->body.at[i], var);
        if (found) return found;
    }
    return NULL;
}

/* A number up to 16 that divides the index; 16 for 0. */
static int64_t divisor(const struct vectors *v, ig_x x) {
    const struct ig_x_node *n = &v->k->x.at[x];
    if (n->kind == IG_X_INT) return n->i == 0 ? 16 : common(n->i, 16);
    if (n->kind == IG_X_DIM) {
        int64_t by = 16;
        while (by > 1 && !ig_dim_divides(v->k->dims, ig_dim_const(v->k->dims, by), v->k->dim_params.at[n->i]))
            by /= 2;
        return by;
    }
    if (n->kind == IG_X_VAR) {
        const struct ig_stmt *s = find_loop(v->k->top, n->i);
        if (!s || s->step == IG_NO_X || s->for_kind == IG_FOR_TILE) return 1;
        return common(divisor(v, s->lo), divisor(v, s->step));
    }
    if (n->kind == IG_X_SELECT) return common(divisor(v, n->args[1]), divisor(v, n->args[2]));
    if (n->kind != IG_X_MAP || n->wraps || n->dtype != INGOT_I64) return 1;
    switch (n->op) {
    case IG_OP_mul: {
        int64_t product = divisor(v, n->args[0]) * divisor(v, n->args[1]);
        return product > 16 ? 16 : product;
    }
    case IG_OP_add:
    case IG_OP_sub:
    case IG_OP_min:
    case IG_OP_max:
    case IG_OP_mod: return common(divisor(v, n->args[0]), divisor(v, n->args[1]));
    default: return 1;
    }
}

/* The index of the first of `count` neighbours, or IG_NO_X. */
static ig_x first_of(struct vectors *v, ig_x index) {
    if (v->k->x.at[index].dtype != INGOT_I64 || !steps_by_one(v, index)) return IG_NO_X;
    ig_x zero = ig_x_index(v->k, 0), first = ig_x_substitute(v->k, index, &v->var, &zero, 1);
    return divisor(v, first) % v->count == 0 ? first : IG_NO_X;
}

/* The same of neighbours that the loop walks through backwards. */
static ig_x lowest_of(struct vectors *v, ig_x index) {
    struct ig_affine sum;
    if (v->k->x.at[index].dtype != INGOT_I64) return IG_NO_X;
    ig_affine_of(v->k, index, &sum);
    if (ig_affine_factor(v->k, &sum, v->var) != ig_dim_const(v->k->dims, -1)) return IG_NO_X;
    if (ig_affine_entangled(v->k, &sum, v->var)) return IG_NO_X;
    ig_x last = ig_x_index(v->k, v->count - 1), lowest = ig_x_substitute(v->k, index, &v->var, &last, 1);
    return divisor(v, lowest) % v->count == 0 ? lowest : IG_NO_X;
}

static int64_t bytes_of(const struct vectors *v, int buffer) {
    return v->count * (int64_t)ingot_dtype_size(v->k->buffers.at[buffer].dtype);
}

static bool in_memory(const struct vectors *v, int buffer) {
    enum ig_buffer_kind kind = v->k->buffers.at[buffer].kind;
    return (kind == IG_BUFFER_PARAM || kind == IG_BUFFER_SCRATCH) && bytes_of(v, buffer) <= MOST_BYTES;
}

/* Joining loads from shared memory is not left to NVRTC: what it joins, and with that the code, differs from one call to
 * the next. */
static bool in_shared_memory(const struct vectors *v, int buffer) {
    const struct ig_buffer *b = &v->k->buffers.at[buffer];
    return b->kind == IG_BUFFER_SHARED && divisor(v, b->offset) == 16 && bytes_of(v, buffer) <= MOST_BYTES;
}

/* Is there an instruction that copies so many bytes if a condition holds? */
static bool may_have_condition(int64_t bytes) {
    return bytes == 4 || bytes == 8 || bytes == 16;
}

static int registers_of(struct vectors *v, int buffer, enum ingot_dtype dtype) {
    const char *name = v->k->buffers.at[buffer].name;
    return ig_loops_local(v->k, dtype, v->count, ig_format(v->k->job, "%sv%u", name, v->k->buffers.count));
}

static int registers(struct vectors *v, int buffer) {
    return registers_of(v, buffer, v->k->buffers.at[buffer].dtype);
}

/* ---- Rewriting --------------------------------------------------------------------------------------------------- */

static void vectorize_loads(struct vectors *v, ig_x x) {
    if (x == IG_NO_X || !contains(v->k, x, v->var)) return;
    const struct ig_x_node n = v->k->x.at[x];
    for (uint32_t i = 0; i < v->from.count; i++) {
        if (v->from.at[i] == x) return;
    }
    bool is_load = n.kind == IG_X_LOAD && !v->written[n.i];
    if (is_load && (in_memory(v, (int)n.i) || in_shared_memory(v, (int)n.i))) {
        ig_x first = first_of(v, n.args[0]), at = v->var;
        if (first == IG_NO_X) {
            first = lowest_of(v, n.args[0]);
            at = ig_x_sub(v->k, ig_x_index(v->k, v->count - 1), v->var);
        }
        if (first != IG_NO_X) {
            int local = registers(v, (int)n.i);
            IG_PUSH(v->k->job, &v->before,
                    new_call(v, bytes_of(v, (int)n.i), local, ig_x_index(v->k, 0), (int)n.i, first, IG_NO_X));
            IG_PUSH(v->k->job, &v->from, x);
            IG_PUSH(v->k->job, &v->to, ig_x_load(v->k, local, at));
            return;
        }
    }
    for (int i = 0; i < 3; i++)
        vectorize_loads(v, n.args[i]);
}

/* Is the value made of floats that a function converts together, as it copies them? */
static const char *match_narrowed(const struct vectors *v, int buffer, ig_x value, ig_x *out_number) {
    const struct ig_x_node *n = &v->k->x.at[value];
    enum ingot_dtype dtype = v->k->buffers.at[buffer].dtype;
    struct ig_cuda_byte b;
    if (v->count < 4) return NULL;
    if (dtype == INGOT_F8E4M3FN && n->kind == IG_X_CAST && n->saturate && n->i == INGOT_F8E4M3FN) {
        *out_number = n->args[0];
        bool single = v->k->x.at[*out_number].dtype == INGOT_F32;
        return single ? ig_format(v->k->job, "f8e4m3fn<%lld>", (long long)v->count) : NULL;
    }
    if ((dtype != INGOT_I8 && dtype != INGOT_U8) || n->dtype != dtype || !ig_cuda_match_byte(v->k, value, &b))
        return NULL;
    *out_number = b.number;
    return ig_format(v->k->job, "bytes<%lld, %d, %d, %d>", (long long)v->count, b.low - b.zero, b.high - b.zero,
                     b.zero);
}

/* A store that has a condition is made to registers without it; then the copy has it. */
static void vectorize_store(struct vectors *v, struct ig_stmt **at, uint32_t n_buffers) {
    struct ig_stmt *s = without_condition(v, *at);
    int buffer = s->buffer;
    IG_ASSERT(v->k->job, (uint32_t)buffer < n_buffers);
    bool copied = in_memory(v, buffer) || in_shared_memory(v, buffer);
    ig_x first = copied && !v->loads[buffer] ? first_of(v, s->index) : IG_NO_X;
    if (first == IG_NO_X || (s != *at && !may_have_condition(bytes_of(v, buffer)))) return;
    ig_x condition = s == *at ? IG_NO_X : (*at)->value, number;
    const char *narrowed = match_narrowed(v, buffer, s->value, &number);
    int local = narrowed ? registers_of(v, buffer, INGOT_F32) : registers(v, buffer);
    struct ig_stmt *copy = new_call(v, bytes_of(v, buffer), buffer, first, local, ig_x_index(v->k, 0), condition);
    if (narrowed) {
        copy->text = ig_format(v->k->job, "ig_put_%s%s", condition == IG_NO_X ? "" : "if_", narrowed);
        s->value = number;
        v->k->buffers.at[local].rounded_to = v->k->buffers.at[buffer].dtype;
    }
    IG_PUSH(v->k->job, &v->after, copy);
    s->buffer = local;
    s->index = v->var;
    *at = s;
}

static void count_loads(struct vectors *v, ig_x x) {
    if (x == IG_NO_X) return;
    const struct ig_x_node *n = &v->k->x.at[x];
    if (n->kind == IG_X_LOAD) v->loads[n->i]++;
    for (int i = 0; i < 3; i++)
        count_loads(v, n->args[i]);
}

/* Can this file handle the loop? Its statements must have no bodies, and each buffer may be stored to only once. */
static bool is_plain(struct vectors *v, const struct ig_stmt *s) {
    for (uint32_t i = 0; i < s->body.count; i++) {
        const struct ig_stmt *c = without_condition(v, s->body.at[i]);
        if (c->kind != IG_S_STORE && c->kind != IG_S_UPDATE && c->kind != IG_S_ACC) return false;
        if (c->kind == IG_S_STORE && v->written[c->buffer]) return false;
        if (c->kind == IG_S_STORE) v->written[c->buffer] = true;
        count_loads(v, c->value);
        count_loads(v, c->index);
    }
    return true;
}

static void substitute_all(struct vectors *v, struct ig_stmt *s) {
    for (uint32_t i = 0; i < s->body.count && v->from.count > 0; i++) {
        struct ig_stmt *c = without_condition(v, s->body.at[i]);
        int count = (int)v->from.count;
        if (c->value != IG_NO_X) c->value = ig_x_substitute(v->k, c->value, v->from.at, v->to.at, count);
        if (c->index != IG_NO_X) c->index = ig_x_substitute(v->k, c->index, v->from.at, v->to.at, count);
    }
}

/* Does the loop take the larger, or smaller, of bytes in registers and those that it has loaded? Then one call does it, for four
 * at once. */
static struct ig_stmt *extremes_of_bytes(struct vectors *v, const struct ig_stmt *loop) {
    const struct ig_stmt *s = loop->body.count == 1 ? loop->body.at[0] : NULL;
    if (!s || s->kind != IG_S_STORE || v->count < 4) return NULL;
    const struct ig_x_node n = v->k->x.at[s->value];
    const struct ig_buffer *to = &v->k->buffers.at[s->buffer];
    bool in_registers = to->kind == IG_BUFFER_LOCAL || to->kind == IG_BUFFER_SPREAD;
    bool extreme = n.kind == IG_X_MAP && (n.op == IG_OP_max || n.op == IG_OP_min);
    if (!extreme || !in_registers || (to->dtype != INGOT_I8 && to->dtype != INGOT_U8)) return NULL;
    for (int i = 0; i < 2; i++) {
        const struct ig_x_node old = v->k->x.at[n.args[i]], other = v->k->x.at[n.args[1 - i]];
        if (old.kind != IG_X_LOAD || old.i != s->buffer || old.args[0] != s->index) continue;
        if (other.kind != IG_X_LOAD || other.args[0] != v->var) continue;
        if (v->k->buffers.at[other.i].kind != IG_BUFFER_LOCAL || v->k->buffers.at[other.i].dtype != to->dtype) continue;
        ig_x zero = ig_x_index(v->k, 0), first = ig_x_substitute(v->k, s->index, &v->var, &zero, 1);
        if (divisor(v, first) % 4 != 0) continue;
        struct ig_stmt *call = new_call(v, v->count, s->buffer, first, (int)other.i, zero, IG_NO_X);
        call->text = ig_format(v->k->job, "ig_four_%s_%s<%lld>", ig_op_info(n.op)->name, ingot_dtype_name(to->dtype),
                               (long long)v->count);
        return call;
    }
    return NULL;
}

static bool begin(struct vectors *v, struct ig_loops *k, const struct ig_stmt *s) {
    const struct ig_x_node *hi = &k->x.at[s->hi];
    *v = (struct vectors){.k = k, .loop = s};
    if (hi->kind != IG_X_INT || hi->i < 2 || hi->i > 16 || (hi->i & (hi->i - 1))) return false;
    v->count = hi->i;
    v->var = ig_x_var(k, s->var);
    v->written = IG_NEW_ARRAY(k->job, bool, k->buffers.count + 1);
    v->loads = IG_NEW_ARRAY(k->job, int, k->buffers.count + 1);
    return is_plain(v, s);
}

static void vectorize(struct ig_loops *k, struct ig_stmt *parent, uint32_t *at) {
    struct ig_stmt *s = parent->body.at[*at];
    struct vectors v;
    if (!begin(&v, k, s)) return;
    uint32_t n_buffers = k->buffers.count;
    for (uint32_t i = 0; i < s->body.count; i++) {
        vectorize_loads(&v, without_condition(&v, s->body.at[i])->value);
        vectorize_loads(&v, without_condition(&v, s->body.at[i])->index);
    }
    substitute_all(&v, s);
    for (uint32_t i = 0; i < s->body.count; i++) {
        if (without_condition(&v, s->body.at[i])->kind == IG_S_STORE) vectorize_store(&v, &s->body.at[i], n_buffers);
    }
    struct ig_stmt *call = extremes_of_bytes(&v, s);
    if (call) parent->body.at[*at] = call;
    const struct ig_stmt old = *parent;
    parent->body.at = NULL;
    parent->body.count = parent->body.capacity = 0;
    for (uint32_t i = 0; i < old.body.count; i++) {
        for (uint32_t j = 0; i == *at && j < v.before.count; j++)
            IG_PUSH(k->job, &parent->body, v.before.at[j]);
        IG_PUSH(k->job, &parent->body, old.body.at[i]);
        for (uint32_t j = 0; i == *at && j < v.after.count; j++)
            IG_PUSH(k->job, &parent->body, v.after.at[j]);
    }
    *at += v.before.count + v.after.count;
}

static void walk(struct ig_loops *k, struct ig_stmt *s, bool in_thread) {
    in_thread |= s->kind == IG_S_FOR && (s->for_kind == IG_FOR_SIMD || s->for_kind == IG_FOR_TEAM);
    for (uint32_t i = 0; i < s->body.count; i++) {
        struct ig_stmt *c = s->body.at[i];
        if (in_thread && c->kind == IG_S_FOR && c->for_kind == IG_FOR_VECTOR) {
            vectorize(k, s, &i);
        } else {
            walk(k, c, in_thread);
        }
    }
}

void ig_cuda_vectorize(struct ig_loops *k) {
    walk(k, k->top, false);
}
