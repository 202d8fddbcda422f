/*
 * The engine file: sections behind a fixed header (format.h), written whole or not at all, read without trust.
 */
#ifndef IG_ENGINE_ENGINE_H
#define IG_ENGINE_ENGINE_H

#include "base/file.h"
#include "engine/plan.h"

/* Where an engine goes: a file that appears whole or not at all, or memory. */
struct ig_engine_sink {
    void *user;
    enum ingot_status (*write)(void *user, const void *data, size_t size, struct ingot_error *error);
    /* Overwrites bytes written before. */
    enum ingot_status (*patch)(void *user, uint64_t offset, const void *data, size_t size, struct ingot_error *error);
};

struct ig_engine_image {
    const char *target;         /* "cpu:x86-64-v4" */
    uint64_t required_features; /* IG_CPU_* bits that the code needs (base/cpu.h) */
    struct ig_plan plan;
    const void *code;
    size_t code_size;
    /* Weights are produced one at a time, so that the writer never holds them all: weight i lies at the 64-byte aligned
     * offset weight_offsets[i] (ascending, not overlapping), has weight_sizes[i] bytes, and is filled by
     * weight_fill(user, i, &data, error), whose data stay valid until the next call. */
    uint32_t n_weights;
    const uint64_t *weight_offsets, *weight_sizes;
    enum ingot_status (*weight_fill)(void *user, uint32_t index, const void **out_data, struct ingot_error *error);
    void *weight_user;
    const char *recipes;     /* the constant part of the graph, text form */
    const char *explanation; /* JSON */
};
/* The bytes depend on the image alone. A plan that breaks its own rules is INGOT_INTERNAL, not a file. */
enum ingot_status ig_engine_write(const struct ig_engine_image *image, const struct ig_engine_sink *sink,
                                  const struct ingot_allocator *allocator, struct ingot_error *error);

struct ig_engine_file {
    struct ig_mapping mapping; /* .data NULL where loaded from the caller's memory */
    const unsigned char *data;
    size_t size;
    const char *target;
    uint64_t required_features;
    struct ig_plan plan; /* points into data */
    const void *code;
    size_t code_size;
    const unsigned char *weights;
    size_t weights_size;
    const uint64_t *weight_checksums; /* of each chunk of them */
    const char *recipes;              /* terminated */
    const char *explanation;          /* terminated */
};
/* Checks the header, every offset, every checksum that `verify` asks for, and every index and rule of the plan, so that
 * following it cannot leave the buffers. */
enum ingot_status ig_engine_open(const char *path, enum ingot_verify verify, struct ig_engine_file *out_file,
                                 struct ingot_error *error);
enum ingot_status ig_engine_open_memory(const void *data, size_t size, enum ingot_verify verify,
                                        struct ig_engine_file *out_file, struct ingot_error *error);
void ig_engine_close(struct ig_engine_file *file);
/* The check that INGOT_VERIFY_LATER put off. */
enum ingot_status ig_engine_check_weights(const struct ig_engine_file *file, struct ingot_error *error);

#endif
