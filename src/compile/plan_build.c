/* Builds the plan; see plan_build.h and engine/plan.h. */
#include "compile/plan_build.h"

#include <string.h>

#include "base/text.h"
#include "base/window.h"
#include "compile/demands.h"
#include "compile/same_weights.h"
#include "compile/slots.h"
#include "compile/weight_parts.h"
#include "ir/build.h"
#include "ir/part.h"
#include "ir/rows/rows.h"
#include "kernel/cuda/exchange.h"
#include "kernel/expect.h"

/* The tables of the plan as they grow. */
struct tables {
    struct ig_job *job;
    struct ig_dims *dims;
    struct ig_kernel_set *set;
    struct ig_built_plan *built;
    struct ig_slots slots;
    struct ig_text strings;
    struct ig_map string_of;
    uint64_t weights_size;
    struct ig_same_weights same; /* of an engine for several ranks */
    struct ig_map stored;        /* class of a weight -> its offset / 64, with COPIED if it is from the first copy on */
    struct ig_weight_parts parts;
    IG_VEC(struct ig_weight_copy) copies; /* `to` counts from the first one */
    uint64_t copies_size;
    bool has_ranks;
    IG_VEC(struct ig_collective) collectives;
    IG_VEC(struct ig_plan_tensor) tensors;
    IG_VEC(struct ig_plan_buffer) buffers;
    IG_VEC(uint32_t) operands;
    IG_VEC(ig_slot) dim_table;
    IG_VEC(struct ig_plan_step) steps;
    IG_VEC(struct ig_plan_step) alternatives; /* come behind all steps */
    IG_VEC(struct ig_subplan) subplans;
    IG_VEC(struct ig_plan_check) checks;
};

/* One graph (the main one or a body) on its way to a subplan. */
struct level {
    struct tables *t;
    struct ig_graph *g;
    bool is_main;
    uint32_t first_slice; /* outputs from here on are slices of a loop's stacked results */
    uint32_t seat;        /* the buffer of the rank's seat; IG_PLAN_NONE: none yet */
    uint32_t *buffer_of;  /* by value; IG_PLAN_NONE: none yet */
    IG_VEC(struct ig_plan_buffer) buffers;
    IG_VEC(struct ig_plan_step) steps;
};

static uint32_t build_level(struct tables *t, struct ig_graph *g, bool is_main, uint32_t first_slice);

static ig_plan_string add_string(struct tables *t, const char *text) {
    uint32_t at;
    if (ig_map_get_name(&t->string_of, text, &at)) return at;
    at = (uint32_t)t->strings.length;
    ig_text_add_n(&t->strings, text, strlen(text) + 1);
    ig_map_put_name(&t->string_of, text, at);
    return at;
}

/* ---- Buffers -------------------------------------------------------------------------------------------------- */

/* The value whose memory v shares: reshapes need none of their own. */
static ig_value memory_of(const struct ig_graph *g, ig_value v) {
    const struct ig_node *n;
    while (!ig_info(g, v)->is_const && (n = ig_def_op(g, v, IG_OP_reshape)) && n->region == IG_NO_REGION)
        v = n->in[0];
    return v;
}

static ig_slot bytes_of(struct level *l, ig_value v) {
    const struct ig_type *type = ig_type_of(l->g, v);
    const struct ig_node *node = ig_def(l->g, v);
    struct ig_where where = {.verb = "compute a tensor's size", .kind = node ? node->origin : ig_info(l->g, v)->name};
    ig_where_push(l->t->job, &where);
    ig_dim size = ig_dim_const(l->g->dims, (int64_t)ingot_dtype_size(type->dtype));
    ig_slot slot = ig_slots_get(&l->t->slots, ig_dim_mul(l->g->dims, ig_type_elements(l->g->dims, type), size));
    ig_where_pop(l->t->job);
    return slot;
}

static uint32_t add_buffer(struct level *l, enum ig_plan_buffer_kind kind, uint32_t index, ig_slot bytes) {
    struct ig_plan_buffer b = {
        .kind = kind, .index = index, .bytes = bytes, .offset = IG_PLAN_NONE, .first = IG_PLAN_NONE, .last = 0};
    IG_PUSH(l->t->job, &l->buffers, b);
    return l->buffers.count - 1;
}

/* After nodes were appended to the graph, which had `before` values. */
static void follow_values(struct level *l, uint32_t before) {
    uint32_t count = l->g->values.count;
    if (count == before) return;
    uint32_t *larger = IG_NEW_ARRAY(l->g->job, uint32_t, count);
    memset(larger, 0xff, count * sizeof *larger);
    memcpy(larger, l->buffer_of, before * sizeof *larger);
    l->buffer_of = larger;
}

static size_t weight_size(struct level *l, ig_value v) {
    int64_t dims[INGOT_MAX_RANK];
    const struct ig_type *type = ig_type_of(l->g, v);
    IG_ASSERT(l->t->job, ig_type_is_static(l->g->dims, type, dims));
    size_t size = ingot_dtype_size(type->dtype);
    for (int i = 0; i < type->rank; i++) {
        if (!ig_size_mul(size, (size_t)dims[i], &size))
            ig_raise(l->t->job, INGOT_BAD_MODEL, "a constant of type %s is too large", ingot_dtype_name(type->dtype));
    }
    return size;
}

/*
 * A concatenation along the first axis, cast or not, is several weights side by side, so that of what comes from different
 * initialisers each is made again by itself: the slots of adapters. Returns the offset behind them.
 */
