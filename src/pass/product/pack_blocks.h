/* Part of the pack pass: see pack.c. */
#ifndef IG_PASS_PACK_BLOCKS_H
#define IG_PASS_PACK_BLOCKS_H

#include "pass/pass.h"

/* The matmul_blocks with its codes packed for the target, or IG_NO_VALUE. */
ig_value ig_pack_blocks(struct ig_rewriter *rw, const struct ig_node *node, const ig_value *in);

#endif
