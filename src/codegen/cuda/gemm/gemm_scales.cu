// Scales of blocks of the depth, one for each step. What a step sums up is multiplied by the scale of its row times that of its column, a
// product that is rounded first, as it is added to the sums of the steps before.

__device__ constexpr int common_divisor(int a, int b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

// The scales of a step for a thread's sums in WIDTH columns, which begin at a multiple of WIDTH: two of each eight, or all, if
// neighbours share a scale.
template <int WIDTH> struct column_scales {
    static constexpr int shared = common_divisor(WIDTH, SCALE_COLUMNS), count = shared < 8 ? WIDTH / 4 : WIDTH / shared;
    float at[count];

    // Of sum e in eight columns, number j.
    __device__ __forceinline__ float of(int j, int e) const {
        return at[shared < 8 ? j * 2 + e % 2 : j * 8 / shared];
    }
};

// Where the scales lie: those of row r and step s at rows[r * row_pitch + s * step_pitch], those of neighbouring columns side by side.
struct scales {
    const float *rows, *columns;
    long long row_pitch, step_pitch, last_row, across;
    int first_row, first_column, step;

    __device__ __forceinline__ void start(const float *rows_, long long row_pitch_, long long step_pitch_, long long count,
                                          const float *columns_, long long across_, int first_row_, int first_column_,
                                          int step_) {
        rows = rows_, columns = columns_;
        row_pitch = row_pitch_, step_pitch = step_pitch_, last_row = count - 1, across = across_;
        first_row = first_row_, first_column = first_column_, step = step_;
    }

    // Of the thread's two rows of 16 that begin at `row` of the tile. Rows and columns beyond the last have the last one's.
    __device__ __forceinline__ void of_rows(float (&to)[2], int row) const {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const long long at = min((long long)(first_row + row + (int)threadIdx.x % 32 / 4 + half * 8), last_row);
            to[half] = rows[at * row_pitch + step * step_pitch];
        }
    }

    // Of the thread's columns of WIDTH that begin at `column` of the tile.
    template <int WIDTH> __device__ __forceinline__ void of_columns(column_scales<WIDTH> &to, int column) const {
        typedef column_scales<WIDTH> own;
        const float *from = columns + step * across;
#pragma unroll
        for (int i = 0; i < own::count; i++) {
            int at = i * own::shared;
            if (own::shared < 8 && DEALT_SCALES) at = i / 8 * 32 + (int)threadIdx.x % 4 * 8 + i % 8;
            else if (own::shared < 8) at = i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
            to.at[i] = from[min((first_column + column + at) / SCALE_COLUMNS, (int)across - 1)];
        }
    }
};
