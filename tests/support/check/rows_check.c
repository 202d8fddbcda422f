#include "support/check/rows_check.h"

#include <math.h>
#include <string.h>

#include "ir/eval/eval.h"

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int64_t size_of(const struct rows_trial *t, ig_dim dim, int64_t rows) {
    IG_VEC(ig_dim) symbols = {0};
    IG_VEC(int64_t) values = {0};
    ig_dim symbol;
    int64_t lo, hi, size = 0;
    for (uint32_t i = 0; ig_dim_symbol_at(t->graph->dims, i, &symbol, &lo, &hi); i++) {
        IG_PUSH(t->graph->job, &symbols, symbol);
        IG_PUSH(t->graph->job, &values, symbol == t->symbol ? rows : t->others);
    }
    IG_ASSERT(t->graph->job, ig_dim_eval(t->graph->dims, dim, symbols.at, values.at, (int)symbols.count, &size));
    return size;
}

static int axis_of(const struct rows_trial *t, const struct ig_type *type) {
    for (int i = 0; i < type->rank; i++) {
        if (type->dim[i] == t->symbol) return i;
    }
    return -1;
}

/* The place of element `index` of a tensor, in one with `rows` along `axis`; -1 beyond
 * them. */
static int64_t place_among(const struct ingot_tensor *x, int64_t index, int axis, int64_t rows) {
    int64_t inner = 1;
    if (axis < 0) return index;
    for (int i = axis + 1; i < x->rank; i++)
        inner *= x->dims[i];
    int64_t row = index / inner % x->dims[axis], outer = index / inner / x->dims[axis];
    return row < rows ? (outer * rows + row) * inner + index % inner : -1;
}

static void put_element(struct ingot_tensor *x, int64_t index, uint64_t bits, bool garbage) {
    static const double worst[] = {NAN, INFINITY, -INFINITY, 3e38, -0.0};
    if (x->dtype == INGOT_BOOL) {
        ig_store_i64(x->dtype, x->data, index, (int64_t)(bits % 2));
    } else if (ig_dtype_is_float(x->dtype)) {
        double number = (double)(int64_t)(bits % 17) / 4 - 2;
        ig_store_f64(x->dtype, x->data, index, garbage ? worst[bits % 5] : number);
    } else {
        ig_store_i64(x->dtype, x->data, index, garbage ? (int64_t)bits : (int64_t)(bits % 2));
    }
}

static struct ingot_tensor make_input(const struct rows_trial *t, uint32_t i, int64_t rows) {
    const struct ig_type *type = ig_type_of(t->graph, t->graph->inputs.at[i].value);
    struct ingot_tensor x = {.dtype = type->dtype, .rank = type->rank};
    int axis = axis_of(t, type);
    for (int k = 0; k < type->rank; k++)
        x.dims[k] = size_of(t, type->dim[k], rows);
    int64_t count = ingot_tensor_elements(&x);
    x.data = ig_alloc(t->graph->job, (size_t)count * ingot_dtype_size(x.dtype) + 8);
    for (int64_t k = 0; k < count; k++) {
        int64_t place = place_among(&x, k, axis, t->rows);
        put_element(&x, k, mixed(t->seed * 1000003 + i * 7919 + (uint64_t)(place < 0 ? -k : place)), place < 0);
    }
    return x;
}

static struct ingot_tensor *evaluate(struct ig_job *job, const struct rows_trial *t, int64_t rows) {
    struct ingot_tensor *in = IG_NEW_ARRAY(job, struct ingot_tensor, t->graph->inputs.count + 1);
    struct ingot_tensor *out = IG_NEW_ARRAY(job, struct ingot_tensor, t->graph->outputs.count + 1);
    for (uint32_t i = 0; i < t->graph->inputs.count; i++)
        in[i] = make_input(t, i, rows);
    ig_eval_graph(job, t->graph, in, out);
    return out;
}

static bool same_element(const struct ingot_tensor *a, int64_t i, const struct ingot_tensor *b, int64_t k) {
    size_t size = ingot_dtype_size(a->dtype);
    if (memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)k * size, size) == 0)
        return true;
    return ig_dtype_is_float(a->dtype) && isnan(ig_load_f64(a->dtype, a->data, i)) &&
           isnan(ig_load_f64(b->dtype, b->data, k));
}

static const char *compare(const struct rows_trial *t, uint32_t output, const struct ingot_tensor *few,
                           const struct ingot_tensor *many) {
    const struct ig_port *port = &t->graph->outputs.at[output];
    int axis = axis_of(t, ig_type_of(t->graph, port->value));
    for (int k = 0; k < few->rank; k++) {
        if (many->dims[k] != few->dims[k] + (k == axis ? t->more : 0))
            return ig_format(t->graph->job, "output '%s' has another dim %d", port->name, k);
    }
    for (int64_t i = 0; i < ingot_tensor_elements(many); i++) {
        int64_t place = place_among(many, i, axis, t->rows);
        if (place >= 0 && !same_element(few, place, many, i))
            return ig_format(t->graph->job, "output '%s' has another element %lld", port->name, (long long)place);
    }
    return NULL;
}

const char *rows_differ(struct ig_job *job, const struct rows_trial *t) {
    struct ingot_tensor *few = evaluate(job, t, t->rows), *many = evaluate(job, t, t->rows + t->more);
    const char *difference = NULL;
    for (uint32_t i = 0; i < t->graph->outputs.count; i++) {
        if (!difference) difference = compare(t, i, &few[i], &many[i]);
        ig_eval_release(job, &few[i]);
        ig_eval_release(job, &many[i]);
    }
    return difference;
}
