/* GET and PUT by libcurl; see shared.h. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/shared.h"

struct http {
    struct ig_server base;
    const struct ingot_allocator *allocator;
    CURL *curl;
    struct curl_slist *headers;
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

/* Sends what is set up; *out_code is the answer's status. `r` gets its body. */
static enum ingot_status perform(struct http *h, const char *name, struct ig_received *r, long *out_code,
                                 struct ingot_error *error) {
    char message[CURL_ERROR_SIZE] = "", url[2048];
    if ((size_t)snprintf(url, sizeof url, "%s/%s", h->url, name) >= sizeof url)
        return IG_ERR(error, INGOT_IO, "the shared cache's address is too long");
    curl_easy_setopt(h->curl, CURLOPT_URL, url);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, message);
    CURLcode code = curl_easy_perform(h->curl);
    curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, NULL);
    if (code != CURLE_OK)
        return IG_ERR(error, INGOT_IO, "the shared cache: %s", *message ? message : curl_easy_strerror(code));
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, out_code);
    return INGOT_OK;
}

static enum ingot_status get(struct ig_server *server, const char *name, bool *out_found, struct ig_received *out,
                             struct ingot_error *error) {
    struct http *h = (struct http *)server;
    long code = 0;
    curl_easy_setopt(h->curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST, NULL);
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
    curl_easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
    curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, bytes);
    curl_easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST, "PUT");
    enum ingot_status status = perform(h, name, &answer, &code, error);
    free(answer.data);
    if (status == INGOT_OK && (code < 200 || code > 299))
        status = IG_ERR(error, INGOT_IO, "the shared cache: its server answers %ld", code);
    return status;
}

static void destroy(struct ig_server *server) {
    struct http *h = (struct http *)server;
    if (h->curl) curl_easy_cleanup(h->curl);
    curl_slist_free_all(h->headers);
    ig_release(h->allocator, h, sizeof *h + h->url_size);
}

static const struct ig_server_api api = {get, put, destroy};

/* No proxy from the environment, no redirections, nothing but HTTP. */
static void set_up(struct http *h, unsigned milliseconds) {
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->headers);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(h->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, (long)milliseconds);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)milliseconds);
    curl_easy_setopt(h->curl, CURLOPT_USERAGENT, "ingot/" INGOT_VERSION);
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
    if (h->url[length - 1] == '/') h->url[length - 1] = '\0';
    h->headers = curl_slist_append(NULL, "Content-Type: application/octet-stream");
    h->curl = h->headers ? curl_easy_init() : NULL;
    if (!h->curl) {
        destroy(&h->base);
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for libcurl");
    }
    set_up(h, milliseconds);
    *out_server = &h->base;
    return INGOT_OK;
}
