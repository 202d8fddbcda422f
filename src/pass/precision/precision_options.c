/* Parses precisions and matches nodes to them; see precision.h. */
#include <string.h>

#include "base/text.h"
#include "pass/pattern.h"
#include "pass/precision/precision.h"

const char *const ig_precision_names[IG_PRECISION_COUNT] = {"fp32", "tf32", "fp16", "bf16"};

enum ingot_dtype ig_precision_dtype(enum ig_precision precision) {
    switch (precision) {
    case IG_PRECISION_FP16: return INGOT_F16;
    case IG_PRECISION_BF16: return INGOT_BF16;
    default: return INGOT_F32;
    }
}

/* ---- Patterns ---------------------------------------------------------------------------------------------------- */

/* The rule that applies to a node; NULL: none. */
static const struct ig_precision_rule *rule_of(const struct ig_precisions *precisions, const char *origin) {
    for (size_t i = precisions->n_rules; origin && i-- > 0;) {
        const struct ig_precision_rule *rule = &precisions->rules[i];
        if (ig_pattern_fits(rule->pattern, rule->length, origin)) return rule;
    }
    return NULL;
}

enum ig_precision ig_precision_of(const struct ig_precisions *precisions, const char *origin) {
    const struct ig_precision_rule *rule = rule_of(precisions, origin);
    return rule ? rule->precision : precisions->base;
}

enum ingot_dtype ig_precision_of_operand(const struct ig_precisions *precisions, const struct ig_node *n,
                                         enum ingot_dtype dtype) {
    return precisions && dtype == INGOT_F32 ? ig_precision_dtype(ig_precision_of(precisions, n->origin)) : dtype;
}

bool ig_precision_is_half(const struct ig_precisions *precisions, const struct ig_node *node, enum ingot_dtype dtype) {
    return ingot_dtype_size(ig_precision_of_operand(precisions, node, dtype)) == 2;
}

bool ig_precision_is_ordered(const struct ig_precisions *precisions, const char *origin) {
    return precisions->everywhere || rule_of(precisions, origin);
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static enum ig_precision parse(struct ig_job *job, const char *name) {
    for (int i = 0; i < IG_PRECISION_COUNT; i++) {
        if (strcmp(name, ig_precision_names[i]) == 0) return (enum ig_precision)i;
    }
    ig_raise(job, INGOT_INVALID_ARGUMENT, "unknown precision '%s': expected fp32, tf32, fp16 or bf16", name);
}

/* Names of nodes may contain equals signs, names of precisions do not. */
static struct ig_precision_rule parse_rule(struct ig_graph *graph, const char *text) {
    const char *equals = text ? strrchr(text, '=') : NULL;
    if (!equals || equals == text)
        ig_raise(graph->job, INGOT_INVALID_ARGUMENT, "unknown precision '%s': expected PATTERN=TYPE",
                 text ? text : "(null)");
    struct ig_precision_rule rule = {.pattern = text, .length = (size_t)(equals - text)};
    rule.precision = parse(graph->job, equals + 1);
    if (!ig_pattern_fits_some_node(rule.pattern, rule.length, graph))
        ig_raise(graph->job, INGOT_INVALID_ARGUMENT, "precision '%s': the model has no such node", text);
    return rule;
}

void ig_precisions_parse(struct ig_graph *graph, const char *base, const char *const *of, size_t n_of,
                         struct ig_precisions *out) {
    struct ig_precision_rule *rules = IG_NEW_ARRAY(graph->job, struct ig_precision_rule, n_of + 1);
    *out = (struct ig_precisions){.base = base ? parse(graph->job, base) : IG_PRECISION_FP32, .rules = rules};
    for (; out->n_rules < n_of; out->n_rules++)
        rules[out->n_rules] = parse_rule(graph, of[out->n_rules]);
}

const char *ig_precisions_text(struct ig_job *job, const struct ig_precisions *p) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_add(&text, ig_precision_names[p->base]);
    for (size_t i = 0; i < p->n_rules; i++)
        ig_text_printf(&text, ", %.*s=%s", (int)p->rules[i].length, p->rules[i].pattern,
                       ig_precision_names[p->rules[i].precision]);
    return text.at;
}
