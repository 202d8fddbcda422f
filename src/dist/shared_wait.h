/* Seats in shared memory: how they publish and wait; see shared.h. */
#ifndef IG_DIST_SHARED_WAIT_H
#define IG_DIST_SHARED_WAIT_H

#include "dist/shared.h"

struct ig_shared_group {
    struct ig_group base;
    struct ig_shared_header *header;
    struct ig_shared_seat *seat;  /* its own */
    struct ig_shared_mail *mails; /* from rank i to rank j: i * ranks + j */
    char *buffers;                /* halves of all ranks, then those of mailboxes */
    struct ig_links *links;
    uint32_t phase; /* the last one published */
    unsigned spins; /* before it yields */
};

/* A call begins: what others read when they give up on this rank. */
void ig_shared_begin(struct ig_shared_group *group, const struct ig_collective_call *call);
/* Says that it has come to `value`. What was written before is visible to whom waits for that. */
void ig_shared_publish(struct ig_shared_number *number, uint32_t value, uint64_t signature);
/* Waits until a number of rank `of` has come to `value`, or beyond. */
enum ingot_status ig_shared_await(struct ig_shared_group *group, struct ig_shared_number *number, uint32_t value,
                                  uint32_t of, const struct ig_collective_call *call, struct ingot_error *error);
/* Refuses a signature that is not the one of rank `of` at that value. */
enum ingot_status ig_shared_compare(struct ig_shared_group *group, const struct ig_shared_number *number,
                                    uint32_t value, uint64_t signature, uint32_t of,
                                    const struct ig_collective_call *call, struct ingot_error *error);
/* The failure that another rank has told, if any. */
enum ingot_status ig_shared_heed(struct ig_shared_group *group, const struct ig_collective_call *call,
                                 struct ingot_error *error);
/* The same, or that a rank is not there any more, for who waits for something else than a call. */
enum ingot_status ig_shared_look(struct ig_group *base, struct ingot_error *error);
void ig_shared_fail(struct ig_group *base, const char *reason);

#endif
