/* Evaluates a whole graph: binds symbols from inputs, evaluates dims, runs the graph. */
#include "ir/eval/eval.h"

#include <stdio.h>
#include <string.h>

#include "ir/eval/eval_op.h"

void ig_eval_raise(struct ig_eval *ev, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    ig_raise(ev->job, INGOT_INVALID_ARGUMENT, "%s", message);
}

/* In the arena, not on the stack, because cleanup runs after the stack is unwound. */
struct ig_eval *ig_eval_create(struct ig_job *job, struct ig_graph *graph) {
    struct ig_eval *ev = IG_NEW(job, struct ig_eval);
    ev->job = job;
    ev->dims = graph->dims;
    ev->memory.job = job;
    ev->root = graph;
    ig_defer(job, ig_eval_free_all, &ev->memory);
    return ev;
}

void ig_eval_destroy(struct ig_eval *ev) {
    ig_undefer(ev->job, &ev->memory);
    ig_eval_free_all(&ev->memory);
}

/* ---- Symbols */

static bool bound(const struct ig_eval *ev, ig_dim symbol) {
    for (uint32_t i = 0; i < ev->symbols.count; i++) {
        if (ev->symbols.at[i] == symbol) return true;
    }
    return false;
}

static void bind(struct ig_eval *ev, ig_dim symbol, int64_t value) {
    IG_PUSH(ev->job, &ev->symbols, symbol);
    IG_PUSH(ev->job, &ev->values, value);
}

static bool try_dim(struct ig_eval *ev, ig_dim dim, int64_t *out_value) {
    return dim != IG_DIM_NONE &&
           ig_dim_eval(ev->dims, dim, ev->symbols.at, ev->values.at, (int)ev->symbols.count, out_value);
}

bool ig_eval_bind(struct ig_eval *ev, ig_dim dim, int64_t value) {
    int64_t known;
    if (dim == IG_DIM_NONE) return true;
    if (try_dim(ev, dim, &known)) return known == value;
    if (ig_dim_look(ev->dims, dim).kind == IG_DIM_SYMBOL) bind(ev, dim, value);
    return true;
}

/* Binds a symbol that is an element of an input. */
static void bind_element(struct ig_eval *ev, ig_dim symbol) {
    if (bound(ev, symbol)) return;
    for (uint32_t i = 0; i < ev->root->inputs.count; i++) {
        const struct ig_value_info *info = ig_info(ev->root, ev->root->inputs.at[i].value);
        const struct ig_view *view = &ev->root_inputs[i];
        int64_t count = info->elements ? ig_view_elements(view) : 0; /* inputs are dense */
        for (int64_t k = 0; k < count; k++) {
            if (info->elements[k] == symbol) {
                bind(ev, symbol, ig_load_i64(view->dtype, view->data, k));
                return;
            }
        }
    }
}

static void visit_symbol(void *user, ig_dim symbol) {
    bind_element(user, symbol);
}

int64_t ig_eval_dim(struct ig_eval *ev, ig_dim dim) {
    int64_t value;
    if (try_dim(ev, dim, &value)) return value;
    if (dim == IG_DIM_NONE) ig_eval_raise(ev, "a size is not known");
    if (ev->root_inputs) ig_dim_symbols(ev->dims, dim, visit_symbol, ev);
    if (try_dim(ev, dim, &value)) return value;
    ig_eval_raise(ev, "the size '%s' has no value for these inputs", ig_dim_text(ev->dims, dim));
}

int ig_eval_attr_dims(struct ig_eval *ev, const struct ig_attr *attr, int64_t *out_dims, int capacity) {
    if (attr->count > capacity) ig_eval_raise(ev, "%d sizes where at most %d are expected", attr->count, capacity);
    for (int i = 0; i < attr->count; i++)
        out_dims[i] = ig_eval_dim(ev, attr->dims[i]);
    return attr->count;
}

/* ---- Inputs and outputs */

struct ig_view ig_view_of_tensor(const struct ingot_tensor *tensor) {
    struct ig_view view = {.dtype = tensor->dtype, .rank = tensor->rank, .data = tensor->data};
    memcpy(view.dims, tensor->dims, sizeof view.dims);
    ig_dense_strides(tensor->rank, tensor->dims, view.strides);
    return view;
}

