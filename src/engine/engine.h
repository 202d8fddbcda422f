/*
 * The engine file: sections behind a fixed header (format.h), created atomically and read as untrusted input.
 */
#ifndef IG_ENGINE_ENGINE_H
#define IG_ENGINE_ENGINE_H

#include "base/file.h"
#include "engine/plan.h"
#include "engine/refit.h"

/* The destination of an engine: a file that is created atomically, or memory. */
struct ig_engine_sink {
    void *user;
    enum ingot_status (*write)(void *user, const void *data, size_t size, struct ingot_error *error);
    /* Overwrites bytes that were written before. */
    enum ingot_status (*patch)(void *user, uint64_t offset, const void *data, size_t size, struct ingot_error *error);
};

/* A file; commit or abort it when the engine is written. */
struct ig_engine_sink ig_engine_file_sink(struct ig_file_writer *writer);

/* Memory, aligned to 64 bytes; begins with the allocator and zeroes. */
struct ig_engine_memory {
    const struct ingot_allocator *allocator;
    unsigned char *data;
    size_t size, capacity;
};
struct ig_engine_sink ig_engine_memory_sink(struct ig_engine_memory *memory);
/* Makes the capacity the size, so that the memory can be released by that; false without memory for it. */
bool ig_engine_memory_fit(struct ig_engine_memory *memory);
void ig_engine_memory_release(struct ig_engine_memory *memory);

struct ig_engine_image {
    const char *target;         /* "cpu:x86-64-v4" */
    uint64_t required_features; /* the IG_CPU_* features that the code needs (base/cpu.h) */
    struct ig_plan plan;
    const void *code;
    size_t code_size;
    struct ig_refit_tables refit;
    bool stripped; /* leave out the weights that have a recipe; weight_read is asked for the others only */
    /* Weights are produced piece by piece, so that the writer never holds all of them. weight_read(user, i, &data, &size,
     * error) gives the next bytes of number i of the table, at least one, and is called until all have come; the data
     * stay valid until the next call. Long pieces are not copied. */
    enum ingot_status (*weight_read)(void *user, uint32_t index, const void **out_data, size_t *out_size,
                                     struct ingot_error *error);
    void *weight_user;
    const char *explanation; /* JSON */
};
/* Deterministic: the bytes depend on the image alone. A plan that breaks its rules gives INGOT_INTERNAL. */
enum ingot_status ig_engine_write(const struct ig_engine_image *image, const struct ig_engine_sink *sink,
                                  const struct ingot_allocator *allocator, struct ingot_error *error);

struct ig_engine_file {
    struct ig_mapping mapping; /* .data is NULL if loaded from the caller's memory */
    int descriptor;            /* of the mapping's file */
    const unsigned char *data;
    size_t size;
    const char *target;
    uint64_t required_features;
    struct ig_plan plan; /* points into data, and to what follows */
    const struct ingot_allocator *allocator;
    char *strings; /* decompressed; NULL: they are not compressed in the file */
    size_t strings_size;
    void *unfolded; /* tables of the plan that are folded in the file (fold.h); NULL: none is */
    size_t unfolded_size;
    const void *code;
    size_t code_size;
    struct ig_refit_tables refit;
    bool stripped; /* it cannot run: `weights` are only those without a recipe, one behind the other */
    const unsigned char *weights;
    size_t weights_size;        /* of all of them, copies behind the section included (plan.h) */
    size_t section_size;        /* without these */
    size_t stored_size;         /* of those in the file: less if it is stripped */
    struct ig_plan_seats seats; /* whose copies this process needs: one rank's, unless the loader says otherwise */
    const uint64_t *weight_checksums; /* one per IG_ENGINE_CHUNK bytes of weights */
    const void *explanation;          /* JSON, compressed */
    size_t explanation_size;
};
/* Checks the header, all offsets, the checksums that `verify` selects, and every index and rule of the plan, so that no
 * access that follows the plan can leave its buffers. */
enum ingot_status ig_engine_open(const char *path, enum ingot_verify verify, const struct ingot_allocator *allocator,
                                 struct ig_engine_file *out_file, struct ingot_error *error);
enum ingot_status ig_engine_open_memory(const void *data, size_t size, enum ingot_verify verify,
                                        const struct ingot_allocator *allocator, struct ig_engine_file *out_file,
                                        struct ingot_error *error);
void ig_engine_close(struct ig_engine_file *file);
/* The explanation as JSON, NUL-terminated; the caller releases it, *out_size bytes. INGOT_BAD_ENGINE if it cannot be
 * decompressed. */
enum ingot_status ig_engine_unpack_explanation(const struct ig_engine_file *file,
                                               const struct ingot_allocator *allocator, char **out_text,
                                               size_t *out_size, struct ingot_error *error);
/* Of all weights: equal for engines with the same ones. */
uint64_t ig_engine_weights_checksum(const struct ig_engine_file *file);
/* The check that INGOT_VERIFY_LATER defers. */
enum ingot_status ig_engine_check_weights(const struct ig_engine_file *file, struct ingot_error *error);
/* The same of the chunks that these of the stored bytes lie in, from chunk *inout_chunk on, which moves behind them: for
 * ranges in ascending order. */
enum ingot_status ig_engine_check_range(const struct ig_engine_file *file, uint64_t begin, uint64_t end,
                                        uint64_t *inout_chunk, struct ingot_error *error);

#endif
