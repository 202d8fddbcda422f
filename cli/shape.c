/* Shapes of a run; see shape.h. */
#include "shape.h"

#include <stdlib.h>
#include <string.h>

int64_t symbol_default(int rank, int axis) {
    return axis == 0 ? 1 : rank == 4 && axis >= 2 ? 224 : 64;
}

/* ---- Specs */

enum ingot_status shape_specs(const struct option_list *arguments, struct ingot_shape_spec **out_specs, void **out_text,
                              struct ingot_error *error) {
    size_t size = 1;
    for (size_t i = 0; i < arguments->count; i++)
        size += strlen(arguments->at[i]) + 1;
    struct ingot_shape_spec *specs = cli_alloc(arguments->count, sizeof *specs);
    char *text = cli_alloc(size, 1), *to = text;
    for (size_t i = 0; i < arguments->count; i++) {
        strcpy(to, arguments->at[i]);
        char *equals = strrchr(to, '='); /* names may contain '=', sizes do not */
        if (!equals || equals == to || !equals[1]) {
            free(specs);
            free(text);
            return cli_error(error, INGOT_INVALID_ARGUMENT, "--shape '%s': expected NAME=SPEC", arguments->at[i]);
        }
        *equals = 0;
        specs[i] = (struct ingot_shape_spec){to, equals + 1};
        to = equals + 2 + strlen(equals + 1);
    }
    *out_specs = specs;
    *out_text = text;
    return INGOT_OK;
}

/* "8" or "1:8:64", ascending and none over INT32_MAX, as builds want them: the middle one is what runs. */
struct size_range {
    int64_t min, opt, max;
};

static bool read_range(const char **text, struct size_range *out_range) {
    int64_t sizes[3];
    int count = 0;
    for (;;) {
        char *end;
        if (**text < '0' || **text > '9' || count == 3) return false;
        sizes[count] = strtoll(*text, &end, 10); /* at most INT64_MAX */
        if (sizes[count] > INT32_MAX || (count > 0 && sizes[count] < sizes[count - 1])) return false;
        count++;
        *text = end;
        if (**text != ':') break;
        (*text)++;
    }
    *out_range = (struct size_range){sizes[0], sizes[count == 3 ? 1 : 0], sizes[count == 3 ? 2 : 0]};
    return count != 2;
}

static bool read_spec(const char *spec, struct size_range *out_ranges, int *out_rank) {
    int rank = 0;
    for (;;) {
        if (rank == INGOT_MAX_RANK || !read_range(&spec, &out_ranges[rank])) return false;
        rank++;
        if (*spec == 0) break;
        if (*spec++ != 'x') return false;
    }
    *out_rank = rank;
    return true;
}

/* The axis of `info` that is the symbol `name` alone; -1: none. */
static int axis_of(const struct ingot_tensor_info *info, const char *name) {
    for (int i = 0; i < info->rank; i++) {
        char *symbol = info->dims[i] < 0 ? symbol_of(info->symbols[i]) : NULL;
        bool found = symbol && strcmp(symbol, name) == 0;
        free(symbol);
        if (found) return i;
    }
    return -1;
}

void specs_range(const struct ingot_tensor_info *infos, size_t n, const struct ingot_shape_spec *specs, size_t n_specs,
                 const char *symbol, int64_t *lo, int64_t *hi) {
    struct size_range ranges[INGOT_MAX_RANK];
    int rank;
    for (size_t s = 0; s < n_specs; s++) {
        if (!read_spec(specs[s].spec, ranges, &rank)) continue;
        int axis = strcmp(specs[s].name, symbol) == 0 ? 0 : -1;
        for (size_t i = 0; i < n; i++) {
            if (strcmp(infos[i].name, specs[s].name) == 0) axis = axis_of(&infos[i], symbol);
        }
        if (axis < 0 || axis >= rank) continue;
        *lo = ranges[axis].min;
        *hi = ranges[axis].max;
    }
}

/* ---- Binding */

/* Binds one input's dims: fixed dims must match; symbols get these values or must already have them. */
static enum ingot_status bind_dims(const struct ingot_tensor_info *info, const char *from, int rank,
                                   const int64_t *dims, struct symbol_table *symbols, struct ingot_error *error) {
    if (rank != info->rank) {
        return cli_error(error, INGOT_INVALID_ARGUMENT, "input '%s': %s has rank %d, expected %d", info->name, from,
                         rank, info->rank);
    }
    for (int i = 0; i < rank; i++) {
        char *name = info->dims[i] < 0 ? symbol_of(info->symbols[i]) : NULL;
        const int64_t *known = name ? symbols_get(symbols, name) : NULL;
        int64_t expected = info->dims[i] >= 0 ? info->dims[i] : known ? *known : dims[i];
        if (name && !known) symbols_set(symbols, name, dims[i]);
        free(name);
        if (dims[i] == expected) continue;
        return cli_error(error, INGOT_INVALID_ARGUMENT, "input '%s': %s has size %lld along axis %d, expected %lld%s%s",
                         info->name, from, (long long)dims[i], i, (long long)expected, info->dims[i] < 0 ? " for " : "",
                         info->dims[i] < 0 ? info->symbols[i] : "");
    }
    return INGOT_OK;
}

