/*
 * ONNX operators, imported and evaluated by the reference: of each family a few, with the attributes that are easy to
 * get wrong. The expected numbers were computed by other implementations.
 */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "support/check/onnx_check.h"

/*
 * Attributes: axis=1; alpha=0.5f; mode='linear'; pads=[1 1]. Tensors: a letter for the type, dims, elements; "_" is an
 * absent input. `shown` says which of the `outputs` is compared.
 */
static const struct {
    const char *op;
    int opset;
    const char *attributes, *inputs;
    int outputs, shown;
    const char *expected;
} cases[] = {
    /* clang-format off */
    {"Abs", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.5 1.59 1.1 1.1 0.8 1.49"},
    {"Ceil", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]1 2 2 -1 0 2"},
    {"Erf", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.5204999 0.975462 0.8802051 -0.8802051 -0.742101 0.9648979"},
    {"Exp", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]1.648721 4.903749 3.004166 0.332871 0.4493289 4.437095"},
    {"Floor", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0 1 1 -2 -1 1"},
    {"Neg", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]-0.5 -1.59 -1.1 1.1 0.8 -1.49"},
    {"Round", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0 2 1 -1 -1 1"},
    {"Sign", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]1 1 1 -1 -1 1"},
    {"Sin", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.4794255 0.9998156 0.8912073 -0.8912073 -0.7173561 0.9967378"},
    {"Tanh", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.4621172 0.9201493 0.800499 -0.800499 -0.6640368 0.9033248"},
    {"Softplus", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.974077 1.775588 1.387335 0.2873353 0.3711007 1.693245"},
    {"Softsign", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.3333333 0.6138996 0.5238096 -0.5238096 -0.4444445 0.5983936"},
    {"Mish", 18, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.3752452 1.501308 0.9708416 -0.3076485 -0.2839633 1.392493"},
    {"HardSwish", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.2916667 1.21635 0.7516667 -0.3483333 -0.2933334 1.115017"},
    {"Selu", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.5253505 1.670615 1.155771 -1.172879 -0.9681344 1.565544"},
    {"Sigmoid", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.6224594 0.8306161 0.7502601 0.2497399 0.3100255 0.8160782"},
    {"Reciprocal", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]2 0.6289308 0.9090909 -0.9090909 -1.25 0.6711409"},
    {"Gelu", 20, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.3457312 1.501091 0.9507674 -0.1492327 -0.1694843 1.388513"},
    {"Gelu", 20, "approximate='tanh'",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.345714 1.500903 0.9505811 -0.149419 -0.1695683 1.388293"},
    {"Elu", 17, "alpha=0.5f",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.5 1.59 1.1 -0.3335645 -0.2753355 1.49"},
    {"Celu", 17, "alpha=2f",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.5 1.59 1.1 -0.8461004 -0.6593599 1.49"},
    {"LeakyRelu", 17, "alpha=0.1f",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.5 1.59 1.1 -0.11 -0.08000001 1.49"},
    {"Shrink", 17, "lambd=0.5f; bias=0.25f",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0 1.34 0.85 -0.85 -0.55 1.24"},
    {"ThresholdedRelu", 17, "alpha=0.5f",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0 1.59 1.1 0 0 1.49"},
    {"HardSigmoid", 17, "alpha=0.3f",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.65 0.977 0.83 0.17 0.26 0.947"},
    {"PRelu", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49; f[3]-1.98 1.28 1.19", 1, 0,
     "f[2 3]0.5 1.59 1.1 2.178 -1.024 1.49"},
    {"Clip", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49; f[]-1; f[]1", 1, 0,
     "f[2 3]0.5 1 1 -1 -0.8 1"},
    {"Clip", 10, "min=-0.5f",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49", 1, 0,
     "f[2 3]0.5 1.59 1.1 -0.5 -0.5 1.49"},
    {"Pow", 17, "",
     "f[2 3]0.5 1.59 1.1 1.1 0.8 1.49; i[]2", 1, 0,
     "f[2 3]0.25 2.5281 1.21 1.21 0.64 2.2201"},
    {"Mod", 17, "",
     "i[3]7 -7 5; i[3]3 3 -3", 1, 0,
     "i[3]1 2 -1"},
    {"Mod", 17, "fmod=1",
     "i[3]7 -7 5; i[3]3 3 -3", 1, 0,
     "i[3]1 -1 2"},
    {"Mean", 17, "",
     "f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49; f[3]-0.13 -0.79 -0.89", 1, 0,
     "f[2 3]0.185 0.4 0.105 -0.615 -0.795 0.3"},
    {"Where", 17, "",
     "b[3]1 0 1; f[2 3]0.5 1.59 1.1 -1.1 -0.8 1.49; f[2 1]-0.98 -0.22", 1, 0,
     "f[2 3]0.5 -0.98 1.1 -1.1 -0.22 1.49"},
    {"ReduceSum", 17, "keepdims=0",
     "f[2 3 2]0.02 0.21 1.98 1.17 0.49 1.96 -1.14 -1.36 0.45 -1.82 -1.86 0.06; i[2]1 -1", 1, 0,
     "f[2]5.83 -5.67"},
    {"ReduceMean", 11, "axes=[1]",
     "f[2 3]-0.14 1.67 0.52 0.06 -0.01 -1.01", 1, 0,
     "f[2 1]0.6833333 -0.32"},
    {"ReduceL2", 17, "axes=[0]",
     "f[2 3]-1.95 -1.23 0.77 -1.2 -0.52 -1.99", 1, 0,
     "f[1 3]2.289651 1.335402 2.133776"},
    {"ReduceLogSumExp", 18, "",
     "f[2 3]1.32 -1.38 -0.93 1.52 0.04 1.39; i[1]1", 1, 0,
     "f[2 1]1.479228 2.264664"},
    {"ReduceMax", 18, "noop_with_empty_axes=1",
     "f[2 3]0.56 0.97 -1.63 0.16 0.03 1.49", 1, 0,
     "f[2 3]0.56 0.97 -1.63 0.16 0.03 1.49"},
    {"ReduceProd", 17, "axes=[-1]; keepdims=0",
     "f[2 3]-0.55 0.39 -1.76 -0.45 -0.71 -1.4", 1, 0,
     "f[2]0.37752 -0.4473"},
    {"ArgMax", 17, "axis=1; select_last_index=1",
     "f[2 3]1 3 3 0 0 -1", 1, 0,
     "i[2 1]2 1"},
    {"CumSum", 17, "exclusive=1; reverse=1",
     "f[2 3]1.27 -0.48 1.91 0.36 0.42 0.55; i[]1", 1, 0,
     "f[2 3]1.43 1.91 0 0.97 0.55 0"},
    {"Softmax", 11, "axis=1",
     "f[1 2 3]0.71 -1.4 -0.24 -1.04 -0.39 -1.61", 1, 0,
     "f[1 2 3]0.4732837 0.05737996 0.1830382 0.08224437 0.1575425 0.04651129"},
    {"Softmax", 13, "axis=1",
     "f[1 2 3]1.87 -1.14 0.69 -0.8 1.5 0.65", 1, 0,
     "f[1 2 3]0.935233 0.06660804 0.5099987 0.06476697 0.9333919 0.4900014"},
    {"LogSoftmax", 13, "",
     "f[2 3]-1.47 1.38 1.78 1.62 0.28 -1.42", 1, 0,
     "f[2 3]-3.785964 -0.9359635 -0.5359635 -0.2697833 -1.609783 -3.309783"},
    {"Hardmax", 13, "",
     "f[2 3]-1.23 1.71 0.21 -1.28 1.54 0.57", 1, 0,
     "f[2 3]0 1 0 0 1 0"},
    {"LayerNormalization", 17, "",
     "f[2 4]0.28 -0.49 -0.36 -1.04 -1.85 1.5 -0.13 0.19; f[4]-0.71 1.01 -1.9 -0.51; f[4]-1.88 -1.51 1.87 0.63", 1, 0,
     "f[2 4]-2.912112 -1.698233 1.698008 1.322494 -0.8232102 -0.1800581 1.961483 0.5178963"},
    {"InstanceNormalization", 17, "",
     "f[1 2 3]-0.29 0.09 1.49 -0.62 0.36 0.73; f[2]-0.58 0.08; f[2]1.06 1.64", 1, 0,
     "f[1 2 3]1.605579 1.317634 0.2567869 1.530916 1.668559 1.720526"},
    {"GroupNormalization", 21, "num_groups=2",
     "f[1 4 2]-1.4 1.73 -1.98 1.01 1.24 -1.45 -0.32 1.26; f[4]-1.94 0.51 1.17 0.05; f[4]0.9 -1.09 -1.21 -0.55", 1, 0,
     "f[1 4 2]2.437584 -1.443576 -1.683277 -0.708608 -0.124516 -2.8857 -0.5720426 -0.5027345"},
    {"BatchNormalization", 17, "",
     "f[1 2 3]-1.28 -0.62 1.79 0.29 -0.64 -0.91; f[2]1.81 -0.22; f[2]1.92 0.06; f[2]0.08 1.59; f[2]0.97 0.32", 1, 0,
     "f[1 2 3]-0.5793632 0.633563 5.062581 0.5655735 0.9272529 1.032257"},
    {"LpNormalization", 17, "axis=1; p=1",
     "f[2 3]-0.29 1.51 -0.35 1.69 -1.73 -0.28", 1, 0,
     "f[2 3]-0.1348837 0.7023256 -0.1627907 0.4567568 -0.4675676 -0.07567567"},
    {"LRN", 17, "size=3; alpha=0.1f",
     "f[1 4 1 2]0.08 1.8 -1 1.22 0.71 0.87 0.52 1.89", 1, 0,
     "f[1 4 1 2]0.07804452 1.612872 -0.9638278 1.075634 0.6800491 0.7617099 0.5101537 1.708271"},
    {"RMSNormalization", 23, "",
     "f[2 4]-0.67 -0.41 -1.19 -1.8 -1.15 1.66 1.36 -1.55; f[4]0.42 -0.08 0.38 0.64", 1, 0,
     "f[2 4]-0.2450865 0.0285673 -0.3938455 -1.003339 -0.3346943 -0.09202362 0.358116 -0.6874053"},
    {"Gemm", 17, "transA=1; alpha=0.5f; beta=2f",
     "f[3 2]-0.77 1.85 -0.14 0.51 0.54 -1.26; f[3 2]-1.75 -0.35 1.06 1.26 0.92 -1.55; f[2]1.65 1.21", 1, 0,
     "f[2 2]4.14795 2.04805 1.37195 3.39405"},
    {"MatMul", 17, "",
     "f[3]1.51 0.09 1.66; f[2 3 2]-1.81 -1.88 -1.92 -0.99 -1.01 -1.25 0.27 -1.84 0.36 -1.34 0.71 -1.92", 1, 0,
     "f[2 2]-4.5825 -5.0029 1.6187 -6.0862"},
    {"Einsum", 17, "equation='ij,jk->ki'",
     "f[2 3]-0.76 1.75 0.15 1.25 0.63 0.44; f[3 2]-1.23 0.3 -1.84 1.21 1.84 1.42", 1, 0,
     "f[2 2]-2.0092 -1.8871 2.1025 1.7621"},
    {"Einsum", 17, "equation='ii'",
     "f[3 3]-1.8 -0.65 -0.73 -1.55 0.51 1.19 -0.75 1.45 1.19", 1, 0,
     "f[]-0.0999999"},
    {"MatMulInteger", 17, "",
     "u[2 2]1 2 250 4; u[2 2]1 255 3 4; u[]3; u[]7", 1, 0,
     "j[2 2]16 -493 -1486 61253"},
    {"Conv", 17, "group=2; pads=[1 1]; strides=[2]",
     "f[1 2 4]-1.48 1.07 1.53 -1.21 0.29 0.55 0.44 -1.62; f[2 1 3]0.64 0.53 1.3 1.21 -0.69 0.89; f[2]1.47 1.57", 1, 0,
     "f[1 2 2]2.0766 1.3927 1.8594 0.4901001"},
    {"Conv", 17, "auto_pad='SAME_LOWER'; dilations=[2 1]",
     "f[1 1 4 4]-1.35 -1.89 0.6 -1.14 0.25 1.78 -0.48 -0.99 -0.17 0.63 -1.6 -0.48 -1.47 0.65 1.32 -0.49; f[1 1 "
     "2 2]-0.51 0.16 -1.14 -1.01", 1, 0,
     "f[1 1 4 4]-0.2525 -2.0828 -1.5444 1.5471 -0.0443 -0.05640002 1.9577 1.8204 1.5247 1.1766 -3.0588 "
     "-0.9235001 -0.0272 0.1875 -0.5773 0.7392"},
    {"ConvTranspose", 17, "strides=[2]; output_padding=[1]; group=2",
     "f[1 2 3]-0.68 -0.17 -1.67 1.01 0.32 -0.8; f[2 1 2]-1.69 1.05 -1.48 -1.47", 1, 0,
     "f[1 2 7]1.1492 -0.714 0.2873 -0.1785 2.8223 -1.7535 0 -1.4948 -1.4847 -0.4736 -0.4704 1.184 1.176 0"},
    {"ConvTranspose", 17, "pads=[1 0 0 1]; strides=[2 1]",
     "f[1 1 2 2]-1.48 -1.67 1.63 -0.92; f[1 2 3 3]-0.77 1.33 0.48 -1.25 -0.26 1.54 -0.5 0.84 -1.61 0.91 1.11 "
     "1.3 0.7 -0.52 -1.74 0.08 1.03 -1.24", 1, 0,
     "f[1 2 4 3]1.85 2.4723 -1.845 -0.5151 2.4681 0.5388 -2.0375 0.7262 2.7494 -0.815 1.8292 -3.3971 -1.036 "
     "-0.3993999 3.4436 1.3649 -0.6859 1.2129 1.141 -1.4916 -2.3578 0.1304 1.6053 -2.9688"},
    {"MaxPool", 17, "kernel_shape=[2]; strides=[2]; ceil_mode=1",
     "f[1 1 5]-0.94 0.14 0.99 1.59 -1.5", 1, 0,
     "f[1 1 3]0.14 1.59 -1.5"},
    {"AveragePool", 17, "kernel_shape=[2 2]; pads=[1 1 0 0]; count_include_pad=1",
     "f[1 1 3 3]-1.26 1.2 0.58 0.88 1.99 1.76 1.37 1.11 -0.42", 1, 0,
     "f[1 1 3 3]-0.315 -0.01499999 0.445 -0.095 0.7025 1.3825 0.5625 1.3375 1.11"},
    {"GlobalAveragePool", 17, "",
     "f[1 2 2 2]0.56 -1.26 1.04 1.03 0.89 -0.22 -0.49 -0.32", 1, 0,
     "f[1 2 1 1]0.3425 -0.03500001"},
    {"LpPool", 18, "kernel_shape=[2]; p=3",
     "f[1 1 4]-1.87 1.38 0.17 -0.45", 1, 0,
     "f[1 1 3]2.092892 1.380859 0.4579461"},
    {"LSTM", 17, "hidden_size=2",
     "f[2 1 2]0.19 0.89 -0.47 1.32; f[1 8 2]1.68 -0.45 -1.45 1.04 1.97 -1.41 0.85 1.3 1.68 -1.51 -1.63 1.95 "
     "-1.53 -1.29 0.3 -0.21; f[1 8 2]1 -1.24 1.66 -1.13 1.08 -1.73 -0.11 -1.87 -0.74 -0.75 0.88 -0.18 -1.77 "
     "1.98 1.55 1.67; f[1 16]-1.01 -0.42 -1.09 -1.5 -1.87 0.01 -1.51 -1.29 1.44 -0.06 -1.27 0.68 -0.94 0.11 "
     "-0.87 0.06", 3, 0,
     "f[2 1 1 2]-0.01984338 -0.2752961 -0.003050735 -0.6326386"},
    {"GRU", 17, "hidden_size=2; linear_before_reset=1",
     "f[2 1 2]0.51 0.14 -0.42 1.16; f[1 6 2]1.49 -1.28 -1.45 -1.55 1.92 1.77 -1.08 1.88 -1.17 0.03 -0.01 1.66; "
     "f[1 6 2]-1.84 -0.74 0.4 -1.73 -1.05 -0.14 1.52 1.04 1.32 1.04 0.83 1.4; f[1 12]0.73 0.94 -0.79 -1.33 1.03 "
     "-1.34 1.68 0.39 -0.68 1.75 -1.38 0.06", 2, 0,
     "f[2 1 1 2]-0.008013644 -0.3234921 0.2301557 -0.1454985"},
    {"RNN", 17, "hidden_size=2; direction='bidirectional'",
     "f[2 1 2]-1.63 1.86 0.3 1.21; f[2 2 2]-0.87 1.21 0.81 0.57 1.8 -0.27 -0.34 0.77; f[2 2 2]1.34 -0.66 0.68 "
     "-1.16 0.21 1.08 -1.74 0.91", 2, 0,
     "f[2 2 1 2]0.9986994 -0.2543891 -0.9902104 0.9775815 0.9911717 0.9568248 0.210123 0.6803149"},
    {"Resize", 18, "mode='linear'",
     "f[1 1 2 2]0 1 2 3; _; f[4]1 1 2 2", 1, 0,
     "f[1 1 4 4]0 0.25 0.75 1 0.5 0.75 1.25 1.5 1.5 1.75 2.25 2.5 2 2.25 2.75 3"},
    {"Resize", 18, "mode='nearest'; coordinate_transformation_mode='asymmetric'; nearest_mode='floor'",
     "f[1 1 2 3]0 1 2 3 4 5; _; _; i[4]1 1 3 5", 1, 0,
     "f[1 1 3 5]0 0 1 1 2 0 0 1 1 2 3 3 4 4 5"},
    {"Resize", 18, "mode='cubic'; exclude_outside=1; coordinate_transformation_mode='align_corners'",
     "f[1 1 4 4]0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; _; _; i[4]1 1 2 3", 1, 0,
     "f[1 1 2 3]0 1.5 3 12 13.5 15"},
    {"Resize", 18, "mode='linear'; antialias=1",
     "f[1 1 1 6]0 1 2 3 4 5; _; f[4]1 1 1 0.5", 1, 0,
     "f[1 1 1 3]0.625 2.5 4.375"},
    {"QuantizeLinear", 17, "",
     "f[5]-1000 -1.5 0.5 1.5 1000; f[]1; s[]1", 1, 0,
     "s[5]-128 -1 1 3 127"},
    {"DequantizeLinear", 17, "axis=0",
     "u[2 2]1 2 3 4; f[2]0.5 2; u[2]1 2", 1, 0,
     "f[2 2]0 0.5 2 4"},
    {"DynamicQuantizeLinear", 17, "",
     "f[6]0 2 -3 -2.5 1.34 0.5", 3, 0,
     "u[6]153 255 0 26 221 179"},
    {"Slice", 17, "",
     "f[4 3]0 1 2 3 4 5 6 7 8 9 10 11; i[2]-1 5; i[2]-100 0; i[2]0 1; i[2]-2 -1", 1, 0,
     "f[2 2]11 10 5 4"},
    {"Slice", 9, "starts=[1]; ends=[-1]; axes=[1]",
     "f[3 4]0 1 2 3 4 5 6 7 8 9 10 11", 1, 0,
     "f[3 2]1 2 5 6 9 10"},
    {"Split", 18, "num_outputs=2",
     "f[5]0 1 2 3 4", 2, 1,
     "f[2]3 4"},
    {"Pad", 17, "mode='constant'",
     "f[2 3]0 1 2 3 4 5; i[4]0 2 1 -1", 1, 0,
     "f[3 4]0 0 0 1 0 0 3 4 0 0 0 0"},
    {"Pad", 17, "mode='reflect'",
     "f[4]0 1 2 3; i[2]2 3", 1, 0,
     "f[9]2 1 0 1 2 3 2 1 0"},
    {"Tile", 17, "",
     "f[2 2]0 1 2 3; i[2]2 1", 1, 0,
     "f[4 2]0 1 2 3 0 1 2 3"},
    {"Expand", 17, "",
     "f[3 1]0 1 2; i[3]2 1 2", 1, 0,
     "f[2 3 2]0 0 1 1 2 2 0 0 1 1 2 2"},
    {"Concat", 17, "axis=-1",
     "f[2 1]0 1; f[2 2]0 1 2 3", 1, 0,
     "f[2 3]0 0 1 1 2 3"},
    {"Gather", 17, "axis=1",
     "f[3 2]0 1 2 3 4 5; i[2]-1 0", 1, 0,
     "f[3 2]1 0 3 2 5 4"},
    {"GatherND", 17, "batch_dims=1",
     "f[2 2 2]0 1 2 3 4 5 6 7; i[2 1]1 0", 1, 0,
     "f[2 2]2 3 4 5"},
    {"GatherElements", 17, "axis=1",
     "f[2 2]0 1 2 3; i[2 2]1 -1 0 0", 1, 0,
     "f[2 2]1 1 2 2"},
    {"ScatterElements", 18, "reduction='add'",
     "f[3]0 1 2; i[2]1 1; f[2]5 6", 1, 0,
     "f[3]0 12 2"},
    {"ScatterND", 17, "",
     "f[4]0 1 2 3; i[2 1]2 0; f[2]9 8", 1, 0,
     "f[4]8 1 9 3"},
    {"TopK", 17, "",
     "f[5]3 1 4 1 5; i[1]3", 2, 1,
     "i[3]4 2 0"},
    {"OneHot", 17, "",
     "i[2]1 -1; i[]3; f[2]2 5", 1, 0,
     "f[2 3]2 5 2 2 2 5"},
    {"Trilu", 17, "upper=0",
     "f[3 3]0 1 2 3 4 5 6 7 8; i[]1", 1, 0,
     "f[3 3]0 1 0 3 4 5 6 7 8"},
    {"EyeLike", 17, "k=1",
     "f[2 3]0 1 2 3 4 5", 1, 0,
     "f[2 3]0 1 0 0 0 1"},
    {"Range", 17, "",
     "i[]5; i[]-2; i[]-3", 1, 0,
     "i[3]5 2 -1"},
    {"Range", 17, "",
     "f[]0.5; f[]2; f[]0.5", 1, 0,
     "f[3]0.5 1 1.5"},
    {"DepthToSpace", 17, "blocksize=2; mode='CRD'",
     "f[1 4 1 2]0 1 2 3 4 5 6 7", 1, 0,
     "f[1 1 2 4]0 2 1 3 4 6 5 7"},
    {"SpaceToDepth", 17, "blocksize=2",
     "f[1 1 2 4]0 1 2 3 4 5 6 7", 1, 0,
     "f[1 4 1 2]0 2 1 3 4 6 5 7"},
    {"ReverseSequence", 17, "time_axis=0; batch_axis=1",
     "f[3 2]0 1 2 3 4 5; i[2]2 3", 1, 0,
     "f[3 2]2 5 0 3 4 1"},
    {"Flatten", 17, "axis=-1",
     "f[2 1 3]0 1 2 3 4 5", 1, 0,
     "f[2 3]0 1 2 3 4 5"},
    {"Shape", 17, "start=-2",
     "f[2 3 4]0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23", 1, 0,
     "i[2]3 4"},
    {"Transpose", 17, "",
     "f[2 3]0 1 2 3 4 5", 1, 0,
     "f[3 2]0 3 1 4 2 5"},
    {"Unsqueeze", 17, "",
     "f[2]0 1; i[2]-1 0", 1, 0,
     "f[1 2 1]0 1"},
    {"NegativeLogLikelihoodLoss", 17, "",
     "f[2 3]-1.94 1.83 -0.13 -0.36 0.88 0.09; i[2]1 2; f[3]0.92 -1.66 0.25", 1, 0,
     "f[]-2.138511"},
    {"SoftmaxCrossEntropyLoss", 17, "reduction='sum'; ignore_index=2",
     "f[2 3]0.23 1.73 -1.84 -0.19 0.52 0.2; i[2]0 2", 1, 0,
     "f[]1.724172"},
    {"Attention", 23, "is_causal=1",
     "f[1 2 2 2]-1.7 0.37 -1.11 -1.22 1.51 -1.21 -0.18 1; f[1 1 3 2]0.83 0.21 1.23 -0.14 0.48 1.28; f[1 1 3 "
     "2]0.71 0.57 -0.38 0.23 -0.42 0.98", 1, 0,
     "f[1 2 2 2]0.71 0.57 0.1682756 0.4010217 0.71 0.57 0.2457157 0.4251774"},
    {"RotaryEmbedding", 23, "interleaved=1",
     "f[1 1 2 4]-0.48 -0.13 1.02 0.01 -0.65 1.31 -0.48 1.38; f[2 2]1.14 -0.21 0.85 -1.86; f[2 2]-0.44 1.44 0.32 "
     "0.23; i[1 2]1 0", 1, 0,
     "f[1 1 2 4]-0.3664 -0.2641 -1.8995 0.216 -0.1646 1.7794 -1.8864 -0.981"},
    {"GridSample", 20, "padding_mode='border'",
     "f[1 1 2 2]0 1 2 3; f[1 1 3 2]-1 -1 0 0.5 1.5 1", 1, 0,
     "f[1 1 1 3]0 2.5 3"},
    {"HannWindow", 17, "",
     "i[]4", 1, 0,
     "f[4]0 0.5 1 0.5"},
    {"CenterCropPad", 18, "",
     "f[3 2]0 1 2 3 4 5; i[2]1 4", 1, 0,
     "f[1 4]0 2 3 0"},
    {"Col2Im", 18, "",
     "f[1 4 2]0 1 2 3 4 5 6 7; i[2]2 3; i[2]2 2", 1, 0,
     "f[1 1 2 3]0 3 3 4 11 7"},
    /* clang-format on */
};

/* ---- Reading the table ---- */

static const struct {
    char letter;
    int onnx;
    enum ingot_dtype dtype;
} types[] = {{'f', 1, INGOT_F32}, {'u', 2, INGOT_U8},  {'s', 3, INGOT_I8},
             {'j', 6, INGOT_I32}, {'i', 7, INGOT_I64}, {'b', 9, INGOT_BOOL}};

enum { MAX_ELEMENTS = 128 };

struct literal {
    int onnx;
    enum ingot_dtype dtype;
    char dims[32]; /* as text */
    int count;
    double values[MAX_ELEMENTS];
};

static struct literal read_literal(const char *text) {
    struct literal l = {0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].letter != text[0]) continue;
        l.onnx = types[i].onnx;
        l.dtype = types[i].dtype;
    }
    assert_int_not_equal(l.onnx, 0);
    const char *end = strchr(text, ']');
    snprintf(l.dims, sizeof l.dims, "%.*s", (int)(end - text - 2), text + 2);
    for (const char *at = end + 1; *at && *at != ';';) {
        char *next;
        double value = strtod(at, &next);
        if (next == at) break;
        assert_true(l.count < MAX_ELEMENTS);
        l.values[l.count++] = value;
        at = next;
    }
    return l;
}

static void add_tensor(struct test_model *m, const char *name, const char *text) {
    struct literal l = read_literal(text);
    uint8_t bytes[MAX_ELEMENTS * sizeof(double)];
    for (int i = 0; i < l.count; i++)
        ig_store_f64(l.dtype, bytes, i, l.values[i]);
    test_raw(m, NULL, name, l.onnx, l.dims, bytes, (size_t)l.count * ingot_dtype_size(l.dtype));
}

/* Adds the inputs as initialisers; returns their names. */
static const char *add_inputs(struct test_model *m, const char *text) {
    char *names = ig_alloc(&m->job, 256);
    for (int i = 0; text; i++) {
        text += strspn(text, "; ");
        if (*text == '_') {
            strcat(names, "_ ");
        } else {
            const char *name = ig_format(&m->job, "i%d", i);
            add_tensor(m, name, text);
            strcat(strcat(names, name), " ");
        }
        text = strchr(text, ';');
    }
    return names;
}

/* ---- Running it ---- */

static void check_result(struct test_evaluation *e, const char *op, int shown, const char *expected) {
    struct literal want = read_literal(expected);
    const struct ingot_tensor *got = &e->outputs[shown];
    char dims[32] = "";
    for (int i = 0; i < got->rank; i++) {
        size_t used = strlen(dims);
        snprintf(dims + used, sizeof dims - used, "%s%lld", i ? " " : "", (long long)got->dims[i]);
    }
    if (got->dtype != want.dtype || strcmp(dims, want.dims) != 0) {
        fail_msg("%s: got %s[%s], expected %s[%s]", op, ingot_dtype_name(got->dtype), dims,
                 ingot_dtype_name(want.dtype), want.dims);
    }
    for (int i = 0; i < want.count; i++) {
        double value = ig_load_f64(got->dtype, got->data, i);
        if (fabs(value - want.values[i]) > 1e-5 + 1e-5 * fabs(want.values[i])) {
            fail_msg("%s: element %d is %g, expected %g", op, i, value, want.values[i]);
        }
    }
}

static void run_case(size_t index) {
    struct test_model m;
    char outputs[64] = "";
    test_model_init(&m, cases[index].opset);
    for (int i = 0; i < cases[index].outputs; i++) {
        const char *name = ig_format(&m.job, "o%d", i);
        strcat(strcat(outputs, name), " ");
        test_output(&m, NULL, name);
    }
    Onnx__NodeProto *node = test_node(&m, NULL, cases[index].op, add_inputs(&m, cases[index].inputs), outputs);
    test_attributes(&m, node, cases[index].attributes);
    struct test_evaluation e = {.graph = test_import(&m)};
    struct ingot_error error = {0};
    if (ig_job_run(&m.job, test_evaluate, &e, &error) != INGOT_OK) {
        fail_msg("%s: %s", cases[index].op, error.message);
    }
    check_result(&e, cases[index].op, cases[index].shown, cases[index].expected);
    for (int i = 0; i < cases[index].outputs; i++)
        ig_eval_release(&m.job, &e.outputs[i]);
    test_model_deinit(&m);
}

static void operators_compute_what_onnx_says(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_compute_what_onnx_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
