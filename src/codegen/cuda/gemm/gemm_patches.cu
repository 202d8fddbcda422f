// The stages of A that is windows of a convolution over channels-last images, where a tile is a rectangle of an image's
// outputs, PATCH_ROWS x PATCH_COLUMNS: TMA brings the pixels that their windows have, and zeros beyond the image, once for all
// taps. With strides it brings those of each phase by themselves, PATCH_LINE in a line, so that neighbouring windows have neighbours.

struct patch_tiles {
    const tensor_map &map;
    int down, across; // tiles of an image
    int image, y, x;  // the patch's first pixel
    int channel;      // the group's first

    __device__ __forceinline__ patch_tiles(const tensor_map &a, long long rows, long long columns) : map(a), image(0), y(0), x(0), channel(0) {
        down = (((int)rows - 1 + UPPER_Y - LOWER_Y) / STRIDE_Y + PATCH_ROWS) / PATCH_ROWS;
        across = (((int)columns - 1 + UPPER_X - LOWER_X) / STRIDE_X + PATCH_COLUMNS) / PATCH_COLUMNS;
    }
    __device__ __forceinline__ void start(int first, int column, matrix) {
        if constexpr (CHANNEL_GROUPS > 1) channel = column / GROUP_COLUMNS * CHANNELS;
        const int tile = first / BM, line = tile / across;
        image = line / down;
        x = (tile - line * across) * PATCH_COLUMNS * STRIDE_X + LOWER_X;
        y = (line - image * down) * PATCH_ROWS * STRIDE_Y + LOWER_Y;
    }
    __device__ __forceinline__ void bring(unsigned to, int slice, unsigned barrier) const {
#pragma unroll
        for (int row = 0; row < PHASES_Y; row++)
#pragma unroll
            for (int column = 0; column < PHASES_X; column++)
                bring_box(to + (row * PHASES_X + column) * PATCH_BYTES, slice, x + column, y + row, barrier);
    }
    // From a pixel on. Small ones follow each other in a line.
    __device__ __forceinline__ void bring_box(unsigned to, int slice, int column, int row, unsigned barrier) const {
        if constexpr (PIXEL == 16)
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                         "[%1, {%2, %3, %4}], [%5];" ::"r"(to),
                         "l"(&map), "r"(column * CHANNELS), "r"(row), "r"(image), "r"(barrier)
                         : "memory");
        else
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                         "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
                         "l"(&map), "r"(channel + slice * DEPTH), "r"(column), "r"(row), "r"(image), "r"(barrier)
                         : "memory");
    }
};
