// Boxes of matrices in memory, which the copy engine (TMA) brings by tensor maps (base/tensor_map.h).

struct __align__(64) tensor_map {
    unsigned long long opaque[16];
};

// The box whose first element is number x of line y.
__device__ __forceinline__ void bring(unsigned to, const tensor_map &map, int x, int y, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}

// The same of one of several matrices.
__device__ __forceinline__ void bring(unsigned to, const tensor_map &map, int x, int y, int inner, int outer, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(inner), "r"(outer), "r"(barrier)
                 : "memory");
}
