/* Applies shape specs; see specialize.h. */
#include "compile/specialize.h"

#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/rows/rows.h"

struct range {
    int64_t lo, opt, hi;
};

struct substitution {
    struct ig_graph *in;
    IG_VEC(ig_dim) symbols;
    IG_VEC(ig_dim) values;
};

/* "4" or "1:8:64"; advances *at past it. */
static bool parse_range(const char **at, struct range *out) {
    int64_t *parts[3] = {&out->lo, &out->opt, &out->hi};
    for (int i = 0; i < 3; i++) {
        char *end;
        if (**at < '0' || **at > '9') return false;
        *parts[i] = strtoll(*at, &end, 10); /* at most INT64_MAX */
        *at = end;
        if (i < 2 && **at != ':') {
            out->opt = out->hi = out->lo;
            return i == 0 && out->hi <= INT32_MAX;
        }
        if (i < 2) (*at)++;
    }
    return out->lo <= out->opt && out->opt <= out->hi && out->hi <= INT32_MAX;
}

static _Noreturn void bad_spec(struct substitution *s, const struct ingot_shape_spec *spec, const char *expected) {
    ig_raise(s->in->job, INGOT_INVALID_ARGUMENT, "cannot read shape '%s' of '%s': expected %s", spec->spec, spec->name,
             expected);
}

static void limit(struct substitution *s, const struct ingot_shape_spec *spec, ig_dim dim, const struct range *r) {
    struct ig_dims *dims = s->in->dims;
    int64_t fixed;
    if (ig_dim_is_const(dims, dim, &fixed)) {
        if (r->lo > fixed || r->hi < fixed)
            ig_raise(s->in->job, INGOT_INVALID_ARGUMENT, "shape '%s' of '%s' asks for %lld where the model has %lld",
                     spec->spec, spec->name, (long long)r->lo, (long long)fixed);
        return;
    }
    if (ig_dim_look(dims, dim).kind != IG_DIM_SYMBOL)
        ig_raise(s->in->job, INGOT_INVALID_ARGUMENT, "shape '%s' of '%s': the dim '%s' is computed and cannot be set",
                 spec->spec, spec->name, ig_dim_text(dims, dim));
    if (r->lo < r->hi) {
        ig_dim_set_range(dims, dim, r->lo, r->hi);
        return;
    }
    IG_PUSH(s->in->job, &s->symbols, dim);
    IG_PUSH(s->in->job, &s->values, ig_dim_const(dims, r->lo));
}

static void apply_to_input(struct substitution *s, const struct ingot_shape_spec *spec, const struct ig_type *type) {
    const char *at = spec->spec;
    for (int i = 0; i < type->rank; i++) {
        struct range r;
        if (!parse_range(&at, &r) || (i + 1 < type->rank && *at++ != 'x'))
            bad_spec(s, spec, "one size or ascending MIN:OPT:MAX a dim, separated by 'x', none over 2147483647");
        limit(s, spec, type->dim[i], &r);
    }
    if (*at) bad_spec(s, spec, "as many dims as the input has");
}

static bool is_symbol_of_inputs(struct ig_graph *g, const char *name, ig_dim *out_dim) {
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
        for (int k = 0; k < type->rank; k++) {
            struct ig_dim_view view = ig_dim_look(g->dims, type->dim[k]);
            if (view.kind != IG_DIM_SYMBOL || strcmp(view.name, name) != 0) continue;
            *out_dim = type->dim[k];
            return true;
        }
    }
    return false;
}

static void apply(struct substitution *s, const struct ingot_shape_spec *spec) {
    ig_dim dim;
    if (is_symbol_of_inputs(s->in, spec->name, &dim)) {
        struct range r;
        const char *at = spec->spec;
        if (!parse_range(&at, &r) || *at) bad_spec(s, spec, "a size or ascending MIN:OPT:MAX, none over 2147483647");
        limit(s, spec, dim, &r);
        return;
    }
    for (uint32_t i = 0; i < s->in->inputs.count; i++) {
        if (!s->in->inputs.at[i].name || strcmp(s->in->inputs.at[i].name, spec->name) != 0) continue;
        apply_to_input(s, spec, ig_type_of(s->in, s->in->inputs.at[i].value));
        return;
    }
    ig_raise(s->in->job, INGOT_INVALID_ARGUMENT, "the model has no input and no symbolic dim named '%s'", spec->name);
}

/* ---- Usual sizes ------------------------------------------------------------------------------------------------- */

static void set_usual(struct ig_graph *g, ig_dim symbol, int64_t value) {
    int64_t lo, hi;
    if (ig_dim_look(g->dims, symbol).kind != IG_DIM_SYMBOL) return;
    ig_dim_range(g->dims, symbol, &lo, &hi);
    ig_dim_set_usual(g->dims, symbol, value < lo ? lo : value > hi ? hi : value);
}

/* Sets the usual sizes that `spec`, which has been parsed once, gives to the dims of an input or to one symbol. */
static void set_opt(struct ig_graph *g, const char *spec, const ig_dim *dims, int count) {
    struct range r;
    for (int i = 0; i < count && parse_range(&spec, &r); i++) {
        set_usual(g, dims[i], r.opt);
        if (*spec == 'x') spec++;
    }
}

