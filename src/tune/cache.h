/*
 * The timing cache: measured times of candidates, as a text that people can read, edit, merge and keep under version
 * control.
 *
 *     # comments belong to the line below them
 *     FINGERPRINT NANOSECONDS "TACTIC" "SHAPES" "DEVICE" "COMPILER"
 *
 * A line is one measurement: a region, identified by its fingerprint (which includes the target), computed by one
 * tactic, at certain values of its symbols, on a device, compiled by a certain version. `rejected` instead of a time
 * means that the tactic did not compile, failed or gave wrong results; a fifth string then says why. Written texts are
 * sorted, the fastest tactic of a region first. If a text, or several read in sequence, repeat a measurement, the later
 * one wins, so that texts are merged by concatenation.
 */
#ifndef IG_TUNE_CACHE_H
#define IG_TUNE_CACHE_H

#include "base/map.h"

#define IG_TIMING_REJECTED UINT64_MAX

struct ig_timing {
    const char *fingerprint; /* 32 hexadecimal digits */
    const char *tactic;
    const char *shapes;   /* "batch=8, seq=128"; "" if the region has no symbols */
    const char *device;   /* "NVIDIA H100 80GB HBM3, driver 13.0" */
    const char *compiler; /* "ingot 0.1.0, NVRTC 13.0" */
    uint64_t nanoseconds; /* or IG_TIMING_REJECTED */
    const char *reason;   /* for the rejection; NULL: unknown */
    const char *comment;  /* the comment lines above it, with line ends; NULL: none */
};

struct ig_timing_cache {
    struct ig_job *job;
    struct ig_map index; /* by everything but the time and the comment */
    IG_VEC(struct ig_timing) timings;
    const char *rest; /* comments after the last line; NULL: none */
};

void ig_timing_cache_init(struct ig_timing_cache *cache, struct ig_job *job);
/* Adds the measurements of a text. Raises INGOT_INVALID_ARGUMENT naming `name`, line and column if it is malformed. */
void ig_timing_cache_parse(struct ig_timing_cache *cache, const char *name, const char *text, size_t length);
/* The same for a file; a missing file is empty. Raises INGOT_IO if it cannot be read. */
void ig_timing_cache_load(struct ig_timing_cache *cache, const char *path);
/* Adds or replaces. Strings are borrowed. Keeps the comment of a measurement that it replaces. */
void ig_timing_cache_put(struct ig_timing_cache *cache, const struct ig_timing *timing);
/* The measurement that equals *key except for the time, or NULL. Valid until the next put. */
const struct ig_timing *ig_timing_cache_get(const struct ig_timing_cache *cache, const struct ig_timing *key);
/* The whole cache as text; independent of the order of insertion. */
const char *ig_timing_cache_text(const struct ig_timing_cache *cache);
/* Raises INGOT_IO if the file cannot be written: better reported before hours of measuring. */
void ig_timing_cache_check(struct ig_job *job, const char *path);
/* Replaces the file atomically. Raises INGOT_IO. */
void ig_timing_cache_save(const struct ig_timing_cache *cache, const char *path);

#endif
