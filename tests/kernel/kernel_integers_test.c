/*
 * Random quantised networks, compiled behind the pass `integers`: no byte differs from the reference evaluator's.
 *
 *     kernel_integers_test FIRST COUNT [all|cpu|cuda]
 *
 * tries COUNT networks from number FIRST on, with eight inputs each, on this machine's levels of processors, on the emulator of GPUs or on both,
 * and says which fail. Several are compiled at once, in a process of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check/kernel_cases.h"
#include "support/random/random_quantized.h"

enum { NETWORKS = 30, AT_ONCE = 32, INPUTS = 8 };

/* Of the numbers that inputs are filled with, some are hostile. */
static void add_network(uint32_t seed, uint32_t inputs, struct random_quantized *random) {
    static const int64_t sizes[] = {2, 0, 0, 0};
    random->seed = seed;
    unsigned flags = GRAPH_INTEGERS | ((seed + inputs) % 3 ? 0 : GRAPH_HOSTILE);
    add_named_case(random_quantized_build, random, flags, sizes, "network %u", seed)->sizes[GRAPH_SIZES] = inputs;
}

static void networks(void **state) {
    (void)state;
    /* Means that were wrong by a rounding at borders, a sum that was contracted with a product and then stored in floats, reductions
     * along columns of which views leave odd numbers side by side, and convolutions that were left to floats, which sum in any order. */
    static const uint32_t found[] = {5300017, 1200156, 7000015, 20200086, 20500045, 30000218};
    enum { FOUND = sizeof found / sizeof *found };
    static struct random_quantized random[NETWORKS + FOUND];
    for (uint32_t i = 0; i < NETWORKS; i++)
        add_network(i, 0, &random[i]);
    for (uint32_t i = 0; i < FOUND * INPUTS; i++)
        add_network(found[i / INPUTS], i % INPUTS, &random[NETWORKS + i / INPUTS]);
    check_all();
}

/* ---- Many ---- */

static uint32_t first;
static int count;
static const char *where = "all";

static void many(void **state) {
    (void)state;
    static struct random_quantized random[AT_ONCE];
    for (int i = 0; i < count; i++) {
        for (uint32_t inputs = 0; inputs < INPUTS; inputs++)
            add_network(first + (uint32_t)i, inputs, &random[i]);
    }
    if (!strcmp(where, "cpu"))
        check_all_for_cpu();
    else if (!strcmp(where, "cuda"))
        check_all_for_cuda();
    else
        check_all();
}

/* In another process, which says what is wrong. */
static bool passes(uint32_t from, int n, bool quiet) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(many)};
    first = from;
    count = n;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || (quiet && !freopen("/dev/null", "w", stderr))) _exit(1);
        _exit(cmocka_run_group_tests(tests, NULL, NULL) != 0);
    }
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The number of those that fail. */
static int try_many(uint32_t from, uint32_t n) {
    int failed = 0;
    for (uint32_t done = 0; done < n; done += AT_ONCE) {
        int now = n - done < AT_ONCE ? (int)(n - done) : AT_ONCE;
        bool all = passes(from + done, now, true);
        for (int i = 0; i < now && !all; i++) {
            if (passes(from + done + (uint32_t)i, 1, true)) continue;
            passes(from + done + (uint32_t)i, 1, false);
            printf("network %u FAILED\n", from + done + (uint32_t)i);
            failed++;
        }
        printf("%u of %u, %d failed\n", done + (uint32_t)now, n, failed);
    }
    return failed;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks)};
    if (argc < 3) return cmocka_run_group_tests(tests, NULL, NULL);
    if (argc > 3) where = argv[3];
    return try_many((uint32_t)strtoul(argv[1], NULL, 10), (uint32_t)strtoul(argv[2], NULL, 10)) != 0;
}
