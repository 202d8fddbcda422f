/* Parses timing caches (cache.h). Strict: a line that is not a comment, empty or a measurement is an error. */
#include <string.h>

#include "base/text.h"
#include "ir/dim/dim.h"
#include "tune/cache.h"
#include "tune/cache_header.h"

enum { FINGERPRINT_DIGITS = 32, MOST_DIGITS = 18 /* of nanoseconds: thirty years */ };

struct reader {
    struct ig_timing_cache *cache;
    const char *name;       /* of the file */
    const char *line, *at;  /* the line's beginning; how far it is read */
    const char *end;        /* end of the whole text, where a terminator stands */
    unsigned number;        /* of the line */
    struct ig_text comment; /* comment lines before the next measurement */
};

static _Noreturn void fail(struct reader *r, const char *expected) {
    ig_raise(r->cache->job, INGOT_INVALID_ARGUMENT,
             "cannot read the timing cache '%s': line %u, column %u: expected %s", r->name, r->number,
             (unsigned)(r->at - r->line) + 1, expected);
}

static void read_spaces(struct reader *r) {
    if (*r->at != ' ' && *r->at != '\t') fail(r, "a space");
    r->at += strspn(r->at, " \t");
}

static const char *read_fingerprint(struct reader *r) {
    size_t digits = strspn(r->at, "0123456789abcdef");
    if (digits != FINGERPRINT_DIGITS) fail(r, "a fingerprint of 32 hexadecimal digits");
    r->at += digits;
    return ig_strndup(r->cache->job, r->at - digits, digits);
}

static uint64_t read_time(struct reader *r) {
    static const char rejected[] = "rejected";
    size_t digits = strspn(r->at, "0123456789");
    uint64_t value = 0;
    if (strncmp(r->at, rejected, strlen(rejected)) == 0) {
        r->at += strlen(rejected);
        return IG_TIMING_REJECTED;
    }
    if (digits == 0 || digits > MOST_DIGITS) fail(r, "nanoseconds or 'rejected'");
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (uint64_t)(r->at[i] - '0');
    r->at += digits;
    return value;
}

static const char *read_string(struct reader *r, const char *expected) {
    const char *value = ig_unquote(r->cache->job, &r->at);
    if (!value) fail(r, expected);
    return value;
}

static void read_timing(struct reader *r) {
    struct ig_timing t = {.comment = r->comment.length ? r->comment.at : NULL};
    t.fingerprint = read_fingerprint(r);
    read_spaces(r);
    t.nanoseconds = read_time(r);
    read_spaces(r);
    t.tactic = read_string(r, "a tactic in quotes");
    read_spaces(r);
    t.shapes = read_string(r, "shapes in quotes");
    read_spaces(r);
    t.device = read_string(r, "a device in quotes");
    read_spaces(r);
    t.compiler = read_string(r, "a compiler in quotes");
    r->at += strspn(r->at, " \t");
    if (t.nanoseconds == IG_TIMING_REJECTED && *r->at == '"') {
        t.reason = read_string(r, "a reason in quotes");
        r->at += strspn(r->at, " \t");
    }
    if (*r->at != '\n' && *r->at != 0) fail(r, "the end of the line");
    ig_timing_cache_put(r->cache, &t);
    ig_text_init(&r->comment, r->cache->job);
}

/* The header is written anew, so it is not a comment of the first measurement. */
static void read_comment(struct reader *r) {
    size_t length = strcspn(r->line, "\n");
    r->at = r->line + length;
    for (const char *header = IG_TIMING_CACHE_HEADER; *header; header += strcspn(header, "\n") + 1) {
        if (strcspn(header, "\n") == length && memcmp(header, r->line, length) == 0) return;
    }
    ig_text_add_n(&r->comment, r->line, length);
    ig_text_add(&r->comment, "\n");
}

static void read_line(struct reader *r) {
    r->at = r->line + strspn(r->line, " \t");
    if (*r->at == '#') {
        read_comment(r);
    } else if (*r->at != '\n' && *r->at != 0) {
        read_timing(r);
    }
    if (*r->at == 0 && r->at != r->end) fail(r, "no zero byte");
}

void ig_timing_cache_parse(struct ig_timing_cache *cache, const char *name, const char *text, size_t length) {
    const char *copy = ig_strndup(cache->job, text ? text : "", length); /* NUL-terminated */
    struct reader r = {.cache = cache, .name = name, .line = copy, .end = copy + length, .number = 1};
    ig_text_init(&r.comment, cache->job);
    for (;; r.number++) {
        read_line(&r);
        if (*r.at != '\n') break;
        r.line = r.at + 1;
    }
    if (r.comment.length)
        cache->rest = cache->rest ? ig_format(cache->job, "%s%s", cache->rest, r.comment.at) : r.comment.at;
}
