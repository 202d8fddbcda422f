/* The tuner's state, for its own files: tune.c and agenda.c. */
#ifndef IG_TUNE_TUNER_H
#define IG_TUNE_TUNER_H

#include "tune/measure.h"

struct ig_tuner {
    struct ig_job *job;
    struct ig_tune_options options;
    struct ig_timing_cache *cache;
    struct ig_map by_fingerprint;
    IG_VEC(struct ig_tuned_region) regions;
    uint64_t weights;      /* bytes of all weights */
    struct ig_map counted; /* weights already counted, by graph and value */
    const char *device;    /* this machine's; NULL: it has none for the target */
    const char *no_device; /* why `device` is NULL */
};

/* The key of a candidate's time in the cache. */
struct ig_timing ig_tuner_key(const struct ig_tuner *tuner, const struct ig_tuned_region *region, const char *device,
                              const struct ig_tuned_candidate *candidate);
/* Has it all its times? */
bool ig_tuned_region_is_complete(const struct ig_tuned_region *region);

/* Measures the open regions as far as there is time, and adds their times to the cache. Returns the number of candidates
 * measured. */
unsigned ig_agenda_run(struct ig_tuner *tuner);

#endif
