/* The timing cache: keys, order, files; the reader is cache_parse.c. */
#include "tune/cache.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "ir/dim/dim.h"
#include "tune/cache_header.h"

void ig_timing_cache_init(struct ig_timing_cache *cache, struct ig_job *job) {
    *cache = (struct ig_timing_cache){.job = job};
    ig_map_init(&cache->index, job);
}

/* ---- Measurements ------------------------------------------------------------------------------------------------ */

/* The fields one after the other, each with its terminator. */
static struct ig_text key_of(const struct ig_timing_cache *cache, const struct ig_timing *t) {
    const char *const fields[] = {t->fingerprint, t->tactic, t->shapes, t->device, t->compiler};
    struct ig_text key;
    ig_text_init(&key, cache->job);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        ig_text_add_n(&key, fields[i], strlen(fields[i]) + 1);
    return key;
}

void ig_timing_cache_put(struct ig_timing_cache *cache, const struct ig_timing *timing) {
    struct ig_text key = key_of(cache, timing);
    uint32_t at;
    if (ig_map_get(&cache->index, key.at, key.length, &at)) {
        const char *comment = cache->timings.at[at].comment;
        cache->timings.at[at] = *timing;
        if (!timing->comment) cache->timings.at[at].comment = comment;
        return;
    }
    ig_map_put(&cache->index, key.at, key.length, cache->timings.count);
    IG_PUSH(cache->job, &cache->timings, *timing);
}

const struct ig_timing *ig_timing_cache_get(const struct ig_timing_cache *cache, const struct ig_timing *key) {
    struct ig_text text = key_of(cache, key);
    uint32_t at;
    return ig_map_get(&cache->index, text.at, text.length, &at) ? &cache->timings.at[at] : NULL;
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const struct ig_timing *x = a, *y = b;
    int order = strcmp(x->fingerprint, y->fingerprint);
    if (order == 0) order = strcmp(x->device, y->device);
    if (order == 0) order = strcmp(x->compiler, y->compiler);
    if (order == 0) order = strcmp(x->shapes, y->shapes);
    if (order == 0 && x->nanoseconds != y->nanoseconds) return x->nanoseconds < y->nanoseconds ? -1 : 1;
    return order != 0 ? order : strcmp(x->tactic, y->tactic);
}

static void print(struct ig_text *text, const struct ig_timing *t) {
    if (t->comment) ig_text_add(text, t->comment);
    ig_text_add(text, t->fingerprint);
    if (t->nanoseconds == IG_TIMING_REJECTED)
        ig_text_add(text, " rejected");
    else
        ig_text_printf(text, " %" PRIu64, t->nanoseconds);
    const char *const names[] = {t->tactic, t->shapes, t->device, t->compiler, t->reason};
    for (size_t i = 0; i < sizeof names / sizeof *names && names[i]; i++) {
        ig_text_add(text, " ");
        ig_quote(names[i], text);
    }
    ig_text_add(text, "\n");
}

const char *ig_timing_cache_text(const struct ig_timing_cache *cache) {
    struct ig_text text;
    uint32_t count = cache->timings.count;
    struct ig_timing *sorted = IG_NEW_ARRAY(cache->job, struct ig_timing, count + 1);
    if (count) memcpy(sorted, cache->timings.at, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    ig_text_init(&text, cache->job);
    ig_text_add(&text, IG_TIMING_CACHE_HEADER);
    for (uint32_t i = 0; i < count; i++)
        print(&text, &sorted[i]);
    if (cache->rest) ig_text_add(&text, cache->rest);
    return text.at;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static void unmap(void *mapping) {
    ig_file_unmap(mapping);
}

void ig_timing_cache_load(struct ig_timing_cache *cache, const char *path) {
    struct ig_job *job = cache->job;
    struct ig_mapping *mapping = IG_NEW(job, struct ig_mapping);
    struct ingot_error error;
    struct stat info;
    if (stat(path, &info) != 0) return; /* no file yet; saving reports other problems */
    if (ig_file_map(path, mapping, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_defer(job, unmap, mapping);
    ig_timing_cache_parse(cache, path, mapping->data, mapping->size);
    ig_undefer(job, mapping);
    unmap(mapping);
}

static void abort_writer(void *writer) {
    ig_file_writer_abort(writer);
}

/* The writer is deferred: what it wrote is dropped unless committed. */
static struct ig_file_writer *open_writer(struct ig_job *job, const char *path) {
    struct ig_file_writer *writer = IG_NEW(job, struct ig_file_writer);
    struct ingot_error error;
    if (ig_file_writer_open(writer, path, job->allocator, &error) != INGOT_OK) ig_raise_error(job, &error);
    ig_defer(job, abort_writer, writer);
    return writer;
}

void ig_timing_cache_check(struct ig_job *job, const char *path) {
    struct ig_file_writer *writer = open_writer(job, path);
    ig_undefer(job, writer);
    abort_writer(writer);
}

void ig_timing_cache_save(const struct ig_timing_cache *cache, const char *path) {
    struct ig_job *job = cache->job;
    const char *text = ig_timing_cache_text(cache);
    struct ig_file_writer *writer = open_writer(job, path);
    struct ingot_error error;
    enum ingot_status status = ig_file_writer_write(writer, text, strlen(text), &error);
    if (status == INGOT_OK) status = ig_file_writer_commit(writer, &error);
    if (status != INGOT_OK) ig_raise_error(job, &error);
    ig_undefer(job, writer);
    abort_writer(writer);
}
