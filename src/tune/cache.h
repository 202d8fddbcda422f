/*
 * The timing cache: what candidates took, as a text that people can read, edit, merge and keep under version control.
 *
 *     # comments stay above the line that they stand on
 *     FINGERPRINT NANOSECONDS "TACTIC" "SHAPES" "DEVICE" "COMPILER"
 *
 * A line is one measurement: of a region, known by its fingerprint (which has the target in it), computed by one tactic, at
 * some sizes of its symbols, on a device, as compiled by some version. Instead of the time there may be `rejected`: the
 * tactic was not compiled, failed or computed something wrong; then a fifth string says what. Written texts are sorted, the fastest tactic of a region first; where a
 * text, or several that are read one after the other, have a measurement twice, the later one counts, so that texts are
 * merged by putting one behind the other.
 */
#ifndef IG_TUNE_CACHE_H
#define IG_TUNE_CACHE_H

#include "base/map.h"

#define IG_TIMING_REJECTED UINT64_MAX

struct ig_timing {
    const char *fingerprint; /* 32 hexadecimal digits */
    const char *tactic;
    const char *shapes;   /* "batch=8, seq=128"; "" where the region has no symbols */
    const char *device;   /* "NVIDIA H100 80GB HBM3, driver 13.0" */
    const char *compiler; /* "ingot 0.1.0, NVRTC 13.0" */
    uint64_t nanoseconds; /* or IG_TIMING_REJECTED */
    const char *reason;   /* of the rejection; NULL: none is known */
    const char *comment;  /* whole lines that stand above it, with their ends; NULL: none */
};

struct ig_timing_cache {
    struct ig_job *job;
    struct ig_map index; /* by all but the time and the comment */
    IG_VEC(struct ig_timing) timings;
    const char *rest; /* comments behind the last line; NULL: none */
};

void ig_timing_cache_init(struct ig_timing_cache *cache, struct ig_job *job);
/* Adds what the text says. Raises INGOT_INVALID_ARGUMENT naming `name`, line and column where it is malformed. */
void ig_timing_cache_parse(struct ig_timing_cache *cache, const char *name, const char *text, size_t length);
/* The same for a file; one that does not exist is empty. Raises INGOT_IO where it cannot be read. */
void ig_timing_cache_load(struct ig_timing_cache *cache, const char *path);
/* Strings are borrowed. Keeps the comment of a measurement that it replaces. */
void ig_timing_cache_put(struct ig_timing_cache *cache, const struct ig_timing *timing);
/* The measurement that is like *key in all but the time; NULL where there is none. Valid until the next put. */
const struct ig_timing *ig_timing_cache_get(const struct ig_timing_cache *cache, const struct ig_timing *key);
/* The whole as text: depends on the measurements and comments only, not on the order in which they came. */
const char *ig_timing_cache_text(const struct ig_timing_cache *cache);
/* Raises INGOT_IO where the file could not be written: better said before hours of measuring. */
void ig_timing_cache_check(struct ig_job *job, const char *path);
/* Replaces the file, whole or not at all. Raises INGOT_IO. */
void ig_timing_cache_save(const struct ig_timing_cache *cache, const char *path);

#endif
