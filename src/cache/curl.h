/*
 * libcurl, loaded when a shared cache is first reached by HTTP: few programs do that, and it brings some thirty libraries,
 * which would take most of the time that loading Ingot takes. The functions are those of curl/curl.h without "curl_".
 */
#ifndef IG_CACHE_CURL_H
#define IG_CACHE_CURL_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/error.h"

struct ig_curl {
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *curl, CURLoption option, ...);
    CURLcode (*easy_getinfo)(CURL *curl, CURLINFO info, ...);
    CURLcode (*easy_perform)(CURL *curl);
    const char *(*easy_strerror)(CURLcode code);
    void (*easy_cleanup)(CURL *curl);
    struct curl_slist *(*slist_append)(struct curl_slist *list, const char *line);
    void (*slist_free_all)(struct curl_slist *list);
    curl_version_info_data *(*version_info)(CURLversion version);
};

/* INGOT_UNSUPPORTED where it is missing, or older than 7.88, the first that signs the hash that S3 wants. */
enum ingot_status ig_curl_load(struct ig_curl *out_curl, struct ingot_error *error);

#endif