static uint64_t add_parts(struct level *l, ig_value v, enum ingot_dtype as, uint64_t offset) {
    const struct ig_node *n = ig_def(l->g, v);
    if (n && n->op == IG_OP_cast && ig_type_of(l->g, v)->dtype == as) {
        const struct ig_node *under = ig_def_op(l->g, n->in[0], IG_OP_concat);
        if (under) n = under;
    }
    bool divided = n && n->op == IG_OP_concat && ig_attr_int(l->g, n, IG_ATTR_axis) == 0;
    for (uint32_t i = 0; divided && i < n->n_in; i++)
        divided = ig_info(l->g, n->in[i])->is_refittable;
    if (!divided) {
        struct ig_weight w = {.graph = l->g, .value = v, .offset = offset, .size = weight_size(l, v)};
        IG_PUSH(l->t->job, &l->t->built->weights, w);
        return offset + w.size;
    }
    const ig_value *parts = n->in; /* in the arena: nodes are appended */
    for (uint32_t i = 0, count = n->n_in; i < count; i++)
        offset = add_parts(l, ig_build_cast(l->g, parts[i], as), as, offset);
    return offset;
}

#define COPIED 0x80000000u

/* A part of a stored weight: where it lies if it is one piece, else copies. */
static uint32_t add_part_of_weight(struct tables *t, const struct ig_weight_part *part) {
    const struct ig_weight_copy *first = &t->parts.copies.at[part->first];
    if (part->count == 1 && first->count == 1 && first->from % 64 == 0) return (uint32_t)(first->from / 64);
    const uint64_t offset = t->copies_size;
    for (uint32_t i = 0; i < part->count; i++) {
        struct ig_weight_copy copy = first[i];
        copy.to = t->copies_size;
        IG_PUSH(t->job, &t->copies, copy);
        t->copies_size += copy.piece * copy.count;
    }
    t->copies_size = (t->copies_size + 63) / 64 * 64;
    return COPIED | (uint32_t)(offset / 64);
}

static uint32_t add_stored_weight(struct level *l, ig_value v) {
    struct tables *t = l->t;
    const uint32_t before = l->g->values.count;
    const uint64_t offset = t->weights_size, end = add_parts(l, v, ig_type_of(l->g, v)->dtype, offset);
    follow_values(l, before);
    t->weights_size = (end + 63) / 64 * 64;
    return (uint32_t)(offset / 64);
}

/* What several ranks need alike is stored once, and what are parts of it not again. */
static uint32_t add_weight(struct level *l, ig_value v) {
    struct tables *t = l->t;
    uint32_t known;
    if (!t->has_ranks) return add_stored_weight(l, v);
    const uint32_t class = ig_same_weights_class(&t->same, l->g, v);
    if (ig_map_get(&t->stored, &class, sizeof class, &known)) return known;
    const struct ig_weight_part *part = ig_weight_parts_find(&t->parts, class);
    const uint32_t index = part ? add_part_of_weight(t, part) : add_stored_weight(l, v);
    ig_map_put(&t->stored, &class, sizeof class, index);
    return index;
}

static uint32_t buffer_of(struct level *l, ig_value v);

/* The buffer of a part of a tensor, which lies in the tensor's. */
static uint32_t add_part(struct level *l, ig_value v) {
    struct ig_dims *dims = l->g->dims;
    const struct ig_node *n = ig_def(l->g, v);
    ig_dim begin = IG_DIM_NONE;
    IG_ASSERT(l->t->job, ig_part_begin(l->g, n, &begin));
    ig_dim size = ig_dim_const(dims, (int64_t)ingot_dtype_size(ig_type_of(l->g, v)->dtype));
    uint32_t whole = buffer_of(l, n->in[0]);
    uint32_t part = add_buffer(l, IG_PLAN_ALIAS, whole, bytes_of(l, v));
    l->buffers.at[part].offset = ig_slots_get(&l->t->slots, ig_dim_mul(dims, begin, size));
    return part;
}

/* The buffer that holds v, created at the first request. */
static uint32_t buffer_of(struct level *l, ig_value v) {
    v = memory_of(l->g, v);
    if (l->buffer_of[v] == IG_PLAN_NONE) {
        const struct ig_node *slice = ig_def_op(l->g, v, IG_OP_slice);
        if (ig_info(l->g, v)->is_const)
            l->buffer_of[v] = add_buffer(l, IG_PLAN_WEIGHT, add_weight(l, v), bytes_of(l, v));
        else if (slice && slice->region == IG_NO_REGION)
            l->buffer_of[v] = add_part(l, v);
        else
            l->buffer_of[v] = add_buffer(l, IG_PLAN_ARENA, 0, bytes_of(l, v));
    }
    return l->buffer_of[v];
}

static void touch(struct level *l, uint32_t buffer) {
    IG_ASSERT(l->g->job, buffer < l->buffers.count);
    struct ig_plan_buffer *b = &l->buffers.at[buffer];
    if (b->first == IG_PLAN_NONE) b->first = l->steps.count;
    b->last = l->steps.count;
    if (b->kind == IG_PLAN_ALIAS) touch(l, b->index);
}

static void add_operand(struct level *l, ig_value v) {
    uint32_t buffer = IG_PLAN_NONE;
    if (v != IG_NO_VALUE) {
        buffer = buffer_of(l, v);
        touch(l, buffer);
    }
    IG_PUSH(l->t->job, &l->t->operands, buffer);
}

/* ---- Steps ---------------------------------------------------------------------------------------------------- */

static struct ig_plan_step begin_step(struct level *l, enum ig_plan_step_kind kind) {
    return (struct ig_plan_step){.kind = kind,
                                 .kernel = IG_PLAN_NONE,
                                 .operands = l->t->operands.count,
                                 .dims = l->t->dim_table.count,
                                 .tiles = IG_PLAN_NONE,
                                 .scratch = IG_PLAN_NONE,
                                 .work = IG_PLAN_NONE,
                                 .a = IG_PLAN_NONE,
                                 .b = IG_PLAN_NONE,
                                 .choice = IG_PLAN_NONE};
}

