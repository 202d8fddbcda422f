/* Low-rank adapters: what they make of weights of all kinds, computed again the plain way, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "support/support.h"
#include "weights/adapter.h"

#define PLAIN "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":3}"

enum { MOST_TENSORS = 4, MOST_ELEMENTS = 256 };

/* A tensor of numbers that follow from a seed. */
struct made {
    struct ingot_named_tensor named;
    double values[MOST_ELEMENTS]; /* what the elements are */
    _Alignas(8) unsigned char bytes[8 * MOST_ELEMENTS];
};

struct setup {
    struct made base[MOST_TENSORS], adapter[MOST_TENSORS];
    size_t n_base, n_adapter;
    const char *config;
};

static void make(struct made *m, const char *name, enum ingot_dtype dtype, int rank, const int64_t *dims,
                 unsigned seed) {
    m->named = (struct ingot_named_tensor){.name = name, .tensor = {.dtype = dtype, .rank = rank}};
    memcpy(m->named.tensor.dims, dims, (size_t)rank * sizeof *dims);
    int64_t count = ingot_tensor_elements(&m->named.tensor);
    assert_true(count <= MOST_ELEMENTS);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        m->values[i] = ((double)(seed >> 20) - 2048) / 1024; /* few enough bits for every type */
        if (dtype == INGOT_F64) ((double *)m->bytes)[i] = m->values[i];
        if (dtype == INGOT_F32) ((float *)m->bytes)[i] = (float)m->values[i];
        if (dtype == INGOT_F16) ((uint16_t *)m->bytes)[i] = ig_f64_to_f16(m->values[i]);
        if (dtype == INGOT_BF16) ((uint16_t *)m->bytes)[i] = ig_f64_to_bf16(m->values[i]);
        if (dtype == INGOT_F16) m->values[i] = ig_f16_to_f32(((uint16_t *)m->bytes)[i]);
        if (dtype == INGOT_BF16) m->values[i] = ig_bf16_to_f32(((uint16_t *)m->bytes)[i]);
    }
}

static void add_base(struct setup *s, const char *name, enum ingot_dtype dtype, int rank, const int64_t *dims) {
    make(&s->base[s->n_base], name, dtype, rank, dims, 7 + (unsigned)s->n_base);
    s->n_base++;
}

static void add_to_adapter(struct setup *s, const char *name, enum ingot_dtype dtype, int rank, const int64_t *dims) {
    make(&s->adapter[s->n_adapter], name, dtype, rank, dims, 99 + (unsigned)s->n_adapter);
    s->n_adapter++;
}

/* Setups are copied, so where the elements are is known at last. */
static struct ingot_named_tensor named(const struct made *m) {
    struct ingot_named_tensor named = m->named;
    named.tensor.data = (void *)(uintptr_t)m->bytes;
    return named;
}

struct merging {
    const struct setup *setup;
    struct ig_tensors out;
};

static void merge_body(struct ig_job *job, void *argument) {
    struct merging *m = argument;
    const struct setup *s = m->setup;
    struct ig_tensors adapter = {.job = job};
    struct ingot_named_tensor base[MOST_TENSORS];
    for (size_t i = 0; i < s->n_adapter; i++)
        IG_PUSH(job, &adapter.list, named(&s->adapter[i]));
    for (size_t i = 0; i < s->n_base; i++)
        base[i] = named(&s->base[i]);
    m->out.job = job;
    ig_adapter_merge(&m->out, s->config, strlen(s->config), &adapter, base, s->n_base);
}

/* Element i, rounded as the type has it. */
static void assert_element(const struct ingot_tensor *t, int64_t i, double expected) {
    switch (t->dtype) {
    case INGOT_F64: assert_true(((double *)t->data)[i] == expected); break;
    case INGOT_F32: assert_true(((float *)t->data)[i] == (float)expected); break;
    case INGOT_F16: assert_int_equal(((uint16_t *)t->data)[i], ig_f64_to_f16(expected)); break;
    default: assert_int_equal(((uint16_t *)t->data)[i], ig_f64_to_bf16(expected)); break;
    }
}

