/* Filters transformed for Winograd's convolutions. */
#ifndef IG_PASS_WINOGRAD_H
#define IG_PASS_WINOGRAD_H

#include "ir/build.h"

/* G w G' for F(m x m, 3 x 3), m 2 or 4: f32[M, C, t, t] from constant weights f32[M, C, 3, 3]. */
ig_value ig_winograd_filters(struct ig_graph *g, ig_value w, int m);
/* The filters w of i8, [M, C, 3, 3], as 4 G g G', [M, C, 4, 4], of i16. */
ig_value ig_winograd_integer_filters(struct ig_graph *graph, ig_value w);

#endif
