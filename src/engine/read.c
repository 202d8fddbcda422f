/*
 * The engine reader. What is large is not copied: code, weights and tables without repetitions are used in place in the
 * mapping. So everything is checked before any of it is followed: header, offsets, checksums, repetitions (fold.h), then
 * the plan's own rules (check.h).
 */
#include <string.h>
#include <unistd.h>

#include "base/hash/hash.h"
#include "engine/check.h"
#include "engine/compress.h"
#include "engine/engine.h"
#include "engine/fold.h"
#include "engine/format.h"

static bool is_padded_text(const char *text, size_t capacity) {
    size_t length = strnlen(text, capacity);
    for (size_t i = length; i < capacity; i++) {
        if (text[i]) return false;
    }
    return length < capacity;
}

/* Checks and copies the header. The most telling errors come first: that it is no engine at all, or one of another
 * version, whose header may look different. */
static enum ingot_status read_header(const unsigned char *data, size_t size, struct ig_engine_header *out_header,
                                     struct ingot_error *error) {
    size_t known = offsetof(struct ig_engine_header, producer);
    if (size < known || memcmp(data, IG_ENGINE_MAGIC, IG_ENGINE_MAGIC_SIZE) != 0) {
        return IG_ERR(error, INGOT_BAD_ENGINE, "this is not an Ingot engine");
    }
    memcpy(out_header, data, known);
    if (out_header->format != IG_ENGINE_FORMAT) {
        return IG_ERR(error, INGOT_INCOMPATIBLE,
                      "the engine has format %u, this version of Ingot (" INGOT_VERSION
                      ") reads format %u: build it again",
                      out_header->format, IG_ENGINE_FORMAT);
    }
    if (out_header->header_size != sizeof *out_header || size < sizeof *out_header) {
        return IG_ERR(error, INGOT_BAD_ENGINE, "the engine is damaged: its header is cut short");
    }
    memcpy(out_header, data, sizeof *out_header);
    if (out_header->checksum != ig_hash64(out_header, offsetof(struct ig_engine_header, checksum))) {
        return IG_ERR(error, INGOT_BAD_ENGINE, "the engine is damaged: its header does not match its checksum");
    }
    if (out_header->file_size != size) {
        return IG_ERR(error, INGOT_BAD_ENGINE, "the engine is damaged: it has %zu bytes, not %llu", size,
                      (unsigned long long)out_header->file_size);
    }
    if (!is_padded_text(out_header->target, sizeof out_header->target) ||
        !is_padded_text(out_header->producer, sizeof out_header->producer)) {
        return IG_ERR(error, INGOT_BAD_ENGINE, "the engine's header has a text without an end");
    }
    return INGOT_OK;
}

static bool is_zero(const unsigned char *bytes, uint64_t size) {
    for (uint64_t i = 0; i < size; i++) {
        if (bytes[i]) return false;
    }
    return true;
}

/* Only one offset is valid for a part after `end`. The part must hold whole records, at most as many as the plan's
 * counts can express. */
static bool is_in_place(enum ig_part part, const struct ig_part_entry *entry, uint64_t end, uint64_t size) {
    uint64_t offset, record = ig_part_rules[part].record;
    if (!ig_part_place(part, end, &offset) || entry->offset != offset) return false;
    if (offset > size || entry->size > size - offset || entry->size % record) return false;
    return part > IG_PART_NAMES || entry->size / record <= UINT32_MAX;
}