/* W + scale * B A of the setup's first tensor of each kind: A comes first in the adapter. The sums of these numbers are
 * exact in doubles, so that their order does not matter. */
static void check_product(const struct setup *s, const struct ingot_named_tensor *found, double scale, bool turned) {
    const struct made *w = &s->base[0], *a = &s->adapter[0], *b = &s->adapter[1];
    int64_t rank = a->named.tensor.dims[0], out = b->named.tensor.dims[0];
    int64_t in = ingot_tensor_elements(&a->named.tensor) / rank;
    assert_string_equal(found->name, w->named.name);
    assert_int_equal(ingot_tensor_elements(&found->tensor), in * out);
    for (int64_t o = 0; o < out; o++) {
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t k = 0; k < rank; k++)
                sum += b->values[o * rank + k] * a->values[k * in + i];
            int64_t at = turned ? i * out + o : o * in + i;
            assert_element(&found->tensor, at, w->values[at] + scale * sum);
        }
    }
}

static void merge(const struct setup *s, double scale, bool turned) {
    struct ig_job job;
    struct ingot_error error = {0};
    struct merging m = {.setup = s};
    ig_job_init(&job, &ig_libc_allocator);
    enum ingot_status status = ig_job_run(&job, merge_body, &m, &error);
    if (status != INGOT_OK) fail_msg("%s", error.message);
    assert_int_equal(m.out.list.count, 1);
    check_product(s, &m.out.list.at[0], scale, turned);
    ig_job_deinit(&job);
}

static void refuse(const struct setup *s, enum ingot_status expected, const char *message) {
    struct ig_job job;
    struct ingot_error error = {0};
    struct merging m = {.setup = s};
    ig_job_init(&job, &ig_libc_allocator);
    assert_int_equal(ig_job_run(&job, merge_body, &m, &error), expected);
    assert_string_equal(error.message, message);
    ig_job_deinit(&job);
}

static const int64_t weight[] = {5, 7}, turned_weight[] = {7, 5}, a_dims[] = {2, 7}, b_dims[] = {5, 2};

static struct setup linear(const char *base, enum ingot_dtype dtype, enum ingot_dtype adapter) {
    struct setup s = {.config = PLAIN};
    add_base(&s, base, dtype, 2, weight);
    add_to_adapter(&s, "base_model.model.layer.0.dense.lora_A.weight", adapter, 2, a_dims);
    add_to_adapter(&s, "base_model.model.layer.0.dense.lora_B.weight", adapter, 2, b_dims);
    return s;
}

static void test_linear(void **state) {
    static const enum ingot_dtype dtypes[] = {INGOT_F32, INGOT_F16, INGOT_BF16, INGOT_F64};
    (void)state;
    for (int i = 0; i < 16; i++) {
        struct setup s = linear("layer.0.dense.weight", dtypes[i / 4], dtypes[i % 4]);
        merge(&s, 1.5, false);
    }
}

static void test_scales(void **state) {
    (void)state;
    struct setup s = linear("layer.0.dense.weight", INGOT_F32, INGOT_F32);
    s.config = "{\"peft_type\":\"LORA\",\"lora_alpha\":3,\"use_rslora\":true}";
    merge(&s, 3 / sqrt(2), false);
    s.config = "{\"peft_type\":\"LORA\",\"lora_alpha\":3,\"alpha_pattern\":{\"query\":5,\"[0-9]+.dense\":8}}";
    merge(&s, 4, false);
    s.config =
        "{\"peft_type\":\"LORA\",\"lora_alpha\":3,\"alpha_pattern\":{\"ense\":8}}"; /* no whole part of the name */
    merge(&s, 1.5, false);
}

