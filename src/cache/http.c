/* GET and PUT by libcurl; see shared.h. S3 signs its requests: AWS Signature Version 4, which libcurl makes. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/curl.h"
#include "cache/shared.h"

struct http {
    struct ig_server base;
    const struct ingot_allocator *allocator;
    struct ig_curl curl;
    CURL *handle;
    struct curl_slist *headers;
    char signature[64]; /* "aws:amz:REGION:s3"; empty: requests are not signed */
    size_t url_size;
    char url[]; /* the folder's */
};

static size_t receive(char *bytes, size_t one, size_t count, void *user) {
    struct ig_received *r = user;
    (void)one;
    if (count > IG_SHARED_MOST - r->size) return 0;
    char *more = realloc(r->data, r->size + count + 1);
    if (!more) return 0;
    memcpy(more + r->size, bytes, count);
    r->data = more;
    r->size += count;
    return count;
}

/* Replaces the request's headers. S3 wants its body's SHA-256 among them, which not all versions of libcurl add. */
static bool set_headers(struct http *h, const void *body, size_t size) {
    static const char name[] = "x-amz-content-sha256: ";
    unsigned char hash[crypto_hash_sha256_BYTES];
    char line[sizeof name + 2 * sizeof hash];
    h->curl.slist_free_all(h->headers);
    h->headers = h->curl.slist_append(NULL, "Content-Type: application/octet-stream");
    h->curl.easy_setopt(h->handle, CURLOPT_HTTPHEADER, h->headers);
    if (!h->headers || !*h->signature) return h->headers != NULL;
    crypto_hash_sha256(hash, body, size);
    memcpy(line, name, sizeof name);
    sodium_bin2hex(line + sizeof name - 1, sizeof line - sizeof name + 1, hash, sizeof hash);
    return h->curl.slist_append(h->headers, line) != NULL;
}

/* Sends what is set up; *out_code is the answer's status. `r` gets its body. */
static enum ingot_status perform(struct http *h, const char *name, struct ig_received *r, long *out_code,
                                 struct ingot_error *error) {
    char message[CURL_ERROR_SIZE] = "", url[2048];
    if ((size_t)snprintf(url, sizeof url, "%s/%s", h->url, name) >= sizeof url)
        return IG_ERR(error, INGOT_IO, "the shared cache's address is too long");
    h->curl.easy_setopt(h->handle, CURLOPT_URL, url);
    h->curl.easy_setopt(h->handle, CURLOPT_WRITEDATA, r);
    h->curl.easy_setopt(h->handle, CURLOPT_ERRORBUFFER, message);
    CURLcode code = h->curl.easy_perform(h->handle);
    h->curl.easy_setopt(h->handle, CURLOPT_ERRORBUFFER, NULL);
    if (code != CURLE_OK)
        return IG_ERR(error, INGOT_IO, "the shared cache: %s", *message ? message : h->curl.easy_strerror(code));
    h->curl.easy_getinfo(h->handle, CURLINFO_RESPONSE_CODE, out_code);
    return INGOT_OK;
}

static enum ingot_status get(struct ig_server *server, const char *name, bool *out_found, struct ig_received *out,
                             struct ingot_error *error) {
    struct http *h = (struct http *)server;
    long code = 0;
    if (!set_headers(h, "", 0)) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for libcurl");
    h->curl.easy_setopt(h->handle, CURLOPT_HTTPGET, 1L);
    h->curl.easy_setopt(h->handle, CURLOPT_CUSTOMREQUEST, NULL);
    enum ingot_status status = perform(h, name, out, &code, error);
    if (status == INGOT_OK && code != 200 && code != 404)
        status = IG_ERR(error, INGOT_IO, "the shared cache: its server answers %ld", code);
    *out_found = status == INGOT_OK && code == 200;
    if (*out_found) return INGOT_OK;
    free(out->data);
    *out = (struct ig_received){0};
    return status;
}

