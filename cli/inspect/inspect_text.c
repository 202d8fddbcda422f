/* JSON lookups and the text of types, for the parts of `ingot inspect`. */
#include <stdlib.h>

#include "inspect/inspect.h"

const char *json_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

json_int_t json_number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

char *json_joined(const json_t *array) {
    char *text = cli_strdup("");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *part = json_string_value(json_array_get(array, i));
        char *longer = cli_format("%s%s%s", text, i ? ", " : "", part ? part : "");
        free(text);
        text = longer;
    }
    return text;
}

static bool is_kernel(const json_t *object, size_t index) {
    const json_t *kernel = json_object_get(object, "kernel");
    return json_is_integer(kernel) && (size_t)json_integer_value(kernel) == index;
}

const json_t *region_of_kernel(const json_t *explanation, size_t index) {
    const json_t *regions = json_object_get(explanation, "regions");
    for (size_t i = 0; i < json_array_size(regions); i++) {
        const json_t *region = json_array_get(regions, i), *variants = json_object_get(region, "variants");
        if (is_kernel(region, index)) return region;
        for (size_t k = 0; k < json_array_size(variants); k++) {
            if (is_kernel(json_array_get(variants, k), index)) return region;
        }
    }
    return NULL;
}

char *symbol_text(const json_t *symbol) {
    long long lo = (long long)json_number(symbol, "lo"), hi = (long long)json_number(symbol, "hi");
    if (!json_object_get(symbol, "mixes")) return cli_format("%lld to %lld, rows independent", lo, hi);
    return cli_format("%lld to %lld, rows not independent: %s", lo, hi, json_text(symbol, "mixes"));
}

char *info_type_text(const struct ingot_tensor_info *info) {
    char *text = cli_format("%s[", ingot_dtype_name(info->dtype));
    for (int i = 0; i < info->rank; i++) {
        char *longer = info->dims[i] >= 0 ? cli_format("%s%s%lld", text, i ? "," : "", (long long)info->dims[i])
                                          : cli_format("%s%s%s", text, i ? "," : "", info->symbols[i]);
        free(text);
        text = longer;
    }
    char *closed = cli_format("%s]", text);
    free(text);
    return closed;
}
