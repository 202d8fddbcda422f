#include "support/plan/mutation.h"

#include <string.h>

#include "base/hash/hash.h"
#include "engine/format.h"

/* Parts with records, weighted: those that the runtime follows furthest are mutated most. */
static const struct {
    enum ig_part part;
    unsigned weight;
} choices[] = {
    {IG_PART_SHAPE_PROGRAM, 6},  {IG_PART_STEPS, 5},   {IG_PART_KERNELS, 5}, {IG_PART_BUFFERS, 5},
    {IG_PART_OPERANDS, 4},       {IG_PART_DIMS, 4},    {IG_PART_CALLS, 4},   {IG_PART_TENSORS, 2},
    {IG_PART_SUBPLANS, 2},       {IG_PART_SYMBOLS, 2}, {IG_PART_CHECKS, 1},  {IG_PART_STRINGS, 1},
    {IG_PART_DEMAND_PROGRAM, 1}, {IG_PART_DEMANDS, 1},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

uint64_t mutation_random(uint64_t *random) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33 ^ *random >> 11;
}

static uint64_t below(uint64_t *random, uint64_t limit) {
    return mutation_random(random) % limit;
}

void mutation_repair(unsigned char *data) {
    struct ig_engine_header header;
    memcpy(&header, data, sizeof header);
    for (int part = 0; part < IG_PART_COUNT; part++) {
        struct ig_part_entry *entry = &header.parts[part];
        if (part != IG_PART_WEIGHTS) entry->checksum = ig_hash64(data + entry->offset, (size_t)entry->size);
    }
    header.checksum = ig_hash64(&header, offsetof(struct ig_engine_header, checksum));
    memcpy(data, &header, sizeof header);
}

/* ---- Values -------------------------------------------------------------------------------------------------------------- */

/* Values that could pass as valid, or overflow. */
static uint32_t bad_word(uint64_t *random, uint32_t old) {
    static const uint32_t values[] = {0,  1,  2,  3,   4,   7,    8,    15,         16,         31,         32,
                                      63, 64, 65, 127, 128, 1023, 1024, 0x7fffffff, 0x80000000, 0xfffffffe, ~0u};
    switch (below(random, 4)) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return (uint32_t)below(random, 64);
    default: return values[below(random, COUNT(values))];
    }
}

static int64_t bad_number(uint64_t *random, int64_t old) {
    static const int64_t values[] = {
        0, 1, -1, 2, INT32_MAX, (int64_t)INT32_MAX + 1, UINT32_MAX, INT64_MAX, INT64_MIN, INT64_MAX / 2, -16, 16};
    uint64_t bits = (uint64_t)old;
    switch (below(random, 5)) {
    case 0: return (int64_t)(bits + 1);
    case 1: return (int64_t)(bits - 1);
    case 2: return (int64_t)(bits * 2);
    case 3: return (int64_t)(bits + (uint64_t)below(random, 256) - 128);
    default: return values[below(random, COUNT(values))];
    }
}

/* ---- Mutations ----------------------------------------------------------------------------------------------------------- */

static enum ig_part choose_part(const struct ig_engine_header *header, uint64_t *random) {
    unsigned total = 0;
    for (size_t i = 0; i < COUNT(choices); i++)
        total += choices[i].weight;
    for (;;) {
        uint64_t at = below(random, total);
        size_t i = 0;
        for (; at >= choices[i].weight; i++)
            at -= choices[i].weight;
        if (header->parts[choices[i].part].size) return choices[i].part;
    }
}

/* Sets a word of a record to a bad value, or to the same field of another record, which is often acceptable. */
static void change_word(unsigned char *table, uint64_t count, uint32_t record, uint64_t *random) {
    uint32_t value, field = (uint32_t)below(random, record / 4) * 4;
    unsigned char *at = table + below(random, count) * record + field;
    memcpy(&value, at, sizeof value);
    if (below(random, 2)) {
        memcpy(&value, table + below(random, count) * record + field, sizeof value);
    } else {
        value = bad_word(random, value);
    }
    memcpy(at, &value, sizeof value);
}

/* Changes an instruction's operation or, if it is a constant, its value: most sizes derive from constants. */
static void change_instr(unsigned char *table, uint64_t count, uint64_t *random) {
    struct ig_shape_instr instr;
    unsigned char *at = table + below(random, count) * sizeof instr;
    memcpy(&instr, at, sizeof instr);
    if (instr.op != IG_SHAPE_CONST) {
        instr.op = (uint32_t)below(random, IG_SHAPE_MAX + 1);
    } else {
        instr.value = bad_number(random, instr.value);
    }
    memcpy(at, &instr, sizeof instr);
}

static void swap_records(unsigned char *table, uint64_t count, uint32_t record, uint64_t *random) {
    unsigned char *a = table + below(random, count) * record, *b = table + below(random, count) * record;
    for (uint32_t i = 0; i < record; i++) {
        unsigned char byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

static void mutate_once(unsigned char *data, uint64_t *random) {
    struct ig_engine_header header;
    memcpy(&header, data, sizeof header);
    enum ig_part part = choose_part(&header, random);
    unsigned char *table = data + header.parts[part].offset;
    uint32_t record = ig_part_rules[part].record;
    uint64_t count = header.parts[part].size / record;
    if (record < 4) {
        table[below(random, count)] = (unsigned char)mutation_random(random);
    } else if (part == IG_PART_SHAPE_PROGRAM && below(random, 4)) {
        change_instr(table, count, random);
    } else if (below(random, 8) == 0) {
        swap_records(table, count, record, random);
    } else {
        change_word(table, count, record, random);
    }
}

void mutate_engine(unsigned char *data, uint64_t *random) {
    for (uint64_t times = 1 + below(random, 4) / 2 * below(random, 3); times > 0; times--)
        mutate_once(data, random);
    mutation_repair(data);
}
