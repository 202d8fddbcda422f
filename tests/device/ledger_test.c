/* The ledger of processors by itself, with made-up processors and a clock of the test's. */
#include "device/cpu/ledger.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

#define MILLISECOND 1000000u

static uint64_t now = 1;

static uint64_t tests_clock(void) {
    return now;
}

/* Processors first … first + count - 1. */
static struct ig_processors processors_from(unsigned first, unsigned count) {
    struct ig_processors processors = {.count = count, .quota = UINT32_MAX};
    for (unsigned i = first; i < first + count; i++)
        processors.mask[i / 64] |= (uint64_t)1 << i % 64;
    return processors;
}

static void join(struct ig_claim *claims, size_t n, struct ig_processors processors) {
    for (size_t i = 0; i < n; i++) {
        ig_ledger_join(&claims[i], &processors);
        claims[i].clock = tests_clock;
    }
}

static void leave(struct ig_claim *claims, size_t n) {
    for (size_t i = 0; i < n; i++)
        ig_ledger_leave(&claims[i]);
}

/* Lets all learn of each other, for longer than it takes them to grow. */
static void review(struct ig_claim *claims, size_t n) {
    for (int round = 0; round < 8; round++) {
        for (size_t i = 0; i < n; i++)
            ig_ledger_review(&claims[i]);
        now += MILLISECOND;
    }
}

static void begin(struct ig_claim *claims, size_t n, const uint32_t *wanted) {
    for (size_t i = 0; i < n; i++)
        ig_ledger_begin(&claims[i], wanted[i]);
}

static void end(struct ig_claim *claims, size_t n) {
    for (size_t i = 0; i < n; i++)
        ig_ledger_end(&claims[i]);
}

/* ---- The ledger --------------------------------------------------------------------------------------------------- */

static void gives_one_pool_what_it_wants(void **state) {
    struct ig_claim claims[2];
    join(claims, 2, processors_from(0, 4));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 2; i++) { /* by turns, never at once */
            assert_int_equal(ig_ledger_begin(&claims[i], 4), 4);
            assert_int_equal(ig_ledger_review(&claims[i]), 4);
            ig_ledger_end(&claims[i]);
            assert_int_equal(ig_ledger_begin(&claims[i], 9), 9);
            ig_ledger_end(&claims[i]);
        }
    }
    leave(claims, 2);
}

static void shares_evenly(void **state) {
    struct ig_claim claims[20];
    static const uint32_t wanted[20] = {16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16};
    for (uint32_t n = 1; n <= 20; n++) {
        join(claims, n, processors_from(0, 16));
        begin(claims, n, wanted);
        assert_int_equal(ig_ledger_running(&claims[0]), n);
        for (uint32_t i = 0; i < n; i++) /* at once no less than it must be */
            assert_true(claims[i].share >= 16 / n);
        review(claims, n);
        uint32_t sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            sum += claims[i].share;
            assert_in_range(claims[i].share, n < 16 ? 16 / n : 1, n < 16 ? (16 + n - 1) / n : 1);
        }
        assert_int_equal(sum, n < 16 ? 16 : n);
        end(claims, n);
        assert_int_equal(ig_ledger_running(&claims[0]), 0);
        leave(claims, n);
    }
}