static enum ingot_status check_places(const unsigned char *data, size_t size, const struct ig_engine_header *header,
                                      struct ingot_error *error) {
    uint64_t end = sizeof *header;
    for (int part = 0; part < IG_PART_COUNT; part++) {
        const struct ig_part_entry *entry = &header->parts[part];
        const char *name = ig_part_rules[part].name;
        if (!is_in_place((enum ig_part)part, entry, end, size)) {
            return IG_ERR(error, INGOT_BAD_ENGINE, "the engine is damaged: its %s are not where they must be", name);
        }
        if (!is_zero(data + end, entry->offset - end)) {
            return IG_ERR(error, INGOT_BAD_ENGINE, "the engine is damaged: something lies before its %s", name);
        }
        end = entry->offset + entry->size;
    }
    if (end != size) return IG_ERR(error, INGOT_BAD_ENGINE, "the engine is damaged: something lies behind its end");
    uint64_t chunks = (header->parts[IG_PART_WEIGHTS].size + IG_ENGINE_CHUNK - 1) / IG_ENGINE_CHUNK;
    if (header->parts[IG_PART_WEIGHT_CHECKSUMS].size / sizeof(uint64_t) != chunks) {
        return IG_ERR(error, INGOT_BAD_ENGINE, "the engine is damaged: its weights lack checksums");
    }
    return INGOT_OK;
}

/* Of all parts but the weights, whose checksums are a part of their own. */
static enum ingot_status check_checksums(const unsigned char *data, const struct ig_engine_header *header,
                                         struct ingot_error *error) {
    for (int part = 0; part < IG_PART_COUNT; part++) {
        const struct ig_part_entry *entry = &header->parts[part];
        uint64_t expected = part == IG_PART_WEIGHTS ? 0 : ig_hash64(data + entry->offset, (size_t)entry->size);
        if (entry->checksum != expected) {
            return IG_ERR(error, INGOT_BAD_ENGINE, "the engine is damaged: its %s do not match their checksum",
                          ig_part_rules[part].name);
        }
    }
    return INGOT_OK;
}

#define PART(file, header, part) ((const void *)((file)->data + (header)->parts[part].offset))
#define RECORDS(header, part) ((uint32_t)((header)->parts[part].size / ig_part_rules[part].record))

static void point_into(struct ig_engine_file *f, const struct ig_engine_header *h) {
    f->target = (const char *)f->data + offsetof(struct ig_engine_header, target);
    f->required_features = h->required_features;
    f->plan = (struct ig_plan){
        .n_symbols = RECORDS(h, IG_PART_SYMBOLS),
        .n_instrs = RECORDS(h, IG_PART_SHAPE_PROGRAM),
        .n_tensors = RECORDS(h, IG_PART_TENSORS),
        .n_buffers = RECORDS(h, IG_PART_BUFFERS),
        .n_operands = RECORDS(h, IG_PART_OPERANDS),
        .n_dims = RECORDS(h, IG_PART_DIMS),
        .n_steps = RECORDS(h, IG_PART_STEPS),
        .n_kernels = RECORDS(h, IG_PART_KERNELS),
        .n_calls = RECORDS(h, IG_PART_CALLS),
        .n_collectives = RECORDS(h, IG_PART_COLLECTIVES),
        .n_subplans = RECORDS(h, IG_PART_SUBPLANS),
        .n_ranks = RECORDS(h, IG_PART_RANKS),
        .n_copies = RECORDS(h, IG_PART_COPIES),
        .n_checks = RECORDS(h, IG_PART_CHECKS),
        .n_demand_instrs = RECORDS(h, IG_PART_DEMAND_PROGRAM),
        .n_demands = RECORDS(h, IG_PART_DEMANDS),
        .symbols = PART(f, h, IG_PART_SYMBOLS),
        .instrs = PART(f, h, IG_PART_SHAPE_PROGRAM),
        .tensors = PART(f, h, IG_PART_TENSORS),
        .buffers = PART(f, h, IG_PART_BUFFERS),
        .operands = PART(f, h, IG_PART_OPERANDS),
        .dims = PART(f, h, IG_PART_DIMS),
        .steps = PART(f, h, IG_PART_STEPS),
        .kernels = PART(f, h, IG_PART_KERNELS),
        .calls = PART(f, h, IG_PART_CALLS),
        .collectives = PART(f, h, IG_PART_COLLECTIVES),
        .subplans = PART(f, h, IG_PART_SUBPLANS),
        .ranks = PART(f, h, IG_PART_RANKS),
        .copies = PART(f, h, IG_PART_COPIES),
        .checks = PART(f, h, IG_PART_CHECKS),
        .demand_instrs = PART(f, h, IG_PART_DEMAND_PROGRAM),
        .demands = PART(f, h, IG_PART_DEMANDS),
    };
    f->code = PART(f, h, IG_PART_CODE);
    f->code_size = (size_t)h->parts[IG_PART_CODE].size;
    f->weights = PART(f, h, IG_PART_WEIGHTS);
    f->stored_size = (size_t)h->parts[IG_PART_WEIGHTS].size;
    f->weight_checksums = PART(f, h, IG_PART_WEIGHT_CHECKSUMS);
    f->refit = (struct ig_refit_tables){
        .n_weights = RECORDS(h, IG_PART_WEIGHT_TABLE),
        .n_initializers = RECORDS(h, IG_PART_INITIALIZERS),
        .n_sources = RECORDS(h, IG_PART_SOURCES),
        .names_size = RECORDS(h, IG_PART_NAMES),
        .recipes_size = h->parts[IG_PART_RECIPES].size,
        .weights = PART(f, h, IG_PART_WEIGHT_TABLE),
        .initializers = PART(f, h, IG_PART_INITIALIZERS),
        .sources = PART(f, h, IG_PART_SOURCES),
        .names = PART(f, h, IG_PART_NAMES),
        .recipes = PART(f, h, IG_PART_RECIPES),
    };
    f->stripped = h->stripped != 0;
    f->explanation = PART(f, h, IG_PART_EXPLANATION);
    f->explanation_size = (size_t)h->parts[IG_PART_EXPLANATION].size;
}

