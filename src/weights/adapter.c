/* Merging low-rank adapters; see adapter.h. */
#include "weights/adapter.h"

#include <string.h>

#include "weights/adapter_read.h"

struct merger {
    struct ig_tensors *out;
    struct ig_job *job;
    struct ig_adapter adapter;
    const struct ingot_named_tensor *base;
    size_t n_base;
};

/* ---- Tensors of the model ---------------------------------------------------------------------------------------- */

static const char *parameter_of(const struct ingot_named_tensor *t) {
    return t->alias ? t->alias : t->name;
}

/* Later tensors of one name win, as in a refit. */
static const struct ingot_named_tensor *find_base(struct merger *m, const char *name) {
    const struct ingot_named_tensor *found = NULL;
    for (size_t i = m->n_base; i-- > 0;) {
        const char *parameter = parameter_of(&m->base[i]);
        if (strcmp(parameter, name) == 0) return &m->base[i];
        if (!ig_adapter_is_behind_prefix(parameter, name)) continue;
        if (found && strcmp(parameter_of(found), parameter) != 0)
            ig_raise(m->job, INGOT_BAD_TENSOR, "the adapter's '%.200s' could be '%.200s' or '%.200s'", name, parameter,
                     parameter_of(found));
        if (!found) found = &m->base[i];
    }
    if (!found) ig_raise(m->job, INGOT_BAD_TENSOR, "the adapter changes '%.200s', which the weights lack", name);
    return found;
}

/* A new tensor like one of the model's. */
static struct ingot_tensor *add_like(struct merger *m, const struct ingot_named_tensor *base) {
    struct ingot_named_tensor one = *base;
    size_t size = ingot_dtype_size(base->tensor.dtype);
    one.tensor.data = ig_alloc_array(m->job, (size_t)ingot_tensor_elements(&base->tensor) + 1, size);
    IG_PUSH(m->job, &m->out->list, one);
    return &m->out->list.at[m->out->list.count - 1].tensor;
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

/* A matrix as doubles, [rows, columns], or its transpose. */
static double *widen(struct ig_job *job, const struct ingot_tensor *t, int64_t rows, int64_t columns, bool turned) {
    double *out = IG_NEW_ARRAY(job, double, (size_t)(rows * columns) + 1);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++)
            out[turned ? c * rows + r : r * columns + c] = ig_adapter_load(t, r * columns + c);
    }
    return out;
}

/* to = w + scale * left * right, left [rows, rank], right [rank, columns]. */
static void add_product(struct ig_job *job, const struct ingot_tensor *w, const struct ingot_tensor *to,
                        const double *left, const double *right, int64_t rows, int64_t rank, int64_t columns,
                        double scale) {
    double *sums = IG_NEW_ARRAY(job, double, (size_t)columns + 1);
    for (int64_t r = 0; r < rows; r++) {
        memset(sums, 0, (size_t)columns * sizeof *sums);
        for (int64_t k = 0; k < rank; k++) {
            const double factor = left[r * rank + k], *line = right + k * columns;
            for (int64_t c = 0; c < columns; c++)
                sums[c] += factor * line[c];
        }
        for (int64_t c = 0; c < columns; c++)
            ig_adapter_store(to, r * columns + c, ig_adapter_load(w, r * columns + c) + scale * sums[c]);
    }
}

/* Is w what B A, [out, in...], is added to; `turned`: its transpose? */
static bool has_shape(const struct ig_adapter_pair *p, const struct ingot_tensor *w, bool turned) {
    if (turned) return w->rank == 2 && p->a->rank == 2 && w->dims[0] == p->a->dims[1] && w->dims[1] == p->b->dims[0];
    bool same = w->rank == p->a->rank && w->dims[0] == p->b->dims[0];
    for (int i = 1; same && i < w->rank; i++)
        same = w->dims[i] == p->a->dims[i];
    return same;
}

static void merge_pair(void *user, const struct ig_adapter_pair *p) {
    struct merger *m = user;
    const char *name = ig_format(m->job, "%s.weight", p->module);
    const struct ingot_named_tensor *base = find_base(m, name);
    const struct ingot_tensor *w = &base->tensor;
    ig_adapter_check_float(m->job, name, w);
    const bool turned = (p->is_embedding || m->adapter.fan_in_fan_out) != base->is_transposed;
    if (!has_shape(p, w, turned))
        ig_raise(m->job, INGOT_BAD_TENSOR, "'%.200s' is %s, and the adapter's matrices for %sit are %s and %s",
                 base->name, ig_adapter_shape(m->job, w), turned ? "the transpose of " : "",
                 ig_adapter_shape(m->job, p->a), ig_adapter_shape(m->job, p->b));
    const int64_t out = p->b->dims[0], rank = p->a->dims[0], in = ingot_tensor_elements(p->a) / rank;
    const double *a = widen(m->job, p->a, rank, in, turned), *b = widen(m->job, p->b, out, rank, turned);
    const struct ingot_tensor *to = add_like(m, base);
    const double scale = ig_adapter_scale(&m->adapter, p->module, rank);
    if (turned)
        add_product(m->job, w, to, a, b, in, rank, out, scale);
    else
        add_product(m->job, w, to, b, a, out, rank, in, scale);
}

/* A tensor that replaces one of the model: a bias, or a part that was trained as a whole. */
static void replace(void *user, const char *name, const struct ingot_tensor *t) {
    struct merger *m = user;
    const struct ingot_named_tensor *base = find_base(m, name);
    const struct ingot_tensor *w = &base->tensor;
    ig_adapter_check_float(m->job, name, t);
    ig_adapter_check_float(m->job, name, w);
    bool same = w->rank == t->rank, turned = base->is_transposed;
    for (int i = 0; same && i < w->rank; i++)
        same = w->dims[i] == t->dims[turned ? 1 - i : i];
    if (!same)
        ig_raise(m->job, INGOT_BAD_TENSOR, "the adapter's '%.200s' is %s, expected %s%s", name,
                 ig_adapter_shape(m->job, t), turned ? "the transpose of " : "", ig_adapter_shape(m->job, w));
    const struct ingot_tensor *to = add_like(m, base);
    const int64_t columns = turned ? w->dims[1] : 1, rows = ingot_tensor_elements(w) / (columns ? columns : 1);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++)
            ig_adapter_store(to, r * columns + c, ig_adapter_load(t, c * rows + r));
    }
}

void ig_adapter_merge(struct ig_tensors *out, const void *config, size_t config_size, const struct ig_tensors *adapter,
                      const struct ingot_named_tensor *base, size_t n_base) {
    struct merger m = {.out = out, .job = out->job, .base = base, .n_base = n_base};
    ig_adapter_open(m.job, config, config_size, adapter, &m.adapter);
    ig_adapter_each(&m.adapter, merge_pair, replace, &m);
    ig_adapter_close(&m.adapter);
}
