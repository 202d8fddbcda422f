#include "support/check/passes.h"

#include <math.h>
#include <string.h>

#include "compile/options.h"
#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "support/support.h"

struct ig_graph *passes_named(struct ig_graph *g, const char *names, const struct ig_pass_options *options) {
    for (const char *at = names; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        bool known = false;
        for (int i = 0; i < ig_pass_count; i++) {
            if (strlen(ig_passes[i].name) != length || strncmp(ig_passes[i].name, at, length) != 0) continue;
            g = ig_passes[i].run(g, options);
            ig_graph_verify(g, ig_passes[i].name);
            known = true;
        }
        if (!known) fail_msg("there is no pass '%s'", at);
        at += length;
    }
    return g;
}

struct ig_graph *passes_of_build(struct ig_graph *g, const struct ingot_build_options *build,
                                 const struct ig_pass_options *options) {
    for (int i = 0; i < ig_pass_count; i++) {
        if (ig_pass_enabled(build, i)) g = ig_passes[i].run(g, options);
    }
    return g;
}

void assert_nearly_same(struct ig_graph *g, struct ig_graph *after, const struct ingot_tensor *inputs, double part,
                        double least) {
    struct ingot_tensor want, got;
    ig_eval_graph(g->job, g, inputs, &want);
    ig_eval_graph(g->job, after, inputs, &got);
    assert_int_equal(ingot_tensor_elements(&got), ingot_tensor_elements(&want));
    double most = 0;
    for (int64_t i = 0; i < ingot_tensor_elements(&want); i++)
        most = fmax(most, fabs(ig_load_f64(want.dtype, want.data, i)));
    assert_true(most > least);
    for (int64_t i = 0; i < ingot_tensor_elements(&want); i++) {
        double a = ig_load_f64(want.dtype, want.data, i), b = ig_load_f64(got.dtype, got.data, i);
        if (!(fabs(a - b) <= most * part)) fail_msg("element %d was %g, is %g", (int)i, a, b);
    }
    ig_eval_release(g->job, &want);
    ig_eval_release(g->job, &got);
}
