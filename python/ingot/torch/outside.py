"""Why operators that have no translation can have none."""

_REASONS = {
    "random numbers": """
        bernoulli cauchy exponential fractional_max_pool2d fractional_max_pool3d geometric log_normal multinomial native_dropout
        normal normal_functional poisson rand rand_like randint randint_like randn randn_like randperm
        rrelu_with_noise_functional uniform""",
    "a result whose size depends on values": """
        _unique2 bincount masked_select nonzero repeat_interleave unique_consecutive unique_dim""",
    "a number that the program reads": "_local_scalar_dense allclose equal is_nonzero item",
    "complex numbers": """
        _conj_copy _conj_physical _fft_c2c _fft_c2r _fft_r2c complex imag linalg_eig linalg_eigvals polar view_as_complex
        view_as_complex_copy view_as_real view_as_real_copy""",
    "sparse tensors": "_sparse_mm_reduce_impl _to_sparse sparse_sampled_addmm to_sparse",
}
_BY_NAME = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def why(target):
    """The reason why a node's target, an OpOverload, has no translation."""
    packet = getattr(target, "overloadpacket", None)
    return _BY_NAME.get(getattr(packet, "__name__", None), "not implemented")
