/* The same model and options give the same bytes: from two model objects, with different numbers of compiler
 * processes. */
#include <string.h>

#include "support/model/network.h"
#include "support/support.h"

static void test_same_bytes(void **state) {
    struct ingot_build_options one = INGOT_BUILD_OPTIONS_INIT, four = INGOT_BUILD_OPTIONS_INIT;
    one.jobs = 1;
    four.jobs = 4;
    struct test_network a, b;
    test_network_build(&a, TEST_DIGITS, &one);
    test_network_build(&b, TEST_DIGITS, &four);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    /* The same model object, built a second time. */
    void *again;
    size_t size;
    struct ingot_error error;
    assert_int_equal(ingot_model_build_memory(a.model, &one, &again, &size, &error), INGOT_OK);
    assert_int_equal(size, a.size);
    assert_memory_equal(again, a.data, size);
    ingot_blob_release(a.model, again, size);
    test_network_release(&a);
    test_network_release(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