static enum ingot_status check_plan(struct ig_engine_file *file, struct ingot_error *error) {
    const struct ig_refit_tables *refit = &file->refit;
    IG_TRY(ig_refit_check(refit, INT64_MAX - IG_ENGINE_ALIGNMENT, error));
    uint64_t size = ig_refit_weights_size(refit);
    file->section_size = (size_t)size;
    file->seats = (struct ig_plan_seats){1, 0, 1};
    if (file->stored_size != (file->stripped ? ig_refit_kept_size(refit) : size))
        return IG_ERR(error, INGOT_BAD_ENGINE, "there are %zu bytes of weights, which is not what the table says",
                      file->stored_size);
    IG_TRY(ig_plan_check(&file->plan, file->code_size, size, error));
    file->weights_size = (size_t)ig_plan_copies_end(&file->plan, size);
    return INGOT_OK;
}

static void release_plan(struct ig_engine_file *f) {
    ig_release(f->allocator, f->strings, f->strings_size);
    ig_release(f->allocator, f->unfolded, f->unfolded_size);
}

/* Decompresses the strings, unfolds the tables, and checks the plan. Leaves the memory to the caller. */
static enum ingot_status make_plan(struct ig_engine_file *f, const struct ig_engine_header *h,
                                   struct ingot_error *error) {
    f->plan.strings = PART(f, h, IG_PART_STRINGS);
    f->plan.strings_size = RECORDS(h, IG_PART_STRINGS);
    if (RECORDS(h, IG_PART_RUNS)) {
        IG_TRY(ig_decompress_texts(f->plan.strings, f->plan.strings_size, "table of strings", f->allocator, &f->strings,
                                   &f->strings_size, error));
        f->plan.strings = f->strings;
        f->plan.strings_size = (uint32_t)(f->strings_size - 1);
    }
    const struct ig_folded folded = {.plan = f->plan,
                                     .runs = PART(f, h, IG_PART_RUNS),
                                     .n_runs = RECORDS(h, IG_PART_RUNS),
                                     .listed = PART(f, h, IG_PART_LISTED),
                                     .n_listed = RECORDS(h, IG_PART_LISTED)};
    IG_TRY(ig_plan_unfold(&folded, f->allocator, &f->plan, &f->unfolded, &f->unfolded_size, error));
    if (check_plan(f, error) != INGOT_OK) {
        ig_error_prefix(error, "the engine's plan breaks a rule");
        return INGOT_BAD_ENGINE;
    }
    return INGOT_OK;
}

