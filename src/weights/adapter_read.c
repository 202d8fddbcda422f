/* See adapter_read.h. The format is that of PEFT's `save_pretrained`. */
#include "weights/adapter_read.h"

#include <math.h>
#include <regex.h>
#include <string.h>

#include "base/half.h"

/* Before the names of an adapter's tensors. */
static const char prefix[] = "base_model.model.";

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

void ig_adapter_open(struct ig_job *job, const void *config, size_t size, const struct ig_tensors *tensors,
                     struct ig_adapter *out_adapter) {
    json_t *json = parse_config(job, config, size);
    const char *type = json_string_value(json_object_get(json, "peft_type"));
    const json_t *alpha = json_object_get(json, "lora_alpha");
    if (!type || strcmp(type, "LORA") != 0)
        ig_raise(job, INGOT_UNSUPPORTED, "the adapter is of the type '%.40s', expected LORA", type ? type : "");
    if (json_is_true(json_object_get(json, "use_dora")))
        ig_raise(job, INGOT_UNSUPPORTED, "the adapter decomposes weights (DoRA), which is not supported");
    if (!json_is_number(alpha)) ig_raise(job, INGOT_BAD_TENSOR, "the adapter's configuration has no number lora_alpha");
    if (tensors->list.count == 0) ig_raise(job, INGOT_BAD_TENSOR, "the adapter has no tensors");
    *out_adapter = (struct ig_adapter){.job = job,
                                       .config = json,
                                       .tensors = tensors,
                                       .fan_in_fan_out = json_is_true(json_object_get(json, "fan_in_fan_out")),
                                       .rank_stabilized = json_is_true(json_object_get(json, "use_rslora")),
                                       .alpha = json_number_value(alpha)};
}

void ig_adapter_close(struct ig_adapter *adapter) {
    ig_undefer(adapter->job, adapter->config);
    json_decref(adapter->config);
}

/* Does a pattern of the configuration, a regular expression, match the end of a module's name, from a dot on? */
static bool is_match(struct ig_job *job, const char *pattern, const char *module) {
    regex_t regex;
    if (regcomp(&regex, ig_format(job, "^(.*\\.)?(%s)$", pattern), REG_EXTENDED | REG_NOSUB) != 0)
        ig_raise(job, INGOT_BAD_TENSOR, "'%.80s' in the adapter's alpha_pattern is no regular expression", pattern);
    bool match = regexec(&regex, module, 0, NULL, 0) == 0;
    regfree(&regex);
    return match;
}

double ig_adapter_scale(const struct ig_adapter *adapter, const char *module, int64_t rank) {
    double alpha = adapter->alpha;
    const char *pattern;
    json_t *value;
    json_object_foreach(json_object_get(adapter->config, "alpha_pattern"), pattern, value) {
        if (!is_match(adapter->job, pattern, module)) continue;
        if (!json_is_number(value))
            ig_raise(adapter->job, INGOT_BAD_TENSOR, "'%.80s' in the adapter's alpha_pattern is no number", pattern);
        alpha = json_number_value(value);
        break;
    }
    return alpha / (adapter->rank_stabilized ? sqrt((double)rank) : (double)rank);
}

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

