/* Taps that meet nothing but padding are left out, and no others. */
#include <stdio.h>

#include "pass/view/view.h"
#include "support/check/rewrite_check.h"
#include "support/support.h"

/* An axis of the input's 6 rows or 5 columns, and the axis of the result. */
struct axis {
    int taps, stride, dilation, before, after, outputs;
    int left, left_before, left_after; /* the taps that are left, and the padding */
};

struct convolution {
    const char *what;
    int groups;
    struct axis rows, columns;
};

static const struct convolution convolutions[] = {
    {"the middle alone", 1, {3, 1, 36, 36, 36, 6, 1, 0, 0}, {3, 1, 5, 5, 5, 5, 1, 0, 0}},
    {"taps at the ends", 1, {5, 1, 4, 8, 8, 6, 3, 4, 4}, {3, 1, 4, 4, 4, 5, 3, 4, 4}},
    {"a long kernel, of groups", 2, {16, 1, 1, 8, 8, 7, 12, 6, 6}, {1, 1, 1, 0, 0, 5, 1, 0, 0}},
    {"more padding than results need", 1, {4, 1, 1, 3, 9, 15, 4, 3, 9}, {3, 1, 1, 7, 1, 11, 3, 7, 1}},
    {"in steps", 1, {7, 4, 1, 6, 0, 2, 5, 4, 0}, {9, 2, 2, 12, 6, 4, 6, 6, 6}},
    {"none is read", 1, {1, 20, 1, 9, 0, 1, 1, 9, 0}, {3, 1, 1, 1, 1, 5, 3, 1, 1}},
    {"the rest would begin within the input", 1, {2, 9, 4, 2, 0, 1, 2, 2, 0}, {3, 1, 1, 1, 1, 5, 3, 1, 1}},
};

static void print_conv(const struct convolution *c, char *text, size_t size) {
    const struct axis *r = &c->rows, *k = &c->columns;
    int in = 4 / c->groups;
    snprintf(text, size,
             "  %%3 = constant() {data=hash:0000000000000001, initializer=\"w\"}: f32[6,%d,%d,%d]\n"
             "  %%4 = constant() {data=hash:0000000000000001, initializer=\"b\"}: f32[6]\n"
             "  %%5 = conv(%%0, %%3, %%4) {strides=[%d,%d], dilations=[%d,%d], before=[%d,%d], after=[%d,%d], "
             "groups=%d, acc=f32, channels_last=0, packed=0, n=6, kernel=[%d,%d], math=0, border=0}: "
             "f32[batch,6,%d,%d]\n"
             "  output \"out\" = %%5\n",
             in, r->taps, k->taps, r->stride, k->stride, r->dilation, k->dilation, r->before, k->before, r->after,
             k->after, c->groups, r->taps, k->taps, r->outputs, k->outputs);
}

static void check_axis(const struct ig_graph *g, const struct ig_node *n, int i, const struct axis *a) {
    assert_int_equal(ig_attr(g, n, IG_ATTR_kernel)->ints[i], a->left);
    assert_true(ig_dim_is(g->dims, ig_attr(g, n, IG_ATTR_before)->dims[i], a->left_before));
    assert_true(ig_dim_is(g->dims, ig_attr(g, n, IG_ATTR_after)->dims[i], a->left_after));
}

static void check_left(struct ig_job *job, void *argument) {
    const struct convolution *c = *(const struct convolution *const *)argument;
    char text[1024];
    print_conv(c, text, sizeof text);
    struct ig_graph *g = rewrite_by_passes(rewrite_graph(job, text), "unread-taps");
    const struct ig_node *n = ig_def(g, g->outputs.at[0].value);
    assert_int_equal(n->op, IG_OP_conv);
    assert_true(ig_info(g, n->in[1])->is_refittable);
    check_axis(g, n, 0, &c->rows);
    check_axis(g, n, 1, &c->columns);
}

static void test_left(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
        const struct convolution *c = &convolutions[i];
        char text[1024];
        print_conv(c, text, sizeof text);
        const struct rewrite same[] = {{"unread-taps", text, NULL, 0, REWRITE_POISON},
                                       {"unread-taps layout pack", text, NULL, 1e-6, REWRITE_POISON}};
        CHECK_REWRITES(same);
        rewrite_in_job(check_left, &c, c->what);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
