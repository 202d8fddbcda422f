/* See random_values.h. */
#include "support/random/random_values.h"

#include <math.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "support/random/random_network.h"

uint64_t random_mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

const char *random_values_network(struct ig_job *job, uint64_t seed, int most_steps) {
    struct random_maker maker = {.job = job, .state = seed, .max_elements = 6000, .whole = true, .exact = true};
    struct ig_text text;
    maker.g = ig_graph_create(job, ig_dims_create(job));
    maker.largest = (int64_t)1 << 20;
    for (int i = 0; i < RANDOM_SYMBOLS; i++)
        maker.sizes[i] = 3 + i;
    random_network(&maker, 2 + (int)(random_mixed(seed + 3) % (uint64_t)most_steps));
    ig_text_init(&text, job);
    ig_graph_print(maker.g, IG_PRINT_DATA, &text);
    return text.at;
}

/* Values of all types, of which some kinds are all alike. */
static void fill(enum ingot_dtype dtype, void *bytes, int64_t count, uint64_t seed) {
    static const double special[] = {0, 1, -1, 2, 0.5, 1e-30, 1e30, 65504, 40000, NAN, INFINITY, -INFINITY, 3};
    enum { N_SPECIAL = sizeof special / sizeof *special };
    uint64_t kind = random_mixed(seed) % 8;
    for (int64_t i = 0; i < count; i++) {
        uint64_t r = random_mixed(seed * 1000003 + (uint64_t)i + 1);
        double value = (double)(int64_t)(r % 2001 - 1000) / 250;
        if (kind == 0) value = special[random_mixed(seed + 1) % N_SPECIAL];
        if (kind == 1) value = special[r % N_SPECIAL];
        if (kind == 2) value = (double)i;
        if (kind == 3) value = (double)(r % 2);
        if (dtype == INGOT_BOOL)
            ig_store_i64(dtype, bytes, i, (int64_t)(r & (kind == 0 ? 0 : 1)));
        else if (ig_dtype_is_float(dtype))
            ig_store_f64(dtype, bytes, i, value);
        else
            ig_store_i64(dtype, bytes, i, isfinite(value) && fabs(value) < 1e6 ? (int64_t)value : 7);
    }
}

/* Gives the constants of bodies their record's values; random ones are all f32, whose values nothing has read yet. */
static void replace_in_bodies(const struct ig_graph *g, bool is_body) {
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const struct ig_node *n = &g->nodes.at[i];
        for (int k = 0; k < 2; k++)
            if (n->body[k]) replace_in_bodies(n->body[k], true);
        if (n->op != IG_OP_constant || !is_body) continue;
        struct ig_data *data = (struct ig_data *)(uintptr_t)ig_attr(g, n, IG_ATTR_data)->data;
        if (data->record) data->bytes = data->record->bytes;
    }
}

struct ig_graph *random_values_graph(struct ig_job *job, const char *text, const struct random_values *values) {
    struct ig_graph *from = ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
    struct ig_graph *to = ig_graph_create(job, from->dims);
    for (uint32_t i = 0; i < from->initializers->list.count; i++) {
        struct ig_initializer *one = from->initializers->list.at[i];
        if (values && i < values->n && values->bytes[i]) one->bytes = values->bytes[i];
    }
    to->initializers = from->initializers;
    replace_in_bodies(from, false);
    ig_value *map = IG_NEW_ARRAY(job, ig_value, from->values.count + 1);
    for (uint32_t i = 0; i < from->inputs.count; i++) {
        const struct ig_port *port = &from->inputs.at[i];
        map[port->value] = ig_build_input(to, port->name, ig_type_of(from, port->value));
        to->values.at[map[port->value]].elements = ig_info(from, port->value)->elements;
    }
    for (uint32_t i = 0; i < from->nodes.count; i++) {
        struct ig_node n = from->nodes.at[i];
        ig_value *in = IG_NEW_ARRAY(job, ig_value, n.n_in + 1);
        for (uint32_t k = 0; k < n.n_in; k++)
            in[k] = n.in[k] == IG_NO_VALUE ? IG_NO_VALUE : map[n.in[k]];
        struct ig_data data;
        struct ig_attr attr = {.kind = IG_KIND_DATA, .data = &data};
        if (n.op == IG_OP_constant) {
            data = *ig_attr(from, &n, IG_ATTR_data)->data;
            if (data.record) data.bytes = data.record->bytes;
            n.attr = &attr;
        }
        ig_value first = ig_build_copy(to, from, &n, in);
        for (uint32_t o = 0; o < n.n_out; o++)
            map[n.out + o] = first + o;
    }
    for (uint32_t i = 0; i < from->outputs.count; i++)
        ig_build_output(to, from->outputs.at[i].name, map[from->outputs.at[i].value]);
    ig_initializers_end_import(to->initializers);
    return to;
}

struct random_values random_values_change(struct ig_job *job, const struct ig_initializers *all, uint64_t seed,
                                          bool only_one) {
    struct random_values values = {.n = all->list.count, .bytes = IG_NEW_ARRAY(job, void *, all->list.count + 1)};
    uint32_t chosen = values.n ? (uint32_t)(random_mixed(seed) % values.n) : 0;
    for (uint32_t i = 0; i < values.n; i++) {
        const struct ig_initializer *one = all->list.at[i];
        if (only_one && i != chosen) continue;
        values.bytes[i] = ig_alloc(job, one->size + 8);
        fill(one->dtype, values.bytes[i], (int64_t)(one->size / ingot_dtype_size(one->dtype)), seed * 31 + i);
    }
    return values;
}
