/* Test data of a folder; see dataset.h. */
#include "verify/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void dataset_free(struct dataset *set) {
    free(set->name);
    tensor_list_free(&set->inputs);
    tensor_list_free(&set->outputs);
}

void datasets_free(struct datasets *sets) {
    for (size_t i = 0; i < sets->count; i++)
        dataset_free(&sets->at[i]);
    free(sets->at);
    *sets = (struct datasets){0};
}

/* Reads FOLDER/input_0.pb, input_1.pb, … up to the first that does not exist. */
static enum ingot_status read_numbered(const char *folder, const char *kind, struct tensor_list *list,
                                       struct ingot_error *error) {
    for (int k = 0;; k++) {
        char *path = cli_format("%s/%s_%d.pb", folder, kind, k);
        bool present = access(path, F_OK) == 0;
        enum ingot_status status = present ? tensor_file_read(path, list, error) : INGOT_OK;
        free(path);
        if (status != INGOT_OK || !present) return status;
    }
}

static size_t count_left(const struct tensor_list *list) {
    size_t left = 0;
    for (size_t i = 0; i < list->count; i++)
        left += list->at[i].name != NULL;
    return left;
}

/*
 * Takes the arrays of an .npz that have the names of the model's inputs or outputs, in the model's order. Exporters may
 * have renamed outputs: if as many arrays remain as are missing, these are taken in the archive's order.
 */
static enum ingot_status take_named(const char *path, struct tensor_list *from, const struct ingot_tensor_info *infos,
                                    size_t n, bool any_name, struct tensor_list *to, struct ingot_error *error) {
    size_t missing = 0, next = 0;
    for (size_t i = 0; i < n; i++)
        missing += !tensor_list_find(from, infos[i].name);
    bool in_order = any_name && count_left(from) == n && missing == n;
    for (size_t i = 0; i < n; i++) {
        struct named_tensor *found = tensor_list_find(from, infos[i].name);
        while (in_order && !found && next < from->count) {
            if (from->at[next].name) found = &from->at[next];
            next++;
        }
        if (!found) return cli_error(error, INGOT_BAD_TENSOR, "'%s' has no array '%s'", path, infos[i].name);
        tensor_list_add(to, *found);
        *found = (struct named_tensor){0};
    }
    return INGOT_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct dataset *)a)->name, ((const struct dataset *)b)->name);
}

/* Lists the sets, sorted by name; their data are read later. */
static enum ingot_status list_sets(const char *folder, struct datasets *sets, struct ingot_error *error) {
    DIR *directory = opendir(folder);
    if (!directory) return cli_error(error, INGOT_IO, "cannot open '%s': %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        bool npz = length > 4 && strcmp(entry->d_name + length - 4, ".npz") == 0;
        if (!npz && strncmp(entry->d_name, "test_data_set_", 14) != 0) continue;
        sets->at = cli_resize(sets->at, sets->count + 1, sizeof *sets->at);
        sets->at[sets->count++] = (struct dataset){.name = cli_strdup(entry->d_name)};
    }
    closedir(directory);
    if (sets->count > 0) qsort(sets->at, sets->count, sizeof *sets->at, by_name);
    return INGOT_OK;
}

enum ingot_status datasets_read(const char *folder, const struct ingot_tensor_info *inputs, size_t n_inputs,
                                const struct ingot_tensor_info *outputs, size_t n_outputs, struct datasets *out_sets,
                                struct ingot_error *error) {
    *out_sets = (struct datasets){.tolerance = out_sets->tolerance};
    CLI_TRY(list_sets(folder, out_sets, error));
    char *path = cli_format("%s/tolerance.json", folder);
    enum ingot_status status = access(path, F_OK) == 0 ? tolerance_read(path, &out_sets->tolerance, error) : INGOT_OK;
    free(path);
    for (size_t i = 0; i < out_sets->count && status == INGOT_OK; i++) {
        struct dataset *set = &out_sets->at[i];
        path = cli_format("%s/%s", folder, set->name);
        if (strncmp(set->name, "test_data_set_", 14) == 0) {
            status = read_numbered(path, "input", &set->inputs, error);
            if (status == INGOT_OK) status = read_numbered(path, "output", &set->outputs, error);
        } else {
            struct tensor_list all = {0};
            status = tensor_file_read(path, &all, error);
            if (status == INGOT_OK) status = take_named(path, &all, inputs, n_inputs, false, &set->inputs, error);
            if (status == INGOT_OK) status = take_named(path, &all, outputs, n_outputs, true, &set->outputs, error);
            tensor_list_free(&all);
        }
        free(path);
    }
    if (status != INGOT_OK) datasets_free(out_sets);
    return status;
}