static void test_names(void **state) {
    (void)state;
    struct setup s = linear("m.bert.layer.0.dense.weight", INGOT_F32, INGOT_F32);
    add_base(&s, "notlayer.0.dense.weight", INGOT_F32, 2, weight);
    merge(&s, 1.5, false);
    s.base[1].named.name = "layer.1.dense.weight";
    merge(&s, 1.5, false);
    s.base[1].named.name = "other.layer.0.dense.weight";
    refuse(&s, INGOT_BAD_TENSOR,
           "the adapter's 'layer.0.dense.weight' could be 'm.bert.layer.0.dense.weight' or "
           "'other.layer.0.dense.weight'");
    s = linear("layer.0.dense.bias", INGOT_F32, INGOT_F32);
    refuse(&s, INGOT_BAD_TENSOR, "the adapter changes 'layer.0.dense.weight', which the weights lack");
}

static void test_transposed(void **state) {
    (void)state;
    struct setup s = linear("val_57", INGOT_F32, INGOT_F32);
    make(&s.base[0], "val_57", INGOT_F32, 2, turned_weight, 5);
    s.base[0].named.alias = "layer.0.dense.weight";
    s.base[0].named.is_transposed = true;
    merge(&s, 1.5, true);
    s.config = "{\"peft_type\":\"LORA\",\"lora_alpha\":3,\"fan_in_fan_out\":true}"; /* twice */
    make(&s.base[0], "val_57", INGOT_F32, 2, weight, 5);
    s.base[0].named.alias = "layer.0.dense.weight";
    s.base[0].named.is_transposed = true;
    merge(&s, 1.5, false);
    s.base[0].named.is_transposed = false;
    refuse(&s, INGOT_BAD_TENSOR,
           "'val_57' is [5,7], and the adapter's matrices for the transpose of it are [2,7] and [5,2]");
}

static void test_embeddings(void **state) {
    (void)state;
    struct setup s = {.config = PLAIN};
    add_base(&s, "words.weight", INGOT_F32, 2, turned_weight);
    add_to_adapter(&s, "base_model.model.words.lora_embedding_A", INGOT_F32, 2, a_dims);
    add_to_adapter(&s, "base_model.model.words.lora_embedding_B", INGOT_F32, 2, b_dims);
    merge(&s, 1.5, true);
}

static void test_convolutions(void **state) {
    static const int64_t filters[] = {5, 3, 2, 2}, a[] = {2, 3, 2, 2}, b[] = {5, 2, 1, 1};
    (void)state;
    struct setup s = {.config = PLAIN};
    add_base(&s, "conv.weight", INGOT_F32, 4, filters);
    add_to_adapter(&s, "base_model.model.conv.lora_A.weight", INGOT_F32, 4, a);
    add_to_adapter(&s, "base_model.model.conv.lora_B.weight", INGOT_F32, 4, b);
    merge(&s, 1.5, false);
}

/* Parts that were trained as a whole replace the model's, in its type and orientation. */
static void test_replaced(void **state) {
    static const int64_t bias[] = {5};
    struct ig_job job;
    struct ingot_error error = {0};
    (void)state;
    struct setup s = {.config = PLAIN};
    struct merging m = {.setup = &s};
    add_base(&s, "m.head.bias", INGOT_F16, 1, bias);
    add_base(&s, "val_3", INGOT_F32, 2, turned_weight);
    s.base[1].named.alias = "head.weight";
    s.base[1].named.is_transposed = true;
    add_to_adapter(&s, "base_model.model.head.bias", INGOT_F32, 1, bias);
    add_to_adapter(&s, "base_model.model.head.weight", INGOT_F32, 2, weight);
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, merge_body, &m, &error) != INGOT_OK) fail_msg("%s", error.message);
    assert_int_equal(m.out.list.count, 2);
    for (int64_t i = 0; i < 5; i++)
        assert_element(&m.out.list.at[0].tensor, i, s.adapter[0].values[i]);
    for (int64_t i = 0; i < 35; i++)
        assert_element(&m.out.list.at[1].tensor, i / 7 + i % 7 * 5, s.adapter[1].values[i]);
    ig_job_deinit(&job);
    make(&s.adapter[1], "base_model.model.head.weight", INGOT_F32, 2, turned_weight, 1);
    refuse(&s, INGOT_BAD_TENSOR, "the adapter's 'head.weight' is [7,5], expected the transpose of [7,5]");
}

