/* Imports sequences of nodes, subgraphs in place, and resolves branches that cannot be merged. */
#include "import/onnx/importer.h"

#include <string.h>

enum { MIN_OPSET = 7 }; /* of ONNX's default domain */

void ig_onnx_enter(struct ig_onnx *import) {
    if (++import->nesting > IG_ONNX_MAX_NESTING) {
        ig_raise(import->job, INGOT_UNSUPPORTED, "functions and subgraphs are nested more than %d deep",
                 IG_ONNX_MAX_NESTING);
    }
}

void ig_onnx_leave(struct ig_onnx *import) {
    import->nesting--;
}

/* ---- One node ---- */

static void count_node(struct ig_onnx *import) {
    if (++import->nodes > IG_ONNX_MAX_NODES) {
        ig_raise(import->job, INGOT_UNSUPPORTED, "the model has more than %d nodes after inlining its functions",
                 IG_ONNX_MAX_NODES);
    }
}

static void find_inputs(struct ig_onnx_node *n) {
    n->n_in = (uint32_t)n->proto->n_input;
    n->in = IG_NEW_ARRAY(n->job, ig_value, n->n_in);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const char *name = n->proto->input[i];
        n->in[i] = *name ? ig_onnx_lookup(n->scope, name) : IG_NO_VALUE;
    }
    n->n_out = (uint32_t)n->proto->n_output;
}

static void clear_outputs(struct ig_onnx_node *n) {
    /* At least one slot, even for nodes without outputs. */
    n->out = IG_NEW_ARRAY(n->job, ig_value, n->n_out + 1);
    for (uint32_t i = 0; i <= n->n_out; i++)
        n->out[i] = IG_NO_VALUE;
}

static void bind_outputs(struct ig_onnx_scope *scope, const struct ig_onnx_node *n) {
    for (uint32_t i = 0; i < n->n_out; i++) {
        const char *name = n->proto->output[i];
        if (!*name) continue;
        if (n->out[i] != IG_NO_VALUE) ig_build_name(scope->graph, n->out[i], name);
        ig_onnx_bind(scope, name, n->out[i] == IG_NO_VALUE ? IG_ONNX_UNMADE : n->out[i]);
    }
}

void ig_onnx_import_operator(struct ig_onnx_node *n) {
    const char *domain = n->proto->domain && strcmp(n->proto->domain, "ai.onnx") != 0 ? n->proto->domain : "";
    if (!*domain && n->opset < MIN_OPSET) {
        ig_onnx_refuse(n, "operator %s of opset %lld is not supported, only opset %d and up", n->proto->op_type,
                       (long long)n->opset, MIN_OPSET);
    }
    n->op = ig_onnx_find_op(domain, n->proto->op_type, n->opset);
    if (!n->op) {
        ig_onnx_refuse(n, "operator %s%s%s of opset %lld is not supported", domain, *domain ? "." : "",
                       n->proto->op_type, (long long)n->opset);
    }
    clear_outputs(n);
    n->out[0] = n->op->import(n);
}

static void import_node(struct ig_onnx_scope *scope, const Onnx__NodeProto *proto) {
    struct ig_onnx *import = scope->import;
    struct ig_onnx_node n = {
        .import = import,
        .scope = scope,
        .job = import->job,
        .dims = import->dims,
        .g = scope->graph,
        .proto = proto,
        .opset = ig_onnx_opset(scope, proto->domain),
    };
    const char *op = proto->op_type ? proto->op_type : "";
    /* Nodes without a name are identified by their first output, which exporters do name. */
    const char *name = proto->name && *proto->name ? proto->name : proto->n_output ? proto->output[0] : "";
    struct ig_where where = {.verb = "import node", .name = name, .kind = op};
    ig_where_push(import->job, &where);
    count_node(import);
    if (!proto->op_type) ig_raise(import->job, INGOT_BAD_MODEL, "it has no operator");
    ig_build_origin(scope->graph, ig_format(import->job, "%s '%s'", op, name));
    const Onnx__FunctionProto *function = ig_onnx_find_function(import, proto);
    find_inputs(&n);
    if (function) {
        clear_outputs(&n);
        ig_onnx_inline_function(&n, function);
    } else {
        ig_onnx_import_operator(&n);
    }
    if (!scope->taken) bind_outputs(scope, &n);
    ig_where_pop(import->job);
}

/* ---- Sequences of nodes ---- */

static void run(struct ig_onnx_scope *scope) {
    for (; scope->position < scope->n_order && !scope->taken; scope->position++) {
        import_node(scope, scope->nodes[scope->order[scope->position]]);
    }
}

void ig_onnx_import_nodes(struct ig_onnx_scope *scope, Onnx__NodeProto **nodes, size_t n_nodes, char **outputs,
                          size_t n_outputs) {
    scope->nodes = nodes;
    scope->order = ig_onnx_order(scope->import, nodes, n_nodes, outputs, n_outputs, &scope->n_order);
    scope->position = 0;
    run(scope);
}

