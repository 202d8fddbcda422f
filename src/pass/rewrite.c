/*
 * The frame of the rewriting passes (pass.h): one sweep from an old graph to a new one.
 *
 * A sweep goes forward, so a rule sees operands that are already rewritten, with their definitions in the new graph. A
 * final copy drops what rules made dead.
 */
#include <string.h>

#include "ir/build.h"
#include "pass/pass.h"

/* Marks the nodes that some output needs, and collectives, which other ranks wait for. */
static bool *find_needed(const struct ig_graph *g) {
    bool *needed = IG_NEW_ARRAY(g->job, bool, g->nodes.count + 1);
    for (uint32_t i = 0; i < g->outputs.count; i++) {
        ig_node_id id = ig_info(g, g->outputs.at[i].value)->node;
        if (id != IG_NO_NODE) needed[id] = true;
    }
    for (ig_node_id id = g->nodes.count; id-- > 0;) {
        const struct ig_node *n = &g->nodes.at[id];
        needed[id] |= ig_op_is_collective(n->op);
        for (uint32_t i = 0; needed[id] && i < n->n_in; i++) {
            ig_node_id producer = n->in[i] == IG_NO_VALUE ? IG_NO_NODE : ig_info(g, n->in[i])->node;
            if (producer != IG_NO_NODE) needed[producer] = true;
        }
    }
    return needed;
}

/* Copies a node of control flow with rewritten bodies. */
static ig_value copy_control(struct ig_rewriter *rw, ig_rewrite_fn rewrite, const struct ig_node *n,
                             const ig_value *in) {
    struct ig_graph *body[2] = {NULL, NULL};
    for (int b = 0; b < 2; b++) {
        if (n->body[b]) body[b] = ig_rewrite(n->body[b], rw->options, rewrite, rw->state);
    }
    return ig_build_node(rw->out, n->op, in, n->n_in, n->n_out, n->attr, body);
}

/* A rule may write the same dims in another form, but never change the type. */
static void check_type(const struct ig_rewriter *rw, const struct ig_node *n, ig_value old, ig_value new) {
    const struct ig_type *a = ig_type_of(rw->in, old), *b = ig_type_of(rw->out, new);
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = ig_dim_equal(rw->in->dims, a->dim[i], b->dim[i]) != IG_NO;
    if (same) return;
    struct ig_text text;
    ig_text_init(&text, rw->in->job);
    ig_type_print(rw->in->dims, a, &text);
    ig_text_add(&text, " became ");
    ig_type_print(rw->in->dims, b, &text);
    ig_raise(rw->in->job, INGOT_INTERNAL, "a pass changed the type of a result of %s: %s", ig_op_info(n->op)->name,
             text.at);
}

static void rewrite_node(struct ig_rewriter *rw, ig_rewrite_fn rewrite, const struct ig_node *n) {
    struct ig_job *job = rw->in->job;
    ig_value *in = IG_NEW_ARRAY(job, ig_value, n->n_in + 1);
    ig_value *out = IG_NEW_ARRAY(job, ig_value, n->n_out + 1);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = n->in[i] == IG_NO_VALUE ? IG_NO_VALUE : rw->map[n->in[i]];
    ig_build_origin(rw->out, n->origin);
    if (!rewrite || !rewrite(rw, n, in, out)) {
        bool control = n->body[0] || n->body[1];
        ig_value first = control ? copy_control(rw, rewrite, n, in) : ig_build_copy(rw->out, rw->in, n, in);
        for (uint32_t o = 0; o < n->n_out; o++)
            out[o] = first + o;
    }
    for (uint32_t o = 0; o < n->n_out; o++) {
        check_type(rw, n, n->out + o, out[o]);
        rw->map[n->out + o] = out[o];
        const char *name = ig_info(rw->in, n->out + o)->name;
        if (name) ig_build_name(rw->out, out[o], name);
        const char *kept = ig_info(rw->in, n->out + o)->kept;
        if (kept) ig_build_kept(rw->out, out[o], kept);
        const char *as_written = ig_info(rw->in, n->out + o)->as_written;
        if (as_written) ig_build_as_written(rw->out, out[o], as_written);
    }
}

