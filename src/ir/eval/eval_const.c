/*
 * Evaluates constant values on demand. Shapes, scalars and other small ones are requested often and cached with the
 * graph; weights are requested once, when the engine is written, and are not.
 */
#include "ir/eval/eval_const.h"

#include <string.h>

#include "ir/eval/eval_op.h"

enum { KEPT_BYTES = 4096 };

/* Elements owned by the caller of ig_const_tensor; the job frees them if it fails. */
struct lent {
    struct ig_job *job;
    void *data;
};

struct ig_const_cache {
    const struct ingot_tensor **kept; /* by value */
    uint64_t *marks;                  /* by value */
    uint32_t capacity;                /* of both */
    uint32_t generation;
    IG_VEC(struct lent *) lent;
};

static struct ig_const_cache *cache_of(struct ig_graph *graph) {
    if (!graph->constants) graph->constants = IG_NEW(graph->job, struct ig_const_cache);
    struct ig_const_cache *cache = graph->constants;
    if (cache->capacity < graph->values.count) {
        uint32_t capacity = graph->values.count + graph->values.count / 2 + 64;
        cache->kept = ig_grow(graph->job, cache->kept, cache->capacity, capacity, sizeof *cache->kept);
        cache->marks = ig_grow(graph->job, cache->marks, cache->capacity, capacity, sizeof *cache->marks);
        cache->capacity = capacity;
    }
    return cache;
}

uint64_t *ig_const_marks(struct ig_graph *graph, uint32_t *out_generation) {
    struct ig_const_cache *cache = cache_of(graph);
    *out_generation = ++cache->generation;
    return cache->marks;
}

/* The data of a `constant` node, if they can be used without a copy. */
static bool in_place(struct ig_graph *graph, ig_value value, struct ingot_tensor *out_tensor) {
    const struct ig_node *node = ig_def_op(graph, value, IG_OP_constant);
    if (!node) return false;
    const struct ig_type *type = ig_type_of(graph, value);
    const struct ig_data *data = ig_attr(graph, node, IG_ATTR_data)->data;
    struct ingot_tensor tensor = {.dtype = type->dtype, .rank = type->rank, .data = (void *)(uintptr_t)data->bytes};
    if (!ig_type_is_static(graph->dims, type, tensor.dims)) return false;
    size_t size = ingot_dtype_size(type->dtype);
    if (data->size / size < (size_t)ingot_tensor_elements(&tensor) || (uintptr_t)data->bytes % size != 0) return false;
    *out_tensor = tensor;
    return true;
}

/* ---- Decisions ---- */

/* What is being done: "import node 'r1' (Reshape)". Behind the passes it is always kernels, whose order may vary. */
static const char *activity(struct ig_job *job) {
    const struct ig_where *where = job->where;
    bool in_order = where && (strcmp(where->verb, "import node") == 0 || strcmp(where->verb, "run pass") == 0);
    if (!in_order) return "compile a kernel";
    const char *kind = where->kind ? ig_format(job, " (%.60s)", where->kind) : "";
    return ig_format(job, "%s '%.200s'%s", where->verb, where->name ? where->name : "", kind);
}

static bool note_constant(struct ig_graph *graph, const struct ig_node *node) {
    if (node->op != IG_OP_constant) return false;
    struct ig_initializer *record = ig_attr(graph, node, IG_ATTR_data)->data->record;
    if (record && !record->decided) record->decided = activity(graph->job);
    return true;
}

void ig_const_decides(struct ig_graph *graph, ig_value value) {
    IG_VEC(ig_value) pending = {0};
    uint32_t generation;
    if (!ig_info(graph, value)->is_refittable || note_constant(graph, ig_def(graph, value))) return;
    uint64_t *marks = ig_const_marks(graph, &generation), mark = (uint64_t)generation << 32;
    IG_PUSH(graph->job, &pending, value);
    while (pending.count) {
        const struct ig_node *node = ig_def(graph, pending.at[--pending.count]);
        if (note_constant(graph, node)) continue;
        for (uint32_t i = 0; i < node->n_in; i++) {
            ig_value in = node->in[i];
            if (in == IG_NO_VALUE || marks[in] == mark || !ig_info(graph, in)->is_refittable) continue;
            marks[in] = mark;
            IG_PUSH(graph->job, &pending, in);
        }
    }
}

/* ---- Contents ---- */

static void free_lent(void *resource) {
    struct lent *lent = resource;
    ig_eval_free_detached(lent->job->allocator, lent->data);
    lent->data = NULL;
}

static void *lend(struct ig_graph *graph, struct ig_view *view) {
    struct lent *lent = IG_NEW(graph->job, struct lent);
    lent->job = graph->job;
    IG_PUSH(graph->job, &graph->constants->lent, lent);
    ig_defer(graph->job, free_lent, lent);
    return lent->data = ig_eval_detach(view);
}

struct ingot_tensor ig_const_tensor(struct ig_graph *graph, ig_value value) {
    ig_const_decides(graph, value);
    return ig_const_weight(graph, value);
}

struct ingot_tensor ig_const_weight(struct ig_graph *graph, ig_value value) {
    struct ingot_tensor tensor;
    if (in_place(graph, value, &tensor)) return tensor;
    struct ig_const_cache *cache = cache_of(graph);
    if (cache->kept[value]) return *cache->kept[value];

    struct ig_eval *ev = ig_eval_create(graph->job, graph);
    struct ig_walk walk;
    struct ig_view view;
    ig_walk_plan(ev, &walk, graph, &value, 1);
    ig_walk_run(ev, &walk, NULL, &view);
    tensor = (struct ingot_tensor){.dtype = view.dtype, .rank = view.rank};
    memcpy(tensor.dims, view.dims, sizeof tensor.dims);
    size_t size = (size_t)ig_view_elements(&view) * ingot_dtype_size(view.dtype);
    if (!view.block && ig_view_is_dense(&view)) { /* a reshape of a constant */
        tensor.data = view.data;
    } else if (size <= KEPT_BYTES) {
        ig_eval_make_own(ev, &view);
        tensor.data = ig_memdup(graph->job, view.data, size);
        cache->kept[value] = ig_memdup(graph->job, &tensor, sizeof tensor);
    } else {
        ig_eval_make_own(ev, &view);
        tensor.data = lend(graph, &view);
    }
    ig_eval_destroy(ev);
    return tensor;
}

/* The lender's entry for these elements, removed from the job; NULL: they are not lent. */
static struct lent *take_lent(struct ig_graph *graph, const void *data) {
    struct ig_const_cache *cache = graph->constants;
    for (uint32_t i = 0; cache && data && i < cache->lent.count; i++) {
        struct lent *lent = cache->lent.at[i];
        if (lent->data != data) continue;
        ig_undefer(graph->job, lent);
        cache->lent.at[i] = cache->lent.at[--cache->lent.count];
        return lent;
    }
    return NULL;
}

void *ig_const_take(struct ig_graph *graph, const struct ingot_tensor *tensor) {
    return take_lent(graph, tensor->data) ? tensor->data : NULL;
}

void ig_const_release(struct ig_graph *graph, ig_value value, struct ingot_tensor *tensor) {
    (void)value; /* the pointer to the elements identifies their owner */
    struct lent *lent = take_lent(graph, tensor->data);
    if (lent) free_lent(lent);
    tensor->data = NULL;
}
