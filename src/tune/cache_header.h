/* The first lines of every timing cache that Ingot writes; comments to the reader. */
#ifndef IG_TUNE_CACHE_HEADER_H
#define IG_TUNE_CACHE_HEADER_H

#define IG_TIMING_CACHE_HEADER                                                                        \
    "# Ingot's timing cache (docs/tuning.md): what tactics took, the fastest of each region first.\n" \
    "# fingerprint, nanoseconds or 'rejected', \"tactic\", \"shapes\", \"device\", \"compiler\", \"reason\"\n"

#endif
