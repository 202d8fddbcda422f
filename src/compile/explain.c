/* The explanation as JSON; see explain.h. Written without a library: the only difficulty in writing JSON is
 * escaping. */
#include "compile/explain.h"

#include <string.h>

#include "base/text.h"
#include "ir/build.h"

void ig_explain_string(struct ig_text *t, const char *s) {
    ig_text_add(t, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            ig_text_printf(t, "\\%c", c);
        else if (c == '\n')
            ig_text_add(t, "\\n");
        else if (c < 0x20)
            ig_text_printf(t, "\\u%04x", c);
        else
            ig_text_add_n(t, s, 1);
    }
    ig_text_add(t, "\"");
}

static void put_field(struct ig_text *t, const char *name, const char *value) {
    ig_explain_string(t, name);
    ig_text_add(t, ": ");
    ig_explain_string(t, value);
}

static void put_ports(struct ig_text *t, struct ig_graph *g, const char *name, const struct ig_port *ports,
                      uint32_t count) {
    ig_text_printf(t, "  \"%s\": [", name);
    for (uint32_t i = 0; i < count; i++) {
        struct ig_text type;
        ig_text_init(&type, g->job);
        ig_type_print(g->dims, ig_type_of(g, ports[i].value), &type);
        ig_text_add(t, i ? ", {" : "{");
        put_field(t, "name", ports[i].name ? ports[i].name : "");
        ig_text_add(t, ", ");
        put_field(t, "type", type.at);
        if (ports[i].updates) ig_text_add(t, ", ");
        if (ports[i].updates) put_field(t, "updates", g->inputs.at[ports[i].updates - 1].name);
        ig_text_add(t, "}");
    }
    ig_text_add(t, "],\n");
}

static void put_symbols(struct ig_text *t, const struct ig_plan *plan) {
    ig_text_add(t, "  \"symbols\": [");
    for (uint32_t i = 0; i < plan->n_symbols; i++) {
        const struct ig_plan_symbol *symbol = &plan->symbols[i];
        ig_text_add(t, i ? ", {" : "{");
        put_field(t, "name", plan->strings + symbol->name);
        ig_text_printf(t, ", \"lo\": %lld, \"hi\": %lld", (long long)symbol->lo, (long long)symbol->hi);
        if (symbol->mixes != IG_PLAN_NONE) {
            ig_text_add(t, ", ");
            put_field(t, "mixes", plan->strings + symbol->mixes);
        }
        ig_text_add(t, "}");
    }
    ig_text_add(t, "],\n");
}

static void put_passes(struct ig_text *t, const struct ig_explanation *e) {
    ig_text_add(t, "  \"passes\": [");
    for (uint32_t i = 0; i < e->passes.count; i++) {
        const struct ig_pass_report *p = &e->passes.at[i];
        ig_text_add(t, i ? ",\n    {" : "\n    {");
        put_field(t, "name", p->name);
        ig_text_printf(t, ", \"ran\": %s, \"nodes_before\": %u, \"nodes_after\": %u}", p->ran ? "true" : "false",
                       p->nodes_before, p->nodes_after);
    }
    ig_text_add(t, "\n  ],\n");
}

static void put_ops(struct ig_text *t, struct ig_graph *g, const struct ig_region *region) {
    ig_text_add(t, "\"ops\": [");
    for (uint32_t i = 0; i < region->nodes.count; i++)
        ig_text_printf(t, "%s\"%s\"", i ? ", " : "", ig_op_info(g->nodes.at[region->nodes.at[i]].op)->name);
    ig_text_add(t, "]");
}

/* Adds a type to a list that begins at `start`, unless it is there. */
static void add_type(struct ig_text *t, size_t start, const char *type) {
    size_t length = strlen(type);
    for (const char *at = t->length > start ? t->at + start : NULL; at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strncmp(at, type, length) == 0 && (at[length] == 0 || at[length] == ',')) return;
    }
    ig_text_printf(t, "%s%s", t->length > start ? ", " : "", type);
}

