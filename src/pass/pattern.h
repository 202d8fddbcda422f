/* Patterns of the build options that name nodes: * stands for any characters, ? for one. */
#ifndef IG_PASS_PATTERN_H
#define IG_PASS_PATTERN_H

#include "ir/graph.h"

/* Does the pattern, of so many characters, match a node's origin ("Conv 'conv1'"), or its operator or name alone? */
bool ig_pattern_fits(const char *pattern, size_t length, const char *origin);
/* Any node's, of the graph or of its bodies? */
bool ig_pattern_fits_some_node(const char *pattern, size_t length, const struct ig_graph *graph);

#endif
