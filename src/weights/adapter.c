/* Merging low-rank adapters; see adapter.h. The format is that of PEFT's `save_pretrained`. */
#include "weights/adapter.h"

#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <string.h>

#include "base/half.h"

/* Before the names of an adapter's tensors. */
static const char prefix[] = "base_model.model.";

struct merger {
    struct ig_tensors *out;
    struct ig_job *job;
    const json_t *config;
    bool fan_in_fan_out; /* weights are [in, out], as in GPT-2's Conv1D */
    bool rank_stabilized;
    double alpha;
    const struct ig_tensors *adapter;
    const struct ingot_named_tensor *base;
    size_t n_base;
};

/* A layer's matrices. */
struct pair {
    const char *module;
    const struct ingot_tensor *a, *b;
    bool is_embedding; /* its weight is [rows of the table, out], so that B A is its transpose */
};

/* ---- The configuration ------------------------------------------------------------------------------------------- */

static void release_json(void *resource) {
    json_decref(resource);
}

static json_t *parse_config(struct ig_job *job, const void *text, size_t size) {
    json_error_t reason;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &reason);
    if (!json) ig_raise(job, INGOT_BAD_TENSOR, "the adapter's configuration is no valid JSON: %s", reason.text);
    ig_defer(job, release_json, json);
    if (!json_is_object(json)) ig_raise(job, INGOT_BAD_TENSOR, "the adapter's configuration is no JSON object");
    return json;
}

static void read_config(struct merger *m) {
    const char *type = json_string_value(json_object_get(m->config, "peft_type"));
    const json_t *alpha = json_object_get(m->config, "lora_alpha");
    if (!type || strcmp(type, "LORA") != 0)
        ig_raise(m->job, INGOT_UNSUPPORTED, "the adapter is of the type '%.40s', expected LORA", type ? type : "");
    if (json_is_true(json_object_get(m->config, "use_dora")))
        ig_raise(m->job, INGOT_UNSUPPORTED, "the adapter decomposes weights (DoRA), which is not supported");
    if (!json_is_number(alpha))
        ig_raise(m->job, INGOT_BAD_TENSOR, "the adapter's configuration has no number lora_alpha");
    m->alpha = json_number_value(alpha);
    m->fan_in_fan_out = json_is_true(json_object_get(m->config, "fan_in_fan_out"));
    m->rank_stabilized = json_is_true(json_object_get(m->config, "use_rslora"));
}

/* Does a pattern of the configuration, a regular expression, match the end of a module's name, from a dot on? */
static bool is_match(struct merger *m, const char *pattern, const char *module) {
    regex_t regex;
    if (regcomp(&regex, ig_format(m->job, "^(.*\\.)?(%s)$", pattern), REG_EXTENDED | REG_NOSUB) != 0)
        ig_raise(m->job, INGOT_BAD_TENSOR, "'%.80s' in the adapter's alpha_pattern is no regular expression", pattern);
    bool match = regexec(&regex, module, 0, NULL, 0) == 0;
    regfree(&regex);
    return match;
}

/* What a layer's product is multiplied by. */
static double scale_of(struct merger *m, const char *module, int64_t rank) {
    double alpha = m->alpha;
    const char *pattern;
    json_t *value;
    json_object_foreach(json_object_get(m->config, "alpha_pattern"), pattern, value) {
        if (!is_match(m, pattern, module)) continue;
        if (!json_is_number(value))
            ig_raise(m->job, INGOT_BAD_TENSOR, "'%.80s' in the adapter's alpha_pattern is no number", pattern);
        alpha = json_number_value(value);
        break;
    }
    return alpha / (m->rank_stabilized ? sqrt((double)rank) : (double)rank);
}

/* ---- Tensors of the model ---------------------------------------------------------------------------------------- */

static const char *parameter_of(const struct ingot_named_tensor *t) {
    return t->alias ? t->alias : t->name;
}

/* Does it end with ".NAME"? */
static bool is_behind_prefix(const char *whole, const char *name) {
    size_t a = strlen(whole), b = strlen(name);
    return a > b && whole[a - b - 1] == '.' && strcmp(whole + a - b, name) == 0;
}

