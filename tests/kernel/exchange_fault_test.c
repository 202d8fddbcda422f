/*
 * What collectives as kernels of emulated GPUs do at the ends of epochs' numbers, and when a rank does not come, does something
 * else, has given up, or shall stop; and that a group goes on when it is renewed. Only waits in vain end because of the time.
 */
#include "support/support.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/nccl.h"
#include "support/device/exchange.h"

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

enum { REDUCE, BROADCAST, GATHER, KERNELS };
static struct exchange_kernel kernels[KERNELS] = {
    [REDUCE] = {.what = {IG_ALL_REDUCE, INGOT_I32, IG_REDUCE_SUM, 0}, .ranks = 2},
    [BROADCAST] = {.what = {IG_BROADCAST, INGOT_I32, 0, 0}, .ranks = 2},
    [GATHER] = {.what = {IG_ALL_GATHER, INGOT_I32, 0, 0}, .ranks = 2},
};

/* Elements of a message: of one block, of several, and of a long one. */
enum { ONE = 1, SOME = 1500, MANY = IG_WINDOW_SHORT / 4 + 1 };

struct exchanged {
    int32_t from[EXCHANGE_RANKS][MANY], to[EXCHANGE_RANKS][2 * MANY];
};
static struct exchanged data;

static struct exchange_call call_of(int kernel, uint32_t number, size_t inner) {
    struct exchange_call call = {.kernel = &kernels[kernel], .number = number, .blocks = inner == MANY ? 2 : 0};
    call.sizes = (struct ig_collective_sizes){.outer = 1, .inner = inner};
    for (uint32_t r = 0; kernel == GATHER && r < 2; r++)
        call.sizes.parts[r] = 1;
    return call;
}

static const char *launch(struct exchange_rank *r, const struct exchange_call *call) {
    return exchange_launch(r, call, data.from[r->rank], data.to[r->rank]);
}

/* A sum of what both ranks have, which changes from call to call. */
static const char *reduce(struct exchange_rank *r, size_t count) {
    static _Thread_local int32_t calls;
    const struct exchange_call call = call_of(REDUCE, 0, count);
    calls++;
    for (size_t i = 0; i < count; i++)
        data.from[r->rank][i] = (int32_t)(r->rank * 1000 + i) + calls;
    const char *wrong = launch(r, &call);
    for (size_t i = 0; i < count && !wrong; i++)
        if (data.to[r->rank][i] != 1000 + 2 * (int32_t)i + 2 * calls) wrong = "a wrong sum";
    if (!wrong && ig_group_look(r->seat, &r->error)) wrong = r->error.message;
    return wrong;
}

static const char *meet(struct exchange_rank *r) {
    return ig_group_barrier(r->seat, "meeting", &r->error) ? r->error.message : NULL;
}

/* ---- Seats ------------------------------------------------------------------------------------------------------- */

static const char *read_seat(struct exchange_rank *r, struct ig_window_seat *out) {
    return exchange_read(r, ig_group_seat(r->seat), out, sizeof *out);
}

static const char *set_patience(struct exchange_rank *r, double seconds) {
    const uint64_t patience = (uint64_t)(seconds * 1e9);
    return exchange_write(r, (char *)ig_group_seat(r->seat) + offsetof(struct ig_window_seat, patience), &patience,
                          sizeof patience);
}

static const char *set_epoch(struct exchange_rank *r, uint32_t epoch) {
    uint32_t epochs[IG_WINDOW_HEADERS];
    for (int b = 0; b < IG_WINDOW_HEADERS; b++)
        epochs[b] = epoch;
    return exchange_write(r, (char *)ig_group_seat(r->seat) + offsetof(struct ig_window_seat, epochs), epochs,
                          sizeof epochs);
}

static const char *expect_epoch(struct exchange_rank *r, uint32_t epoch) {
    struct ig_window_seat seat;
    const char *wrong = read_seat(r, &seat);
    for (int b = 0; b < IG_WINDOW_HEADERS && !wrong; b++)
        if (seat.epochs[b] != epoch) wrong = "another epoch";
    return wrong;
}

/* ---- Epochs ------------------------------------------------------------------------------------------------------ */

