/* The inputs of a run: files, images and random numbers. */
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "session.h"

/* "'a', 'b'"; to be freed. */
static char *names_of(const struct ingot_tensor_info *infos, size_t n) {
    char *names = cli_strdup("");
    for (size_t i = 0; i < n; i++) {
        char *more = cli_format("%s%s'%s'", names, i ? ", " : "", infos[i].name);
        free(names);
        names = more;
    }
    return names;
}

/* Reads one --input argument into the list, under the name it specifies. */
static enum ingot_status read_argument(const char *argument, const struct ingot_tensor_info *infos, size_t n,
                                       struct tensor_list *list, struct ingot_error *error) {
    const char *equals = strchr(argument, '='), *file = argument;
    char *name = NULL;
    /* A name may contain '=': the longest matching input name wins. */
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(infos[i].name);
        if (strncmp(argument, infos[i].name, length) != 0 || argument[length] != '=') continue;
        if (name && strlen(name) >= length) continue;
        free(name);
        name = cli_strdup(infos[i].name);
        file = argument + length + 1;
    }
    if (!name && equals) {
        char *names = names_of(infos, n);
        cli_error(error, INGOT_INVALID_ARGUMENT, "--input '%s': there is no input of that name, but %s", argument,
                  names);
        free(names);
        return INGOT_INVALID_ARGUMENT;
    }
    struct tensor_list read = {0};
    enum ingot_status status = tensor_file_read(file, &read, error);
    if (status == INGOT_OK && !name && read.count == 1 && n == 1) name = cli_strdup(infos[0].name);
    struct named_tensor *one = name && read.count != 1 ? tensor_list_find(&read, name)
                               : read.count == 1       ? &read.at[0]
                                                       : NULL;
    if (status == INGOT_OK && name && !one) {
        status = cli_error(error, INGOT_BAD_TENSOR, "'%s' has no tensor '%s'", file, name);
    }
    for (size_t i = 0; status == INGOT_OK && i < read.count; i++) {
        if (name && &read.at[i] != one) continue;
        if (name) {
            free(read.at[i].name);
            read.at[i].name = cli_strdup(name);
        } else if (!read.at[i].name) {
            status =
                cli_error(error, INGOT_INVALID_ARGUMENT, "--input '%s': say which input it is, by NAME=FILE", argument);
            break;
        }
        tensor_list_add(list, read.at[i]);
        read.at[i] = (struct named_tensor){0};
    }
    tensor_list_free(&read);
    free(name);
    return status;
}

/* Moves the tensors read into the order of the inputs; extra arrays of an .npz are ignored. */
static void place(const struct ingot_tensor_info *infos, size_t n, struct tensor_list *given,
                  struct ingot_tensor *tensors) {
    for (size_t i = 0; i < n; i++) {
        struct named_tensor *found = tensor_list_find(given, infos[i].name);
        if (found) tensors[i] = found->tensor;
    }
}

enum ingot_status inputs_prepare(const struct ingot_tensor_info *infos, size_t n, const struct option_list *files,
                                 const struct option_list *shapes, unsigned seed, struct tensor_list *given,
                                 struct ingot_tensor **out_tensors, struct ingot_error *error) {
    struct ingot_shape_spec *specs;
    struct symbol_table symbols = {0};
    void *text;
    for (size_t i = 0; files && i < files->count; i++)
        CLI_TRY(read_argument(files->at[i], infos, n, given, error));
    CLI_TRY(shape_specs(shapes, &specs, &text, error));
    struct ingot_tensor *tensors = cli_alloc(n, sizeof *tensors);
    place(infos, n, given, tensors);
    enum ingot_status status = shapes_settle(infos, n, specs, shapes->count, &symbols, tensors, error);
    for (size_t i = 0; status == INGOT_OK && i < n; i++) {
        if (tensors[i].data) continue;
        struct named_tensor made = {cli_strdup(infos[i].name), tensors[i]};
        status = tensor_allocate(&made.tensor, error);
        if (status == INGOT_OK) random_fill(&made.tensor, infos[i].name, seed);
        tensors[i] = made.tensor;
        tensor_list_add(given, made);
    }
    symbols_free(&symbols);
    free(specs);
    free(text);
    if (status != INGOT_OK) {
        free(tensors);
        return status;
    }
    *out_tensors = tensors;
    return INGOT_OK;
}

enum ingot_status inputs_bind(struct session *session, const struct ingot_tensor *tensors, struct ingot_error *error) {
    for (size_t i = 0; i < session->n_inputs; i++) {
        CLI_TRY(ingot_context_set_input(session->context, i, &tensors[i], error));
    }
    return INGOT_OK;
}