static enum ingot_status put(struct ig_server *server, const char *name, const void *bytes, size_t size,
                             struct ingot_error *error) {
    struct http *h = (struct http *)server;
    struct ig_received answer = {0};
    long code = 0;
    if (!set_headers(h, bytes, size)) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for libcurl");
    h->curl.easy_setopt(h->handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
    h->curl.easy_setopt(h->handle, CURLOPT_POSTFIELDS, bytes);
    h->curl.easy_setopt(h->handle, CURLOPT_CUSTOMREQUEST, "PUT");
    enum ingot_status status = perform(h, name, &answer, &code, error);
    free(answer.data);
    if (status == INGOT_OK && (code < 200 || code > 299))
        status = IG_ERR(error, INGOT_IO, "the shared cache: its server answers %ld", code);
    return status;
}

static void destroy(struct ig_server *server) {
    struct http *h = (struct http *)server;
    if (h->handle) h->curl.easy_cleanup(h->handle);
    if (h->headers) h->curl.slist_free_all(h->headers);
    ig_release(h->allocator, h, sizeof *h + h->url_size);
}

static const struct ig_server_api api = {get, put, destroy};

/* No proxy from the environment, no redirections, nothing but HTTP. */
static void set_up(struct http *h, unsigned milliseconds) {
    h->curl.easy_setopt(h->handle, CURLOPT_WRITEFUNCTION, receive);
    h->curl.easy_setopt(h->handle, CURLOPT_NOSIGNAL, 1L);
    h->curl.easy_setopt(h->handle, CURLOPT_PROXY, "");
    h->curl.easy_setopt(h->handle, CURLOPT_PROTOCOLS_STR, "http,https");
    h->curl.easy_setopt(h->handle, CURLOPT_TIMEOUT_MS, (long)milliseconds);
    h->curl.easy_setopt(h->handle, CURLOPT_CONNECTTIMEOUT_MS, (long)milliseconds);
    h->curl.easy_setopt(h->handle, CURLOPT_USERAGENT, "ingot/" INGOT_VERSION);
    if (*h->signature) h->curl.easy_setopt(h->handle, CURLOPT_AWS_SIGV4, h->signature);
}

/* Takes what only S3 has off the URL: "s3+" in front, and "?region=..." behind. */
static bool take_region(struct http *h) {
    static const char query[] = "?region=";
    char *region = strstr(h->url, query);
    if (strncmp(h->url, "s3+", 3) != 0) return true;
    int length =
        snprintf(h->signature, sizeof h->signature, "aws:amz:%s:s3", region ? region + sizeof query - 1 : "us-east-1");
    if (region) *region = '\0';
    memmove(h->url, h->url + 3, strlen(h->url + 3) + 1);
    return length < (int)sizeof h->signature;
}

static void strip_slash(char *url) {
    const size_t length = strlen(url);
    if (url[length - 1] == '/') url[length - 1] = '\0';
}

enum ingot_status ig_http_open(const char *url, unsigned milliseconds, const struct ingot_allocator *allocator,
                               struct ig_server **out_server, struct ingot_error *error) {
    const size_t length = strlen(url);
    struct http *h = ig_allocate(allocator, sizeof *h + length + 1, _Alignof(struct http));
    if (!h) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory");
    h->base.api = &api;
    h->allocator = allocator;
    h->url_size = length + 1;
    memcpy(h->url, url, length + 1);
    if (!take_region(h)) {
        destroy(&h->base);
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the shared cache's region is too long");
    }
    strip_slash(h->url);
    enum ingot_status status = ig_curl_load(&h->curl, error);
    if (status != INGOT_OK) {
        destroy(&h->base);
        return status;
    }
    h->handle = h->curl.easy_init();
    if (!h->handle) {
        destroy(&h->base);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for libcurl");
    }
    set_up(h, milliseconds);
    *out_server = &h->base;
    return INGOT_OK;
}
