#include "support/dist/ranks.h"

#include <pthread.h>
#include <stdio.h>

#include "support/support.h"

struct rank {
    pthread_t thread;
    struct ig_group *seat;
    const char *(*body)(struct ig_group *seat, void *user);
    void *user;
    char wrong[INGOT_ERROR_MESSAGE_SIZE];
};

static void *rank_main(void *argument) {
    struct rank *rank = argument;
    const char *wrong = rank->body(rank->seat, rank->user);
    if (wrong) snprintf(rank->wrong, sizeof rank->wrong, "%s", wrong);
    return NULL;
}

void run_ranks(uint32_t ranks, double seconds, const char *(*body)(struct ig_group *seat, void *user), void *user) {
    struct ig_group *seats[IG_MOST_RANKS];
    struct rank all[IG_MOST_RANKS] = {0};
    struct ingot_error error;
    const struct ig_group_options options = {.seconds = seconds};
    if (ig_group_create_local(ranks, &options, seats, &error)) fail_msg("%s", error.message);
    for (uint32_t r = 0; r < ranks; r++) {
        all[r].seat = seats[r];
        all[r].body = body;
        all[r].user = user;
        assert_int_equal(pthread_create(&all[r].thread, NULL, rank_main, &all[r]), 0);
    }
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(all[r].thread, NULL);
    for (uint32_t r = 0; r < ranks; r++)
        ig_group_destroy(seats[r]);
    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].wrong[0]) fail_msg("rank %u: %s", r, all[r].wrong);
}

const char *failed(const struct ingot_error *error) {
    static _Thread_local char text[INGOT_ERROR_MESSAGE_SIZE + 16];
    snprintf(text, sizeof text, "error: %s", error->message);
    return text;
}
