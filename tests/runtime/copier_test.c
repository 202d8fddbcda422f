/* Multi-threaded host copies: for all sizes and numbers of threads, the prefix reported as finished has been copied. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/context/copier.h"
#include "support/model/network.h"

#define LARGEST ((size_t)9 << 20)

static unsigned char from[LARGEST + 64], to[LARGEST + 64];

static void copy(struct ig_copier *copier, size_t size, size_t skew, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        from[skew + i] = (unsigned char)(i * 2654435761u >> 13 ^ seed);
    memset(to, 0xee, sizeof to);
    ig_copier_begin(copier, to + skew, from + skew, size);
    size_t there = 0;
    while (there < size) {
        size_t now = ig_copier_advance(copier);
        assert_true(now > there && now <= size);
        assert_memory_equal(to + skew + there, from + skew + there, now - there);
        there = now;
    }
    assert_int_equal(to[skew + size], 0xee);
    assert_int_equal(ig_copier_advance(copier), size);
}

static void copies_all(void **state) {
    static const size_t sizes[] = {0, 1, 63, 262143, 262144, 262145, 1 << 20, LARGEST, LARGEST - 1, 3 << 20};
    for (unsigned threads = 0; threads <= 5; threads++) {
        struct test_allocator allocator;
        test_allocator_init(&allocator);
        struct ingot_error error;
        struct ig_copier *copier;
        assert_int_equal(ig_copier_create(threads, &allocator.base, &copier, &error), INGOT_OK);
        long calls = allocator.calls;
        for (unsigned i = 0; i < 20; i++)
            copy(copier, sizes[i % 10], i % 3, i);
        assert_int_equal(allocator.calls, calls);
        ig_copier_destroy(copier);
        assert_int_equal(allocator.live, 0);
    }
}

/* A helper that wakes late must not take pieces of the next copy. */
static void copies_follow_each_other(void **state) {
    struct ingot_error error;
    struct ig_copier *copier;
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    assert_int_equal(ig_copier_create(4, &allocator.base, &copier, &error), INGOT_OK);
    for (unsigned i = 0; i < 300; i++)
        copy(copier, (size_t)(1 + i % 5) * 150000, i % 7, i);
    ig_copier_destroy(copier);
    ig_copier_destroy(NULL);
}

static void memory_may_be_missing(void **state) {
    struct test_allocator allocator;
    test_allocator_init(&allocator);
    struct ingot_error error;
    struct ig_copier *copier;
    allocator.fail_at = 1;
    assert_int_equal(ig_copier_create(2, &allocator.base, &copier, &error), INGOT_OUT_OF_MEMORY);
    assert_int_equal(allocator.live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_all),
        cmocka_unit_test(copies_follow_each_other),
        cmocka_unit_test(memory_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