static enum ingot_status bind_spec(const struct ingot_tensor_info *infos, size_t n, const struct ingot_shape_spec *spec,
                                   struct symbol_table *symbols, struct ingot_error *error) {
    struct size_range ranges[INGOT_MAX_RANK];
    int64_t dims[INGOT_MAX_RANK];
    int rank;
    if (!read_spec(spec->spec, ranges, &rank)) {
        return cli_error(
            error, INGOT_INVALID_ARGUMENT,
            "--shape '%s=%s': expected a size, ascending MIN:OPT:MAX or sizes joined by 'x', none over 2147483647",
            spec->name, spec->spec);
    }
    for (int i = 0; i < rank; i++)
        dims[i] = ranges[i].opt;
    bool is_symbol = false;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(infos[i].name, spec->name) == 0) return bind_dims(&infos[i], "--shape", rank, dims, symbols, error);
        for (int d = 0; d < infos[i].rank; d++)
            is_symbol |= infos[i].dims[d] < 0 && strstr(infos[i].symbols[d], spec->name);
    }
    if (!is_symbol || rank != 1) {
        return cli_error(error, INGOT_INVALID_ARGUMENT, "--shape '%s=%s': there is no %s of that name", spec->name,
                         spec->spec, rank == 1 ? "input or symbol" : "input");
    }
    const int64_t *known = symbols_get(symbols, spec->name);
    if (known && *known != dims[0]) {
        return cli_error(error, INGOT_INVALID_ARGUMENT, "--shape '%s=%s': the given inputs have %lld", spec->name,
                         spec->spec, (long long)*known);
    }
    symbols_set(symbols, spec->name, dims[0]);
    return INGOT_OK;
}

/* Dims that are one unbound symbol get its default. */
static enum ingot_status complete(const struct ingot_tensor_info *info, struct symbol_table *symbols,
                                  struct ingot_tensor *tensor, struct ingot_error *error) {
    for (int i = 0; i < info->rank; i++) {
        char *name = info->dims[i] < 0 ? symbol_of(info->symbols[i]) : NULL;
        if (name && !symbols_get(symbols, name)) symbols_set(symbols, name, symbol_default(info->rank, i));
        free(name);
        tensor->dims[i] = info->dims[i];
        if (info->dims[i] >= 0 || symbols_evaluate(symbols, info->symbols[i], &tensor->dims[i])) continue;
        return cli_error(error, INGOT_INVALID_ARGUMENT,
                         "input '%s': the size '%s' of axis %d is open; give it by --shape", info->name,
                         info->symbols[i], i);
    }
    return INGOT_OK;
}

enum ingot_status shapes_settle(const struct ingot_tensor_info *infos, size_t n, const struct ingot_shape_spec *specs,
                                size_t n_specs, struct symbol_table *symbols, struct ingot_tensor *tensors,
                                struct ingot_error *error) {
    for (size_t i = 0; i < n; i++) {
        if (!tensors[i].data) continue;
        if (tensors[i].dtype != infos[i].dtype) {
            return cli_error(error, INGOT_BAD_TENSOR, "input '%s': the tensor is %s, expected %s", infos[i].name,
                             ingot_dtype_name(tensors[i].dtype), ingot_dtype_name(infos[i].dtype));
        }
        if (bind_dims(&infos[i], "the tensor", tensors[i].rank, tensors[i].dims, symbols, error) != INGOT_OK) {
            if (error) error->status = INGOT_BAD_TENSOR;
            return INGOT_BAD_TENSOR;
        }
    }
    for (size_t i = 0; i < n_specs; i++)
        CLI_TRY(bind_spec(infos, n, &specs[i], symbols, error));
    for (size_t pass = 0; pass < 2; pass++) { /* symbols first, then the expressions that use them */
        for (size_t i = 0; i < n; i++) {
            if (tensors[i].data) continue;
            tensors[i].dtype = infos[i].dtype;
            tensors[i].rank = infos[i].rank;
            enum ingot_status status = complete(&infos[i], symbols, &tensors[i], error);
            if (pass == 1) CLI_TRY(status);
        }
    }
    return INGOT_OK;
}