/* Later tensors of one name win, as in a refit. */
static const struct ingot_named_tensor *find_base(struct merger *m, const char *name) {
    const struct ingot_named_tensor *found = NULL;
    for (size_t i = m->n_base; i-- > 0;) {
        const char *parameter = parameter_of(&m->base[i]);
        if (strcmp(parameter, name) == 0) return &m->base[i];
        if (!is_behind_prefix(parameter, name)) continue;
        if (found && strcmp(parameter_of(found), parameter) != 0)
            ig_raise(m->job, INGOT_BAD_TENSOR, "the adapter's '%.200s' could be '%.200s' or '%.200s'", name, parameter,
                     parameter_of(found));
        if (!found) found = &m->base[i];
    }
    if (!found) ig_raise(m->job, INGOT_BAD_TENSOR, "the adapter changes '%.200s', which the weights lack", name);
    return found;
}

/* The data need not be aligned. */
static double load(const struct ingot_tensor *t, int64_t i) {
    const size_t size = ingot_dtype_size(t->dtype);
    union {
        double f64;
        float f32;
        uint16_t f16;
    } element;
    memcpy(&element, (const char *)t->data + (size_t)i * size, size);
    switch (t->dtype) {
    case INGOT_F64: return element.f64;
    case INGOT_F32: return element.f32;
    case INGOT_F16: return ig_f16_to_f32(element.f16);
    default: return ig_bf16_to_f32(element.f16);
    }
}

static void store(const struct ingot_tensor *t, int64_t i, double value) {
    switch (t->dtype) {
    case INGOT_F64: ((double *)t->data)[i] = value; break;
    case INGOT_F32: ((float *)t->data)[i] = (float)value; break;
    case INGOT_F16: ((uint16_t *)t->data)[i] = ig_f64_to_f16(value); break;
    default: ((uint16_t *)t->data)[i] = ig_f64_to_bf16(value); break;
    }
}

static void check_float(struct merger *m, const char *name, const struct ingot_tensor *t) {
    bool is_float = t->dtype == INGOT_F64 || t->dtype == INGOT_F32 || t->dtype == INGOT_F16 || t->dtype == INGOT_BF16;
    if (!is_float)
        ig_raise(m->job, INGOT_UNSUPPORTED, "'%.200s' has elements of type %s, expected a float type", name,
                 ingot_dtype_name(t->dtype));
}

static const char *shape_text(struct ig_job *job, const struct ingot_tensor *t) {
    char *text = ig_format(job, "[");
    for (int i = 0; i < t->rank; i++)
        text = ig_format(job, "%s%s%lld", text, i ? "," : "", (long long)t->dims[i]);
    return ig_format(job, "%s]", text);
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
            out[turned ? c * rows + r : r * columns + c] = load(t, r * columns + c);
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
            store(to, r * columns + c, load(w, r * columns + c) + scale * sums[c]);
    }
}

/* Is w what B A, [out, in...], is added to; `turned`: its transpose? */
static bool has_shape(const struct pair *p, const struct ingot_tensor *w, bool turned) {
    if (turned) return w->rank == 2 && p->a->rank == 2 && w->dims[0] == p->a->dims[1] && w->dims[1] == p->b->dims[0];
    bool same = w->rank == p->a->rank && w->dims[0] == p->b->dims[0];
    for (int i = 1; same && i < w->rank; i++)
        same = w->dims[i] == p->a->dims[i];
    return same;
}

/* B is a matrix, or as convolutions have it, [out, rank, 1, 1]. */
static bool are_matrices(const struct pair *p) {
    bool fit = p->a->rank >= 2 && p->b->rank >= 2 && p->b->dims[1] == p->a->dims[0] && p->a->dims[0] > 0;
    for (int i = 2; fit && i < p->b->rank; i++)
        fit = p->b->dims[i] == 1;
    return fit;
}

static void merge_pair(struct merger *m, const struct pair *p) {
    const char *name = ig_format(m->job, "%s.weight", p->module);
    if (!are_matrices(p))
        ig_raise(m->job, INGOT_BAD_TENSOR,
                 "the adapter's matrices of '%.200s' are %s and %s, expected [rank, in] and [out, rank]", p->module,
                 shape_text(m->job, p->a), shape_text(m->job, p->b));
    const struct ingot_named_tensor *base = find_base(m, name);
    const struct ingot_tensor *w = &base->tensor;
    check_float(m, name, w);
    const bool turned = (p->is_embedding || m->fan_in_fan_out) != base->is_transposed;
    if (!has_shape(p, w, turned))
        ig_raise(m->job, INGOT_BAD_TENSOR, "'%.200s' is %s, and the adapter's matrices for %sit are %s and %s",
                 base->name, shape_text(m->job, w), turned ? "the transpose of " : "", shape_text(m->job, p->a),
                 shape_text(m->job, p->b));
    const int64_t out = p->b->dims[0], rank = p->a->dims[0], in = ingot_tensor_elements(p->a) / rank;
    const double *a = widen(m->job, p->a, rank, in, turned), *b = widen(m->job, p->b, out, rank, turned);
    const struct ingot_tensor *to = add_like(m, base);
    const double scale = scale_of(m, p->module, rank);
    if (turned)
        add_product(m->job, w, to, a, b, in, rank, out, scale);
    else
        add_product(m->job, w, to, b, a, out, rank, in, scale);
}