static uint32_t later(uint32_t epoch, uint32_t by) {
    while (by-- > 0)
        epoch = epoch == UINT32_MAX ? IG_WINDOW_FIRST_EPOCH : epoch + 1;
    return epoch;
}

static const char *go_on_from(struct exchange_rank *r, void *user) {
    static const size_t counts[] = {ONE, SOME, MANY, ONE, MANY, SOME, ONE};
    const uint32_t *first = user;
    uint32_t passed = 0;
    const char *wrong = meet(r);
    if (!wrong) wrong = set_epoch(r, *first);
    if (!wrong) wrong = meet(r);
    for (int i = 0; i < COUNT(counts) && !wrong; i++) {
        const uint32_t lines = (MANY + 3) / 4, chunk = 2 * IG_WINDOW_THREADS * IG_WINDOW_LONG_EACH; /* of two blocks */
        passed += counts[i] == MANY ? (lines + chunk - 1) / chunk : 1;
        wrong = reduce(r, counts[i]);
    }
    return wrong ? wrong : expect_epoch(r, later(*first, passed));
}

static void epochs_go_on(void **state) {
    static uint32_t firsts[] = {(1u << 30) - 1, (1u << 30) - 5, (3u << 30) + 2, UINT32_MAX - 1, UINT32_MAX - 6};
    struct exchange_group group;
    exchange_set_order(false);
    exchange_open(&group, 2);
    for (int i = 0; i < COUNT(firsts); i++) {
        if (i == 3) exchange_set_order(true);
        exchange_together(&group, go_on_from, &firsts[i]);
    }
    exchange_close(&group);
}

/* ---- What is left of earlier epochs ------------------------------------------------------------------------------ */

struct planting {
    uint32_t epoch;
    size_t count; /* of the message that clears */
};

enum { WORDS = IG_WINDOW_SHORT_LINES + IG_WINDOW_HEADERS }; /* of 16 bytes; they come first in a slot */

static char *slot_of(const struct ig_window_seat *seat, uint32_t epoch, uint32_t sender) {
    return (char *)(uintptr_t)seat->windows[seat->rank] + (size_t)((epoch & 1) * 2 + sender) * IG_WINDOW_SLOT;
}

static const char *plant(struct exchange_rank *r, const struct ig_window_seat *seat, uint32_t epoch, uint64_t *words) {
    const char *wrong = NULL;
    for (size_t i = 0; i < 2 * WORDS; i++)
        words[i] = (uint64_t)epoch << 32 | 77;
    for (uint32_t sender = 0; sender < 2 && !wrong; sender++)
        wrong = exchange_write(r, slot_of(seat, epoch, sender), words, WORDS * 16);
    return wrong;
}

static const char *expect_nothing(struct exchange_rank *r, const struct ig_window_seat *seat, uint32_t epoch,
                                  uint64_t *words) {
    static _Thread_local char wrong[100];
    for (uint32_t sender = 0; sender < 2; sender++) {
        const char *failure = exchange_read(r, slot_of(seat, epoch, sender), words, WORDS * 16);
        if (failure) return failure;
        for (size_t i = 0; i < 2 * WORDS; i++) {
            if (words[i] == 0) continue;
            snprintf(wrong, sizeof wrong, "word %zu of sender %u, of epoch %u, was not cleared", i, sender, epoch);
            return wrong;
        }
    }
    return NULL;
}

/* The half of the next epoch has words that say that they are of that epoch, as if they had come already. */
static const char *clear_what_is_left(struct exchange_rank *r, void *user) {
    const struct planting *p = user;
    struct ig_window_seat seat;
    uint64_t *words = malloc(WORDS * 16);
    const char *wrong = words ? meet(r) : "out of memory";
    if (!wrong) wrong = read_seat(r, &seat);
    if (!wrong) wrong = set_epoch(r, p->epoch);
    if (!wrong) wrong = plant(r, &seat, p->epoch + 1, words);
    if (!wrong) wrong = meet(r);
    if (!wrong) wrong = reduce(r, p->count);
    if (!wrong) wrong = meet(r);
    if (!wrong) wrong = expect_nothing(r, &seat, p->epoch + 1, words);
    if (!wrong) wrong = meet(r);
    if (!wrong) wrong = reduce(r, SOME);
    free(words);
    return wrong;
}

