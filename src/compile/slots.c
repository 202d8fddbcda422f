/* Emits the shape program; see slots.h. */
#include "compile/slots.h"

static void add_symbol(struct ig_slots *s, ig_dim dim, uint32_t input, uint32_t axis, uint32_t element) {
    struct ig_dim_view view = ig_dim_look(s->dims, dim);
    uint32_t known;
    if (view.kind != IG_DIM_SYMBOL || ig_map_get_name(&s->symbol_of, view.name, &known)) return;
    struct ig_plan_symbol symbol = {.input = input, .axis = axis, .element = element};
    ig_dim_range(s->dims, dim, &symbol.lo, &symbol.hi);
    if (ig_dim_is_fixed(s->dims, dim)) symbol.lo = symbol.hi;
    ig_map_put_name(&s->symbol_of, view.name, s->symbols.count);
    IG_PUSH(s->job, &s->symbols, symbol);
    IG_PUSH(s->job, &s->names, view.name);
}

void ig_slots_init(struct ig_slots *s, struct ig_graph *g) {
    *s = (struct ig_slots){.job = g->job, .dims = g->dims};
    ig_map_init(&s->symbol_of, g->job);
    ig_map_init(&s->slot_of, g->job);
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_type *type = ig_type_of(g, g->inputs.at[i].value);
        for (int axis = 0; axis < type->rank; axis++)
            add_symbol(s, type->dim[axis], i, (uint32_t)axis, 0);
    }
    for (uint32_t i = 0; i < g->inputs.count; i++) {
        const struct ig_value_info *info = ig_info(g, g->inputs.at[i].value);
        int64_t dims[INGOT_MAX_RANK];
        if (!info->elements || !ig_type_is_static(g->dims, &info->type, dims)) continue;
        int64_t count = info->type.rank == 0 ? 1 : dims[0];
        for (int64_t k = 0; k < count; k++) {
            if (info->elements[k] != IG_DIM_NONE) add_symbol(s, info->elements[k], i, IG_PLAN_NONE, (uint32_t)k);
        }
    }
}

static ig_slot add_instr(struct ig_slots *s, ig_dim dim, struct ig_shape_instr instr) {
    ig_slot slot = s->symbols.count + s->instrs.count;
    IG_PUSH(s->job, &s->instrs, instr);
    ig_map_put(&s->slot_of, &dim, sizeof dim, slot);
    return slot;
}

static ig_slot add_binary(struct ig_slots *s, ig_dim dim, uint32_t op, const struct ig_dim_view *view) {
    ig_slot a = ig_slots_get(s, view->a), b = ig_slots_get(s, view->b);
    return add_instr(s, dim, (struct ig_shape_instr){.op = op, .a = a, .b = b});
}

ig_slot ig_slots_get(struct ig_slots *s, ig_dim dim) {
    uint32_t slot;
    if (ig_map_get(&s->slot_of, &dim, sizeof dim, &slot)) return slot;
    struct ig_dim_view view = ig_dim_look(s->dims, dim);
    switch (view.kind) {
    case IG_DIM_CONST: return add_instr(s, dim, (struct ig_shape_instr){.op = IG_SHAPE_CONST, .value = view.value});
    case IG_DIM_ADD: return add_binary(s, dim, IG_SHAPE_ADD, &view);
    case IG_DIM_MUL: return add_binary(s, dim, IG_SHAPE_MUL, &view);
    case IG_DIM_DIV: return add_binary(s, dim, IG_SHAPE_DIV, &view);
    case IG_DIM_MOD: return add_binary(s, dim, IG_SHAPE_MOD, &view);
    case IG_DIM_MIN: return add_binary(s, dim, IG_SHAPE_MIN, &view);
    case IG_DIM_MAX: return add_binary(s, dim, IG_SHAPE_MAX, &view);
    case IG_DIM_SYMBOL: break;
    }
    if (!ig_map_get_name(&s->symbol_of, view.name, &slot))
        ig_raise(s->job, INGOT_UNSUPPORTED, "the size '%s' is not known from the shapes or contents of the inputs",
                 view.name);
    return slot;
}

struct known {
    const struct ig_slots *slots;
    bool all;
};

static void visit_symbol(void *user, ig_dim symbol) {
    struct known *known = user;
    uint32_t index;
    const char *name = ig_dim_look(known->slots->dims, symbol).name;
    known->all = known->all && ig_map_get_name(&known->slots->symbol_of, name, &index);
}

bool ig_slots_knows(const struct ig_slots *s, ig_dim dim) {
    struct known known = {s, true};
    ig_dim_symbols(s->dims, dim, visit_symbol, &known);
    return known.all;
}
