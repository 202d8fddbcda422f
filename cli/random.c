/* SplitMix64 (Steele, Lea, Flood 2014) and the polar method (Marsaglia) for normal numbers. */
#include "random.h"

#include <math.h>
#include <string.h>

uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(uint64_t *state) {
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

static double normal(uint64_t *state) {
    for (;;) {
        double x = 2 * uniform(state) - 1, y = 2 * uniform(state) - 1, square = x * x + y * y;
        if (square > 0 && square < 1) return x * sqrt(-2 * log(square) / square);
    }
}

/* Exclusive upper bounds of wide integers. No adapter is chosen at random. */
static unsigned integer_bound(const struct ingot_tensor *tensor, const char *name) {
    if (strcmp(name, "adapter") == 0) return 1;
    return strstr(name, "mask") || strstr(name, "type") || strstr(name, "segment") ? 2 : 10;
}

void random_fill(const struct ingot_tensor *tensor, const char *name, unsigned seed) {
    uint64_t state = seed;
    for (const char *c = name; *c; c++)
        state = (state ^ (unsigned char)*c) * 0x100000001b3u;
    int64_t n = ingot_tensor_elements(tensor);
    size_t size = ingot_dtype_size(tensor->dtype);
    unsigned bound = integer_bound(tensor, name);
    bool sizes = tensor->rank <= 1 && n <= 8 && bound > 1;
    for (int64_t i = 0; i < n; i++) {
        if (dtype_is_float(tensor->dtype)) {
            tensor_set(tensor, i, normal(&state));
        } else if (tensor->dtype == INGOT_BOOL) {
            tensor_set(tensor, i, (double)(random_next(&state) & 1));
        } else if (size == 1) {
            ((unsigned char *)tensor->data)[i] = (unsigned char)random_next(&state);
        } else {
            tensor_set(tensor, i, sizes ? 1 : (double)(random_next(&state) % bound));
        }
    }
}
