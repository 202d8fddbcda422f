/* The CUDA device on a stand-in for the driver. */
#include "support/support.h"

#include "device/cuda/cuda.h"

static void says_what_driver_it_looked_for(void **state) {
    struct ingot_error error = {0};
    int count = -1;
    assert_int_equal(ig_device_cuda_count_with("libno-such-driver.so.1", &count, &error), INGOT_DEVICE);
    assert_int_equal(count, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_driver_it_looked_for)};
    return cmocka_run_group_tests_name("cuda_device", tests, NULL, NULL);
}
