/* Seeded random inputs. */
#ifndef CLI_RANDOM_H
#define CLI_RANDOM_H

#include "tensor/tensor.h"

/* The next of a sequence of numbers, uniform over 64 bits; any state begins one. */
uint64_t random_next(uint64_t *state);

/*
 * Fills a tensor by its type: floating types with standard normal numbers, bytes over their whole range, bool with coin
 * flips. Wider integers are mostly indices, lengths and masks, so they are small: 1 if there are at most 8 of them
 * along one axis, 0 or 1 if the name suggests a mask or type, else 0 to 9. Equal seeds and names give equal contents.
 */
void random_fill(const struct ingot_tensor *tensor, const char *name, unsigned seed);

#endif
