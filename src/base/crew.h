/*
 * A crew: threads that work on numbered items, in order, while one thread waits for each in turn, and works itself where
 * it would only wait. For work of milliseconds per item.
 */
#ifndef IG_BASE_CREW_H
#define IG_BASE_CREW_H

#include "base/job.h"

struct ig_crew;
enum { IG_CREW_MOST = 64 }; /* threads */

/*
 * `threads` in all, with that of the caller, at most IG_CREW_MOST; 0: one per processor that the caller may use. Fewer if
 * the system refuses more.
 * work(user, item) is called by any of them, once for each item; it must not touch the job. If the job ends first, items
 * in progress are finished, and no others are begun.
 */
struct ig_crew *ig_crew_create(struct ig_job *job, unsigned threads, void (*work)(void *user, uint32_t item),
                               void *user);
/* Items up to `count`, which only grows, may be worked on. What was written before is visible to whom works on them. */
void ig_crew_offer(struct ig_crew *crew, uint32_t count);
/* Returns when the items up to `item`, which was offered, are done, and what their work wrote is visible. */
void ig_crew_wait(struct ig_crew *crew, uint32_t item);
/* As when the job ends. */
void ig_crew_destroy(struct ig_crew *crew);

#endif