static void check_input(struct ig_eval *ev, const struct ig_port *port, const struct ig_type *type,
                        const struct ingot_tensor *tensor) {
    const char *name = port->name ? port->name : "";
    if (tensor->dtype != type->dtype) {
        ig_eval_raise(ev, "input '%s' is %s, expected %s", name, ingot_dtype_name(tensor->dtype),
                      ingot_dtype_name(type->dtype));
    }
    if (tensor->rank != type->rank) {
        ig_eval_raise(ev, "input '%s' has rank %d, expected %d", name, tensor->rank, type->rank);
    }
    for (int i = 0; i < type->rank; i++) {
        if (tensor->dims[i] < 0) ig_eval_raise(ev, "input '%s' has a negative size along axis %d", name, i);
    }
    if (!tensor->data && ingot_tensor_elements(tensor) != 0) ig_eval_raise(ev, "input '%s' has no data", name);
}

/* Plain symbols are bound first, so that expressions in them ("2*seq+1") can be checked in any order of inputs. */
static void bind_inputs(struct ig_eval *ev, struct ig_graph *graph, const struct ig_view *inputs) {
    for (int plain = 1; plain >= 0; plain--) {
        for (uint32_t i = 0; i < graph->inputs.count; i++) {
            const struct ig_type *type = ig_type_of(graph, graph->inputs.at[i].value);
            for (int axis = 0; axis < type->rank; axis++) {
                bool symbol = ig_dim_look(ev->dims, type->dim[axis]).kind == IG_DIM_SYMBOL;
                if (symbol != (plain == 1) || ig_eval_bind(ev, type->dim[axis], inputs[i].dims[axis])) continue;
                ig_eval_raise(ev, "input '%s' has size %lld along axis %d, expected %lld (%s)",
                              graph->inputs.at[i].name ? graph->inputs.at[i].name : "", (long long)inputs[i].dims[axis],
                              axis, (long long)ig_eval_dim(ev, type->dim[axis]),
                              ig_dim_text(ev->dims, type->dim[axis]));
            }
        }
    }
}

struct ig_view *ig_eval_take_inputs(struct ig_eval *ev, struct ig_graph *graph, const struct ingot_tensor *inputs) {
    struct ig_view *in = ig_eval_scratch(ev, graph->inputs.count, sizeof *in);
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        check_input(ev, &graph->inputs.at[i], ig_type_of(graph, graph->inputs.at[i].value), &inputs[i]);
        in[i] = ig_view_of_tensor(&inputs[i]);
    }
    ev->root_inputs = in;
    bind_inputs(ev, graph, in);
    return in;
}

void ig_eval_give_outputs(struct ig_eval *ev, struct ig_view *views, uint32_t count, struct ingot_tensor *out_outputs) {
    struct ingot_tensor *results = ig_eval_scratch(ev, count, sizeof *results);
    for (uint32_t i = 0; i < count; i++) {
        results[i] = (struct ingot_tensor){.dtype = views[i].dtype, .rank = views[i].rank};
        memcpy(results[i].dims, views[i].dims, sizeof results[i].dims);
        ig_eval_make_own(ev, &views[i]);
    }
    for (uint32_t i = 0; i < count; i++) { /* nothing can fail from here on */
        results[i].data = ig_eval_detach(&views[i]);
        out_outputs[i] = results[i];
    }
}

void ig_eval_graph(struct ig_job *job, struct ig_graph *graph, const struct ingot_tensor *inputs,
                   struct ingot_tensor *out_outputs) {
    struct ig_eval *ev = ig_eval_create(job, graph);
    uint32_t n_out = graph->outputs.count;
    struct ig_view *in = ig_eval_take_inputs(ev, graph, inputs), *out = ig_eval_scratch(ev, n_out, sizeof *out);
    ig_value *wanted = ig_eval_scratch(ev, n_out, sizeof *wanted);
    for (uint32_t i = 0; i < n_out; i++)
        wanted[i] = graph->outputs.at[i].value;
    struct ig_walk walk;
    ig_walk_plan(ev, &walk, graph, wanted, n_out);
    ig_walk_run(ev, &walk, in, out);
    ig_eval_give_outputs(ev, out, n_out, out_outputs);
    ig_eval_destroy(ev);
}

void ig_eval_release(struct ig_job *job, struct ingot_tensor *tensor) {
    ig_eval_free_detached(job->allocator, tensor->data);
    tensor->data = NULL;
}
