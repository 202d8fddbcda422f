/*
 * The table of passes, in the order they run. docs/passes.md describes them.
 */
#include "pass/pass.h"

#include "pass/fuse/regions.h"
#include "pass/passes.h"

enum { ASKED_FOR = 9 }; /* a level that no build has */

const struct ig_pass ig_passes[] = {
    {"dead-code", "leave out what no output needs", 1, false, ig_pass_dead_code},
    {"block-scales", "multiply narrow numbers with scales in blocks as such, on GPUs", 1, false, ig_pass_block_scales},
    {"narrow-weights", "keep weights of few bits so, in products of few rows", 1, false, ig_pass_narrow_weights},
    {"resolve-branches", "replace an if of known condition by the branch taken", 1, false, ig_pass_resolve_branches},
    {"fold-shapes", "turn shape arithmetic into symbolic expressions", 1, false, ig_pass_fold_shapes},
    {"integers", "compute quantised regions in integers", 1, false, ig_pass_integers},
    {"float8", "multiply floats of 8 bits as such, on GPUs", 1, false, ig_pass_float8},
    {"fast-float8", "sum products of floats of 8 bits with fewer bits than f32 has", ASKED_FOR, false,
     ig_pass_fast_float8},
    {"fold-constants", "evaluate small constants", 1, false, ig_pass_fold_constants},
    {"canonicalize", "bring operators into one form and drop those that do nothing", 1, false, ig_pass_canonicalize},
    {"common-subexpressions", "compute equal values once", 1, false, ig_pass_common_subexpressions},
    {"recognize", "recognise sigmoid and GELU written out in other ways", 2, false, ig_pass_recognize},
    {"use-reciprocals", "multiply instead of dividing by constants and by row sums", 2, false, ig_pass_use_reciprocals},
    {"relative-positions", "add sums of relative positions to scores by their product, on GPUs", 2, false,
     ig_pass_relative_positions},
    {"join-heads", "multiply linear attentions' odd heads together, on GPUs", 2, false, ig_pass_join_heads},
    {"join-windows", "convolve parts of channels together, on GPUs", 2, false, ig_pass_join_windows},
    {"compute-in-parts", "compute on the parts of a rearranged value before they are joined", 2, false,
     ig_pass_compute_in_parts},
    {"move-views", "move transposes and reshapes until they cancel", 1, false, ig_pass_move_views},
    {"fold-batch-norm", "fold constant scales and shifts into weights", 2, false, ig_pass_fold_batch_norm},
    {"split-phases", "compute transposed convolutions, and those of one position, without the zeros", 1, false,
     ig_pass_split_phases},
    {"unread-taps", "leave out taps of convolutions that read nothing but padding", 1, false, ig_pass_unread_taps},
    {"gathered-weights", "multiply by all of a list of weights where many rows choose among them", 2, false,
     ig_pass_gathered_weights},
    {"merge-matmul", "merge products of one value with several weights", 3, false, ig_pass_merge_matmul},
    {"layout", "run convolutions channels-last", 1, false, ig_pass_layout},
    {"flatten-windows", "give windows over three axes that span two, or one, the kernels of pictures", 1, false,
     ig_pass_flatten_windows},
    {"join-transposes", "transpose before reshapes that keep axes together", 1, false, ig_pass_join_transposes},
    {"weights-first", "multiply by weights from the left where that saves transposes, on GPUs", 2, false,
     ig_pass_weights_first},
    {"group-heads", "let the queries of heads that share keys be rows of one product", 2, false, ig_pass_group_heads},
    {"attend", "compute attention in one kernel", 2, false, ig_pass_attend},
    {"pad-heads", "give queries, keys and values of attentions whole loads, on GPUs", 2, false, ig_pass_pad_heads},
    {"precision", "narrow what contractions read and memory holds, where asked for", 0, false, ig_pass_precision},
    {"widen", "give half-precision products in single precision", 1, false, ig_pass_widen},
    {"single-columns", "sum rows instead of multiplying by one column, on CPUs", 2, false, ig_pass_single_columns},
    {"split-rows", "reduce few long rows in parts", 2, false, ig_pass_split_rows},
    {"winograd", "compute 3x3 convolutions with fewer multiplications, on CPUs", 2, false, ig_pass_winograd},
    {"pad-channels", "give images between convolutions whole loads of channels, on GPUs", 2, false,
     ig_pass_pad_channels},
    {"pack", "store weights and tables of scores as kernels read them, pictures for GPUs in whole loads", 1, false,
     ig_pass_pack},
    {"fuse", "form regions of nodes, one kernel each", 1, false, ig_pass_fuse},
    {"partition", "make every node a region of its own where fuse formed none", 0, true, ig_pass_partition},
};

const int ig_pass_count = sizeof ig_passes / sizeof *ig_passes;