static void old_words_are_cleared(void **state) {
    static struct planting plantings[] = {
        {IG_WINDOW_FIRST_EPOCH, ONE}, {(1u << 30) + 3, SOME}, {(2u << 30) + 2, ONE}, {(3u << 30) + 3, ONE}};
    struct exchange_group group;
    exchange_set_order(false);
    exchange_open(&group, 2);
    for (int i = 0; i < COUNT(plantings); i++)
        exchange_together(&group, clear_what_is_left, &plantings[i]);
    exchange_close(&group);
}

/* ---- Ranks that do not come -------------------------------------------------------------------------------------- */

static const char *wanted(enum ingot_status status, enum ingot_status wanted_status, const struct ingot_error *error,
                          const char *begin, const char *end) {
    static _Thread_local char wrong[INGOT_ERROR_MESSAGE_SIZE];
    const char *message = status == INGOT_OK ? "" : error->message;
    const size_t length = strlen(message);
    if (status == wanted_status && strncmp(message, begin, strlen(begin)) == 0 && length >= strlen(end) &&
        strcmp(message + length - strlen(end), end) == 0)
        return NULL;
    snprintf(wrong, sizeof wrong, "expected '%s … %s', found '%.600s' (%s)", begin, end, message,
             ingot_status_name(status));
    return wrong;
}

static const char *name_calls(struct exchange_rank *r) {
    static const char *const labels[] = {"embedding", "block 1", "block 2", "head"};
    for (uint32_t i = 0; i < 4; i++)
        if (ig_group_name_call(r->seat, 3 * i, labels[i], &r->error)) return r->error.message;
    return NULL;
}

static const char *wait_in_vain(struct exchange_rank *r, void *user) {
    const struct exchange_call *call = user;
    const char *wrong = r->rank == 1 ? NULL : name_calls(r);
    if (r->rank == 1) return ig_group_look(r->seat, &r->error) ? r->error.message : NULL;
    if (!wrong) wrong = set_patience(r, 0.2);
    if (!wrong) wrong = launch(r, call);
    if (!wrong)
        wrong = wanted(ig_group_look(r->seat, &r->error), INGOT_TIMEOUT, &r->error,
                       "collective 3, 'block 1': rank 0 waited ", " s for rank 1");
    return wrong;
}

static const char *renew_rank(struct exchange_rank *r, struct ig_group **out_host) {
    return ig_nccl_renew(r->seat, out_host, &r->error) ? r->error.message : NULL;
}

static const char *go_on(struct exchange_rank *r, void *user) {
    const char *wrong = reduce(r, SOME);
    if (!wrong) wrong = reduce(r, ONE);
    return wrong ? wrong : meet(r);
}

/* What contexts do after a failure: everything is as at first. */
static void renew(struct exchange_group *group) {
    struct ig_group *hosts[EXCHANGE_RANKS];
    for (uint32_t r = 0; r < group->ranks; r++) {
        const char *wrong = renew_rank(&group->at[r], &hosts[r]);
        if (wrong) fail_msg("%s", wrong);
    }
    ig_group_renew_local(hosts, group->ranks);
    exchange_together(group, go_on, NULL);
}

static void a_rank_that_does_not_come(void **state) {
    struct exchange_group group;
    exchange_set_order(false);
    exchange_open(&group, 2);
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        struct exchange_call call = call_of(kernel, 3, kernel == GATHER ? MANY : ONE);
        exchange_together(&group, wait_in_vain, &call);
        renew(&group);
    }
    exchange_close(&group);
}

/* ---- Ranks that do something else -------------------------------------------------------------------------------- */

static const char *do_different_things(struct exchange_rank *r, void *user) {
    const size_t *count = user;
    const struct exchange_call call = call_of(REDUCE, r->rank == 0 ? 3 : 6, *count);
    const char *wrong = name_calls(r);
    if (!wrong) wrong = set_patience(r, 60);
    if (!wrong) wrong = launch(r, &call);
    if (!wrong)
        wrong = wanted(ig_group_look(r->seat, &r->error), INGOT_INCOMPATIBLE, &r->error,
                       r->rank == 0 ? "ranks do different things: rank 0 is at collective 3, 'block 1', rank 1 at "
                                      "collective 6, 'block 2'"
                                    : "ranks do different things: rank 1 is at collective 6, 'block 2', rank 0 at "
                                      "collective 3, 'block 1'",
                       "");
    return wrong;
}