void ig_onnx_import_graph(struct ig_onnx_scope *scope) {
    const Onnx__GraphProto *proto = scope->proto;
    char **outputs = IG_NEW_ARRAY(scope->import->job, char *, proto->n_output);
    for (size_t i = 0; i < proto->n_output; i++)
        outputs[i] = proto->output[i]->name;
    ig_onnx_import_nodes(scope, proto->node, proto->n_node, outputs, proto->n_output);
}

ig_value ig_onnx_graph_output(struct ig_onnx_scope *scope, size_t index) {
    struct ig_job *job = scope->import->job;
    const char *name = scope->proto->output[index]->name;
    if (!name || !*name) ig_raise(job, INGOT_BAD_MODEL, "output %zu has no name", index);
    ig_value value = ig_onnx_lookup(scope, name);
    if (value == IG_NO_VALUE) ig_raise(job, INGOT_BAD_MODEL, "output '%s' is absent", name);
    return value;
}

static void import_inline(struct ig_onnx_scope *outer, const Onnx__GraphProto *proto, size_t n_out,
                          ig_value *out_values) {
    struct ig_onnx *import = outer->import;
    if (proto->n_input)
        ig_raise(import->job, INGOT_BAD_MODEL, "a branch has %zu inputs, expected none", proto->n_input);
    if (proto->n_output != n_out) {
        ig_raise(import->job, INGOT_BAD_MODEL, "a branch has %zu outputs, expected %zu", proto->n_output, n_out);
    }
    ig_onnx_enter(import);
    struct ig_onnx_scope scope;
    ig_onnx_scope_init(&scope, import, outer->graph, outer, proto);
    ig_onnx_import_graph(&scope);
    for (size_t i = 0; i < n_out; i++)
        out_values[i] = ig_onnx_graph_output(&scope, i);
    ig_onnx_leave(import);
}

void ig_onnx_import_inline(struct ig_onnx_node *n, const Onnx__GraphProto *proto, ig_value *out_values) {
    import_inline(n->scope, proto, n->n_out, out_values);
}

/* ---- Forks ---- */

struct attempt {
    struct ig_onnx_node *n;
    const Onnx__GraphProto *branch;
    struct ig_onnx_scope *scope; /* of the branch and all nodes that follow */
};

static void try_branch(struct ig_job *job, void *argument) {
    struct attempt *attempt = argument;
    struct ig_onnx_node *n = attempt->n;
    struct ig_onnx_scope *outer = n->scope, *scope = attempt->scope;
    struct ig_onnx_node branch = *n;
    branch.out = IG_NEW_ARRAY(job, ig_value, n->n_out + 1);
    import_inline(scope, attempt->branch, n->n_out, branch.out);
    bind_outputs(scope, &branch);
    scope->nodes = outer->nodes;
    scope->order = outer->order;
    scope->n_order = outer->n_order;
    scope->position = outer->position + 1;
    run(scope);
    for (size_t i = 0; outer->proto && i < outer->proto->n_output; i++) {
        ig_onnx_lookup(scope, outer->proto->output[i]->name ? outer->proto->output[i]->name : "");
    }
}

/* True if the rest of the model is consistent with this branch, false if it is contradictory. Other errors are
 * raised. */
static bool attempt_branch(struct attempt *attempt) {
    struct ig_onnx *import = attempt->n->import;
    if (++import->forks > IG_ONNX_MAX_FORKS) {
        ig_onnx_refuse(attempt->n, "too many branches differ in rank and depend on the input");
    }
    int nesting = import->nesting;
    struct ingot_error error = {0};
    struct ig_graph *graph = attempt->n->g;
    uint32_t mark = graph->assumptions.count;
    attempt->scope = IG_NEW(import->job, struct ig_onnx_scope);
    ig_onnx_scope_init(attempt->scope, import, attempt->n->g, attempt->n->scope, NULL);
    attempt->scope->captures = attempt->n->scope->captures;
    enum ingot_status status = ig_job_run(import->job, try_branch, attempt, &error);
    import->nesting = nesting;
    if (status != INGOT_OK) graph->assumptions.count = mark;
    if (status != INGOT_OK && status != INGOT_BAD_MODEL) ig_raise_error(import->job, &error);
    return status == INGOT_OK;
}

bool ig_onnx_fork(struct ig_onnx_node *n, const Onnx__GraphProto *branches[2]) {
    struct attempt attempts[2] = {{.n = n, .branch = branches[0]}, {.n = n, .branch = branches[1]}};
    bool works[2];
    for (int i = 0; i < 2; i++)
        works[i] = attempt_branch(&attempts[i]);
    if (works[0] == works[1]) return false;
    n->scope->taken = attempts[works[0] ? 0 : 1].scope;
    return true;
}