static void add_float(struct ig_text *t, size_t start, const struct ig_graph *g, ig_value v, bool stored) {
    const struct ig_value_info *info = ig_info(g, v);
    const char *name = ingot_dtype_name(info->type.dtype);
    if (!ig_dtype_is_float(info->type.dtype)) return;
    add_type(t, start, stored && info->kept ? ig_format(t->job, "%s (%s)", name, info->kept) : name);
}

/* "f16 -> f16, f32 (a statistic)": what the region multiplies or reads, and what it stores. */
static void put_precision(struct ig_text *t, struct ig_graph *g, const struct ig_region *region) {
    const struct ig_node *anchor = &g->nodes.at[region->anchor];
    struct ig_text text;
    ig_text_init(&text, g->job);
    bool scaled = anchor->op == IG_OP_matmul_scaled;
    if (anchor->op == IG_OP_matmul || anchor->op == IG_OP_conv || scaled) {
        bool tf32 = !scaled && ig_attr_int(g, anchor, IG_ATTR_math) == IG_MATH_TF32;
        ig_text_add(&text, tf32 ? "tf32" : ingot_dtype_name(ig_type_of(g, anchor->in[0])->dtype));
    } else {
        for (uint32_t i = 0; i < region->inputs.count; i++) {
            if (!ig_info(g, region->inputs.at[i])->is_const) add_float(&text, 0, g, region->inputs.at[i], false);
        }
    }
    ig_text_add(&text, " -> ");
    size_t start = text.length;
    for (uint32_t i = 0; i < region->outputs.count; i++)
        add_float(&text, start, g, region->outputs.at[i], true);
    put_field(t, "precision", text.at);
}

/* Puts the kernels of a step with alternatives, and where each runs: by the region's own symbols, which may have other
 * names than those of the region that the kernels were made for. */
static void put_variants(struct ig_text *t, const struct ig_explanation *e, struct ig_graph *g,
                         const struct ig_region *region, const struct ig_plan_step *step) {
    const struct ig_plan *plan = &e->built->plan;
    const struct ig_kernel_group *group = ig_kernel_set_group(e->set, step->kernel);
    const struct ig_fingerprint own = ig_region_fingerprint(g, region, e->set->target);
    ig_dim sizes[IG_MODEL_SIZES];
    for (int i = 0; i < IG_MODEL_SIZES; i++)
        sizes[i] = ig_dim_substitute(g->dims, group->variants->decision.sizes[i], group->first.symbols, own.symbols,
                                     (int)own.n_symbols);
    ig_text_add(t, "\"variants\": [");
    for (uint32_t i = 0; i < group->variants->decision.ranges.count; i++) {
        const struct ig_decision_range *range = &group->variants->decision.ranges.at[i];
        uint32_t kernel = range->kernel ? plan->steps[step->alternatives + range->kernel - 1].kernel : step->kernel;
        ig_text_printf(t, "%s{\"kernel\": %u, ", i ? ", " : "", kernel);
        put_field(t, "where", ig_decision_where(t->job, g->dims, sizes, range));
        ig_text_add(t, "}");
    }
    ig_text_add(t, "], ");
}

static void put_floor(struct ig_text *t, const struct ig_step_figures *figures) {
    if (figures->floor.time == 0) return;
    ig_text_printf(t, ", \"floor_us\": %.3f, ", figures->floor.time);
    put_field(t, "bound", figures->floor.bound);
    if (figures->estimate > 0) ig_text_printf(t, ", \"estimate_us\": %.3f", figures->estimate);
}

