"""Which ATen operators are taken apart before they are imported, and which stay whole."""

import functools

import torch

from .registry import find

# Composites that have an operator of their own here: taken apart, they would have to be found again.
WHOLE = """
    scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu layer_norm native_layer_norm group_norm
    native_group_norm rms_norm _fused_rms_norm batch_norm instance_norm _native_batch_norm_legit_no_training gelu silu
    hardswish hardsigmoid mish softplus elu celu selu leaky_relu prelu _prelu_kernel log_sigmoid_forward hardtanh relu6 glu
    linear embedding convolution conv1d conv2d conv3d conv1d.padding conv2d.padding conv3d.padding conv_transpose1d
    conv_transpose2d.input conv_transpose3d.input max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
    _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d max_pool2d_with_indices
    max_pool3d_with_indices upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_nearest1d.vec
    upsample_nearest2d.vec upsample_nearest3d.vec _upsample_nearest_exact1d.vec _upsample_nearest_exact2d.vec
    _upsample_nearest_exact3d.vec _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    upsample_linear1d upsample_linear1d.vec upsample_bilinear2d upsample_bilinear2d.vec upsample_trilinear3d
    upsample_trilinear3d.vec upsample_bicubic2d upsample_bicubic2d.vec grid_sampler_2d grid_sampler_3d grid_sampler
    affine_grid_generator pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle reflection_pad1d
    reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d lstm.input gru.input einsum
    matmul addmm baddbmm softmax.int log_softmax.int _softmax _log_softmax _safe_softmax logsumexp
    linalg_vector_norm tril triu index_select index_add index_copy index_fill.int_Scalar masked_fill.Scalar
    masked_fill.Tensor roll flip unfold_copy repeat repeat_interleave.self_int stack unbind.int split.Tensor
    split_with_sizes floor_divide std.correction var.correction var_mean.correction std_mean.correction addcmul addcdiv
    lerp.Scalar lerp.Tensor logaddexp logaddexp2 xlogy.Tensor hypot copysign.Tensor fmax fmin nan_to_num
    clamp_min clamp_max expm1 exp2 erfc sinc frac isfinite isposinf isneginf heaviside signbit bucketize.Tensor
    searchsorted.Tensor im2col col2im eye eye.m linspace any all any.dim all.dim outer mv dot addmv special_ndtr
""".split()


@functools.cache
def table(exported=False):
    """
    OpOverload -> its decomposition. exported: for ExportedProgram.run_decompositions; else for AOTAutograd, where composite
    operators have been taken apart already.
    """
    from torch._decomp import core_aten_decompositions

    whole = {find(name) for name in WHOLE}
    full = torch.export.default_decompositions() if exported else core_aten_decompositions()
    full = dict(full.items())
    return {op: rule for op, rule in full.items() if op not in whole}
