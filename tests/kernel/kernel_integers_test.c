/* Random quantised networks, compiled behind the pass `integers`: no byte differs from the reference evaluator's. */
#include "support/check/kernel_cases.h"
#include "support/random/random_quantized.h"

enum { NETWORKS = 30 };

static void networks(void **state) {
    (void)state;
    static struct random_quantized random[NETWORKS];
    static const int64_t sizes[] = {2, 0, 0, 0};
    for (int i = 0; i < NETWORKS; i++) {
        random[i].seed = (uint32_t)i;
        add_named_case(random_quantized_build, &random[i], GRAPH_INTEGERS | (i % 3 ? 0 : GRAPH_HOSTILE), sizes,
                       "network %d", i);
    }
    check_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