static void set_usual_sizes(struct ig_graph *g, const struct ingot_shape_spec *specs, size_t count) {
    enum { BATCH = 1, OTHERS = 128 };
    ig_dim symbol;
    int64_t lo, hi;
    for (uint32_t i = 0; ig_dim_symbol_at(g->dims, i, &symbol, &lo, &hi); i++)
        set_usual(g, symbol, OTHERS);
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
        if (type->rank > 0) set_usual(g, type->dim[0], BATCH);
    }
    for (size_t s = 0; s < count; s++) {
        if (is_symbol_of_inputs(g, specs[s].name, &symbol)) set_opt(g, specs[s].spec, &symbol, 1);
        for (uint32_t i = 0; i < g->inputs.count; i++) {
            const char *name = g->inputs.at[i].name;
            const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
            if (name && strcmp(name, specs[s].name) == 0) set_opt(g, specs[s].spec, type->dim, type->rank);
        }
    }
}

/* ---- Rebuilding with numbers in place of symbols, and within their ranges ---------------------------------------------------------------- */

static ig_dim replace(const void *user, ig_dim dim) {
    const struct substitution *s = user;
    return ig_dim_substitute(s->in->dims, dim, s->symbols.at, s->values.at, (int)s->symbols.count);
}

static struct ig_graph *rebuild(const struct substitution *s, struct ig_graph *in);

static void rebuild_node(const struct substitution *s, struct ig_graph *in, struct ig_graph *out, ig_node_id id,
                         ig_value *map) {
    struct ig_node n = in->nodes.at[id];
    ig_value *inputs = IG_NEW_ARRAY(in->job, ig_value, n.n_in + 1);
    for (uint32_t i = 0; i < n.n_in; i++)
        inputs[i] = n.in[i] == IG_NO_VALUE ? IG_NO_VALUE : map[n.in[i]];
    ig_build_origin(out, n.origin);
    ig_value first;
    if (n.op == IG_OP_constant) {
        first = ig_build_copy(out, in, &n, inputs);
    } else {
        struct ig_graph *body[2] = {n.body[0] ? rebuild(s, n.body[0]) : NULL, n.body[1] ? rebuild(s, n.body[1]) : NULL};
        first = ig_build_node(out, n.op, inputs, n.n_in, n.n_out, ig_attrs_with_dims(in->job, &n, replace, s), body);
    }
    for (uint32_t o = 0; o < n.n_out; o++) {
        const char *name = ig_info(in, n.out + o)->name;
        map[n.out + o] = first + o;
        if (name) ig_build_name(out, first + o, name);
    }
}

static struct ig_graph *rebuild(const struct substitution *s, struct ig_graph *in) {
    struct ig_graph *out = ig_graph_create(in->job, in->dims);
    ig_value *map = IG_NEW_ARRAY(in->job, ig_value, in->values.count + 1);
    for (uint32_t i = 0; i < in->inputs.count; i++) {
        struct ig_type type = *ig_type_of(in, in->inputs.at[i].value);
        for (int k = 0; k < type.rank; k++)
            type.dim[k] = replace(s, type.dim[k]);
        ig_value v = ig_build_input(out, in->inputs.at[i].name, &type);
        out->values.at[v].elements = in->values.at[in->inputs.at[i].value].elements;
        map[in->inputs.at[i].value] = v;
    }
    for (ig_node_id id = 0; id < in->nodes.count; id++)
        rebuild_node(s, in, out, id, map);
    for (uint32_t i = 0; i < in->outputs.count; i++)
        ig_build_port(out, &in->outputs.at[i], map[in->outputs.at[i].value]);
    return out;
}

/* ---- Fixed sizes in parts ------------------------------------------------------------------------------------------ */

static bool is_batch(struct ig_graph *g, ig_dim symbol) {
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
        if (type->rank > 0 && type->dim[0] == symbol) return true;
    }
    return false;
}

/* Takes the first fixed batch of several rows out of the substitution, at *out_at; false if there is none. */
static bool keep_batch(struct substitution *s, ig_dim *out_symbol, ig_dim *out_value) {
    for (uint32_t i = 0; i < s->symbols.count; i++) {
        int64_t rows;
        *out_symbol = s->symbols.at[i], *out_value = s->values.at[i];
        if (!ig_dim_is_const(s->in->dims, *out_value, &rows) || rows < 2 || !is_batch(s->in, *out_symbol)) continue;
        s->symbols.at[i] = s->symbols.at[--s->symbols.count];
        s->values.at[i] = s->values.at[--s->values.count];
        ig_dim_set_range(s->in->dims, *out_symbol, 1, rows);
        ig_dim_set_usual(s->in->dims, *out_symbol, rows);
        return true;
    }
    return false;
}

struct ig_graph *ig_specialize(struct ig_graph *graph, const struct ingot_shape_spec *specs, size_t count,
                               bool in_parts) {
    struct substitution s = {.in = graph};
    ig_dim batch, rows;
    for (size_t i = 0; i < count; i++)
        apply(&s, &specs[i]);
    set_usual_sizes(graph, specs, count);
    bool kept = in_parts && keep_batch(&s, &batch, &rows);
    struct ig_graph *out = rebuild(&s, graph); /* in any case: ranges may have been narrowed since it was built */
    if (!kept) return out;
    if (!ig_rows_mixed(out, batch)) {
        ig_dim_fix(out->dims, batch);
        return out;
    }
    IG_PUSH(graph->job, &s.symbols, batch);
    IG_PUSH(graph->job, &s.values, rows);
    return rebuild(&s, graph);
}
