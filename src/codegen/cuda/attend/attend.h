/* Attention by a block as CUDA C++: the description's numbers as constants, then the template (attend.cu), in the
 * namespace `attend`. */
#ifndef IG_CODEGEN_CUDA_ATTEND_H
#define IG_CODEGEN_CUDA_ATTEND_H

#include "base/text.h"
#include "kernel/cuda/attend/attend_block.h"

/*
 * Declares functions that all threads of the block call together. `scores`, `sums` and `state` (twice the layout's
 * rows) are float arrays in each thread's registers. An operand is given as the address of its first element for the
 * tile, the distance between its lines (of listed lines, attend_block.h: the first one's index), and their number:
 *
 *     attend::begin(sums, state, q, ldq, queries, k, ldk, v, ldv, keys)
 *     attend::multiply(scores, step, k, ldk, v, ldv, keys)     scores of step 0, 1, …; garbage past the last key
 *     attend::accumulate(scores, sums, state, step, queries, scale)     after the scores were changed
 *     attend::finish(tile, sums, state, scale), or with narrow results (attend_block.h)
 *     attend::finish_narrow(tile, sums, state, none)     none: are there no keys?
 *     attend::gather(tile, queries)     then, if the blocks of a cluster share the keys
 *
 * Heads in turn (attend_block.h): instead of begin, multiply and accumulate
 *
 *     attend::fetch(turn, left, q, ldq, queries, k, ldk, v, ldv, keys)     nothing if no turns are left
 *     attend::wait_turn()     after the next turn was fetched; then the threads meet
 *     attend::multiply_turn(scores, turn)
 *     attend::accumulate_turn(scores, sums, state, turn, queries)
 *
 * With a warp that copies for the others (attend_block.h), whose threads skip the rest of the loop over tiles: instead of
 * begin, multiply and accumulate
 *
 *     ATTEND_SERVE(k, ldk, v, ldv, keys)     by all threads, at the beginning of the loop over tiles
 *     attend::begin_served(sums, state, q, ldq, queries)
 *     attend::multiply_served(scores, step)
 *     attend::accumulate_served(scores, sums, state, step, scale)
 *     attend::end_served()     after finish_narrow
 *
 * Directly, of an `attend::direct operands`; finish brings the parts of a cluster together as well:
 *
 *     operands.begin(sums, state, q, ldq, queries, k, ldk, v, ldv, keys)
 *     operands.multiply(scores, step)
 *     operands.accumulate(scores, sums, state, step, scale)
 *     operands.finish(tile, sums, state, queries, scale)
 */
void ig_cuda_attend(const struct ig_cuda_attend *attend, struct ig_text *text);

#endif
