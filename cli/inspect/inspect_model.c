/* Prints an imported model: inputs, outputs, and counts of core operators. */
#include <stdlib.h>
#include <string.h>

#include "inspect/inspect.h"

/* The graph's text arrives in pieces; lines are parsed when complete. */
struct counting {
    char *line;
    size_t length, capacity;
    json_t *counts; /* operator -> number of nodes */
};

/* "  %5 "name" = conv(%0, %4) {…}: f32[…] @ "…"": the word between '=' and '('. Quoted names may contain both. */
static void count_line(struct counting *c) {
    const char *at = c->line + strspn(c->line, " ");
    if (*at != '%') return;
    bool quoted = false;
    for (; *at && (quoted || strncmp(at, " = ", 3) != 0); at++) {
        if (quoted && *at == '\\' && at[1])
            at++;
        else if (*at == '"')
            quoted = !quoted;
    }
    if (!*at) return;
    size_t length = strcspn(at + 3, "( ");
    char *op = cli_format("%.*s", (int)length, at + 3);
    json_object_set_new(c->counts, op, json_integer(json_number(c->counts, op) + 1));
    free(op);
}

static void take_text(void *user, const char *text, size_t length) {
    struct counting *c = user;
    for (size_t i = 0; i < length; i++) {
        if (c->length + 1 >= c->capacity) {
            c->capacity = c->capacity ? 2 * c->capacity : 256;
            c->line = cli_resize(c->line, c->capacity, 1);
        }
        c->line[c->length++] = text[i];
        if (text[i] != '\n') continue;
        c->line[c->length - 1] = 0;
        count_line(c);
        c->length = 0;
    }
}

static json_t *ports_json(struct ingot_model *model, size_t n,
                          void (*ask)(const struct ingot_model *, size_t, struct ingot_tensor_info *)) {
    json_t *ports = json_array();
    for (size_t i = 0; i < n; i++) {
        struct ingot_tensor_info info;
        ask(model, i, &info);
        char *type = info_type_text(&info);
        json_array_append_new(ports, json_pack("{s:s, s:s}", "name", info.name, "type", type));
        free(type);
    }
    return ports;
}

static void print_ports(const char *title, const json_t *ports) {
    for (size_t i = 0; i < json_array_size(ports); i++) {
        const json_t *port = json_array_get(ports, i);
        printf("%-10s '%s' %s\n", title, json_text(port, "name"), json_text(port, "type"));
    }
}

struct count_row {
    const char *name;
    json_int_t count;
};

static int by_count(const void *a, const void *b) {
    const struct count_row *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void print_counts(json_t *counts) {
    size_t n = 0;
    struct count_row *rows = cli_alloc(json_object_size(counts), sizeof *rows);
    const char *key;
    json_t *value;
    json_object_foreach(counts, key, value) rows[n++] = (struct count_row){key, json_integer_value(value)};
    if (n > 0) qsort(rows, n, sizeof *rows, by_count);
    printf("operators\n");
    for (size_t i = 0; i < n; i++)
        printf("%8lld %s\n", (long long)rows[i].count, rows[i].name);
    free(rows);
}

enum ingot_status inspect_model_print(struct ingot_model *model, const char *path, bool json,
                                      struct ingot_error *error) {
    struct counting counting = {.counts = json_object()};
    struct ingot_sink sink = {&counting, take_text};
    enum ingot_status status = ingot_model_print(model, &sink, error);
    free(counting.line);
    if (status != INGOT_OK) {
        json_decref(counting.counts);
        return status;
    }
    json_t *inputs = ports_json(model, ingot_model_input_count(model), ingot_model_input);
    json_t *outputs = ports_json(model, ingot_model_output_count(model), ingot_model_output);
    if (json) {
        json_t *object = json_pack("{s:s, s:O, s:O, s:O}", "model", path, "inputs", inputs, "outputs", outputs,
                                   "operators", counting.counts);
        json_dumpf(object, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
        putchar('\n');
        json_decref(object);
    } else {
        printf("model      %s\n", path);
        print_ports("input", inputs);
        print_ports("output", outputs);
        print_counts(counting.counts);
    }
    json_decref(inputs);
    json_decref(outputs);
    json_decref(counting.counts);
    return INGOT_OK;
}
