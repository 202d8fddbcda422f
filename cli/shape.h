/* Derives the shapes of a run from symbolic dims, --shape specs and given tensors. */
#ifndef CLI_SHAPE_H
#define CLI_SHAPE_H

#include "options.h"
#include "tensor/tensor.h"

struct symbol_table {
    struct symbol {
        char *name;
        int64_t value;
    } * at;
    size_t count;
};

void symbols_set(struct symbol_table *symbols, const char *name, int64_t value);
const int64_t *symbols_get(const struct symbol_table *symbols, const char *name);
void symbols_free(struct symbol_table *symbols);
/* Evaluates "2*seq+1", "floor(h/2)", …; false if a symbol has no value or the text is not an expression. */
bool symbols_evaluate(const struct symbol_table *symbols, const char *text, int64_t *out_value);
/* The symbol, if `text` is a single symbol, unquoted; the caller frees it. Otherwise NULL. */
char *symbol_of(const char *text);

/*
 * Splits "NAME=SPEC" arguments into specs for ingot_build_options. They point into the returned text (one block, to be
 * freed after them). INGOT_INVALID_ARGUMENT if an argument has no '='.
 */
enum ingot_status shape_specs(const struct option_list *arguments, struct ingot_shape_spec **out_specs, void **out_text,
                              struct ingot_error *error);

/* Sets the range of a symbol to what the specs say of it, as a symbol or along an axis of an input: MIN and MAX, or the
 * size twice. Leaves it where they say nothing, and where they are wrong, of which shapes_settle tells. */
void specs_range(const struct ingot_tensor_info *infos, size_t n, const struct ingot_shape_spec *specs, size_t n_specs,
                 const char *symbol, int64_t *lo, int64_t *hi);

/*
 * Determines the shapes of all inputs: given tensors (data not NULL) are checked against `infos` and determine their
 * symbols, then specs apply; symbols still open get symbol_default. Fills type and dims of tensors[i].
 */
enum ingot_status shapes_settle(const struct ingot_tensor_info *infos, size_t n, const struct ingot_shape_spec *specs,
                                size_t n_specs, struct symbol_table *symbols, struct ingot_tensor *tensors,
                                struct ingot_error *error);

/* 1 along the first axis, 224 along the spatial axes of an image (rank 4), 64 elsewhere. */
int64_t symbol_default(int rank, int axis);

#endif
