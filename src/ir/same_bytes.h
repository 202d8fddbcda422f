/* Views that leave bytes as they are. */
#ifndef IG_IR_SAME_BYTES_H
#define IG_IR_SAME_BYTES_H

#include "ir/graph.h"

/*
 * The value behind the transposes and reshapes that v ends, if together they leave its bytes as they are; v itself if it is no
 * view. IG_NO_VALUE if they do not, if it cannot be told, if a shape is not static or there are no elements.
 */
ig_value ig_same_bytes(const struct ig_graph *g, ig_value v);

#endif
