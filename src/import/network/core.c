/* Core operators by name: attributes in any order become those of the operator's row, absent ones natural values. */
#include <string.h>

#include "import/network/network.h"
#include "ir/build.h"

/* A core operator being added. */
struct adding {
    struct ig_network *network;
    struct ig_graph *g;
    const struct ingot_operator *given;
    const struct ig_op_info *info;
    enum ig_op op;
};

static const char *const kinds[] = {
    [INGOT_ATTRIBUTE_INT] = "an integer", [INGOT_ATTRIBUTE_FLOAT] = "a float",   [INGOT_ATTRIBUTE_STRING] = "a string",
    [INGOT_ATTRIBUTE_INTS] = "integers",  [INGOT_ATTRIBUTE_FLOATS] = "floats",   [INGOT_ATTRIBUTE_DIMS] = "dims",
    [INGOT_ATTRIBUTE_DTYPE] = "a type",   [INGOT_ATTRIBUTE_TENSOR] = "a tensor", [INGOT_ATTRIBUTE_BODY] = "a body",
};

static const char *const expected[] = {
    [IG_KIND_INT] = "an integer", [IG_KIND_FLOAT] = "a float", [IG_KIND_INTS] = "integers", [IG_KIND_FLOATS] = "floats",
    [IG_KIND_DIM] = "a dim",      [IG_KIND_DIMS] = "dims",     [IG_KIND_DTYPE] = "a type",  [IG_KIND_DATA] = "a tensor",
};

/* Layouts are the compiler's choice. */
static bool is_layout(const struct adding *a, enum ig_attr_name name) {
    return name == IG_ATTR_packed || name == IG_ATTR_math || name == IG_ATTR_n || name == IG_ATTR_channels_last ||
           (name == IG_ATTR_kernel && a->op == IG_OP_conv);
}

/* ---- Attributes that are given */

static _Noreturn void refuse_kind(const struct adding *a, const struct ingot_attribute *given, enum ig_attr_kind kind) {
    bool known = given->kind >= INGOT_ATTRIBUTE_INT && given->kind <= INGOT_ATTRIBUTE_BODY;
    ig_raise(a->network->job, INGOT_INVALID_ARGUMENT, "attribute '%s' is %s, expected %s", given->name,
             known ? kinds[given->kind] : "of no kind", expected[kind]);
}

static const ig_dim *dims_of(const struct adding *a, const struct ingot_attribute *given) {
    ig_dim *dims = IG_NEW_ARRAY(a->network->job, ig_dim, given->count + 1);
    for (size_t i = 0; i < given->count; i++) {
        dims[i] = given->kind == INGOT_ATTRIBUTE_INTS ? ig_dim_const(a->g->dims, given->ints[i])
                                                      : ig_network_dim(a->network, given->dims[i]);
    }
    return dims;
}

static bool convert(const struct adding *a, const struct ingot_attribute *given, enum ig_attr_kind kind,
                    struct ig_attr *out) {
    enum ingot_attribute_kind is = given->kind;
    int count = (int)given->count;
    switch (kind) {
    case IG_KIND_INT: *out = ig_attr_of_int(given->i); return is == INGOT_ATTRIBUTE_INT;
    case IG_KIND_INTS: *out = ig_attr_of_ints(given->ints, count); return is == INGOT_ATTRIBUTE_INTS;
    case IG_KIND_FLOATS: *out = ig_attr_of_floats(given->floats, count); return is == INGOT_ATTRIBUTE_FLOATS;
    case IG_KIND_DTYPE: *out = ig_attr_of_dtype(given->dtype); return is == INGOT_ATTRIBUTE_DTYPE;
    case IG_KIND_FLOAT:
        *out = ig_attr_of_float(is == INGOT_ATTRIBUTE_INT ? (double)given->i : given->f);
        return is == INGOT_ATTRIBUTE_INT || is == INGOT_ATTRIBUTE_FLOAT;
    case IG_KIND_DIM:
        if (is == INGOT_ATTRIBUTE_INT) *out = ig_attr_of_dim(ig_dim_const(a->g->dims, given->i));
        if (is == INGOT_ATTRIBUTE_DIMS && count == 1) *out = ig_attr_of_dim(dims_of(a, given)[0]);
        return is == INGOT_ATTRIBUTE_INT || (is == INGOT_ATTRIBUTE_DIMS && count == 1);
    case IG_KIND_DIMS:
        if (is == INGOT_ATTRIBUTE_INTS || is == INGOT_ATTRIBUTE_DIMS) *out = ig_attr_of_dims(dims_of(a, given), count);
        return is == INGOT_ATTRIBUTE_INTS || is == INGOT_ATTRIBUTE_DIMS;
    case IG_KIND_DATA: return false;
    }
    return false;
}

