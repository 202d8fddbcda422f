/*
 * Literals that stand between regions and a shared kernel: a number that differs from layer to layer or from expert to
 * expert (a scale, an index) and is part of the kernel's text otherwise.
 */
#ifndef IG_COMPILE_LITERALS_H
#define IG_COMPILE_LITERALS_H

#include "ir/graph.h"
#include "ir/target.h"

/* Where several regions are equal but for literals of elementwise operators, marks those literals as read from memory
 * (ig_value_info.in_memory): they become weights. Call it when regions have been formed, before fingerprints are taken. */
void ig_literals_to_memory(struct ig_graph *graph, const struct ig_target *target);

#endif