static bool has_dead_nodes(const struct ig_graph *g) {
    const bool *needed = find_needed(g);
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        if (!needed[id]) return true;
    }
    return false;
}

struct ig_graph *ig_rewrite(struct ig_graph *in, const struct ig_pass_options *options, ig_rewrite_fn rewrite,
                            void *state) {
    struct ig_rewriter rw = {.in = in, .options = options, .state = state};
    rw.out = ig_graph_create(in->job, in->dims);
    rw.out->attends = in->attends;
    rw.uses = ig_graph_use_counts(in);
    rw.map = IG_NEW_ARRAY(in->job, ig_value, in->values.count + 1);
    for (uint32_t v = 0; v < in->values.count; v++)
        rw.map[v] = IG_NO_VALUE;
    for (uint32_t i = 0; i < in->inputs.count; i++) {
        const struct ig_port *port = &in->inputs.at[i];
        ig_value input = ig_build_input(rw.out, port->name, ig_type_of(in, port->value));
        rw.out->values.at[input].elements = ig_info(in, port->value)->elements;
        rw.map[port->value] = input;
    }
    const bool *needed = find_needed(in);
    for (ig_node_id id = 0; id < in->nodes.count; id++) {
        if (needed[id]) rewrite_node(&rw, rewrite, &in->nodes.at[id]);
    }
    ig_build_origin(rw.out, NULL);
    for (uint32_t i = 0; i < in->outputs.count; i++)
        ig_build_port(rw.out, &in->outputs.at[i], rw.map[in->outputs.at[i].value]);
    /* Removes nodes that rules tried and dropped, or that later rules made dead. */
    if (rewrite && has_dead_nodes(rw.out)) return ig_rewrite(rw.out, options, NULL, NULL);
    return rw.out;
}

static bool same_attr(const struct ig_attr *a, const struct ig_attr *b) {
    if (a->kind != b->kind || a->count != b->count) return false;
    size_t count = (size_t)a->count;
    switch (a->kind) {
    case IG_KIND_INT:
    case IG_KIND_DTYPE: return a->i == b->i;
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the same bits are meant, NaN or minus zero as they are */
    case IG_KIND_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case IG_KIND_INTS: return count == 0 || memcmp(a->ints, b->ints, count * sizeof *a->ints) == 0;
    case IG_KIND_FLOATS: return count == 0 || memcmp(a->floats, b->floats, count * sizeof *a->floats) == 0;
    case IG_KIND_DIM: return a->dim == b->dim;
    case IG_KIND_DIMS: return count == 0 || memcmp(a->dims, b->dims, count * sizeof *a->dims) == 0;
    case IG_KIND_DATA: return a->data->bytes == b->data->bytes && a->data->size == b->data->size;
    }
    return false;
}

static bool same_node(const struct ig_node *a, const struct ig_node *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out || a->out != b->out) return false;
    for (uint32_t i = 0; i < a->n_in; i++) {
        if (a->in[i] != b->in[i]) return false;
    }
    for (int i = 0; i < ig_op_info(a->op)->n_attrs; i++) {
        if (!same_attr(&a->attr[i], &b->attr[i])) return false;
    }
    for (int i = 0; i < 2; i++) {
        if (!a->body[i] != !b->body[i]) return false;
        if (a->body[i] && !ig_graph_same(a->body[i], b->body[i])) return false;
    }
    return true;
}

bool ig_graph_same(const struct ig_graph *a, const struct ig_graph *b) {
    if (a->nodes.count != b->nodes.count || a->outputs.count != b->outputs.count) return false;
    for (ig_node_id id = 0; id < a->nodes.count; id++) {
        if (!same_node(&a->nodes.at[id], &b->nodes.at[id])) return false;
    }
    for (uint32_t i = 0; i < a->outputs.count; i++) {
        if (a->outputs.at[i].value != b->outputs.at[i].value) return false;
    }
    return true;
}

struct ig_graph *ig_rewrite_until_stable(struct ig_graph *in, const struct ig_pass_options *options,
                                         ig_rewrite_fn rewrite, void *state, int bound) {
    for (int i = 0; i < bound; i++) {
        struct ig_graph *out = ig_rewrite(in, options, rewrite, state);
        if (ig_graph_same(in, out)) return out;
        in = out;
    }
    return in;
}