static const struct ingot_attribute *find(const struct adding *a, const char *name) {
    for (size_t i = 0; i < a->given->n_attributes; i++) {
        if (strcmp(a->given->attributes[i].name, name) == 0) return &a->given->attributes[i];
    }
    return NULL;
}

/* Every attribute that is given must be one of the row's, or a body. */
static void check_names(const struct adding *a) {
    for (size_t i = 0; i < a->given->n_attributes; i++) {
        const struct ingot_attribute *given = &a->given->attributes[i];
        bool known = given->kind == INGOT_ATTRIBUTE_BODY && a->info->family == IG_FAMILY_CONTROL;
        for (int j = 0; j < a->info->n_attrs; j++) {
            enum ig_attr_name name = a->info->attrs[j].name;
            known |= !is_layout(a, name) && strcmp(ig_attr_name_text(name), given->name) == 0;
        }
        if (!known) ig_raise(a->network->job, INGOT_INVALID_ARGUMENT, "there is no attribute '%s'", given->name);
    }
}

/* ---- Attributes that are not */

static const struct ig_type *operand(const struct adding *a, size_t index) {
    if (index >= a->given->n_inputs || a->given->inputs[index] == INGOT_NO_VALUE)
        ig_raise(a->network->job, INGOT_BAD_MODEL, "input %zu is missing", index);
    return ig_type_of(a->g, a->given->inputs[index]);
}

/* The axes that a list such as `strides` is for: all, or the spatial ones. */
static int axes_of(const struct adding *a) {
    int spatial = operand(a, 0)->rank - 2;
    if (a->op == IG_OP_slice || a->op == IG_OP_pad) return operand(a, 0)->rank;
    return spatial > 0 ? spatial : 0;
}

static struct ig_attr list_of(const struct adding *a, enum ig_attr_kind kind, int64_t value) {
    int count = axes_of(a);
    int64_t *ints = IG_NEW_ARRAY(a->network->job, int64_t, (size_t)count + 1);
    ig_dim *dims = IG_NEW_ARRAY(a->network->job, ig_dim, (size_t)count + 1);
    for (int i = 0; i < count; i++) {
        ints[i] = value;
        dims[i] = ig_dim_const(a->g->dims, value);
    }
    return kind == IG_KIND_DIMS ? ig_attr_of_dims(dims, count) : ig_attr_of_ints(ints, count);
}

static enum ingot_dtype accumulator(const struct adding *a) {
    enum ingot_dtype dtype = operand(a, 0)->dtype;
    return dtype == INGOT_I8 || dtype == INGOT_U8 ? INGOT_I32 : dtype;
}

/* The sizes of a convolution's filters, [M, C/groups, kernel...]. */
static struct ig_attr kernel_of(const struct adding *a) {
    const struct ig_type *w = operand(a, 1);
    int count = w->rank > 2 ? w->rank - 2 : 0;
    int64_t *sizes = IG_NEW_ARRAY(a->network->job, int64_t, (size_t)count + 1);
    for (int i = 0; i < count; i++) {
        if (!ig_dim_is_const(a->g->dims, w->dim[2 + i], &sizes[i]))
            ig_raise(a->network->job, INGOT_BAD_MODEL, "the filters' sizes are not known");
    }
    return ig_attr_of_ints(sizes, count);
}

static int64_t filters_of(const struct adding *a) {
    int64_t count = 0;
    if (a->op != IG_OP_conv) return 0;
    if (operand(a, 1)->rank < 3 || !ig_dim_is_const(a->g->dims, operand(a, 1)->dim[0], &count))
        ig_raise(a->network->job, INGOT_BAD_MODEL, "the filters are not [M, C, kernel...] of a known number");
    return count;
}

static struct ig_attr natural(const struct adding *a, enum ig_attr_name name, enum ig_attr_kind kind) {
    switch (name) {
    case IG_ATTR_acc: return ig_attr_of_dtype(accumulator(a));
    case IG_ATTR_n: return ig_attr_of_int(filters_of(a));
    case IG_ATTR_groups:
    case IG_ATTR_largest: return ig_attr_of_int(1);
    case IG_ATTR_clip: return ig_attr_of_float(0);
    case IG_ATTR_trip: return ig_attr_of_dim(IG_DIM_NONE);
    case IG_ATTR_strides:
    case IG_ATTR_dilations:
    case IG_ATTR_steps: return list_of(a, kind, 1);
    case IG_ATTR_before:
    case IG_ATTR_after:
    case IG_ATTR_starts: return list_of(a, kind, 0);
    case IG_ATTR_kernel:
        if (a->op == IG_OP_conv) return kernel_of(a);
        break;
    case IG_ATTR_axis:
    case IG_ATTR_carried: break;
    default:
        if (kind == IG_KIND_INT) return ig_attr_of_int(0); /* switches, and modes whose first is the plain one */
    }
    ig_raise(a->network->job, INGOT_INVALID_ARGUMENT, "attribute '%s' is missing", ig_attr_name_text(name));
}

