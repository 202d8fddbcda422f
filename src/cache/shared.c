/* Entries on a server; see shared.h. */
#define _GNU_SOURCE /* memfd_create */
#include "cache/shared.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache/entry.h"

struct shared {
    struct ig_cache_level base;
    const struct ingot_allocator *allocator;
    struct ig_server *server;
    struct ig_seal_keys keys;
    pthread_mutex_t lock; /* of the server */
};

enum { NAME = 64 };

static void name_of(const struct ig_cache_id *id, char name[NAME]) {
    char digits[33];
    ig_hash128_print(id->key, digits);
    snprintf(name, NAME, "%s.%s", digits, ig_cache_kind_name(id->kind));
}

static bool write_whole(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes += done;
        size -= (size_t)done;
    }
    return true;
}

/* An entry that was received. First the signature: nothing else looks at bytes of strangers. */
static enum ig_cache_answer read_received(const struct shared *s, const struct ig_cache_id *id,
                                          const struct ig_received *r, struct ig_cache_found *out_found,
                                          struct ingot_error *error) {
    if (ig_seal_check(&s->keys, r->data, r->size, error) != INGOT_OK) return IG_CACHE_TROUBLE;
    int fd = memfd_create("ingot-entry", MFD_CLOEXEC);
    if (fd < 0 || !write_whole(fd, r->data, r->size - IG_SEAL_BYTES)) {
        IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an entry: %s", strerror(errno));
        if (fd >= 0) close(fd);
        return IG_CACHE_TROUBLE;
    }
    enum ig_cache_answer answer = ig_entry_read(fd, id, s->allocator, NULL, out_found, error);
    if (answer != IG_CACHE_HIT) close(fd);
    return answer;
}

/* The server, for one request. Connections that were closed raise SIGPIPE, which is no business of the application's. */
struct request {
    sigset_t before;
    bool was_pending;
};

static void begin_request(struct shared *s, struct request *r) {
    sigset_t pipe, pending;
    pthread_mutex_lock(&s->lock);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    r->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &r->before);
}

static void end_request(struct shared *s, const struct request *r) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!r->was_pending && sigtimedwait(&pipe, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &r->before, NULL);
    pthread_mutex_unlock(&s->lock);
}

static enum ig_cache_answer get(struct ig_cache_level *level, const struct ig_cache_id *id,
                                struct ig_cache_found *out_found, struct ingot_error *error) {
    struct shared *s = (struct shared *)level;
    struct ig_received received = {0};
    char name[NAME];
    bool is_there = false;
    name_of(id, name);
    struct request request;
    begin_request(s, &request);
    enum ingot_status status = s->server->api->get(s->server, name, &is_there, &received, error);
    end_request(s, &request);
    if (status != INGOT_OK) return IG_CACHE_TROUBLE;
    if (!is_there) return IG_CACHE_MISS;
    enum ig_cache_answer answer = read_received(s, id, &received, out_found, error);
    if (answer == IG_CACHE_TROUBLE) ig_error_prefix(error, "entry '%s' of the shared cache is refused", name);
    free(received.data);
    return answer;
}

/* Signs the entry in the file, and sends it. */
static enum ingot_status send(struct shared *s, const char *name, int fd, size_t size, struct ingot_error *error) {
    char *bytes = ig_allocate(s->allocator, size + IG_SEAL_BYTES, 1);
    if (!bytes) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    enum ingot_status status = INGOT_OK;
    if (pread(fd, bytes, size, 0) != (ssize_t)size) status = IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    if (status == INGOT_OK) {
        ig_seal(&s->keys, bytes, size, (unsigned char *)bytes + size);
        struct request request;
        begin_request(s, &request);
        status = s->server->api->put(s->server, name, bytes, size + IG_SEAL_BYTES, error);
        end_request(s, &request);
    }
    ig_release(s->allocator, bytes, size + IG_SEAL_BYTES);
    return status;
}

static enum ingot_status put(struct ig_cache_level *level, const struct ig_cache_id *id,
                             const struct ig_cache_content *content, struct ingot_error *error) {
    struct shared *s = (struct shared *)level;
    char name[NAME];
    uint64_t size = 0;
    if (!s->keys.can_sign || content->head_size + content->body_size > IG_SHARED_MOST) return INGOT_OK;
    int fd = memfd_create("ingot-entry", MFD_CLOEXEC);
    if (fd < 0) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for an entry: %s", strerror(errno));
    name_of(id, name);
    enum ingot_status status = ig_entry_write(fd, id, content, s->allocator, &size, error);
    if (status == INGOT_OK) status = send(s, name, fd, (size_t)size, error);
    close(fd);
    return status;
}

static void destroy(struct ig_cache_level *level) {
    struct shared *s = (struct shared *)level;
    s->server->api->destroy(s->server);
    pthread_mutex_destroy(&s->lock);
    explicit_bzero(&s->keys, sizeof s->keys);
    ig_release(s->allocator, s, sizeof *s);
}

static const struct ig_cache_level_api api = {"shared", get, put, NULL, destroy, true};

enum ingot_status ig_cache_shared_create(const char *url, unsigned milliseconds, const struct ig_seal_keys *keys,
                                         const struct ingot_allocator *allocator, struct ig_cache_level **out_level,
                                         struct ingot_error *error) {
    struct ig_server *server = NULL;
    const char *web = strncmp(url, "s3+", 3) == 0 ? url + 3 : url;
    if (strncmp(web, "http://", 7) == 0 || strncmp(web, "https://", 8) == 0) {
        IG_TRY(ig_http_open(url, milliseconds, allocator, &server, error));
    } else if (strncmp(url, "redis://", 8) == 0) {
        IG_TRY(ig_redis_open(url, milliseconds, allocator, &server, error));
    } else {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "a shared cache is at http(s)://, s3+http(s):// or redis://, not at '%s'", url);
    }
    struct shared *s = ig_allocate(allocator, sizeof *s, _Alignof(struct shared));
    if (!s) {
        server->api->destroy(server);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    }
    s->base.api = &api;
    s->allocator = allocator;
    s->server = server;
    s->keys = *keys;
    pthread_mutex_init(&s->lock, NULL);
    *out_level = &s->base;
    return INGOT_OK;
}
