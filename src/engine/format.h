/*
 * The engine file.
 *
 *     header | part | part | … | code | weights | weight checksums
 *
 * The header is a fixed struct, little-endian, and ends with its own checksum. A part is one array of fixed-size
 * records (bytes, for texts, code and weights). Parts lie in the order of `enum ig_part`, each at the first multiple of
 * its alignment after the previous one; padding is zero; the last part ends the file. So every offset has exactly one
 * valid value, and every byte of a file is covered: by the header's checksum, by a part's, by the checksum of its chunk
 * of weights, or by having to be zero.
 *
 * Weights have one checksum per chunk, stored in a part of their own, because they are written as they are computed and
 * may be verified separately (enum ingot_verify). Checksums are XXH3, 64 bits: they detect damage, not malice.
 */
#ifndef IG_ENGINE_FORMAT_H
#define IG_ENGINE_FORMAT_H

#include "engine/plan.h"
#include "engine/refit.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "engines are used as they lie in the file, which is little-endian"
#endif

/* As in PNG: the first byte is not text, and a transfer that converts line endings is detected. */
#define IG_ENGINE_MAGIC "\x89INGOT\r\n"
#define IG_ENGINE_MAGIC_SIZE 8
/* Incremented with every change of this file or plan.h. There is no backward compatibility: engines are rebuilt. */
#define IG_ENGINE_FORMAT 23u
#define IG_ENGINE_ALIGNMENT 64u
#define IG_ENGINE_PAGE 4096u
#define IG_ENGINE_CHUNK ((size_t)1 << 20) /* bytes of weights per checksum */

enum ig_part {
    IG_PART_STRINGS, /* compressed if there are repetitions, since labels then repeat too */
    IG_PART_TENSORS, /* inputs and outputs of all subplans */
    IG_PART_SYMBOLS,
    IG_PART_SHAPE_PROGRAM,
    IG_PART_SUBPLANS,
    IG_PART_RANKS,
    IG_PART_COPIES,
    IG_PART_BUFFERS,
    IG_PART_STEPS,
    IG_PART_OPERANDS,
    IG_PART_DIMS,
    IG_PART_CHECKS,
    IG_PART_DEMAND_PROGRAM,
    IG_PART_DEMANDS,
    IG_PART_KERNELS,
    IG_PART_CALLS,
    IG_PART_COLLECTIVES,
    IG_PART_RUNS,   /* repetitions in the tables above: fold.h */
    IG_PART_LISTED, /* words of theirs */
    IG_PART_WEIGHT_TABLE,
    IG_PART_INITIALIZERS,
    IG_PART_SOURCES,
    IG_PART_NAMES, /* of initialisers, and other texts about them */
    IG_PART_RECIPES,
    IG_PART_EXPLANATION, /* compressed */
    IG_PART_CODE,
    IG_PART_WEIGHTS,
    IG_PART_WEIGHT_CHECKSUMS,
    IG_PART_COUNT
};

/* Records of a table in iterations (fold.h), of which the file has the first two. */
struct ig_plan_run {
    uint32_t part;    /* the table: an enum ig_part */
    uint32_t first;   /* record of the whole table */
    uint32_t period;  /* records per iteration */
    uint32_t count;   /* iterations, at least 3 */
    uint32_t columns; /* words of an iteration that are listed: the word, then its value in each from the third on */
};

struct ig_part_rule {
    const char *name;
    uint32_t record; /* bytes per record */
    uint32_t alignment;
};
extern const struct ig_part_rule ig_part_rules[IG_PART_COUNT];

struct ig_part_entry {
    uint64_t offset, size;
    uint64_t checksum; /* 0 for the weights */
};

struct ig_engine_header {
    char magic[IG_ENGINE_MAGIC_SIZE];
    uint32_t format;
    uint32_t header_size;
    char producer[32]; /* "ingot 0.1.0"; zero-padded and NUL-terminated, like `target` */
    char target[64];
    uint64_t file_size;
    uint64_t required_features; /* IG_CPU_* */
    uint64_t stripped;          /* 1: of the weights, only those that depend on no initialiser are there (refit.h) */
    struct ig_part_entry parts[IG_PART_COUNT];
    uint64_t checksum; /* of all bytes before it */
};

_Static_assert(sizeof(struct ig_engine_header) == 144 + 24 * IG_PART_COUNT, "no padding in the header");
_Static_assert(sizeof(struct ig_plan_tensor) == 24 + 8 * INGOT_MAX_RANK, "no padding in records");
_Static_assert(sizeof(struct ig_plan_symbol) == 40 && sizeof(struct ig_shape_instr) == 24, "no padding in records");
_Static_assert(sizeof(struct ig_weight_copy) == 40, "no padding in records");
_Static_assert(sizeof(struct ig_plan_rank) == 16, "no padding in records");
_Static_assert(sizeof(struct ig_subplan) == 40 && sizeof(struct ig_plan_buffer) == 24, "no padding in records");
_Static_assert(sizeof(struct ig_plan_step) == 72 && sizeof(struct ig_plan_kernel) == 296, "no padding in records");
_Static_assert(sizeof(struct ig_plan_demand) == 16 + 4 * IG_UNIT_COUNT, "no padding in records");
_Static_assert(sizeof(struct ig_plan_run) == 20, "no padding in records");
_Static_assert(sizeof(struct ig_weight_entry) == 32, "no padding in records");
_Static_assert(sizeof(struct ig_initializer_entry) == 48 + 8 * INGOT_MAX_RANK, "no padding in records");
_Static_assert(sizeof(struct ig_plan_check) == 12 && sizeof(struct ig_library_call) == 68, "no padding in records");

/* The first valid offset after `end` for a part; false if it does not fit in 64 bits. */
bool ig_part_place(enum ig_part part, uint64_t end, uint64_t *out_offset);

#endif