static void test_refused(void **state) {
    static const int64_t wrong[] = {5, 3};
    (void)state;
    struct setup s = linear("layer.0.dense.weight", INGOT_F32, INGOT_F32);
    make(&s.adapter[1], s.adapter[1].named.name, INGOT_F32, 2, wrong, 1);
    refuse(&s, INGOT_BAD_TENSOR,
           "the adapter's matrices of 'layer.0.dense' are [2,7] and [5,3], expected [rank, in] and [out, rank]");
    s = linear("layer.0.dense.weight", INGOT_F32, INGOT_F32);
    make(&s.base[0], "layer.0.dense.weight", INGOT_F32, 2, turned_weight, 1);
    refuse(&s, INGOT_BAD_TENSOR,
           "'layer.0.dense.weight' is [7,5], and the adapter's matrices for it are [2,7] and [5,2]");
    s.n_adapter = 1;
    refuse(&s, INGOT_BAD_TENSOR, "the adapter lacks 'base_model.model.layer.0.dense.lora_B.weight'");
    s.n_adapter = 0;
    refuse(&s, INGOT_BAD_TENSOR, "the adapter has no tensors");
    s = linear("layer.0.dense.weight", INGOT_F32, INGOT_I32);
    refuse(&s, INGOT_UNSUPPORTED,
           "'base_model.model.layer.0.dense.lora_A.weight' has elements of type i32, expected a float type");
    s = linear("layer.0.dense.weight", INGOT_F32, INGOT_F32);
    s.adapter[1].named.name = "base_model.model.layer.0.dense.lora_magnitude_vector";
    s.adapter[0] = s.adapter[1];
    refuse(&s, INGOT_UNSUPPORTED,
           "the adapter's 'base_model.model.layer.0.dense.lora_magnitude_vector' is neither of the matrices A and B");
}

static void test_configuration(void **state) {
    static const struct {
        const char *config;
        enum ingot_status status;
        const char *message;
    } cases[] = {
        {"", INGOT_BAD_TENSOR, "the adapter's configuration is no valid JSON: '[' or '{' expected near end of file"},
        {"[]", INGOT_BAD_TENSOR, "the adapter's configuration is no JSON object"},
        {"{}", INGOT_UNSUPPORTED, "the adapter is of the type '', expected LORA"},
        {"{\"peft_type\":\"IA3\"}", INGOT_UNSUPPORTED, "the adapter is of the type 'IA3', expected LORA"},
        {"{\"peft_type\":\"LORA\"}", INGOT_BAD_TENSOR, "the adapter's configuration has no number lora_alpha"},
        {"{\"peft_type\":\"LORA\",\"use_dora\":true}", INGOT_UNSUPPORTED,
         "the adapter decomposes weights (DoRA), which is not supported"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"alpha_pattern\":{\"dense\":\"x\"}}", INGOT_BAD_TENSOR,
         "'dense' in the adapter's alpha_pattern is no number"},
        {"{\"peft_type\":\"LORA\",\"lora_alpha\":1,\"alpha_pattern\":{\"(\":1}}", INGOT_BAD_TENSOR,
         "'(' in the adapter's alpha_pattern is no regular expression"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setup s = linear("layer.0.dense.weight", INGOT_F32, INGOT_F32);
        s.config = cases[i].config;
        refuse(&s, cases[i].status, cases[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),     cmocka_unit_test(test_scales),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_transposed), cmocka_unit_test(test_embeddings), cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_replaced),   cmocka_unit_test(test_refused),    cmocka_unit_test(test_configuration),
    };
    return cmocka_run_group_tests_name("adapter", tests, NULL, NULL);
}
