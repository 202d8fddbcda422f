/* GET and SET by hiredis; see shared.h. Values expire as the server is configured to (maxmemory-policy allkeys-lru). */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "cache/shared.h"

struct redis {
    struct ig_server base;
    const struct ingot_allocator *allocator;
    redisContext *connection; /* NULL: not connected */
    struct timeval limit;
    char host[256], password[256];
    int port;
};

static void disconnect(struct redis *r) {
    if (r->connection) redisFree(r->connection);
    r->connection = NULL;
}

/* An answer of the server; NULL, and the connection is given up, if there is none or it is an error. */
static redisReply *check(struct redis *r, redisReply *reply, struct ingot_error *error) {
    if (reply && reply->type != REDIS_REPLY_ERROR) return reply;
    IG_ERR(error, INGOT_IO, "the shared cache: %s", reply ? reply->str : r->connection->errstr);
    if (reply) freeReplyObject(reply);
    disconnect(r);
    return NULL;
}

static enum ingot_status connect_once(struct redis *r, struct ingot_error *error) {
    if (r->connection) return INGOT_OK;
    r->connection = redisConnectWithTimeout(r->host, r->port, r->limit);
    if (!r->connection) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for hiredis");
    if (r->connection->err) {
        IG_ERR(error, INGOT_IO, "the shared cache: %s", r->connection->errstr);
        disconnect(r);
        return INGOT_IO;
    }
    redisSetTimeout(r->connection, r->limit);
    if (!*r->password) return INGOT_OK;
    redisReply *reply = check(r, redisCommand(r->connection, "AUTH %s", r->password), error);
    if (!reply) return INGOT_IO;
    freeReplyObject(reply);
    return INGOT_OK;
}

static enum ingot_status get(struct ig_server *server, const char *name, bool *out_found, struct ig_received *out,
                             struct ingot_error *error) {
    struct redis *r = (struct redis *)server;
    IG_TRY(connect_once(r, error));
    redisReply *reply = check(r, redisCommand(r->connection, "GET ingot:%s", name), error);
    if (!reply) return INGOT_IO;
    enum ingot_status status = INGOT_OK;
    *out_found = reply->type == REDIS_REPLY_STRING;
    if (*out_found) {
        out->size = (size_t)reply->len;
        out->data = malloc(out->size + 1);
        if (!out->data) status = IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
        if (out->data) memcpy(out->data, reply->str, out->size);
    }
    freeReplyObject(reply);
    return status;
}

static enum ingot_status put(struct ig_server *server, const char *name, const void *bytes, size_t size,
                             struct ingot_error *error) {
    struct redis *r = (struct redis *)server;
    IG_TRY(connect_once(r, error));
    redisReply *reply = check(r, redisCommand(r->connection, "SET ingot:%s %b", name, bytes, size), error);
    if (!reply) return INGOT_IO;
    freeReplyObject(reply);
    return INGOT_OK;
}

static void destroy(struct ig_server *server) {
    struct redis *r = (struct redis *)server;
    disconnect(r);
    memset(r->password, 0, sizeof r->password);
    ig_release(r->allocator, r, sizeof *r);
}

static const struct ig_server_api api = {get, put, destroy};

static bool copy(char *to, size_t room, const char *from, size_t length) {
    if (length >= room) return false;
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

/* redis://[:PASSWORD@]HOST[:PORT] */
static bool parse(const char *url, struct redis *r) {
    const char *at = url + strlen("redis://"), *password_end = strrchr(at, '@');
    if (password_end) {
        if (*at != ':' || !copy(r->password, sizeof r->password, at + 1, (size_t)(password_end - at - 1))) return false;
        at = password_end + 1;
    }
    size_t length = strcspn(at, ":/");
    if (!length || !copy(r->host, sizeof r->host, at, length)) return false;
    at += length;
    char *end = (char *)(uintptr_t)at;
    long port = *at == ':' ? strtol(at + 1, &end, 10) : 6379;
    r->port = (int)port;
    return port > 0 && port < 65536 && (*end == '\0' || strcmp(end, "/") == 0);
}

enum ingot_status ig_redis_open(const char *url, unsigned milliseconds, const struct ingot_allocator *allocator,
                                struct ig_server **out_server, struct ingot_error *error) {
    struct redis *r = ig_allocate(allocator, sizeof *r, _Alignof(struct redis));
    if (!r) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    r->base.api = &api;
    r->allocator = allocator;
    r->limit = (struct timeval){.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
    if (!parse(url, r)) {
        destroy(&r->base);
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "cannot read the shared cache's address: expected redis://[:PASSWORD@]HOST[:PORT]");
    }
    *out_server = &r->base;
    return INGOT_OK;
}
