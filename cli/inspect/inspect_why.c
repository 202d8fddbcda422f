/* Prints what was decided by estimates about nodes: whether to fuse. */
#include <fnmatch.h>
#include <string.h>

#include "inspect/inspect.h"

static bool fits(const json_t *decision, const char *node) {
    const char *name = json_text(decision, "node");
    return strstr(name, node) || fnmatch(node, name, 0) == 0;
}

static void print_decision(const json_t *decision) {
    const char *other = json_text(decision, "otherwise");
    double fused = json_number_value(json_object_get(decision, "fused_us"));
    double otherwise = json_number_value(json_object_get(decision, "otherwise_us"));
    bool is_fused = json_is_true(json_object_get(decision, "fused"));
    printf("%-16s %8.2f us, fused %8.2f us: %s %s\n", other, otherwise, fused, json_text(decision, "op"),
           json_text(decision, "node"));
    printf("%-16s %s\n", "", is_fused ? "-> fused" : "-> not fused");
}

bool inspect_why_print(const json_t *explanation, const char *node, bool json) {
    const json_t *all = json_object_get(explanation, "decisions");
    json_t *found = json_array();
    for (size_t i = 0; i < json_array_size(all); i++) {
        if (fits(json_array_get(all, i), node)) json_array_append(found, json_array_get(all, i));
    }
    size_t count = json_array_size(found);
    for (size_t i = 0; i < count && !json; i++)
        print_decision(json_array_get(found, i));
    if (json) {
        json_dumpf(found, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    json_decref(found);
    return count > 0;
}
