/* Compiles symbolic dims to the shape program: each distinct expression is computed once, into its own slot. */
#ifndef IG_COMPILE_SLOTS_H
#define IG_COMPILE_SLOTS_H

#include "base/map.h"
#include "engine/plan.h"
#include "ir/graph.h"

struct ig_slots {
    struct ig_job *job;
    struct ig_dims *dims;
    struct ig_map symbol_of; /* symbol name -> index in symbols */
    struct ig_map slot_of;   /* ig_dim -> slot */
    IG_VEC(struct ig_plan_symbol) symbols;
    IG_VEC(const char *) names; /* of the symbols */
    IG_VEC(struct ig_shape_instr) instrs;
};

/* Collects the symbols in the types and the symbolic contents of the graph's inputs. */
void ig_slots_init(struct ig_slots *slots, struct ig_graph *graph);
/* The slot that holds `dim` at run time. Raises INGOT_UNSUPPORTED for a symbol that no input determines. */
ig_slot ig_slots_get(struct ig_slots *slots, ig_dim dim);
/* Do the inputs determine all symbols of `dim`? */
bool ig_slots_knows(const struct ig_slots *slots, ig_dim dim);

#endif
