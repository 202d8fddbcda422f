/* A level that machines share: a server that keeps bytes under names, and signatures on all of them (seal.h). */
#ifndef IG_CACHE_SHARED_H
#define IG_CACHE_SHARED_H

#include "cache/seal.h"

/* Larger entries are not shared. */
#define IG_SHARED_MOST ((size_t)256 << 20)

/* Bytes that were received; `data` is from malloc, as the libraries' own memory. */
struct ig_received {
    char *data;
    size_t size;
};

/* A server. Calls come one at a time. Any answer but yes and no, and none in time, is a failure: INGOT_IO. */
struct ig_server {
    const struct ig_server_api *api;
};
struct ig_server_api {
    enum ingot_status (*get)(struct ig_server *server, const char *name, bool *out_found, struct ig_received *out,
                             struct ingot_error *error);
    enum ingot_status (*put)(struct ig_server *server, const char *name, const void *bytes, size_t size,
                             struct ingot_error *error);
    void (*destroy)(struct ig_server *server);
};

/* "http://user:password@host:port/folder", https too; names are appended. With "s3+" in front, requests are signed for
 * "?region=..." at the end (us-east-1). Connects when it is first asked. */
enum ingot_status ig_http_open(const char *url, unsigned milliseconds, const struct ingot_allocator *allocator,
                               struct ig_server **out_server, struct ingot_error *error);
/* "redis://:password@host:port". */
enum ingot_status ig_redis_open(const char *url, unsigned milliseconds, const struct ingot_allocator *allocator,
                                struct ig_server **out_server, struct ingot_error *error);

/* Requests take at most so long. Entries are added if the keys can sign. INGOT_INVALID_ARGUMENT for other URLs. */
enum ingot_status ig_cache_shared_create(const char *url, unsigned milliseconds, const struct ig_seal_keys *keys,
                                         const struct ingot_allocator *allocator, struct ig_cache_level **out_level,
                                         struct ingot_error *error);

#endif
