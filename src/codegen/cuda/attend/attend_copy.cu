// ---- Copies ----------------------------------------------------------------------------------------------------------

// The offset of a byte in a set of lines of BYTES bytes. The 16-byte chunks of a line are permuted by its number
// (swizzled), so that eight lines read at the same place fall into different banks. wgmma supports this layout.
template <int BYTES> __device__ __forceinline__ unsigned place(int line, int byte) {
    constexpr int chunks = BYTES % 128 == 0 ? 8 : BYTES % 64 == 0 ? 4 : BYTES % 32 == 0 ? 2 : 1;
    return line * BYTES + ((byte / 16) ^ (line / (8 / chunks) % chunks)) * 16 + byte % 16;
}

// For wgmma, lines longer than 128 bytes are divided into panels of 128 bytes, each with all LINES of them.
template <int LINES, int BYTES> __device__ __forceinline__ unsigned place_copied(int line, int byte) {
    if constexpr (GROUPS && BYTES > 128) return byte / 128 * (LINES * 128) + place<128>(line, byte % 128);
    return place<BYTES>(line, byte);
}

// The element at which a line begins: lines are `ld` apart or, with a TABLE, listed there from index `ld` on.
template <int TABLE> __device__ __forceinline__ long long find_line(int line, long long ld) {
    if constexpr (TABLE < 0)
        return line * ld;
    else
        return ((const long long *)(memory() + TABLES_AT))[TABLE + (int)ld + line];
}

// Copies LINES lines, of which `bytes` bytes exist; zero-fills beyond them and, unless ALL exist, beyond
// `left` lines. Executed by threads thread, thread + COUNT, ….
template <int LINES, int BYTES, int COUNT, int TABLE, bool ALL>
__device__ __forceinline__ void copy_lines(unsigned to, const char *from, long long ld, int left, int bytes, int thread) {
    constexpr int units = BYTES / 16, apart = COUNT / units;
    // Are a thread's lines equally far apart? Then their addresses are sums, else each is computed. In shared memory every
    // eighth line is permuted alike, which is one in `period` of the thread's.
    constexpr bool even = TABLE < 0 && COUNT % units == 0;
    constexpr int period = even && apart % 8 ? 8 / apart : 1, line_bytes = GROUPS && BYTES > 128 ? 128 : BYTES;
    unsigned first[period];
#pragma unroll
    for (int i = 0; i < period; i++)
        first[i] = place_copied<LINES, BYTES>(thread / units + i * apart, thread % units * 16);
    const char *next = even ? from + thread / units * ld * ELEMENT + thread % units * 16 : from;
#pragma unroll
    for (int i = 0; i < (LINES * units + COUNT - 1) / COUNT; i++) {
        const int unit = thread + i * COUNT, line = unit / units, byte = unit % units * 16;
        const bool exists = LINES * units % COUNT == 0 || unit < LINES * units;
        const bool inside = exists && (ALL || line < left) && byte < bytes;
        const unsigned place = even ? first[i % period] + i / period * period * apart * line_bytes : place_copied<LINES, BYTES>(line, byte);
        if constexpr (!even) next = from + (inside ? find_line<TABLE>(line, ld) * ELEMENT + byte : 0);
        if (exists)
            asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to + place), "l"(inside ? next : from),
                         "r"(inside ? 16 : 0));
        if constexpr (even) next += apart * ld * ELEMENT;
    }
}

// Most sets are complete.
template <int LINES, int BYTES, int COUNT, int TABLE>
__device__ __forceinline__ void copy(unsigned to, const char *from, long long ld, int left, int bytes, int thread) {
    if (left >= LINES)
        copy_lines<LINES, BYTES, COUNT, TABLE, true>(to, from, ld, left, bytes, thread);
    else
        copy_lines<LINES, BYTES, COUNT, TABLE, false>(to, from, ld, left, bytes, thread);
}

__device__ __forceinline__ void close_copies() {
    asm volatile("cp.async.commit_group;" ::);
}

// Waits until all but the newest LEFT groups of copies have arrived.
template <int LEFT> __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// If warps share no keys, each copies its own.
constexpr bool OWN = WARPS_M == 1;

template <int BYTES, int TABLE>
__device__ __forceinline__ void copy_keys(int at, const void *from, long long ld, long long first, long long keys,
                                          int bytes) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if constexpr (OWN) first += warp * KEYS;
    const long long left = keys - first;
    const int some = left < STEP ? left < 0 ? 0 : (int)left : STEP;
    const char *line = (const char *)from;
    if (TABLE >= 0)
        ld += first;
    else if (some)
        line += first * ld * ELEMENT;
    if constexpr (OWN)
        copy<KEYS, BYTES, 32, TABLE>(shared_address(at + warp * KEYS * BYTES), line, ld, some, bytes, lane);
    else
        copy<STEP, BYTES, THREADS, TABLE>(shared_address(at), line, ld, some, bytes, threadIdx.x);
}

// Issues the copies of a step: one group for the keys, one for the values. Those of the first STAGES steps are issued at
// once; later ones run AHEAD steps ahead: STAGES - 1, or STAGES if there are no more steps (WHOLE), whose groups are empty.
__device__ __forceinline__ void copy_step(long long step, const void *k, long long ldk, const void *v, long long ldv,
                                          long long keys) {
    const int at = KEYS_AT + (int)(step % STAGES) * STAGE;
    if (step * STEP < keys) copy_keys<LINE, TABLE_K>(at, k, ldk, step * STEP, keys, DEPTH_BYTES);
    close_copies();
    if (step * STEP < keys) copy_keys<LINE_V, TABLE_V>(at + VALUES_AT, v, ldv, step * STEP, keys, COLUMN_BYTES);
    close_copies();
}

// Makes the copies of all threads that share keys visible to all of them, and to the tensor cores.
__device__ __forceinline__ void meet(bool first) {
    if constexpr (GROUPS) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (OWN && !first)
        __syncwarp();
    else
        __syncthreads();
}
