/* See pattern.h. */
#include "pass/pattern.h"

#include <stdint.h>
#include <string.h>

/* Backtracking: a star first matches nothing, then one character more whenever the rest fails. Only the last star is
 * retried, since everything before it has matched as early as possible. */
static bool fits(const char *pattern, size_t pattern_length, const char *text, size_t length) {
    size_t p = 0, t = 0, star = SIZE_MAX, after = 0;
    while (t < length) {
        if (p < pattern_length && pattern[p] == '*') {
            star = p++;
            after = t;
        } else if (p < pattern_length && (pattern[p] == '?' || pattern[p] == text[t])) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++after;
        } else {
            return false;
        }
    }
    while (p < pattern_length && pattern[p] == '*')
        p++;
    return p == pattern_length;
}

/* An origin is an operator and a quoted name; a pattern may match either, or the whole. */
bool ig_pattern_fits(const char *pattern, size_t pattern_length, const char *origin) {
    size_t length = strlen(origin);
    if (fits(pattern, pattern_length, origin, length)) return true;
    const char *quote = strchr(origin, '\'');
    if (!quote || quote == origin || origin[length - 1] != '\'') return false;
    size_t operator_length = (size_t)(quote - origin) - 1, name = operator_length + 2;
    return fits(pattern, pattern_length, origin, operator_length) ||
           (length > name && fits(pattern, pattern_length, origin + name, length - 1 - name));
}

bool ig_pattern_fits_some_node(const char *pattern, size_t length, const struct ig_graph *g) {
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->origin && ig_pattern_fits(pattern, length, n->origin)) return true;
        for (int b = 0; b < 2; b++) {
            if (n->body[b] && ig_pattern_fits_some_node(pattern, length, n->body[b])) return true;
        }
    }
    return false;
}