static void finish_step(struct level *l, struct ig_plan_step *step, const char *label) {
    step->n_operands = l->t->operands.count - step->operands;
    step->n_dims = l->t->dim_table.count - step->dims;
    step->label = add_string(l->t, label);
}

static void end_step(struct level *l, struct ig_plan_step *step, const char *label) {
    finish_step(l, step, label);
    IG_PUSH(l->t->job, &l->steps, *step);
}

/* The ONNX nodes that a region came from, each once. */
static const char *region_label(struct ig_graph *g, const struct ig_region *region) {
    struct ig_text text;
    ig_text_init(&text, g->job);
    struct ig_map seen;
    ig_map_init(&seen, g->job);
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        const char *origin = g->nodes.at[region->nodes.at[i]].origin;
        uint32_t known;
        if (!origin || ig_map_get_name(&seen, origin, &known)) continue;
        ig_map_put_name(&seen, origin, 1);
        ig_text_printf(&text, "%s%s", text.length ? ", " : "", origin);
    }
    return text.length ? text.at : ig_op_info(g->nodes.at[region->anchor].op)->name;
}

/* Which inputs became literals follows from their types, so what holds for the kernel's first region holds, position by
 * position, for all that share it. */
static bool input_is_literal(const struct ig_compiled_kernel *k, uint32_t position) {
    for (uint32_t i = 0; i < k->kernel->literals.count; i++) {
        if (k->kernel->literals.at[i] == k->region->inputs.at[position]) return true;
    }
    return false;
}

/* The weight v in the form that a library call needs: a weight of its own. */
static ig_value adapted_weight(struct level *l, const struct ig_kernel *kernel, uint32_t operand, ig_value v) {
    uint32_t before = l->g->values.count;
    IG_ASSERT(l->g->job, ig_info(l->g, v)->is_const);
    v = ig_library_adapted(l->g, kernel, operand, v);
    follow_values(l, before);
    return v;
}

static void add_inputs_of(struct level *l, const struct ig_compiled_kernel *k, const struct ig_region *region) {
    uint32_t operand = 0;
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        ig_value v = region->inputs.at[i];
        if (input_is_literal(k, i)) continue;
        if (ig_library_is_adapted(k->kernel, operand)) v = adapted_weight(l, k->kernel, operand, v);
        add_operand(l, v);
        operand++;
    }
}

/* The slot of a size of a group's kernels, for the region that was added to the group last. */
static ig_slot slot_for(struct tables *t, const struct ig_kernel_group *group, ig_dim dim) {
    const struct ig_fingerprint *from = &group->first, *to = &group->latest;
    IG_ASSERT(t->job, from->n_symbols == to->n_symbols);
    if (from->n_symbols && memcmp(from->symbols, to->symbols, from->n_symbols * sizeof *from->symbols) != 0)
        dim = ig_dim_substitute(t->dims, dim, from->symbols, to->symbols, (int)from->n_symbols);
    return ig_slots_get(&t->slots, dim);
}

/* The number of the `seat` buffer, of which a level has one. */
static uint32_t seat_of(struct level *l) {
    if (l->seat == IG_PLAN_NONE) {
        ig_slot bytes = ig_slots_get(&l->t->slots, ig_dim_const(l->g->dims, sizeof(struct ig_window_seat)));
        l->seat = add_buffer(l, IG_PLAN_SEAT, 0, bytes);
    }
    return l->seat;
}

static void add_seat(struct level *l) {
    const uint32_t seat = seat_of(l);
    touch(l, seat);
    IG_PUSH(l->t->job, &l->t->operands, seat);
}

/* A region's step by one of the kernels of its group. */
static struct ig_plan_step make_kernel_step(struct level *l, const struct ig_region *region,
                                            const struct ig_kernel_group *group, uint32_t kernel) {
    struct tables *t = l->t;
    struct ig_plan_step step = begin_step(l, IG_STEP_KERNEL);
    step.kernel = kernel;
    const struct ig_compiled_kernel *k = &t->set->kernels.at[kernel];
    add_inputs_of(l, k, region);
    for (uint32_t i = 0; i < region->outputs.count; i++)
        add_operand(l, region->outputs.at[i]);
    if (region->pushed) add_seat(l);
    for (uint32_t i = 0; i < k->kernel->dims.count; i++)
        IG_PUSH(t->job, &t->dim_table, slot_for(t, group, k->kernel->dims.at[i]));
    step.tiles = slot_for(t, group, k->kernel->tiles);
    step.scratch = slot_for(t, group, k->kernel->scratch_bytes);
    step.work = slot_for(t, group, k->kernel->work);
    finish_step(l, &step, region_label(l->g, region));
    return step;
}

static void add_kernel_step(struct level *l, const struct ig_region *region) {
    struct tables *t = l->t;
    const struct ig_kernel_group *group = ig_kernel_set_add(t->set, l->g, region);
    struct ig_plan_step step = make_kernel_step(l, region, group, group->kernels.at[0]);
    step.alternatives = t->alternatives.count;
    for (uint32_t i = 1; i < group->kernels.count; i++) {
        struct ig_plan_step other = make_kernel_step(l, region, group, group->kernels.at[i]);
        IG_PUSH(t->job, &t->alternatives, other);
        step.n_alternatives++;
    }
    if (group->variants) step.choice = slot_for(t, group, group->variants->decision.kernel);
    IG_PUSH(t->job, &l->steps, step);
}

