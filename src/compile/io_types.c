/* Types of inputs and outputs; see io_types.h. */
#include "compile/io_types.h"

#include <fnmatch.h>
#include <string.h>

#include "ir/build.h"
#include "pass/pass.h"

struct rule {
    const char *pattern;
    enum ingot_dtype dtype;
    bool found;
};

struct rules {
    struct rule *at; /* the last match wins */
    size_t count;
};

static enum ingot_dtype parse_type(struct ig_job *job, const char *option, const char *name) {
    static const struct {
        const char *name;
        enum ingot_dtype dtype;
    } types[] = {{"fp32", INGOT_F32}, {"fp16", INGOT_F16}, {"bf16", INGOT_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) == 0) return types[i].dtype;
    }
    ig_raise(job, INGOT_INVALID_ARGUMENT, "type of inputs and outputs '%s': expected fp32, fp16 or bf16", option);
}

/* Names may contain equals signs, types do not. */
static struct rule parse(struct ig_job *job, const char *option) {
    const char *equals = option ? strrchr(option, '=') : NULL;
    if (!equals || equals == option)
        ig_raise(job, INGOT_INVALID_ARGUMENT, "type of inputs and outputs '%s': expected PATTERN=TYPE",
                 option ? option : "(null)");
    return (struct rule){.pattern = ig_strndup(job, option, (size_t)(equals - option)),
                         .dtype = parse_type(job, option, equals + 1)};
}

/* The type that a port is to have; only floats change. */
static enum ingot_dtype type_of(struct rules *rules, const struct ig_graph *g, const struct ig_port *port) {
    enum ingot_dtype dtype = ig_type_of(g, port->value)->dtype;
    if (!port->name || !ig_dtype_is_float(dtype)) return dtype;
    for (size_t i = 0; i < rules->count; i++) {
        if (fnmatch(rules->at[i].pattern, port->name, 0) != 0) continue;
        rules->at[i].found = true;
        dtype = rules->at[i].dtype;
    }
    return dtype;
}

static ig_value copy_node(struct ig_graph *out, const struct ig_graph *in, const struct ig_node *n,
                          const ig_value *map) {
    ig_value *inputs = IG_NEW_ARRAY(in->job, ig_value, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++)
        inputs[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : map[n->in[i]];
    ig_build_origin(out, n->origin);
    if (!n->body[0] && !n->body[1]) return ig_build_copy(out, in, n, inputs);
    struct ig_graph *body[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) {
        if (n->body[k]) body[k] = ig_rewrite(n->body[k], NULL, NULL, NULL);
    }
    return ig_build_node(out, n->op, inputs, n->n_in, n->n_out, n->attr, body);
}

static struct ig_graph *rebuild(struct ig_graph *in, struct rules *rules) {
    struct ig_graph *out = ig_graph_create(in->job, in->dims);
    ig_value *map = IG_NEW_ARRAY(in->job, ig_value, in->values.count + 1);
    for (uint32_t i = 0; i < in->inputs.count; i++) {
        const struct ig_port *port = &in->inputs.at[i];
        struct ig_type type = *ig_type_of(in, port->value);
        enum ingot_dtype inside = type.dtype;
        type.dtype = type_of(rules, in, port);
        ig_value v = ig_build_input(out, port->name, &type);
        out->values.at[v].elements = ig_info(in, port->value)->elements;
        map[port->value] = ig_build_cast(out, v, inside);
    }
    for (ig_node_id id = 0; id < in->nodes.count; id++) {
        const struct ig_node *n = &in->nodes.at[id];
        ig_value first = copy_node(out, in, n, map);
        for (uint32_t o = 0; o < n->n_out; o++) {
            map[n->out + o] = first + o;
            if (ig_info(in, n->out + o)->name) ig_build_name(out, first + o, ig_info(in, n->out + o)->name);
        }
    }
    ig_build_origin(out, NULL);
    for (uint32_t i = 0; i < in->outputs.count; i++) {
        const struct ig_port *port = &in->outputs.at[i];
        enum ingot_dtype dtype = type_of(rules, in, port);
        if (port->updates) {
            const struct ig_port *input = &out->inputs.at[port->updates - 1];
            if (ig_type_of(out, input->value)->dtype != dtype)
                ig_raise(in->job, INGOT_INVALID_ARGUMENT,
                         "output '%s' is stored in the memory of input '%s': both need the same type", port->name,
                         input->name);
        }
        ig_build_port(out, port, ig_build_cast(out, map[port->value], dtype));
    }
    return out;
}

struct ig_graph *ig_io_types_set(struct ig_graph *graph, const struct ingot_build_options *options) {
    struct ig_job *job = graph->job;
    struct rules rules = {.at = IG_NEW_ARRAY(job, struct rule, options->n_io_types + 1)};
    for (; rules.count < options->n_io_types; rules.count++)
        rules.at[rules.count] = parse(job, options->io_types[rules.count]);
    struct ig_graph *out = rebuild(graph, &rules);
    for (size_t i = 0; i < rules.count; i++) {
        if (!rules.at[i].found)
            ig_raise(job, INGOT_INVALID_ARGUMENT,
                     "type of inputs and outputs '%s': the model has no such input or output of floats",
                     options->io_types[i]);
    }
    out->initializers = graph->initializers;
    out->notes = graph->notes;
    out->n_notes = graph->n_notes;
    return out;
}