/* Puts what the network demands, its floor, and the estimate of its time. */
static void put_figures(struct ig_text *t, const struct ig_figures *f) {
    ig_text_add(t, "  \"figures\": {");
    put_field(t, "machine", f->machine.name);
    ig_text_add(t, ", ");
    put_field(t, "sizes", f->sizes);
    ig_text_printf(t, ", \"floor_us\": %.3f, \"estimate_us\": %.3f, \"regions\": %u, \"estimated\": %u,\n    ",
                   f->floor, f->estimate, f->regions, f->estimated);
    ig_text_printf(t, "\"bytes\": {\"weights\": %.0f, \"read\": %.0f, \"written\": %.0f}, \"operations\": {",
                   f->demand.constants, f->demand.reads, f->demand.writes);
    bool first = true;
    for (int u = 0; u < IG_UNIT_COUNT; u++) {
        if (f->demand.operations[u] == 0) continue;
        ig_text_printf(t, "%s\"%s\": %.0f", first ? "" : ", ", ig_unit_name((enum ig_unit)u), f->demand.operations[u]);
        first = false;
    }
    ig_text_printf(t, "}, \"turns\": %.0f},\n", f->demand.turns);
}

/* Puts the steps of a level in order; a step is a region or a copy. */
static void put_regions(struct ig_text *t, const struct ig_explanation *e, struct ig_graph *g, uint32_t subplan,
                        bool *first) {
    const struct ig_plan *plan = &e->built->plan;
    const struct ig_subplan *sub = &plan->subplans[subplan];
    for (uint32_t i = 0; i < g->regions.count; i++) {
        const struct ig_plan_step *step = &plan->steps[sub->steps + i];
        const struct ig_region *region = &g->regions.at[i];
        ig_text_add(t, *first ? "\n    {" : ",\n    {");
        *first = false;
        if (step->kind == IG_STEP_KERNEL) ig_text_printf(t, "\"kernel\": %u, ", step->kernel);
        if (step->kind == IG_STEP_KERNEL && step->n_alternatives) put_variants(t, e, g, region, step);
        if (region->joined && step->n_alternatives > 1)
            ig_text_printf(t, "\"joined\": %u, ", plan->steps[step->alternatives + 1].kernel);
        put_field(t, "label", plan->strings + step->label);
        ig_text_add(t, ", ");
        put_ops(t, g, region);
        ig_text_add(t, ", ");
        put_precision(t, g, region);
        put_floor(t, &e->figures.steps[sub->steps + i]);
        ig_text_add(t, "}");
        const struct ig_node *anchor = &g->nodes.at[region->anchor];
        if (step->a != IG_PLAN_NONE) put_regions(t, e, anchor->body[0], step->a, first);
        if (step->b != IG_PLAN_NONE) put_regions(t, e, anchor->body[1], step->b, first);
    }
}

static void put_candidates(struct ig_text *t, const struct ig_tuned *tuned) {
    put_field(t, "measured_on", tuned->device);
    ig_text_add(t, ", ");
    put_field(t, "measured_at", tuned->shapes);
    ig_text_add(t, ", \"candidates\": [");
    for (uint32_t i = 0; i < tuned->rivals.count; i++) {
        const struct ig_rival *rival = &tuned->rivals.at[i];
        ig_text_add(t, i ? ", {" : "{");
        put_field(t, "tactic", rival->tactic);
        if (rival->nanoseconds == IG_TIMING_REJECTED) {
            ig_text_add(t, ", ");
            put_field(t, "rejected", rival->reason ? rival->reason : "");
        } else if (rival->nanoseconds)
            ig_text_printf(t, ", \"ns\": %llu", (unsigned long long)rival->nanoseconds);
        ig_text_add(t, "}");
    }
    ig_text_add(t, "]");
}

/* The tactic of the kernel of a group that runs at some sizes. */
static const char *tactic_at(const struct ig_kernel_set *set, const struct ig_kernel_group *group,
                             const struct ig_sizes *at) {
    int64_t number = group->variants ? ig_sizes_guess(at, group->variants->decision.kernel) : 0;
    const char *tactic = set->kernels.at[group->kernels.at[number]].kernel->tactic;
    return tactic ? tactic : "";
}