static void add_control_step(struct level *l, const struct ig_region *region) {
    struct ig_node node = l->g->nodes.at[region->anchor];
    bool is_if = node.op == IG_OP_if;
    uint32_t carried = is_if ? 0 : (uint32_t)ig_attr_int(l->g, &node, IG_ATTR_carried);
    uint32_t a = build_level(l->t, node.body[0], false, is_if ? IG_PLAN_NONE : 1 + carried);
    uint32_t b = is_if ? build_level(l->t, node.body[1], false, IG_PLAN_NONE) : IG_PLAN_NONE;
    struct ig_plan_step step = begin_step(l, is_if ? IG_STEP_IF : IG_STEP_LOOP);
    step.a = a;
    step.b = b;
    step.n_carried = carried;
    step.n_inputs = is_if ? node.n_in - 1 : node.n_in - 2 - step.n_carried;
    for (uint32_t i = 0; i < node.n_in; i++)
        add_operand(l, node.in[i]);
    for (uint32_t i = 0; i < node.n_out; i++)
        add_operand(l, node.out + i);
    end_step(l, &step, region_label(l->g, region));
}

/* ---- Collectives ---- */

/* The entry of the collective table. */
static uint32_t collective_entry(struct tables *t, const struct ig_collective *c) {
    for (uint32_t i = 0; i < t->collectives.count; i++) {
        if (memcmp(&t->collectives.at[i], c, sizeof *c) == 0) return i;
    }
    IG_PUSH(t->job, &t->collectives, *c);
    return t->collectives.count - 1;
}

/* A kernel of collectives in the place of a step that is under way, for GPUs which reach each other's memory: the region's
 * operands, then the seat, and the number of the collective as the first dim. */
static void add_exchange(struct level *l, const struct ig_region *region, struct ig_plan_step *step) {
    struct tables *t = l->t;
    const struct ig_node *n = &l->g->nodes.at[region->anchor];
    const ig_dim number = ig_exchange_number(t->dims),
                 own = ig_dim_const(t->dims, ig_attr_int(l->g, n, IG_ATTR_number));
    const struct ig_kernel_group *group = ig_kernel_set_add(t->set, l->g, region);
    const struct ig_compiled_kernel *k = &t->set->kernels.at[group->kernels.at[0]];
    struct ig_plan_step other = begin_step(l, IG_STEP_KERNEL);
    other.kernel = group->kernels.at[0];
    add_inputs_of(l, k, region);
    for (uint32_t i = 0; i < region->outputs.count; i++)
        add_operand(l, region->outputs.at[i]);
    add_seat(l);
    for (uint32_t i = 0; i < k->kernel->dims.count; i++) {
        ig_dim dim = k->kernel->dims.at[i];
        IG_PUSH(t->job, &t->dim_table, dim == number ? ig_slots_get(&t->slots, own) : slot_for(t, group, dim));
    }
    other.tiles = slot_for(t, group, k->kernel->tiles);
    other.scratch = slot_for(t, group, k->kernel->scratch_bytes);
    other.work = slot_for(t, group, k->kernel->work);
    finish_step(l, &other, region_label(l->g, region));
    if (step->n_alternatives++ == 0) step->alternatives = t->alternatives.count;
    IG_PUSH(t->job, &t->alternatives, other);
}

/* What one rank sends to another. The others send it nothing, which is no exchange, but each region has a step. */
static void add_pair_step(struct level *l, const struct ig_region *region) {
    struct tables *t = l->t;
    const struct ig_node n = l->g->nodes.at[region->anchor];
    const int own = (int)ig_attr_int(l->g, &n, IG_ATTR_rank), from = ig_gathers_from(l->g, &n), to = region->reader - 1;
    const bool sends = own != to;
    const struct ig_collective what = {.kind = sends ? IG_SEND : IG_RECEIVE,
                                       .dtype = (uint32_t)ig_type_of(l->g, n.out)->dtype,
                                       .peer = (uint32_t)(own == from ? to : from)};
    const ig_value given = sends ? n.in[0] : n.out;
    struct ig_plan_step step = begin_step(l, IG_STEP_COLLECTIVE);
    step.kernel = collective_entry(t, &what);
    add_operand(l, sends ? given : IG_NO_VALUE);
    add_operand(l, sends ? IG_NO_VALUE : given);
    IG_PUSH(t->job, &t->dim_table, ig_slots_get(&t->slots, ig_dim_const(t->dims, 1)));
    IG_PUSH(t->job, &t->dim_table, ig_slots_get(&t->slots, ig_type_elements(t->dims, ig_type_of(l->g, given))));
    for (int r = 0; r < ig_attr(l->g, &n, IG_ATTR_parts)->count; r++)
        IG_PUSH(t->job, &t->dim_table, ig_slots_get(&t->slots, ig_dim_const(t->dims, 0)));
    finish_step(l, &step, region_label(l->g, region));
    IG_PUSH(t->job, &l->steps, step);
}

/* What is joined to the collective begins before the product has ended that pushes its rows, so that what that reads must not be
 * written yet. */
static void keep_operands(struct level *l, const struct ig_region *product) {
    for (uint32_t i = 0; i < product->inputs.count; i++) {
        const ig_value v = product->inputs.at[i];
        if (l->buffer_of[v] != IG_PLAN_NONE) touch(l, l->buffer_of[v]);
    }
}

