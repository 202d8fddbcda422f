/* Prints the initialisers of the model that an engine was built from, and which of them can be replaced. */
#include <stdlib.h>

#include "inspect/inspect.h"

static const char *const kinds[] = {"refittable", "structural", "unused"};

static void print_text(const struct ingot_initializer_info *info) {
    struct ingot_tensor tensor = {.dtype = info->dtype, .rank = info->rank};
    for (int i = 0; i < info->rank; i++)
        tensor.dims[i] = info->dims[i];
    char *type = tensor_type_text(&tensor);
    printf("%-11s '%s' %s", kinds[info->kind], info->name, type);
    if (info->alias) printf(", %s'%s'", info->is_transposed ? "the transpose of " : "also ", info->alias);
    if (info->reason) printf(": needed to %s", info->reason);
    putchar('\n');
    free(type);
}

static json_t *make_json(const struct ingot_initializer_info *info) {
    json_t *one = json_object(), *dims = json_array();
    for (int i = 0; i < info->rank; i++)
        json_array_append_new(dims, json_integer(info->dims[i]));
    json_object_set_new(one, "name", json_string(info->name));
    if (info->alias) json_object_set_new(one, "alias", json_string(info->alias));
    if (info->is_transposed) json_object_set_new(one, "transposed", json_true());
    if (info->slot) json_object_set_new(one, "slot", json_integer(info->slot));
    json_object_set_new(one, "kind", json_string(kinds[info->kind]));
    if (info->reason) json_object_set_new(one, "reason", json_string(info->reason));
    json_object_set_new(one, "dtype", json_string(ingot_dtype_name(info->dtype)));
    json_object_set_new(one, "dims", dims);
    return one;
}

void inspect_initializers_print(const struct ingot_engine *engine, bool json) {
    json_t *all = json_array();
    for (size_t i = 0; i < ingot_engine_initializer_count(engine); i++) {
        struct ingot_initializer_info info;
        ingot_engine_initializer(engine, i, &info);
        if (json)
            json_array_append_new(all, make_json(&info));
        else
            print_text(&info);
    }
    if (json) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(all);
}
