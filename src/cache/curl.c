/* libcurl, loaded at run time; see curl.h. */
#include "cache/curl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define OLDEST 0x075800 /* 7.88.0 */

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define SYMBOL(name) \
    { "curl_" #name, offsetof(struct ig_curl, name) }
    SYMBOL(easy_init),    SYMBOL(easy_setopt),  SYMBOL(easy_getinfo),   SYMBOL(easy_perform), SYMBOL(easy_strerror),
    SYMBOL(easy_cleanup), SYMBOL(slist_append), SYMBOL(slist_free_all), SYMBOL(version_info),
};

enum ingot_status ig_curl_load(struct ig_curl *out_curl, struct ingot_error *error) {
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *file = NULL;
    for (size_t i = 0; !file && i < sizeof names / sizeof *names; i++)
        file = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!file)
        return IG_ERR(error, INGOT_UNSUPPORTED,
                      "shared caches are reached by libcurl, which is missing: found neither libcurl.so.4 nor "
                      "libcurl-gnutls.so.4 (the package libcurl4, or libcurl)");
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(file, symbols[i].name);
        if (!found) return IG_ERR(error, INGOT_UNSUPPORTED, "this libcurl has no %s", symbols[i].name);
        memcpy((char *)out_curl + symbols[i].at, &found, sizeof found);
    }
    const curl_version_info_data *info = out_curl->version_info(CURLVERSION_NOW);
    if (info->version_num >= OLDEST) return INGOT_OK;
    return IG_ERR(error, INGOT_UNSUPPORTED, "libcurl is %s: shared caches need 7.88", info->version);
}
