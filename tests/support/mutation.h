/*
 * Engines that somebody made with care to do harm: fields of the plan's records get other values and the checksums are made
 * to fit again, so that what is left to refuse them are the rules of plans (engine/check.c) and of numbers (the runtime's).
 */
#ifndef TESTS_SUPPORT_MUTATION_H
#define TESTS_SUPPORT_MUTATION_H

#include <stddef.h>
#include <stdint.h>

/* Changes one to three fields or records, chosen by `random`, of the engine at `data`, whose header is sound. */
void mutate_engine(unsigned char *data, uint64_t *random);
/* Makes the checksums of the header and of all parts but the weights fit. */
void mutation_repair(unsigned char *data);
uint64_t mutation_random(uint64_t *random);

#endif