/* Puts the times of the chosen candidate and of the others, at all sizes at which they were measured. */
static void put_times(struct ig_text *t, const struct ig_kernel_set *set, uint32_t kernel) {
    const struct ig_tuned *tuned = set->kernels.at[kernel].tuned;
    const struct ig_kernel_group *group = ig_kernel_set_group(set, kernel);
    if (tuned && tuned->device) {
        put_candidates(t, tuned);
        ig_text_add(t, ", ");
    }
    if (!tuned || tuned->elsewhere.count == 0) return;
    ig_text_add(t, "\"elsewhere\": [");
    for (uint32_t i = 0; i < tuned->elsewhere.count; i++) {
        const struct ig_tuned *there = tuned->elsewhere.at[i];
        ig_text_add(t, i ? ", {" : "{");
        put_field(t, "tactic", tactic_at(set, group, there->at));
        ig_text_add(t, ", ");
        put_candidates(t, there);
        ig_text_add(t, "}");
    }
    ig_text_add(t, "], ");
}

/* Puts the refused candidates that this kernel replaces. */
static void put_refusals(struct ig_text *t, const struct ig_kernel_set *set, const struct ig_compiled_kernel *k) {
    bool first = true;
    for (uint32_t i = 0; i < set->refusals.count; i++) {
        const struct ig_refusal *r = &set->refusals.at[i];
        if (strcmp(r->fingerprint, k->fingerprint) != 0) continue;
        ig_text_add(t, first ? "\"refused\": [{" : ", {");
        first = false;
        put_field(t, "tactic", r->tactic);
        ig_text_add(t, ", ");
        put_field(t, "reason", r->error->message);
        ig_text_add(t, "}");
    }
    if (!first) ig_text_add(t, "], ");
}

/* What is shown for a library call instead of a source. */
static const char *call_text(struct ig_job *job, const struct ig_library_call *c) {
    static const char *const activations[] = {"", ", relu", ", gelu"};
    bool rounded = c->rounded && c->a_type == INGOT_F32, scaled = c->scale != 1 || c->factor != IG_LIBRARY_NO_OPERAND;
    const char *a = rounded ? "tf32" : ingot_dtype_name((enum ingot_dtype)c->a_type);
    const char *b = rounded ? a : ingot_dtype_name((enum ingot_dtype)c->b_type);
    return ig_format(job, "/* %s: %s%s %s %s%s -> %s%s%s%s%s%s */\n", ig_library_name(c->library), a,
                     c->a_across ? " transposed" : "", c->operation == IG_LIBRARY_CONVOLUTION ? "convolved by" : "x", b,
                     c->b_along ? " transposed" : "", ingot_dtype_name((enum ingot_dtype)c->out_type),
                     c->rounded && !rounded ? ", fast sums" : "", scaled ? ", scaled" : "",
                     c->addend != IG_LIBRARY_NO_OPERAND ? ", sum" : "",
                     c->bias != IG_LIBRARY_NO_OPERAND ? ", bias" : "", activations[c->activation]);
}

static void put_kernels(struct ig_text *t, const struct ig_explanation *e) {
    ig_text_add(t, "  \"kernels\": [");
    for (uint32_t i = 0; i < e->set->kernels.count; i++) {
        const struct ig_compiled_kernel *k = &e->set->kernels.at[i];
        ig_text_add(t, i ? ",\n    {" : "\n    {");
        put_field(t, "name", k->symbol);
        ig_text_add(t, ", ");
        put_field(t, "fingerprint", k->fingerprint);
        ig_text_add(t, ", ");
        put_field(t, "tactic", k->kernel->tactic ? k->kernel->tactic : "");
        ig_text_printf(t, ", \"regions\": %u, \"bytes\": %llu, ", k->uses,
                       (unsigned long long)ig_kernel_set_bytes(e->set, i));
        put_times(t, e->set, i);
        put_refusals(t, e->set, k);
        if (!k->source) {
            put_field(t, "library", ig_library_name(k->kernel->library->library));
            ig_text_add(t, ", ");
        }
        put_field(t, "source", k->source ? k->source : call_text(t->job, k->kernel->library));
        ig_text_add(t, "}");
    }
    ig_text_add(t, "\n  ],\n");
}