static void add_collective_step(struct level *l, const struct ig_region *region) {
    const struct ig_node n = l->g->nodes.at[region->anchor];
    const struct ig_collective what = ig_exchange_collective(l->g, &n);
    ig_dim sizes[IG_EXCHANGE_MOST_SIZES];
    IG_ASSERT(l->t->job, l->t->has_ranks);
    struct ig_plan_step step = begin_step(l, IG_STEP_COLLECTIVE);
    step.kernel = collective_entry(l->t, &what);
    add_operand(l, n.in[0]);
    add_operand(l, n.out);
    const uint32_t count = ig_exchange_sizes(l->g, &n, sizes);
    for (uint32_t i = 0; i < count; i++)
        IG_PUSH(l->t->job, &l->t->dim_table, ig_slots_get(&l->t->slots, sizes[i]));
    finish_step(l, &step, region_label(l->g, region));
    if (ig_exchange_has_kernel(l->g, region, l->t->set->target)) add_exchange(l, region, &step);
    if (region->joined && step.n_alternatives > 0) add_exchange(l, region->joined, &step);
    if (region->joined && region->joined->pushed) keep_operands(l, region - 1);
    IG_PUSH(l->t->job, &l->steps, step);
}

static void add_step(struct level *l, const struct ig_region *region) {
    struct ig_where where = {.verb = "compile a kernel", .kind = region_label(l->g, region)};
    ig_where_push(l->t->job, &where);
    if (region->family == IG_FAMILY_CONTROL) {
        add_control_step(l, region);
    } else if (region->family == IG_FAMILY_COLLECTIVE) {
        if (region->reader)
            add_pair_step(l, region);
        else
            add_collective_step(l, region);
    } else {
        add_kernel_step(l, region);
    }
    ig_where_pop(l->t->job);
}

/* ---- Inputs and outputs --------------------------------------------------------------------------------------- */

static uint32_t add_tensor(struct level *l, const struct ig_port *port, uint32_t buffer) {
    struct tables *t = l->t;
    const struct ig_type *type = ig_type_of(l->g, port->value);
    struct ig_plan_tensor tensor = {.name = add_string(t, port->name ? port->name : ""),
                                    .dtype = (uint32_t)type->dtype,
                                    .rank = (uint32_t)type->rank,
                                    .buffer = buffer,
                                    .updates = port->updates};
    for (int i = 0; i < INGOT_MAX_RANK; i++) {
        bool used = i < type->rank;
        tensor.dims[i] = used ? ig_slots_get(&t->slots, type->dim[i]) : IG_PLAN_NONE;
        tensor.symbols[i] = used ? add_string(t, ig_dim_text(l->g->dims, type->dim[i])) : add_string(t, "");
    }
    IG_PUSH(t->job, &t->tensors, tensor);
    return t->tensors.count - 1;
}

static void add_inputs(struct level *l) {
    for (uint32_t i = 0; i < l->g->inputs.count; i++) {
        ig_value v = l->g->inputs.at[i].value;
        l->buffer_of[v] = add_buffer(l, IG_PLAN_INPUT, i, bytes_of(l, v));
    }
}

/* Is output i where a kernel can write it? Slices lie end to end; only kernels for GPUs need aligned memory. */
static bool output_is_aligned(const struct level *l, uint32_t i) {
    const struct ig_type *type = ig_type_of(l->g, l->g->outputs.at[i].value);
    return i < l->first_slice ||
           ig_part_is_aligned(l->g, l->t->set->target, type->dtype, ig_type_elements(l->g->dims, type));
}

/* How many operands, results included, read the memory of v. */
static uint32_t count_readers(const struct level *l, ig_value v) {
    uint32_t count = 0;
    for (ig_node_id id = 0; id < l->g->nodes.count; id++) {
        const struct ig_node *n = &l->g->nodes.at[id];
        if (n->op == IG_OP_reshape && n->region == IG_NO_REGION) continue;
        for (uint32_t i = 0; i < n->n_in; i++)
            count += n->in[i] != IG_NO_VALUE && memory_of(l->g, n->in[i]) == v;
    }
    for (uint32_t i = 0; i < l->g->outputs.count; i++)
        count += memory_of(l->g, l->g->outputs.at[i].value) == v;
    return count;
}

/* May a kernel write v, an output that is stored in an input's memory, there directly? A scatter may, into the data that nothing
 * else reads; whatever else is copied there at the end of the run. */
static bool is_updated_in_place(const struct level *l, const struct ig_port *port, ig_value v) {
    ig_value input = l->g->inputs.at[port->updates - 1].value;
    const struct ig_node *n = ig_info(l->g, v)->is_const ? NULL : ig_def(l->g, v);
    if (!n || (n->op != IG_OP_scatter_nd && n->op != IG_OP_scatter_elements) || n->region == IG_NO_REGION) return false;
    return l->g->regions.at[n->region].anchor == (ig_node_id)(n - l->g->nodes.at) &&
           memory_of(l->g, n->in[0]) == input && count_readers(l, input) == 1;
}

/* Values that a kernel computes are written to the output's memory directly; an input, a constant, a value that is an
 * output already or one whose output is not aligned must be copied. Returns the outputs' buffers. */
static uint32_t *add_outputs(struct level *l) {
    uint32_t *buffers = IG_NEW_ARRAY(l->t->job, uint32_t, l->g->outputs.count + 1);
    for (uint32_t i = 0; i < l->g->outputs.count; i++) {
        ig_value v = memory_of(l->g, l->g->outputs.at[i].value);
        buffers[i] = add_buffer(l, IG_PLAN_OUTPUT, i, bytes_of(l, v));
        bool taken = ig_info(l->g, v)->is_const || l->buffer_of[v] != IG_PLAN_NONE;
        if (l->g->outputs.at[i].updates) taken |= !is_updated_in_place(l, &l->g->outputs.at[i], v);
        if (!taken && output_is_aligned(l, i)) l->buffer_of[v] = buffers[i];
    }
    return buffers;
}

