// The types of gemm_scales.cu where there are no scales: they hold nothing, and leave sums as they are.

template <int WIDTH, int ROWS = 1> struct step_scales {
    __device__ __forceinline__ void add(total &to, step_total sum, int, int, int) const {
        to += sum;
    }
};

struct scales {
    template <int WIDTH, int ROWS> __device__ __forceinline__ void of_rows(step_scales<WIDTH, ROWS> &, int, int) const {
    }
    template <int WIDTH, int ROWS> __device__ __forceinline__ void of_columns(step_scales<WIDTH, ROWS> &, int) const {
    }
    __device__ __forceinline__ void advance(int) {
    }
};
