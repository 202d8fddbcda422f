/* Finds and opens the cache; see folder.h. */
#include "folder.h"

#include <stdlib.h>
#include <string.h>

static const char *environment(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* By the XDG base directory specification, which says that relative paths are to be ignored. NULL: there is none. The
 * caller frees it. */
static char *default_folder(void) {
    const char *caches = environment("XDG_CACHE_HOME"), *home = environment("HOME");
    if (caches && *caches == '/') return cli_format("%s/ingot", caches);
    return home && *home == '/' ? cli_format("%s/.cache/ingot", home) : NULL;
}

static enum ingot_status read_bound(uint64_t *out_bytes, struct ingot_error *error) {
    const char *text = environment("INGOT_CACHE_GB");
    char *end;
    if (!text) return INGOT_OK;
    double gigabytes = strtod(text, &end);
    if (*end || !(gigabytes > 0) || gigabytes > 1e9)
        return cli_error(error, INGOT_INVALID_ARGUMENT, "INGOT_CACHE_GB: '%s' is no number of gigabytes over 0", text);
    *out_bytes = (uint64_t)(gigabytes * 1e9) + 1;
    return INGOT_OK;
}

static enum ingot_status read_engines(bool *out_engines, struct ingot_error *error) {
    const char *text = environment("INGOT_CACHE_ENGINES");
    *out_engines = text && strcmp(text, "on") == 0;
    if (!text || *out_engines || strcmp(text, "off") == 0) return INGOT_OK;
    return cli_error(error, INGOT_INVALID_ARGUMENT, "INGOT_CACHE_ENGINES is on or off, not '%s'", text);
}

/* The words of a list, which is cut up; the caller frees the array. */
static const char **split(char *list, size_t *out_count) {
    const char **words = NULL;
    *out_count = 0;
    for (char *rest = list, *word; list && (word = strtok_r(rest, ", ", &rest));) {
        words = cli_resize(words, *out_count + 1, sizeof *words);
        words[(*out_count)++] = word;
    }
    return words;
}

/* With the shared level, if there is one. */
static enum ingot_status open_all(struct ingot_cache_options *options, struct ingot_cache **out_cache,
                                  struct ingot_error *error) {
    const char *trust = environment("INGOT_CACHE_TRUST");
    char *list = trust ? cli_strdup(trust) : NULL;
    const char **keys = split(list, &options->n_trusted_keys);
    options->shared = environment("INGOT_CACHE_SHARED");
    options->key_file = environment("INGOT_CACHE_KEY");
    options->trusted_keys = keys;
    enum ingot_status status = ingot_cache_open(options, out_cache, error);
    free(keys);
    free(list);
    return status;
}

/* NULL: the cache is off, or there is no home folder. The caller frees it. */
static char *find_folder(const char *argument) {
    const char *given = argument ? argument : environment("INGOT_CACHE");
    if (given && strcmp(given, "off") == 0) return NULL;
    return given ? cli_strdup(given) : default_folder();
}

enum ingot_status cache_open(const char *argument, struct ingot_cache **out_cache, struct ingot_error *error) {
    struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
    char *folder = find_folder(argument);
    *out_cache = NULL;
    if (!folder) return INGOT_OK;
    options.folder = folder;
    enum ingot_status status = read_bound(&options.max_bytes, error);
    if (status == INGOT_OK) status = read_engines(&options.engines, error);
    if (status == INGOT_OK) status = open_all(&options, out_cache, error);
    free(folder);
    return status;
}

char *cache_machines(const char *argument) {
    char *folder = find_folder(argument);
    char *path = folder ? cli_format("%s/machines", folder) : NULL;
    free(folder);
    return path;
}
