/*
 * A context whose plan is one vendor library call, y = relu(x w + b) as a product or a convolution: for end-to-end
 * tests. The first axis of x is as long as a run says.
 */
#ifndef TESTS_LIBRARY_RUN_H
#define TESTS_LIBRARY_RUN_H

#include "runtime/runtime.h"
#include "support/device/library_fixture.h"
#include "support/plan/tiny_plan.h"

enum { LIBRARY_RUN_X = 1000, LIBRARY_RUN_W = 64, LIBRARY_RUN_B = 4 }; /* capacity, in elements */

struct library_run {
    struct library_fixture on;
    struct tiny_plan tiny;
    struct ig_engine_file file;
    struct ig_context *context;
    float x[LIBRARY_RUN_X], w[LIBRARY_RUN_W], b[LIBRARY_RUN_B];
    struct ingot_tensor inputs[3]; /* described by the test */
};

/* Creates the fakes and the data, and a plan with only a kernel: `call`, in f32 and with ReLU, of operands x, w, b and
 * y. Returns its number. The test adds the rest of the plan, opens a device and then the context. */
uint32_t library_run_begin(struct library_run *r, struct ig_library_call call);
enum ingot_status library_run_open(struct library_run *r);
enum ingot_status library_run(struct library_run *r, int64_t n);
const float *library_run_result(struct library_run *r);
void library_run_end(struct library_run *r);

#endif
