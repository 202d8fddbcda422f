/* A depthwise convolution by banded matrices as CUDA C++. */
#include "codegen/cuda/banded.h"

#include "codegen/cuda/templates.h"

void ig_cuda_banded(const struct ig_cuda_banded *b, struct ig_text *text) {
    static const char axes[] = "YX";
    ig_text_add(text, "namespace banded {\n");
    ig_text_printf(text, "enum { FMA, TF32, F16, BF16, MATH = %d };\n", (int)b->math);
    for (int i = 0; i < 2; i++)
        ig_text_printf(text, "enum { TAPS_%c = %d, STRIDE_%c = %d, DILATION_%c = %d };\n", axes[i], b->taps[i], axes[i],
                       b->strides[i], axes[i], b->dilations[i]);
    ig_text_printf(text, "enum { CHANNELS = %lld, GROUP = %d, OWN = %d };\n", (long long)b->channels, b->group, b->own);
    ig_text_printf(text, "enum { ROWS = %d, IMAGES = %d, BANDS = %d, PLACES = %d };\n", b->rows, b->tile[0], b->tile[1],
                   b->tile[2]);
    ig_text_printf(text, "enum { STEPS = %d, REACH = %d, LINES = %d, CHUNKS = %d };\n", ig_cuda_banded_steps(b),
                   ig_cuda_banded_reach(b), ig_cuda_banded_lines(b), ig_cuda_banded_chunks(b));
    ig_text_printf(text, "enum { LINE = %d, IMAGE = %d, PLANE = %d, FILTERS_AT = %d };\n", ig_cuda_banded_line(b),
                   ig_cuda_banded_image(b), ig_cuda_banded_plane(b), ig_cuda_banded_filters_at(b));
    ig_text_printf(text, "enum { SKEW = %d };\n", ig_cuda_banded_skew(b));
    ig_text_add(text, ig_cuda_template_mma);
    ig_text_add(text, ig_cuda_template_banded);
    ig_text_add(text, "}\n");
}