/* Where regions store the operands of an output that they share. */
static void add_stored_parts(struct level *l, ig_value output) {
    struct ig_dims *dims = l->g->dims;
    const struct ig_node *concat = ig_part_stored(l->g, output);
    ig_dim before = ig_dim_const(dims, 0);
    for (uint32_t i = 0; concat && i < concat->n_in; i++) {
        const struct ig_type *type = ig_type_of(l->g, concat->in[i]);
        ig_value v = memory_of(l->g, concat->in[i]);
        if (l->buffer_of[v] != IG_PLAN_NONE) return; /* the output is one already */
        ig_dim size = ig_dim_const(dims, (int64_t)ingot_dtype_size(type->dtype));
        l->buffer_of[v] = add_buffer(l, IG_PLAN_ALIAS, l->buffer_of[concat->out], bytes_of(l, v));
        l->buffers.at[l->buffer_of[v]].offset = ig_slots_get(&l->t->slots, ig_dim_mul(dims, before, size));
        before = ig_dim_add(dims, before, ig_type_elements(dims, type));
    }
}

static void add_copy(struct level *l, uint32_t from, uint32_t to) {
    struct ig_plan_step step = begin_step(l, IG_STEP_COPY);
    touch(l, from);
    touch(l, to);
    IG_PUSH(l->t->job, &l->t->operands, from);
    IG_PUSH(l->t->job, &l->t->operands, to);
    end_step(l, &step, "copy to output");
}

/* Is the value an input that an output updates? */
static bool is_updated_input(const struct level *l, ig_value v) {
    for (uint32_t i = 0; i < l->g->outputs.count; i++) {
        uint32_t updates = l->g->outputs.at[i].updates;
        if (updates && l->g->inputs.at[updates - 1].value == memory_of(l->g, v)) return true;
    }
    return false;
}

/* Those that update inputs come last, since others may read these; what goes from one such input to another, by way of the
 * arena. */
