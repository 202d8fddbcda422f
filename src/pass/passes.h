/* The passes, each in a file of its name; pass.c has their order. */
#ifndef IG_PASS_PASSES_H
#define IG_PASS_PASSES_H

#include "pass/pass.h"

struct ig_graph *ig_pass_dead_code(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_block_scales(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_narrow_weights(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_fold_shapes(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_integers(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_float8(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_fast_float8(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_fold_constants(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_resolve_branches(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_canonicalize(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_common_subexpressions(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_relative_positions(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_join_heads(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_join_windows(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_compute_in_parts(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_move_views(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_recognize(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_fold_batch_norm(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_flatten_windows(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_split_phases(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_unread_taps(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_use_reciprocals(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_merge_matmul(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_layout(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_join_transposes(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_gathered_weights(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_group_heads(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_weights_first(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_attend(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_precision(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_widen(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_single_columns(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_split_rows(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_winograd(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_pad_channels(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_pad_heads(struct ig_graph *in, const struct ig_pass_options *options);
struct ig_graph *ig_pass_pack(struct ig_graph *in, const struct ig_pass_options *options);

#endif