static void leaves_the_rest_to_those_who_want_more(void **state) {
    static const struct {
        uint32_t n, wanted[9], shares[9];
    } cases[] = {
        {3, {2, 2, 16}, {2, 2, 12}},
        {3, {16, 2, 2}, {12, 2, 2}},
        {3, {1, 16, 16}, {1, 0, 0}}, /* 7 and 8 */
        {9, {1, 1, 16, 1, 1, 1, 1, 1, 1}, {1, 1, 8, 1, 1, 1, 1, 1, 1}},
        {4, {4, 4, 4, 4}, {4, 4, 4, 4}},
        {4, {8, 2, 8, 2}, {6, 2, 6, 2}},
        {2, {40, 40}, {8, 8}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ig_claim claims[9];
        uint32_t sum = 0, n = cases[c].n;
        join(claims, n, processors_from(0, 16));
        begin(claims, n, cases[c].wanted);
        review(claims, n);
        for (uint32_t i = 0; i < n; i++) {
            sum += claims[i].share;
            if (cases[c].shares[i]) assert_int_equal(claims[i].share, cases[c].shares[i]);
        }
        assert_int_equal(sum, 16);
        end(claims, n);
        leave(claims, n);
    }
}

/* What remains of a division goes round. */
static void takes_turns(void **state) {
    struct ig_claim claims[3];
    static const uint32_t wanted[3] = {4, 4, 4};
    uint32_t served[3] = {0};
    join(claims, 3, processors_from(0, 4));
    for (int turn = 0; turn < 300; turn++) {
        begin(claims, 3, wanted);
        review(claims, 3);
        for (int i = 0; i < 3; i++)
            served[i] += claims[i].share;
        end(claims, 3);
    }
    assert_in_range(served[0] + served[1] + served[2], 1150, 1200);
    for (int i = 0; i < 3; i++)
        assert_in_range(served[i], 350, 450);
    leave(claims, 3);
}

static void grows_after_a_while(void **state) {
    struct ig_claim claims[2];
    struct ig_claim *a = &claims[0], *b = &claims[1];
    join(claims, 2, processors_from(0, 16));
    assert_int_equal(ig_ledger_begin(a, 16), 16);
    assert_int_equal(ig_ledger_begin(b, 16), 8);
    assert_int_equal(ig_ledger_review(a), 8);
    for (int pause = 0; pause < 5; pause++) { /* short ones change nothing, however many they are */
        ig_ledger_end(b);
        assert_int_equal(ig_ledger_review(a), 8);
        now += MILLISECOND;
        assert_int_equal(ig_ledger_review(a), 8);
        assert_int_equal(ig_ledger_begin(b, 16), 8);
        assert_int_equal(ig_ledger_review(a), 8);
    }
    ig_ledger_end(b);
    assert_int_equal(ig_ledger_review(a), 8);
    ig_ledger_end(a);
    assert_int_equal(ig_ledger_begin(a, 2), 2);
    ig_ledger_end(a);
    assert_int_equal(ig_ledger_begin(a, 16), 8);
    now += 3 * MILLISECOND;
    assert_int_equal(ig_ledger_review(a), 16);
    ig_ledger_end(a);
    leave(claims, 2);
}

static void knows_who_competes(void **state) {
    struct ig_claim low, high, both;
    join(&low, 1, processors_from(0, 8));
    join(&high, 1, processors_from(8, 8));
    assert_int_equal(ig_ledger_begin(&low, 8), 8);
    assert_int_equal(ig_ledger_begin(&high, 8), 8);
    join(&both, 1, processors_from(4, 8)); /* while they run */
    assert_int_equal(ig_ledger_begin(&both, 8), 8);
    assert_int_equal(ig_ledger_review(&low), 4);
    ig_ledger_end(&low);
    ig_ledger_end(&high);
    assert_int_equal(ig_ledger_begin(&high, 8), 4);
    assert_int_equal(ig_ledger_begin(&low, 8), 4);
    assert_int_equal(ig_ledger_running(&both), 3);
    assert_int_equal(ig_ledger_running(&low), 2);
    ig_ledger_end(&both);
    ig_ledger_leave(&both);
    now += 3 * MILLISECOND;
    ig_ledger_review(&low);
    now += 3 * MILLISECOND;
    assert_int_equal(ig_ledger_review(&low), 8);
    ig_ledger_end(&low);
    ig_ledger_end(&high);
    ig_ledger_leave(&low);
    ig_ledger_leave(&high);
}

/* The quota belongs to the process, whichever processors its threads are on. */
static void divides_the_quota(void **state) {
    struct ig_claim low, high;
    struct ig_processors first = processors_from(0, 8), second = processors_from(8, 8);
    first.quota = second.quota = 6;
    assert_int_equal(ig_processors_usable(&first), 6);
    join(&low, 1, first);
    join(&high, 1, second);
    assert_int_equal(ig_ledger_begin(&low, 6), 6);
    assert_int_equal(ig_ledger_begin(&high, 6), 3);
    assert_int_equal(ig_ledger_review(&low), 3);
    ig_ledger_end(&low);
    ig_ledger_end(&high);
    ig_ledger_leave(&low);
    ig_ledger_leave(&high);
}

/* Expects that two pools on new processors share them: that there is room for them in the ledger. */
static void expect_room(unsigned first) {
    struct ig_claim claims[2];
    join(claims, 2, processors_from(first, 4));
    assert_int_equal(ig_ledger_begin(&claims[0], 4), 4);
    assert_int_equal(ig_ledger_begin(&claims[1], 4), 2);
    end(claims, 2);
    leave(claims, 2);
}

static void forgets_those_who_left(void **state) {
    static struct ig_claim claims[300];
    for (unsigned i = 0; i < 300; i++) {
        join(&claims[i], 1, processors_from(i, 2));
        leave(&claims[i], 1);
    }
    expect_room(500);
    for (unsigned i = 0; i < 300; i++)
        join(&claims[i], 1, processors_from(i, 1));
    assert_int_equal(ig_ledger_begin(&claims[299], 3), 3); /* more sets than there is room for: on its own */
    assert_int_equal(ig_ledger_review(&claims[299]), 3);
    ig_ledger_end(&claims[299]);
    leave(claims, 300);
    expect_room(500);
}

static void starts_afresh_in_a_child(void **state) {
    struct ig_claim claim;
    join(&claim, 1, processors_from(0, 4));
    assert_int_equal(ig_ledger_begin(&claim, 4), 4);
    pid_t child = fork();
    if (child == 0) {
        struct ig_claim own;
        join(&own, 1, processors_from(0, 4));
        _exit(ig_ledger_begin(&own, 4) == 4 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ig_ledger_end(&claim);
    ig_ledger_leave(&claim);
}

/* Whoever comes and goes, all arrive at their shares, and in the end nothing is left. */
static void settles_after_anything(void **state) {
    enum { n = 12 };
    struct ig_claim claims[n], running[n];
    bool runs[n] = {0};
    uint32_t random = 3;
    join(claims, n, processors_from(0, 16));
    for (int turn = 0; turn < 5000; turn++) {
        random = random * 1664525u + 1013904223u;
        size_t i = random / 65536 % n;
        if (runs[i])
            ig_ledger_end(&claims[i]);
        else
            ig_ledger_begin(&claims[i], 1 + random / 256 % 16);
        runs[i] = !runs[i];
        if (turn % 10) continue;
        size_t count = 0;
        uint32_t sum = 0, wanted = 0, largest = 0;
        for (int round = 0; round < 8; round++, now += MILLISECOND) {
            for (size_t k = 0; k < n; k++)
                if (runs[k]) ig_ledger_review(&claims[k]);
        }
        for (size_t k = 0; k < n; k++) {
            if (runs[k]) running[count++] = claims[k];
        }
        for (size_t k = 0; k < count; k++) {
            sum += running[k].share;
            wanted += running[k].wanted;
            if (running[k].share > largest) largest = running[k].share;
        }
        assert_true(count < 2 || sum <= 16 + count - 1); /* numbers are not in sequence: some may round up */
        if (wanted <= 16) assert_int_equal(sum, wanted);
        for (size_t k = 0; k < count; k++) /* nobody goes short of what others have */
            assert_true(running[k].share == running[k].wanted || running[k].share + 2 >= largest);
    }
    for (size_t i = 0; i < n; i++) {
        if (runs[i]) ig_ledger_end(&claims[i]);
    }
    assert_int_equal(ig_ledger_running(&claims[0]), 0);
    leave(claims, n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_one_pool_what_it_wants),
        cmocka_unit_test(shares_evenly),
        cmocka_unit_test(leaves_the_rest_to_those_who_want_more),
        cmocka_unit_test(takes_turns),
        cmocka_unit_test(grows_after_a_while),
        cmocka_unit_test(knows_who_competes),
        cmocka_unit_test(divides_the_quota),
        cmocka_unit_test(forgets_those_who_left),
        cmocka_unit_test(starts_afresh_in_a_child),
        cmocka_unit_test(settles_after_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
