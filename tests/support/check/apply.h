/* ONNX operators applied to values of a graph, as the importer writes them in core operators. */
#ifndef TESTS_SUPPORT_APPLY_H
#define TESTS_SUPPORT_APPLY_H

#include "ingot/ingot.h"
#include "ir/build.h"

enum { APPLY_MOST_INPUTS = 12 };

/* The operator's first result. Attributes end with a nameless one; NULL: none. IG_NO_VALUE: an absent input. */
ig_value apply(struct ig_graph *g, const char *name, const ig_value *inputs, int n_inputs,
               const struct ingot_attribute *attributes);

struct ingot_attribute attribute_int(const char *name, int64_t i);
struct ingot_attribute attribute_ints(const char *name, const int64_t *ints, size_t count);

#endif