static const char *have_different_sizes(struct exchange_rank *r, void *user) {
    const struct exchange_call call = call_of(REDUCE, 9, r->rank == 0 ? 7 : 9);
    const char *wrong = name_calls(r);
    if (!wrong) wrong = launch(r, &call);
    if (!wrong)
        wrong = wanted(ig_group_look(r->seat, &r->error), INGOT_INCOMPATIBLE, &r->error,
                       "ranks do different things: ", "at collective 9, 'head', of other sizes");
    return wrong;
}

static void ranks_that_do_different_things(void **state) {
    static size_t counts[] = {ONE, SOME, MANY};
    struct exchange_group group;
    exchange_open(&group, 2);
    for (int i = 0; i < COUNT(counts); i++) {
        exchange_set_order(i == 1);
        exchange_together(&group, do_different_things, &counts[i]);
        renew(&group);
    }
    exchange_together(&group, have_different_sizes, NULL);
    renew(&group);
    exchange_close(&group);
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

struct stopping {
    struct exchange_group *group;
    struct exchange_call call;
};

/* Rank 1 does not come and, instead of another thread of rank 0, stops it, which waits for longer than the emulator lets it. */
static const char *stop(struct exchange_rank *r, void *user) {
    struct stopping *s = user;
    struct ig_window_seat seat;
    if (r->rank == 1) {
        ig_group_fail(s->group->at[0].seat, INGOT_CANCELLED, "enough");
        return NULL;
    }
    const char *wrong = set_patience(r, 1e6);
    if (!wrong) wrong = launch(r, &s->call);
    if (!wrong) wrong = read_seat(r, &seat);
    if (!wrong && seat.given_up == 0) wrong = "it has not given up";
    return wrong ? wrong : wanted(ig_group_look(r->seat, &r->error), INGOT_CANCELLED, &r->error, "enough", "");
}

static void kernels_that_wait_are_stopped(void **state) {
    struct exchange_group group;
    exchange_set_order(false);
    exchange_open(&group, 2);
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        struct stopping stopping = {&group, call_of(kernel, 0, kernel == GATHER ? MANY : SOME)};
        exchange_together(&group, stop, &stopping);
        renew(&group);
    }
    exchange_close(&group);
}

/* What comes from a rank that has given up would be wrong: it sends nothing. */
static const char *give_up(struct exchange_rank *r, void *user) {
    static const uint32_t yes = 1;
    const struct exchange_call call = call_of(REDUCE, 3, ONE);
    const char *wrong = name_calls(r);
    if (!wrong && r->rank == 1)
        wrong = exchange_write(r, (char *)ig_group_seat(r->seat) + offsetof(struct ig_window_seat, given_up), &yes,
                               sizeof yes);
    if (!wrong) wrong = set_patience(r, 0.2);
    if (!wrong) wrong = meet(r);
    if (!wrong) wrong = launch(r, &call);
    if (!wrong && r->rank == 0)
        wrong = wanted(ig_group_look(r->seat, &r->error), INGOT_TIMEOUT, &r->error,
                       "collective 3, 'block 1': rank 0 waited ", " s for rank 1");
    return wrong;
}

static void ranks_that_gave_up_send_nothing(void **state) {
    struct exchange_group group;
    exchange_set_order(false);
    exchange_open(&group, 2);
    exchange_together(&group, give_up, NULL);
    renew(&group);
    exchange_close(&group);
}

static int run_all(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epochs_go_on),
        cmocka_unit_test(old_words_are_cleared),
        cmocka_unit_test(a_rank_that_does_not_come),
        cmocka_unit_test(ranks_that_do_different_things),
        cmocka_unit_test(ranks_that_gave_up_send_nothing),
        cmocka_unit_test(kernels_that_wait_are_stopped),
    };
    return cmocka_run_group_tests_name("faults of collectives through windows", tests, NULL, NULL);
}

int main(void) {
    return exchange_main(kernels, KERNELS, run_all);
}
