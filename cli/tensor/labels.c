/* The highest-scoring classes of a classifier. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/image.h"

/* Splits a text into lines, in place. */
static char **split_lines(char *text, size_t *out_count) {
    char **lines = NULL;
    size_t count = 0;
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        bool last = line[length] == 0;
        line[length] = 0;
        if (length > 0 && line[length - 1] == '\r') line[length - 1] = 0;
        lines = cli_resize(lines, count + 1, sizeof *lines);
        lines[count++] = line;
        line += length + (last ? 0 : 1);
    }
    *out_count = count;
    return lines;
}

/* Applies a softmax unless the scores are probabilities already (all from 0 to 1, with sum 1). */
static void to_probabilities(double *row, int64_t n) {
    double sum = 0, most = -INFINITY;
    bool all = true;
    for (int64_t i = 0; i < n; i++) {
        all = all && row[i] >= 0 && row[i] <= 1;
        sum += row[i];
        most = fmax(most, row[i]);
    }
    if (all && fabs(sum - 1) < 1e-2) return;
    sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += row[i] = exp(row[i] - most);
    for (int64_t i = 0; i < n; i++)
        row[i] /= sum;
}

static void print_row(double *row, int64_t n, unsigned top, char **lines, size_t n_lines) {
    for (unsigned k = 0; k < top && k < n; k++) {
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++) {
            if (row[i] > row[best] || isnan(row[best])) best = i;
        }
        if ((size_t)best < n_lines) {
            printf("%6.2f%%  %s\n", 100 * row[best], lines[best]);
        } else {
            printf("%6.2f%%  class %lld\n", 100 * row[best], (long long)best);
        }
        row[best] = -1;
    }
}

enum ingot_status labels_print(const struct image_arguments *arguments, const struct ingot_tensor *scores,
                               struct ingot_error *error) {
    unsigned char *text = NULL;
    char **lines = NULL;
    size_t size, n_lines = 0;
    int64_t total = ingot_tensor_elements(scores), n = 1;
    for (int i = scores->rank - 1; i >= 0 && n == 1; i--)
        n = scores->dims[i]; /* the last axis with more than one element */
    if (total == 0) return cli_error(error, INGOT_INVALID_ARGUMENT, "there are no scores to label");
    if (arguments->labels) {
        CLI_TRY(file_read(arguments->labels, &text, &size, error));
        lines = split_lines((char *)text, &n_lines);
    }
    double *row = cli_alloc((size_t)n, sizeof *row);
    for (int64_t r = 0; r < total / n; r++) {
        for (int64_t i = 0; i < n; i++)
            row[i] = tensor_get(scores, r * n + i);
        to_probabilities(row, n);
        print_row(row, n, arguments->top, lines, n_lines);
    }
    free(row);
    free(lines);
    free(text);
    return INGOT_OK;
}