static enum ingot_status open_data(const void *data, size_t size, enum ingot_verify verify,
                                   const struct ingot_allocator *allocator, struct ig_engine_file *out_file,
                                   struct ingot_error *error) {
    struct ig_engine_header header = {0};
    struct ig_engine_file file = {.data = data, .size = size, .allocator = allocator};
    IG_TRY(read_header(data, size, &header, error));
    IG_TRY(check_places(data, size, &header, error));
    IG_TRY(check_checksums(data, &header, error));
    if (header.stripped > 1) return IG_ERR(error, INGOT_BAD_ENGINE, "the engine's header has an unknown flag");
    point_into(&file, &header);
    enum ingot_status status = make_plan(&file, &header, error);
    if (status == INGOT_OK && verify == INGOT_VERIFY_ALL) status = ig_engine_check_weights(&file, error);
    if (status != INGOT_OK) {
        release_plan(&file);
        return status;
    }
    *out_file = file;
    return INGOT_OK;
}

enum ingot_status ig_engine_open(const char *path, enum ingot_verify verify, const struct ingot_allocator *allocator,
                                 struct ig_engine_file *out_file, struct ingot_error *error) {
    struct ig_mapping mapping;
    int descriptor;
    IG_TRY(ig_file_map_open(path, &mapping, &descriptor, error));
    enum ingot_status status = open_data(mapping.data, mapping.size, verify, allocator, out_file, error);
    if (status != INGOT_OK) {
        ig_error_prefix(error, "cannot load engine '%s'", path);
        ig_file_unmap(&mapping);
        close(descriptor);
        return status;
    }
    out_file->mapping = mapping;
    out_file->descriptor = descriptor;
    return INGOT_OK;
}

enum ingot_status ig_engine_open_memory(const void *data, size_t size, enum ingot_verify verify,
                                        const struct ingot_allocator *allocator, struct ig_engine_file *out_file,
                                        struct ingot_error *error) {
    if ((uintptr_t)data % IG_ENGINE_ALIGNMENT) {
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "an engine in memory must be aligned to %u bytes",
                      IG_ENGINE_ALIGNMENT);
    }
    return open_data(data, size, verify, allocator, out_file, error);
}

enum ingot_status ig_engine_unpack_explanation(const struct ig_engine_file *file,
                                               const struct ingot_allocator *allocator, char **out_text,
                                               size_t *out_size, struct ingot_error *error) {
    return ig_decompress_text(file->explanation, file->explanation_size, "explanation", allocator, out_text, out_size,
                              error);
}

void ig_engine_close(struct ig_engine_file *file) {
    if (file->data) release_plan(file);
    if (file->mapping.data) close(file->descriptor);
    ig_file_unmap(&file->mapping);
    *file = (struct ig_engine_file){0};
}

uint64_t ig_engine_weights_checksum(const struct ig_engine_file *file) {
    size_t chunks = file->stored_size / IG_ENGINE_CHUNK + (file->stored_size % IG_ENGINE_CHUNK != 0);
    return ig_hash64(file->weight_checksums, chunks * sizeof *file->weight_checksums);
}

enum ingot_status ig_engine_check_range(const struct ig_engine_file *file, uint64_t begin, uint64_t end,
                                        uint64_t *inout_chunk, struct ingot_error *error) {
    uint64_t chunk = begin / IG_ENGINE_CHUNK;
    if (*inout_chunk < chunk) *inout_chunk = chunk;
    for (size_t at; (at = (size_t)*inout_chunk * IG_ENGINE_CHUNK) < end; ++*inout_chunk) {
        size_t left = file->stored_size - at, size = left < IG_ENGINE_CHUNK ? left : IG_ENGINE_CHUNK;
        if (ig_hash64(file->weights + at, size) != file->weight_checksums[*inout_chunk]) {
            return IG_ERR(error, INGOT_BAD_ENGINE,
                          "the engine is damaged: its weights from byte %zu to %zu do not match their checksum", at,
                          at + size);
        }
    }
    return INGOT_OK;
}

enum ingot_status ig_engine_check_weights(const struct ig_engine_file *file, struct ingot_error *error) {
    uint64_t chunk = 0;
    return ig_engine_check_range(file, 0, file->stored_size, &chunk, error);
}
