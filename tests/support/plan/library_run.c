#include "support/plan/library_run.h"

#include <string.h>

#include "support/support.h"

/* Small whole numbers, so that sums are exact in any order. */
static void fill(struct library_run *r) {
    for (int i = 0; i < LIBRARY_RUN_X; i++)
        r->x[i] = (float)(i % 9 - 4);
    for (int i = 0; i < LIBRARY_RUN_W; i++)
        r->w[i] = (float)(i % 5 - 2);
    for (int i = 0; i < LIBRARY_RUN_B; i++)
        r->b[i] = (float)i - 1;
}

uint32_t library_run_begin(struct library_run *r, struct ig_library_call call) {
    struct tiny_plan *t = &r->tiny;
    memset(r, 0, sizeof *r);
    library_open(&r->on, call.library);
    fill(r);
    call.a = 0, call.b = 1, call.bias = 2, call.out = 3, call.addend = call.factor = IG_LIBRARY_NO_OPERAND,
    call.scale = 1;
    call.a_type = call.b_type = call.out_type = INGOT_F32;
    call.activation = IG_LIBRARY_RELU;
    r->on.call = call;
    tiny_init(t);
    t->plan.calls = &r->on.call;
    t->plan.n_calls = 1;
    uint32_t kernel = tiny_kernel(t, "call", NULL);
    t->kernels[kernel] = (struct ig_plan_kernel){.portable = UINT64_MAX, .name = t->kernels[kernel].name, .library = 1};
    return kernel;
}

enum ingot_status library_run_open(struct library_run *r) {
    struct ig_context_config config = {
        .allocator = &r->on.allocator.base, .device = r->on.device, .max_instances = 4, .max_bytes = SIZE_MAX};
    r->file = tiny_file(&r->tiny);
    return ig_context_create(&r->file, &config, &r->context, &r->on.error);
}

enum ingot_status library_run(struct library_run *r, int64_t n) {
    r->inputs[0].dims[0] = n;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(ig_context_set_input(r->context, i, &r->inputs[i], &r->on.error), INGOT_OK);
    return ig_context_run(r->context, &r->on.error);
}

const float *library_run_result(struct library_run *r) {
    struct ingot_tensor y;
    assert_int_equal(ig_context_output(r->context, 0, &y, &r->on.error), INGOT_OK);
    return y.data;
}

void library_run_end(struct library_run *r) {
    ig_context_destroy(r->context);
    library_close(&r->on);
}
