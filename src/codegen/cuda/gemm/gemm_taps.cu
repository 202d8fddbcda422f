// The tiles of A that is windows of a convolution over channels-last images (implicit GEMM): a step is one tap's pixels of
// BM windows, in the order of the outputs, for DEPTH of the channels. TMA walks from window to window by itself ("im2col").

struct window_tiles {
    const tensor_map &map;
    int out_planes, out_rows, out_columns; // of the output
    int image, z, y, x;                    // the tile's first window and where it begins

    __device__ __forceinline__ window_tiles(const tensor_map &a, long long planes, long long rows, long long columns)
        : map(a), image(0), z(0), y(0), x(0) {
        out_planes = ((int)planes - 1 + UPPER_Z - LOWER_Z) / STRIDE_Z + 1;
        out_rows = ((int)rows - 1 + UPPER_Y - LOWER_Y) / STRIDE_Y + 1;
        out_columns = ((int)columns - 1 + UPPER_X - LOWER_X) / STRIDE_X + 1;
    }
    __device__ __forceinline__ long long windows(long long images) const {
        return images * out_planes * out_rows * out_columns;
    }
    __device__ __forceinline__ void start(int first, int column, matrix) {
        const int row = first / out_columns, plane = row / out_rows;
        image = plane / out_planes;
        x = (first - row * out_columns) * STRIDE_X + LOWER_X;
        y = (row - plane * out_rows) * STRIDE_Y + LOWER_Y;
        z = (plane - image * out_planes) * STRIDE_Z + LOWER_Z;
    }
    __device__ __forceinline__ void bring(unsigned to, int step, unsigned barrier) const {
        constexpr int pieces = CHANNELS / DEPTH;
        const int tap = step / pieces, channel = step % pieces * DEPTH;
        const unsigned short column = tap % TAPS_X * DILATION_X, row = tap / TAPS_X % TAPS_Y * DILATION_Y;
        if constexpr (AXES == 2) {
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
                         "[%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
                         "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(barrier), "h"(column), "h"(row)
                         : "memory");
        } else {
            const unsigned short plane = tap / (TAPS_X * TAPS_Y) * DILATION_Z;
            asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
                         "[%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10};" ::"r"(to),
                         "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(z), "r"(image), "r"(barrier), "h"(column), "h"(row),
                         "h"(plane)
                         : "memory");
        }
    }
};