/* Puts the groups of equal regions: the first of their kernels, which is that of their regions, and what the regions
 * have in common. */
static void put_groups(struct ig_text *t, const struct ig_kernel_set *set) {
    ig_text_add(t, "  \"groups\": [");
    for (uint32_t i = 0; i < set->groups.count; i++) {
        const struct ig_kernel_group *group = &set->groups.at[i];
        ig_text_printf(t, "%s\n    {\"kernel\": %u, ", i ? "," : "", group->kernels.at[0]);
        put_field(t, "text", group->first.text);
        ig_text_add(t, "}");
    }
    ig_text_add(t, "\n  ],\n");
}

/* Puts what the fuse pass decided by estimates, in a graph and its bodies. */
static void put_decisions_of(struct ig_text *t, const struct ig_graph *g, bool *first) {
    for (uint32_t i = 0; i < g->decided.count; i++) {
        const struct ig_decided *d = &g->decided.at[i];
        const struct ig_node *n = ig_def(g, d->value);
        ig_text_add(t, *first ? "\n    {" : ",\n    {");
        *first = false;
        put_field(t, "node", n->origin ? n->origin : "");
        ig_text_add(t, ", ");
        put_field(t, "op", ig_op_info(n->op)->name);
        ig_text_add(t, ", ");
        put_field(t, "otherwise", d->otherwise);
        ig_text_printf(t, ", \"fused_us\": %.2f, \"otherwise_us\": %.2f, \"fused\": %s}", d->proposed, d->other,
                       d->taken ? "false" : "true");
    }
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        for (int b = 0; b < 2; b++) {
            if (g->nodes.at[id].body[b]) put_decisions_of(t, g->nodes.at[id].body[b], first);
        }
    }
}

static void put_decisions(struct ig_text *t, const struct ig_graph *g) {
    bool first = true;
    ig_text_add(t, "  \"decisions\": [");
    put_decisions_of(t, g, &first);
    ig_text_add(t, first ? "],\n" : "\n  ],\n");
}

/* Puts how many products are of bytes, and which with a quantised operand are not, in a graph and its bodies. */
static uint32_t put_products_of(struct ig_text *t, const struct ig_graph *g, bool *first) {
    uint32_t count = 0;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        for (int b = 0; b < 2; b++) {
            if (n->body[b]) count += put_products_of(t, n->body[b], first);
        }
        bool product = n->op == IG_OP_matmul || n->op == IG_OP_matmul_scaled || n->op == IG_OP_conv;
        if (!product || ig_info(g, n->out)->is_const) continue;
        enum ingot_dtype dtype = ig_type_of(g, n->in[0])->dtype;
        count += dtype == INGOT_U8 || dtype == INGOT_I8;
        const char *why = ig_info(g, n->out)->as_written;
        if (!why) continue;
        ig_text_add(t, *first ? "{" : ", {");
        *first = false;
        put_field(t, "node", n->origin ? n->origin : "");
        ig_text_add(t, ", ");
        put_field(t, "why", why);
        ig_text_add(t, "}");
    }
    return count;
}

static void put_products(struct ig_text *t, const struct ig_graph *g) {
    bool first = true;
    ig_text_add(t, "  \"quantised_products\": {\"as_written\": [");
    uint32_t count = put_products_of(t, g, &first);
    ig_text_printf(t, "], \"of_bytes\": %u},\n", count);
}

