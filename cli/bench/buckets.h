/* ingot bench --buckets: batches rounded up to few sizes. */
#ifndef CLI_BUCKETS_H
#define CLI_BUCKETS_H

#include "bench/sizes.h"

struct buckets {
    const char *symbol; /* the engine's; NULL: sizes are taken as they are */
    int64_t *sizes;     /* NULL: the powers of two */
    size_t n_sizes;
    /* What the contexts did together, by ingot_context_batch. */
    struct ingot_batch_info info;
};

/* `spec`: "pow2", "1,2,4" or how many sizes are to be chosen for the stream. NULL: none. */
enum ingot_status buckets_init(struct buckets *buckets, const char *spec, const struct session *session,
                               const struct sizes *stream, struct ingot_error *error);
void buckets_deinit(struct buckets *buckets);
enum ingot_status buckets_set(const struct buckets *buckets, struct ingot_context *context, struct ingot_error *error);
/* Adds what the context did. */
enum ingot_status buckets_add(struct buckets *buckets, const struct ingot_context *context, struct ingot_error *error);
/* The part of the computed rows that is padding. */
double buckets_padded(const struct buckets *buckets);

#endif