static const struct ig_attr *attributes(const struct adding *a) {
    struct ig_attr *attrs = IG_NEW_ARRAY(a->network->job, struct ig_attr, (size_t)a->info->n_attrs + 1);
    check_names(a);
    for (int i = 0; i < a->info->n_attrs; i++) {
        enum ig_attr_kind kind = a->info->attrs[i].kind;
        enum ig_attr_name name = a->info->attrs[i].name;
        const struct ingot_attribute *given = is_layout(a, name) ? NULL : find(a, ig_attr_name_text(name));
        if (!given) {
            attrs[i] = natural(a, name, kind);
        } else if (!convert(a, given, kind, &attrs[i])) {
            refuse_kind(a, given, kind);
        }
    }
    return attrs;
}

/* ---- The operator */

/* A cast of what exists, to a type that exists, may have to lead by way of other types. All others are left to inference. */
static bool is_cast(const struct adding *a, const struct ig_attr *attrs) {
    if (a->op != IG_OP_cast || a->given->n_inputs != 1 || a->given->inputs[0] >= a->g->values.count) return false;
    return attrs[0].i > INGOT_DTYPE_NONE && attrs[0].i < INGOT_DTYPE_COUNT;
}

static ig_value cast(const struct adding *a, const struct ig_attr *attrs) {
    ig_value x = a->given->inputs[0];
    enum ingot_dtype to = (enum ingot_dtype)attrs[0].i;
    return attrs[1].i ? ig_build_cast_saturating(a->g, x, to) : ig_build_cast(a->g, x, to);
}

static void find_bodies(const struct adding *a, struct ig_graph *const *bodies, struct ig_graph *out_bodies[2]) {
    static const char *const names[2][2] = {{"then", "else"}, {"body", NULL}};
    int row = a->op == IG_OP_loop;
    size_t next = 0;
    out_bodies[0] = out_bodies[1] = NULL;
    if (a->info->family != IG_FAMILY_CONTROL) return;
    for (size_t i = 0; i < a->given->n_attributes; i++) {
        const struct ingot_attribute *given = &a->given->attributes[i];
        if (given->kind != INGOT_ATTRIBUTE_BODY) continue;
        struct ig_graph *body = bodies[next++];
        for (int j = 0; j < 2; j++) {
            if (names[row][j] && strcmp(names[row][j], given->name) == 0) out_bodies[j] = body;
        }
    }
    for (int j = 0; j < 2; j++) {
        if (names[row][j] && !out_bodies[j])
            ig_raise(a->network->job, INGOT_INVALID_ARGUMENT, "the body '%s' is missing", names[row][j]);
    }
}

void ig_network_add_core(struct ig_network *network, struct ig_graph *g, const struct ingot_operator *op,
                         struct ig_graph *const *bodies, ig_value *out_values, size_t n_outputs) {
    struct adding a = {.network = network, .g = g, .given = op, .op = ig_op_parse(op->name)};
    struct ig_graph *body[2];
    if (a.op == IG_OP_COUNT) ig_raise(network->job, INGOT_UNSUPPORTED, "there is no core operator '%.60s'", op->name);
    if (a.op == IG_OP_constant)
        ig_raise(network->job, INGOT_INVALID_ARGUMENT, "constants are added by ingot_network_constant");
    a.info = ig_op_info(a.op);
    if (a.info->outputs >= 0 && n_outputs != (size_t)a.info->outputs)
        ig_raise(network->job, INGOT_INVALID_ARGUMENT, "%zu outputs are asked for, it has %d", n_outputs,
                 a.info->outputs);
    const struct ig_attr *attrs = attributes(&a);
    find_bodies(&a, bodies, body);
    ig_value first = is_cast(&a, attrs)
                         ? cast(&a, attrs)
                         : ig_build_node(g, a.op, op->inputs, (uint32_t)op->n_inputs, (uint32_t)n_outputs, attrs, body);
    for (size_t i = 0; i < n_outputs; i++)
        out_values[i] = first + (ig_value)i;
}
