/*
 * Maliciously crafted engines: fields of the plan's records are changed and the checksums corrected, so that only the
 * rules of plans (engine/check.c) and of numbers (the runtime's) are left to refuse them.
 */
#ifndef TESTS_SUPPORT_MUTATION_H
#define TESTS_SUPPORT_MUTATION_H

#include <stddef.h>
#include <stdint.h>

/* Changes one to three fields or records, chosen by `random`, of the engine at `data`, whose header is valid. */
void mutate_engine(unsigned char *data, uint64_t *random);
/* Corrects the checksums of the header and of all parts but the weights. */
void mutation_repair(unsigned char *data);
uint64_t mutation_random(uint64_t *random);

#endif
