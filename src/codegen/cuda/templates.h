/* The files NAME.cu of this folder as text: the parts of templates that do not depend on the kernel. */
#ifndef IG_CODEGEN_CUDA_TEMPLATES_H
#define IG_CODEGEN_CUDA_TEMPLATES_H

extern const char ig_cuda_template_attend[];
extern const char ig_cuda_template_attend_block[];
extern const char ig_cuda_template_attend_copy[];
extern const char ig_cuda_template_attend_direct[];
extern const char ig_cuda_template_attend_fma[];
extern const char ig_cuda_template_attend_mma[];
extern const char ig_cuda_template_attend_narrow[];
extern const char ig_cuda_template_attend_served[];
extern const char ig_cuda_template_attend_turns[];
extern const char ig_cuda_template_attend_wgmma[];
extern const char ig_cuda_template_banded[];
extern const char ig_cuda_template_blocks[];
extern const char ig_cuda_template_blocks_direct[];
extern const char ig_cuda_template_blocks_stream[];
extern const char ig_cuda_template_copy[];
extern const char ig_cuda_template_depthwise[];
extern const char ig_cuda_template_depthwise_bytes[];
extern const char ig_cuda_template_exchange[];
extern const char ig_cuda_template_exchange_push[];
extern const char ig_cuda_template_exchange_row[];
extern const char ig_cuda_template_exchange_unpushed[];
extern const char ig_cuda_template_exchange_words[];
extern const char ig_cuda_template_gemm[];
extern const char ig_cuda_template_gemm_barrier[];
extern const char ig_cuda_template_gemm_box[];
extern const char ig_cuda_template_gemm_copy[];
extern const char ig_cuda_template_gemm_direct[];
extern const char ig_cuda_template_gemm_direct_fma[];
extern const char ig_cuda_template_gemm_direct_mma[];
extern const char ig_cuda_template_gemm_direct_walk[];
extern const char ig_cuda_template_gemm_element[];
extern const char ig_cuda_template_gemm_fma[];
extern const char ig_cuda_template_gemm_group[];
extern const char ig_cuda_template_gemm_mma[];
extern const char ig_cuda_template_gemm_patches[];
extern const char ig_cuda_template_gemm_producer[];
extern const char ig_cuda_template_gemm_ring[];
extern const char ig_cuda_template_gemm_scales[];
extern const char ig_cuda_template_gemm_stream_fma[];
extern const char ig_cuda_template_gemm_stream_mma[];
extern const char ig_cuda_template_gemm_taps[];
extern const char ig_cuda_template_gemm_unscaled[];
extern const char ig_cuda_template_gemm_walk[];
extern const char ig_cuda_template_gemm_wgmma[];
extern const char ig_cuda_template_gemm_windows[];
extern const char ig_cuda_template_load[];
extern const char ig_cuda_template_mma[];
extern const char ig_cuda_template_patch[];
extern const char ig_cuda_template_recurrent[];
extern const char ig_cuda_template_recurrent_fma[];
extern const char ig_cuda_template_recurrent_mma[];
extern const char ig_cuda_template_topk[];

#endif