/* Puts what regions with several kernels cost. */
static void put_cost_of_variants(struct ig_text *t, const struct ig_explanation *e) {
    const struct ig_plan *plan = &e->built->plan;
    const struct ig_kernel_set *set = e->set;
    uint32_t regions = 0, kernels = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        regions += plan->steps[i].kind == IG_STEP_KERNEL && plan->steps[i].n_alternatives > 0;
    for (uint32_t i = 0; i < set->groups.count; i++) {
        const struct ig_kernel_group *group = &set->groups.at[i];
        for (uint32_t k = 1; k < group->kernels.count; k++) {
            bool again = false;
            for (uint32_t j = 0; j < k && !again; j++)
                again = group->kernels.at[j] == group->kernels.at[k];
            if (again) continue;
            kernels++;
            bytes += ig_kernel_set_bytes(set, group->kernels.at[k]);
        }
    }
    ig_text_printf(t, "  \"variants\": {\"regions\": %u, \"kernels\": %u, \"bytes\": %llu},\n", regions, kernels,
                   (unsigned long long)bytes);
}

/* Puts the libraries that the engine needs besides the driver. */
static void put_libraries(struct ig_text *t, const struct ig_plan *plan) {
    bool first = true;
    ig_text_add(t, "  \"libraries\": [");
    for (uint32_t library = 0; library < IG_LIBRARY_COUNT; library++) {
        uint32_t calls = 0;
        for (uint32_t i = 0; i < plan->n_calls; i++)
            calls += plan->calls[i].library == library;
        if (!calls) continue;
        ig_text_add(t, first ? "{" : ", {");
        first = false;
        put_field(t, "name", ig_library_name(library));
        ig_text_add(t, ", ");
        put_field(t, "files", ig_library_files(library));
        ig_text_printf(t, ", \"kernels\": %u}", calls);
    }
    ig_text_add(t, "],\n");
}

/* Puts how the network is divided among ranks, for each number of them. */
static void put_shardings(struct ig_text *t, const struct ig_explanation *e) {
    ig_text_add(t, "  \"sharding\": [");
    for (uint32_t i = 0; i < e->n_shardings; i++) {
        ig_text_add(t, i ? ",\n    " : "\n    ");
        ig_sharding_explain(&e->shardings[i], t);
    }
    ig_text_add(t, e->n_shardings ? "\n  ],\n" : "],\n");
}

const char *ig_explain(const struct ig_explanation *e) {
    struct ig_text t;
    ig_text_init(&t, e->graph->job);
    ig_text_add(&t, "{\n  ");
    put_field(&t, "ingot", INGOT_VERSION);
    ig_text_add(&t, ",\n  ");
    put_field(&t, "target", e->target);
    ig_text_add(&t, ",\n  ");
    put_field(&t, "compiler", e->compiler);
    ig_text_printf(&t, ",\n  \"opt_level\": %d,\n  ", e->opt_level);
    put_field(&t, "precision", e->precision);
    ig_text_add(&t, ",\n");
    put_libraries(&t, &e->built->plan);
    put_shardings(&t, e);
    put_ports(&t, e->graph, "inputs", e->graph->inputs.at, e->graph->inputs.count);
    put_ports(&t, e->graph, "outputs", e->graph->outputs.at, e->graph->outputs.count);
    put_symbols(&t, &e->built->plan);
    put_passes(&t, e);
    bool first = true;
    ig_text_add(&t, "  \"regions\": [");
    put_regions(&t, e, e->graph, 0, &first);
    ig_text_add(&t, "\n  ],\n");
    put_kernels(&t, e);
    put_groups(&t, e->set);
    put_decisions(&t, e->graph);
    put_products(&t, e->graph);
    put_cost_of_variants(&t, e);
    put_figures(&t, &e->figures);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < e->built->weights.count; i++)
        bytes += e->built->weights.at[i].size;
    ig_text_printf(&t, "  \"weights\": {\"count\": %u, \"bytes\": %llu}\n}\n", e->built->weights.count,
                   (unsigned long long)bytes);
    return t.at;
}