static void add_output_copies(struct level *l, const uint32_t *buffers) {
    const uint32_t count = l->g->outputs.count;
    uint32_t *from = IG_NEW_ARRAY(l->t->job, uint32_t, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        from[i] = buffer_of(l, l->g->outputs.at[i].value);
        if (from[i] != buffers[i] && !l->g->outputs.at[i].updates) add_copy(l, from[i], buffers[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct ig_port *port = &l->g->outputs.at[i];
        if (!port->updates || !is_updated_input(l, port->value)) continue;
        if (memory_of(l->g, port->value) == l->g->inputs.at[port->updates - 1].value) continue; /* it stays */
        uint32_t beside = add_buffer(l, IG_PLAN_ARENA, 0, bytes_of(l, port->value));
        add_copy(l, from[i], beside);
        from[i] = beside;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (from[i] != buffers[i] && l->g->outputs.at[i].updates) add_copy(l, from[i], buffers[i]);
    }
}

/* Adds checks of the dims that the graph's shape rules assumed to be equal. */
static void add_checks(struct tables *t, const struct ig_graph *g, struct ig_subplan *sub) {
    sub->checks = t->checks.count;
    for (uint32_t i = 0; i < g->assumptions.count; i++) {
        ig_dim a = ig_dim_refresh(t->dims, g->assumptions.at[i].a), b = ig_dim_refresh(t->dims, g->assumptions.at[i].b);
        if (ig_dim_equal(t->dims, a, b) == IG_YES) continue; /* equal by the symbols' ranges, which are checked */
        const char *text = ig_format(t->job, "%s == %s", ig_dim_text(t->dims, a), ig_dim_text(t->dims, b));
        struct ig_plan_check check = {ig_slots_get(&t->slots, a), ig_slots_get(&t->slots, b), add_string(t, text)};
        IG_PUSH(t->job, &t->checks, check);
    }
    sub->n_checks = t->checks.count - sub->checks;
}

/* ---- Levels --------------------------------------------------------------------------------------------------- */

/* Bodies come before the step that runs them, so the subplan's place is reserved first: the main plan is number 0. */
static uint32_t build_level(struct tables *t, struct ig_graph *g, bool is_main, uint32_t first_slice) {
    struct level l = {.t = t, .g = g, .is_main = is_main, .first_slice = first_slice, .seat = IG_PLAN_NONE};
    uint32_t self = t->subplans.count;
    IG_PUSH(t->job, &t->subplans, (struct ig_subplan){0});
    l.buffer_of = IG_NEW_ARRAY(t->job, uint32_t, g->values.count + 1);
    memset(l.buffer_of, 0xff, sizeof *l.buffer_of * g->values.count);
    add_inputs(&l);
    uint32_t *out_buffers = add_outputs(&l);
    for (uint32_t i = 0; i < g->outputs.count && is_main; i++)
        add_stored_parts(&l, g->outputs.at[i].value);
    for (uint32_t r = 0; r < g->regions.count; r++)
        add_step(&l, &g->regions.at[r]);
    add_output_copies(&l, out_buffers);
    struct ig_subplan sub = {.inputs = t->tensors.count, .n_inputs = g->inputs.count};
    for (uint32_t i = 0; i < g->inputs.count; i++)
        add_tensor(&l, &g->inputs.at[i], l.buffer_of[g->inputs.at[i].value]);
    sub.outputs = t->tensors.count;
    sub.n_outputs = g->outputs.count;
    for (uint32_t i = 0; i < g->outputs.count; i++)
        add_tensor(&l, &g->outputs.at[i], out_buffers[i]);
    sub.buffers = t->buffers.count;
    sub.n_buffers = l.buffers.count;
    for (uint32_t i = 0; i < l.buffers.count; i++) {
        if (l.buffers.at[i].first == IG_PLAN_NONE) l.buffers.at[i].first = 0;
        IG_PUSH(t->job, &t->buffers, l.buffers.at[i]);
    }
    sub.steps = t->steps.count;
    sub.n_steps = l.steps.count;
    for (uint32_t i = 0; i < l.steps.count; i++)
        IG_PUSH(t->job, &t->steps, l.steps.at[i]);
    add_checks(t, g, &sub);
    t->subplans.at[self] = sub;
    return self;
}

static void add_kernels(struct tables *t, struct ig_plan *plan) {
    struct ig_kernel_set *set = t->set;
    struct ig_plan_kernel *kernels = IG_NEW_ARRAY(t->job, struct ig_plan_kernel, set->kernels.count + 1);
    struct ig_library_call *calls = IG_NEW_ARRAY(t->job, struct ig_library_call, set->kernels.count + 1);
    for (uint32_t i = 0; i < set->kernels.count; i++) {
        const struct ig_compiled_kernel *k = &set->kernels.at[i];
        kernels[i].name = add_string(t, k->symbol);
        kernels[i].fingerprint = add_string(t, k->fingerprint);
        kernels[i].tactic = add_string(t, k->kernel->tactic ? k->kernel->tactic : "");
        kernels[i].threads = (uint32_t)k->kernel->threads;
        kernels[i].shared_bytes = (uint32_t)k->kernel->shared_bytes;
        kernels[i].waits = ig_target_has_early_start(set->target);
        kernels[i].lasting = (uint32_t)k->kernel->lasting;
        kernels[i].turn = (uint32_t)k->kernel->turn;
        kernels[i].whole = k->kernel->whole;
        kernels[i].kind = ig_target_is_cuda(set->target) ? IG_CPU_UNKNOWN : ig_expect_cpu_kind(k->kernel);
        kernels[i].n_maps = (uint32_t)k->kernel->n_maps;
        memcpy(kernels[i].maps, k->kernel->maps, sizeof kernels[i].maps);
        if (!k->kernel->library) continue;
        kernels[i].waits = 0;
        kernels[i].threads = kernels[i].shared_bytes = 0;
        calls[plan->n_calls] = *k->kernel->library;
        kernels[i].library = ++plan->n_calls;
    }
    plan->calls = calls;
    plan->kernels = kernels;
    plan->n_kernels = set->kernels.count;
}

/* Appends the alternatives to the steps. */
static void add_alternatives(struct tables *t) {
    uint32_t first = t->steps.count;
    for (uint32_t i = 0; i < first; i++)
        t->steps.at[i].alternatives += first;
    for (uint32_t i = 0; i < t->alternatives.count; i++)
        IG_PUSH(t->job, &t->steps, t->alternatives.at[i]);
}

/* ---- Demands -------------------------------------------------------------------------------------------------- */

static void set_demand(struct tables *t, uint32_t index, uint32_t demand) {
    struct ig_plan_step *step = &t->steps.at[index];
    step->demand = demand;
    for (uint32_t i = 0; i < step->n_alternatives; i++)
        t->steps.at[step->alternatives + i].demand = demand;
}

/* The steps of a level are its regions, then copies to outputs. */
static void add_demands(struct tables *t, struct ig_demands *demands, struct ig_graph *g, uint32_t subplan) {
    const struct ig_subplan sub = t->subplans.at[subplan];
    for (uint32_t i = 0; i < sub.n_steps; i++) {
        const struct ig_plan_step step = t->steps.at[sub.steps + i];
        if (step.kind == IG_STEP_COPY) {
            const struct ig_plan_buffer *buffer = &t->buffers.at[sub.buffers + t->operands.at[step.operands]];
            set_demand(t, sub.steps + i, ig_demands_of_copy(demands, buffer->bytes));
            continue;
        }
        const struct ig_region *region = &g->regions.at[i];
        if (step.kind == IG_STEP_KERNEL) set_demand(t, sub.steps + i, ig_demands_of_region(demands, g, region));
        struct ig_graph *const *body = g->nodes.at[region->anchor].body;
        if (step.a != IG_PLAN_NONE) add_demands(t, demands, body[0], step.a);
        if (step.b != IG_PLAN_NONE) add_demands(t, demands, body[1], step.b);
    }
}

/* The symbols whose rows are examined; a walk over the graph each. */
enum { MOST_EXAMINED = 64 };

static const char *mixes(struct tables *t, struct ig_graph *imported, uint32_t symbol) {
    if (t->has_ranks) return "several ranks must take the same parts of a run";
    if (symbol < MOST_EXAMINED) return ig_rows_mixed(imported, ig_dim_symbol(t->dims, t->slots.names.at[symbol]));
    return ig_format(t->job, "not examined, being one of %u sizes", t->slots.symbols.count);
}

static void add_symbols(struct tables *t, struct ig_graph *imported, struct ig_plan *plan) {
    for (uint32_t i = 0; i < t->slots.symbols.count; i++) {
        struct ig_plan_symbol *symbol = &t->slots.symbols.at[i];
        const char *reason = mixes(t, imported, i);
        symbol->name = add_string(t, t->slots.names.at[i]);
        symbol->mixes = reason ? add_string(t, reason) : IG_PLAN_NONE;
    }
    plan->symbols = t->slots.symbols.at;
    plan->n_symbols = t->slots.symbols.count;
}

/* Outputs of all ranks have the types of the first one's: what the ranks' own rules infer may be written in other forms. One of
 * which a rank has nothing stays so. */
static void take_tensors(struct tables *t, uint32_t first, uint32_t subplan) {
    const struct ig_subplan *a = &t->subplans.at[first], *b = &t->subplans.at[subplan];
    const ig_slot nothing = ig_slots_get(&t->slots, ig_dim_const(t->dims, 0));
    for (uint32_t i = 0; i < a->n_outputs; i++) {
        struct ig_plan_tensor *to = &t->tensors.at[b->outputs + i];
        const struct ig_plan_tensor own = *to;
        *to = t->tensors.at[a->outputs + i];
        to->buffer = own.buffer;
        if (own.rank > 0 && own.dims[0] == nothing) to->dims[0] = nothing;
    }
}

/* What a rank has of weights that are stored for fewer ranks, as parts of theirs. */
static void find_parts(struct tables *t, const struct ig_rank_graph *graphs, uint32_t own) {
    const struct ig_rank_graph *r = &graphs[own];
    const uint32_t count = t->built->weights.count;
    for (uint32_t i = 0; i < count; i++) {
        const struct ig_weight stored = t->built->weights.at[i];
        const struct ig_rank_graph *of = graphs;
        while (of < r && of->graph != stored.graph)
            of++;
        const uint32_t parts = r->ranks / of->ranks; /* 1 if a body has it */
        if (parts > 1 && r->ranks % of->ranks == 0 && r->rank / parts == of->rank)
            ig_weight_parts_add(&t->parts, &stored, (int)parts, (int)(r->rank % parts));
    }
}

/* Copies come behind the stored weights, whose size is known now. */
static void place_copies(struct tables *t, struct ig_plan *plan) {
    for (uint32_t i = 0; i < t->copies.count; i++)
        t->copies.at[i].to += t->weights_size;
    for (uint32_t i = 0; i < t->buffers.count; i++) {
        struct ig_plan_buffer *b = &t->buffers.at[i];
        if (b->kind == IG_PLAN_WEIGHT && (b->index & COPIED))
            b->index = (b->index & ~COPIED) + (uint32_t)(t->weights_size / 64);
    }
    plan->copies = t->copies.at;
    plan->n_copies = t->copies.count;
}

static void add_ranks(struct tables *t, const struct ig_rank_graph *graphs, uint32_t count, struct ig_plan *plan) {
    struct ig_plan_rank *ranks = IG_NEW_ARRAY(t->job, struct ig_plan_rank, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        find_parts(t, graphs, i);
        uint32_t subplan = build_level(t, graphs[i].graph, true, IG_PLAN_NONE);
        ranks[i] = (struct ig_plan_rank){.ranks = graphs[i].ranks, .rank = graphs[i].rank, .subplan = subplan};
        if (i > 0) take_tensors(t, 0, subplan);
    }
    plan->ranks = ranks;
    plan->n_ranks = t->has_ranks ? count : 0;
}

void ig_plan_build(struct ig_graph *g, struct ig_graph *imported, struct ig_kernel_set *set,
                   struct ig_built_plan *out_built) {
    const struct ig_rank_graph alone = {.graph = g, .ranks = 1};
    ig_plan_build_ranks(&alone, 1, imported, set, out_built);
}

void ig_plan_build_ranks(const struct ig_rank_graph *graphs, uint32_t count, struct ig_graph *imported,
                         struct ig_kernel_set *set, struct ig_built_plan *out_built) {
    struct ig_graph *first = graphs[0].graph;
    *out_built = (struct ig_built_plan){0};
    struct tables t = {.job = first->job, .dims = first->dims, .set = set, .built = out_built};
    t.has_ranks = count > 1 || graphs[0].ranks > 1;
    ig_slots_init(&t.slots, first);
    ig_text_init(&t.strings, t.job);
    ig_map_init(&t.string_of, t.job);
    ig_map_init(&t.stored, t.job);
    ig_same_weights_init(&t.same, t.job);
    ig_weight_parts_init(&t.parts, t.job, &t.same);
    struct ig_plan *p = &out_built->plan;
    add_ranks(&t, graphs, count, p);
    place_copies(&t, p);
    add_alternatives(&t);
    struct ig_demands demands;
    ig_demands_init(&demands, &t.slots);
    for (uint32_t i = 0; i < count; i++)
        add_demands(&t, &demands, graphs[i].graph, p->ranks[i].subplan);
    ig_demands_finish(&demands, p);
    add_symbols(&t, imported, p);
    add_kernels(&t, p);
    p->tensors = t.tensors.at, p->n_tensors = t.tensors.count;
    p->buffers = t.buffers.at, p->n_buffers = t.buffers.count;
    p->operands = t.operands.at, p->n_operands = t.operands.count;
    p->dims = t.dim_table.at, p->n_dims = t.dim_table.count;
    p->steps = t.steps.at, p->n_steps = t.steps.count;
    p->subplans = t.subplans.at, p->n_subplans = t.subplans.count;
    p->checks = t.checks.at, p->n_checks = t.checks.count;
    p->collectives = t.collectives.at, p->n_collectives = t.collectives.count;
    p->strings = t.strings.at, p->strings_size = (uint32_t)t.strings.length;
}

void ig_plan_set_entries(struct ig_built_plan *built, const struct ig_kernel_set *set) {
    struct ig_plan_kernel *kernels = (struct ig_plan_kernel *)built->plan.kernels;
    for (uint32_t i = 0; i < set->kernels.count; i++) {
        const struct ig_compiled_kernel *k = &set->kernels.at[i];
        kernels[i].entry = k->source ? set->code.entries[k->code_index] : 0;
        kernels[i].portable = k->source && set->code.portable ? set->code.portable[k->code_index] : UINT64_MAX;
    }
}