double ig_adapter_load(const struct ingot_tensor *t, int64_t i) {
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

void ig_adapter_store(const struct ingot_tensor *t, int64_t i, double value) {
    switch (t->dtype) {
    case INGOT_F64: ((double *)t->data)[i] = value; break;
    case INGOT_F32: ((float *)t->data)[i] = (float)value; break;
    case INGOT_F16: ((uint16_t *)t->data)[i] = ig_f64_to_f16(value); break;
    default: ((uint16_t *)t->data)[i] = ig_f64_to_bf16(value); break;
    }
}

void ig_adapter_check_float(struct ig_job *job, const char *name, const struct ingot_tensor *t) {
    bool is_float = t->dtype == INGOT_F64 || t->dtype == INGOT_F32 || t->dtype == INGOT_F16 || t->dtype == INGOT_BF16;
    if (!is_float)
        ig_raise(job, INGOT_UNSUPPORTED, "'%.200s' has elements of type %s, expected a float type", name,
                 ingot_dtype_name(t->dtype));
}

const char *ig_adapter_shape(struct ig_job *job, const struct ingot_tensor *t) {
    char *text = ig_format(job, "[");
    for (int i = 0; i < t->rank; i++)
        text = ig_format(job, "%s%s%lld", text, i ? "," : "", (long long)t->dims[i]);
    return ig_format(job, "%s]", text);
}

bool ig_adapter_is_behind_prefix(const char *whole, const char *name) {
    size_t a = strlen(whole), b = strlen(name);
    return a > b && whole[a - b - 1] == '.' && strcmp(whole + a - b, name) == 0;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* B is a matrix, or as convolutions have it, [out, rank, 1, 1]. */
static void check_matrices(struct ig_job *job, const struct ig_adapter_pair *p) {
    bool fit = p->a->rank >= 2 && p->b->rank >= 2 && p->b->dims[1] == p->a->dims[0] && p->a->dims[0] > 0;
    for (int i = 2; fit && i < p->b->rank; i++)
        fit = p->b->dims[i] == 1;
    if (!fit)
        ig_raise(job, INGOT_BAD_TENSOR,
                 "the adapter's matrices of '%.200s' are %s and %s, expected [rank, in] and [out, rank]", p->module,
                 ig_adapter_shape(job, p->a), ig_adapter_shape(job, p->b));
}

static const struct ingot_tensor *find_partner(const struct ig_adapter *adapter, const char *name) {
    for (uint32_t i = 0; i < adapter->tensors->list.count; i++) {
        if (strcmp(adapter->tensors->list.at[i].name, name) == 0) return &adapter->tensors->list.at[i].tensor;
    }
    ig_raise(adapter->job, INGOT_BAD_TENSOR, "the adapter lacks '%.200s'", name);
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

static const char *without_prefix(const char *name) {
    const size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : name;
}

/* Is the tensor one of the two matrices? A brings its B; a B is only checked to have an A. */
static bool find_pair(const struct ig_adapter *adapter, const struct ingot_named_tensor *t,
                      struct ig_adapter_pair *out_pair) {
    struct ig_job *job = adapter->job;
    *out_pair = (struct ig_adapter_pair){.module = NULL};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const struct ending *e = &endings[i];
        const char *of_a = before(job, t->name, e->a), *of_b = before(job, t->name, e->b);
        if (of_b) find_partner(adapter, ig_format(job, "%s%s", of_b, e->a));
        if (of_b) return true;
        if (!of_a) continue;
        *out_pair =
            (struct ig_adapter_pair){without_prefix(of_a), &t->tensor,
                                     find_partner(adapter, ig_format(job, "%s%s", of_a, e->b)), e->is_embedding};
        return true;
    }
    return false;
}

void ig_adapter_each(const struct ig_adapter *adapter, void (*pair)(void *user, const struct ig_adapter_pair *pair),
                     void (*whole)(void *user, const char *name, const struct ingot_tensor *tensor), void *user) {
    struct ig_job *job = adapter->job;
    for (uint32_t i = 0; i < adapter->tensors->list.count; i++) {
        const struct ingot_named_tensor *t = &adapter->tensors->list.at[i];
        struct ig_adapter_pair found;
        if (!find_pair(adapter, t, &found)) {
            if (strstr(t->name, ".lora_"))
                ig_raise(job, INGOT_UNSUPPORTED, "the adapter's '%.200s' is neither of the matrices A and B", t->name);
            whole(user, without_prefix(t->name), &t->tensor);
        } else if (found.module) {
            ig_adapter_check_float(job, t->name, found.a);
            ig_adapter_check_float(job, t->name, found.b);
            check_matrices(job, &found);
            pair(user, &found);
        }
    }
}