/* ---- The adapter's tensors --------------------------------------------------------------------------------------- */

static const struct ingot_tensor *find_partner(struct merger *m, const char *name) {
    for (uint32_t i = 0; i < m->adapter->list.count; i++) {
        if (strcmp(m->adapter->list.at[i].name, name) == 0) return &m->adapter->list.at[i].tensor;
    }
    ig_raise(m->job, INGOT_BAD_TENSOR, "the adapter lacks '%.200s'", name);
}

/* A tensor that replaces one of the model: a bias, or a part that was trained as a whole. */
static void replace(struct merger *m, const char *name, const struct ingot_tensor *t) {
    const struct ingot_named_tensor *base = find_base(m, name);
    const struct ingot_tensor *w = &base->tensor;
    check_float(m, name, t);
    check_float(m, name, w);
    bool same = w->rank == t->rank, turned = base->is_transposed;
    for (int i = 0; same && i < w->rank; i++)
        same = w->dims[i] == t->dims[turned ? 1 - i : i];
    if (!same)
        ig_raise(m->job, INGOT_BAD_TENSOR, "the adapter's '%.200s' is %s, expected %s%s", name, shape_text(m->job, t),
                 turned ? "the transpose of " : "", shape_text(m->job, w));
    const struct ingot_tensor *to = add_like(m, base);
    const int64_t columns = turned ? w->dims[1] : 1, rows = ingot_tensor_elements(w) / (columns ? columns : 1);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++)
            store(to, r * columns + c, load(t, c * rows + r));
    }
}

/* The end of a matrix A's name, and of its B's. */
struct ending {
    const char *a, *b;
    bool is_embedding;
};
static const struct ending endings[] = {
    {".lora_A.weight", ".lora_B.weight", false},
    {".lora_embedding_A", ".lora_embedding_B", true},
};

/* If `name` ends with `end`, what is before that; else NULL. */
static const char *before(struct ig_job *job, const char *name, const char *end) {
    size_t a = strlen(name), b = strlen(end);
    return a > b && strcmp(name + a - b, end) == 0 ? ig_strndup(job, name, a - b) : NULL;
}

static void merge_tensor(struct merger *m, const struct ingot_named_tensor *t) {
    const size_t length = strlen(prefix);
    const char *name = strncmp(t->name, prefix, length) == 0 ? t->name + length : t->name;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const struct ending *e = &endings[i];
        const char *whole = before(m->job, t->name, e->a);
        if (whole) {
            struct pair pair = {before(m->job, name, e->a), &t->tensor,
                                find_partner(m, ig_format(m->job, "%s%s", whole, e->b)), e->is_embedding};
            check_float(m, t->name, pair.a);
            check_float(m, t->name, pair.b);
            merge_pair(m, &pair);
            return;
        }
        whole = before(m->job, t->name, e->b);
        if (whole) {
            find_partner(m, ig_format(m->job, "%s%s", whole, e->a));
            return;
        }
    }
    if (strstr(name, ".lora_"))
        ig_raise(m->job, INGOT_UNSUPPORTED, "the adapter's '%.200s' is neither of the matrices A and B", t->name);
    replace(m, name, &t->tensor);
}

void ig_adapter_merge(struct ig_tensors *out, const void *config, size_t config_size, const struct ig_tensors *adapter,
                      const struct ingot_named_tensor *base, size_t n_base) {
    json_t *json = parse_config(out->job, config, config_size);
    struct merger m = {.out = out, .job = out->job, .config = json, .adapter = adapter, .base = base, .n_base = n_base};
    read_config(&m);
    if (adapter->list.count == 0) ig_raise(m.job, INGOT_BAD_TENSOR, "the adapter has no tensors");
    for (uint32_t i = 0; i < adapter->list.count; i++)
        merge_tensor(&m, &adapter->list.at[i]);
    ig_undefer(m.job, json);
    json_decref(json);
}
