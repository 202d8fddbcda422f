/* ingot_choose_sizes against all choices on small cases, and what it reaches on a skewed distribution. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "ingot/ingot.h"

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* The rows added with these ascending sizes; UINT64_MAX if some size is beyond them. */
static uint64_t padding(const int64_t *observed, const uint64_t *counts, size_t n, const int64_t *sizes,
                        size_t n_sizes) {
    uint64_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < n_sizes && sizes[k] < observed[i])
            k++;
        if (counts[i] && k == n_sizes) return UINT64_MAX;
        if (counts[i]) rows += counts[i] * (uint64_t)(sizes[k] - observed[i]);
    }
    return rows;
}

/* The least over all choices of at most `most` sizes from 0 to `largest`. */
static uint64_t least_padding(const int64_t *observed, const uint64_t *counts, size_t n, size_t most, int64_t largest) {
    uint64_t least = UINT64_MAX;
    for (uint32_t set = 1; set < (uint32_t)2 << largest; set++) {
        int64_t sizes[16];
        size_t n_sizes = 0;
        if ((size_t)__builtin_popcount(set) > most) continue;
        for (int64_t size = 0; size <= largest; size++) {
            if (set >> size & 1) sizes[n_sizes++] = size;
        }
        uint64_t rows = padding(observed, counts, n, sizes, n_sizes);
        if (rows < least) least = rows;
    }
    return least;
}

static void no_choice_is_better(void **state) {
    uint64_t random = 1;
    for (int trial = 0; trial < 400; trial++) {
        const int64_t largest = 10;
        int64_t observed[12], sizes[12];
        uint64_t counts[12];
        size_t n = 1 + next(&random) % 12, most = 1 + next(&random) % 6, n_sizes;
        for (size_t i = 0; i < n; i++) {
            observed[i] = (int64_t)(next(&random) % (uint64_t)(largest + 1));
            counts[i] = next(&random) % 5;
        }
        counts[next(&random) % n]++;
        struct ingot_error error;
        if (ingot_choose_sizes(observed, counts, n, most, sizes, &n_sizes, &error)) fail_msg("%s", error.message);
        assert_in_range(n_sizes, 1, most);
        for (size_t i = 1; i < n_sizes; i++)
            assert_true(sizes[i] > sizes[i - 1]);
        assert_int_equal(padding(observed, counts, n, sizes, n_sizes),
                         least_padding(observed, counts, n, most, largest));
    }
}

/* Batches as servers see them: mostly small, and a tail to 64. The work is what the chosen sizes compute. */
static void eight_sizes_pad_little(void **state) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int64_t observed[64], sizes[8];
        uint64_t counts[64] = {0}, random = seed, rows = 0;
        size_t n_sizes;
        for (int i = 0; i < 64; i++)
            observed[i] = i + 1;
        for (int i = 0; i < 10000; i++) { /* the least of three: the density falls with the square */
            uint64_t size = 64;
            for (int k = 0; k < 3; k++) {
                uint64_t drawn = 1 + next(&random) % 64;
                if (drawn < size) size = drawn;
            }
            counts[size - 1]++;
            rows += size;
        }
        assert_int_equal(ingot_choose_sizes(observed, counts, 64, 8, sizes, &n_sizes, NULL), INGOT_OK);
        uint64_t padded = padding(observed, counts, 64, sizes, n_sizes);
        if (padded * 100 > (rows + padded) * 15)
            fail_msg("seed %d: %d rows are padded by %d", (int)seed, (int)rows, (int)padded);
    }
}

/* Many sizes: the sums of the programme are as large as they may be, and more sizes never cost more. */
static void many_sizes(void **state) {
    enum { N = 3000 };
    int64_t *observed = malloc(N * sizeof *observed), sizes[64];
    uint64_t *counts = malloc(N * sizeof *counts), before = UINT64_MAX, random = 7;
    for (int i = 0; i < N; i++) {
        observed[i] = 1 + (int64_t)(next(&random) % 1000000);
        counts[i] = 1 + next(&random) % 1000000;
    }
    for (size_t most = 1; most <= 64; most *= 2) {
        size_t n_sizes;
        assert_int_equal(ingot_choose_sizes(observed, counts, N, most, sizes, &n_sizes, NULL), INGOT_OK);
        assert_int_equal(n_sizes, most);
        uint64_t rows = padding(observed, counts, N, sizes, n_sizes);
        assert_true(rows < before);
        before = rows;
    }
    free(observed);
    free(counts);
}

static void simple_cases(void **state) {
    int64_t sizes[4];
    size_t n;
    const int64_t three[] = {9, 2, 9, 5};
    const uint64_t once[] = {1, 1, 1, 1}, none[] = {0, 0, 0, 0}, some[] = {0, 1, 0, 1};
    assert_int_equal(ingot_choose_sizes(three, once, 4, 4, sizes, &n, NULL), INGOT_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(sizes, ((const int64_t[]){2, 5, 9}), 3 * sizeof *sizes);
    assert_int_equal(ingot_choose_sizes(three, once, 4, 1, sizes, &n, NULL), INGOT_OK);
    assert_int_equal(sizes[0], 9);
    assert_int_equal(ingot_choose_sizes(three, some, 4, 4, sizes, &n, NULL), INGOT_OK);
    assert_int_equal(n, 2);
    struct ingot_error error;
    assert_int_equal(ingot_choose_sizes(three, none, 4, 4, sizes, &n, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "no size was observed"));
    assert_int_equal(ingot_choose_sizes(three, once, 0, 4, sizes, &n, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_choose_sizes(three, once, 4, 0, sizes, &n, &error), INGOT_INVALID_ARGUMENT);
    assert_int_equal(ingot_choose_sizes(NULL, once, 4, 1, sizes, &n, &error), INGOT_INVALID_ARGUMENT);
    const int64_t negative[] = {-1}, huge[] = {INT64_MAX / 2, INT64_MAX};
    assert_int_equal(ingot_choose_sizes(negative, once, 1, 1, sizes, &n, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "is -1"));
    assert_int_equal(ingot_choose_sizes(huge, once, 2, 1, sizes, &n, &error), INGOT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "over 2^63"));
    assert_int_equal(ingot_choose_sizes(huge, once, 1, 1, sizes, &n, &error), INGOT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_choice_is_better),
        cmocka_unit_test(eight_sizes_pad_little),
        cmocka_unit_test(many_sizes),
        cmocka_unit_test(simple_cases),
    };
    return cmocka_run_group_tests_name("choosing sizes", tests, NULL, NULL);
}
