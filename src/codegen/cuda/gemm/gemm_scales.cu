// Scales of blocks of the depth, one for each step. What a step sums up is multiplied by the scale of its row times that of its column, a
// product that is rounded first, as it is added to the sums of the steps before.

__device__ constexpr int common_divisor(int a, int b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

// The scales of a step for a thread's sums: of two rows of each of ROWS times 16, and in WIDTH columns, which begin at a multiple of WIDTH,
// of two of each eight, or all, if neighbours share a scale.
template <int WIDTH, int ROWS = 1> struct step_scales {
    static constexpr int shared = common_divisor(WIDTH, SCALE_COLUMNS), count = shared < 8 ? WIDTH / 4 : WIDTH / shared;
    float rows[ROWS][2], columns[count];

    // Adds sum e of 16 rows, number i, in eight columns, number j.
    __device__ __forceinline__ void add(total &to, step_total sum, int i, int j, int e) const {
        to += rows[i][e / 2] * columns[shared < 8 ? j * 2 + e % 2 : j * 8 / shared] * (float)sum;
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

    // Of the thread's two rows of the 16, number i, that begin at `row` of the tile. Rows and columns beyond the last have the last one's.
    template <int WIDTH, int ROWS> __device__ __forceinline__ void of_rows(step_scales<WIDTH, ROWS> &to, int i, int row) const {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const long long at = min((long long)(first_row + row + (int)threadIdx.x % 32 / 4 + half * 8), last_row);
            to.rows[i][half] = rows[at * row_pitch + step * step_pitch];
        }
    }

    // Of the thread's columns of WIDTH that begin at `column` of the tile.
    template <int WIDTH, int ROWS> __device__ __forceinline__ void of_columns(step_scales<WIDTH, ROWS> &to, int column) const {
        typedef step_scales<WIDTH, ROWS> own;
        const float *from = columns + step * across;
#pragma unroll
        for (int i = 0; i < own::count; i++) {
            int at = i * own::shared;
            if (own::shared < 8 && DEALT_SCALES) at = i / 8 * 32 + (int)threadIdx.x % 4 * 8 + i % 8;
            else if (own::shared < 8) at = i / 2 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
            to.columns[i] = from[min((first_column + column + at) / SCALE_COLUMNS, (int)across - 1)];
        }
    }

    __device__ __forceinline__ void advance(int steps) {
        step += steps;
    }
};
