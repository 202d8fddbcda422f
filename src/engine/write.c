/*
 * The engine writer: reserves the header, writes the parts in order, then the header. Weights are hashed and written by
 * chunks; only chunks that several pieces make up pass through a buffer.
 */
#include <string.h>

#include "base/hash/hash.h"
#include "base/memory.h"
#include "engine/check.h"
#include "engine/compress.h"
#include "engine/engine.h"
#include "engine/fold.h"
#include "engine/format.h"

/* ---- Files ---- */

static enum ingot_status file_write(void *user, const void *data, size_t size, struct ingot_error *error) {
    return ig_file_writer_write(user, data, size, error);
}

static enum ingot_status file_patch(void *user, uint64_t offset, const void *data, size_t size,
                                    struct ingot_error *error) {
    return ig_file_writer_patch(user, offset, data, size, error);
}

struct ig_engine_sink ig_engine_file_sink(struct ig_file_writer *writer) {
    return (struct ig_engine_sink){writer, file_write, file_patch};
}

/* ---- Bytes ---- */

struct writer {
    const struct ig_engine_image *image;
    const struct ig_engine_sink *sink;
    const struct ingot_allocator *allocator;
    struct ingot_error *error;
    uint64_t written;
    struct ig_engine_header header;
    const void *parts[IG_PART_COUNT]; /* contents; NULL for the weights */
    struct ig_folded folded;
    struct ig_compressed strings, explanation;
    uint64_t *checksums;  /* by chunk of weights */
    unsigned char *chunk; /* bytes not yet written */
    size_t chunk_used, chunks_done;
};

static enum ingot_status put(struct writer *w, const void *data, size_t size) {
    if (size == 0) return INGOT_OK;
    IG_TRY(w->sink->write(w->sink->user, data, size, w->error));
    w->written += size;
    return INGOT_OK;
}

/* Writes zeroes up to the offset of the next part: less than a page. */
static enum ingot_status pad_to(struct writer *w, uint64_t offset) {
    static const unsigned char zeroes[IG_ENGINE_PAGE];
    return put(w, zeroes, (size_t)(offset - w->written));
}

/* ---- Weights ---- */

static enum ingot_status put_chunk(struct writer *w, const unsigned char *bytes, size_t size) {
    w->checksums[w->chunks_done++] = ig_hash64(bytes, size);
    return put(w, bytes, size);
}

static enum ingot_status flush_chunk(struct writer *w) {
    size_t size = w->chunk_used;
    w->chunk_used = 0;
    return put_chunk(w, w->chunk, size);
}

/* Appends bytes; NULL: zeroes. */
static enum ingot_status add_bytes(struct writer *w, const unsigned char *bytes, uint64_t size) {
    while (size > 0) {
        size_t room = IG_ENGINE_CHUNK - w->chunk_used, piece = size < room ? (size_t)size : room;
        if (bytes && piece == IG_ENGINE_CHUNK) {
            IG_TRY(put_chunk(w, bytes, piece));
        } else if (bytes) {
            memcpy(w->chunk + w->chunk_used, bytes, piece);
            w->chunk_used += piece;
        } else {
            memset(w->chunk + w->chunk_used, 0, piece);
            w->chunk_used += piece;
        }
        if (bytes) bytes += piece;
        size -= piece;
        if (w->chunk_used == IG_ENGINE_CHUNK) IG_TRY(flush_chunk(w));
    }
    return INGOT_OK;
}

static enum ingot_status write_weight(struct writer *w, uint32_t index) {
    const struct ig_engine_image *image = w->image;
    for (uint64_t left = image->refit.weights[index].size; left > 0;) {
        const void *data = NULL;
        size_t size = 0;
        IG_TRY(image->weight_read(image->weight_user, index, &data, &size, w->error));
        if (size == 0 || size > left)
            return IG_ERR(w->error, INGOT_INTERNAL, "cannot write an engine: weight %u has another size", index);
        IG_TRY(add_bytes(w, data, size));
        left -= size;
    }
    return INGOT_OK;
}

static enum ingot_status write_weights(struct writer *w) {
    const struct ig_engine_image *image = w->image;
    uint64_t at = 0;
    for (uint32_t i = 0; i < image->refit.n_weights; i++) {
        const struct ig_weight_entry *weight = &image->refit.weights[i];
        if (image->stripped && weight->recipe_size) continue;
        /* Without the others, weights follow each other. */
        uint64_t offset =
            image->stripped ? (at + IG_ENGINE_ALIGNMENT - 1) & ~(uint64_t)(IG_ENGINE_ALIGNMENT - 1) : weight->offset;
        IG_TRY(add_bytes(w, NULL, offset - at));
        IG_TRY(write_weight(w, i));
        at = offset + weight->size;
    }
    IG_TRY(add_bytes(w, NULL, w->header.parts[IG_PART_WEIGHTS].size - at));
    return w->chunk_used ? flush_chunk(w) : INGOT_OK;
}

/* ---- Parts ---- */

static void set_part(struct writer *w, enum ig_part part, const void *data, uint64_t count) {
    w->parts[part] = data;
    w->header.parts[part].size = count * ig_part_rules[part].record;
}

static void collect_parts(struct writer *w, uint64_t weights_size) {
    const struct ig_engine_image *image = w->image;
    const struct ig_plan *p = &w->folded.plan;
    const struct ig_refit_tables *refit = &image->refit;
    if (w->strings.data)
        set_part(w, IG_PART_STRINGS, w->strings.data, w->strings.size);
    else
        set_part(w, IG_PART_STRINGS, p->strings, p->strings_size);
    set_part(w, IG_PART_TENSORS, p->tensors, p->n_tensors);
    set_part(w, IG_PART_SYMBOLS, p->symbols, p->n_symbols);
    set_part(w, IG_PART_SHAPE_PROGRAM, p->instrs, p->n_instrs);
    set_part(w, IG_PART_SUBPLANS, p->subplans, p->n_subplans);
    set_part(w, IG_PART_RANKS, p->ranks, p->n_ranks);
    set_part(w, IG_PART_COPIES, p->copies, p->n_copies);
    set_part(w, IG_PART_BUFFERS, p->buffers, p->n_buffers);
    set_part(w, IG_PART_STEPS, p->steps, p->n_steps);
    set_part(w, IG_PART_OPERANDS, p->operands, p->n_operands);
    set_part(w, IG_PART_DIMS, p->dims, p->n_dims);
    set_part(w, IG_PART_CHECKS, p->checks, p->n_checks);
    set_part(w, IG_PART_DEMAND_PROGRAM, p->demand_instrs, p->n_demand_instrs);
    set_part(w, IG_PART_DEMANDS, p->demands, p->n_demands);
    set_part(w, IG_PART_KERNELS, p->kernels, p->n_kernels);
    set_part(w, IG_PART_CALLS, p->calls, p->n_calls);
    set_part(w, IG_PART_COLLECTIVES, p->collectives, p->n_collectives);
    set_part(w, IG_PART_RUNS, w->folded.runs, w->folded.n_runs);
    set_part(w, IG_PART_LISTED, w->folded.listed, w->folded.n_listed);
    set_part(w, IG_PART_WEIGHT_TABLE, refit->weights, refit->n_weights);
    set_part(w, IG_PART_INITIALIZERS, refit->initializers, refit->n_initializers);
    set_part(w, IG_PART_SOURCES, refit->sources, refit->n_sources);
    set_part(w, IG_PART_NAMES, refit->names, refit->names_size);
    set_part(w, IG_PART_RECIPES, refit->recipes, refit->recipes_size);
    set_part(w, IG_PART_EXPLANATION, w->explanation.data, w->explanation.size);
    set_part(w, IG_PART_CODE, image->code, image->code_size);
    set_part(w, IG_PART_WEIGHTS, NULL, weights_size);
    set_part(w, IG_PART_WEIGHT_CHECKSUMS, w->checksums, (weights_size + IG_ENGINE_CHUNK - 1) / IG_ENGINE_CHUNK);
}

static enum ingot_status place_parts(struct writer *w) {
    uint64_t end = sizeof w->header;
    for (int part = 0; part < IG_PART_COUNT; part++) {
        struct ig_part_entry *entry = &w->header.parts[part];
        if (!ig_part_place((enum ig_part)part, end, &entry->offset) || entry->size > INT64_MAX - entry->offset) {
            return IG_ERR(w->error, INGOT_UNSUPPORTED, "cannot write an engine of over 2^63 bytes");
        }
        end = entry->offset + entry->size;
    }
    w->header.file_size = end;
    return INGOT_OK;
}

static enum ingot_status write_parts(struct writer *w) {
    for (int part = 0; part < IG_PART_COUNT; part++) {
        struct ig_part_entry *entry = &w->header.parts[part];
        IG_TRY(pad_to(w, entry->offset));
        if (part == IG_PART_WEIGHTS) {
            IG_TRY(write_weights(w));
        } else {
            entry->checksum = ig_hash64(w->parts[part], (size_t)entry->size);
            IG_TRY(put(w, w->parts[part], (size_t)entry->size));
        }
    }
    return INGOT_OK;
}

static enum ingot_status fill_header(struct writer *w) {
    static const char producer[] = "ingot " INGOT_VERSION;
    struct ig_engine_header *header = &w->header;
    memcpy(header->magic, IG_ENGINE_MAGIC, IG_ENGINE_MAGIC_SIZE);
    header->format = IG_ENGINE_FORMAT;
    header->header_size = sizeof *header;
    _Static_assert(sizeof producer <= sizeof header->producer, "the version fits");
    memcpy(header->producer, producer, sizeof producer);
    size_t length = strlen(w->image->target);
    if (length >= sizeof header->target) {
        return IG_ERR(w->error, INGOT_INTERNAL, "cannot write an engine: the target's name is too long");
    }
    memcpy(header->target, w->image->target, length + 1);
    header->required_features = w->image->required_features;
    header->stripped = w->image->stripped;
    return INGOT_OK;
}

static enum ingot_status write_all(struct writer *w) {
    IG_TRY(fill_header(w));
    IG_TRY(place_parts(w));
    IG_TRY(put(w, &w->header, sizeof w->header)); /* reserves its space */
    IG_TRY(write_parts(w));
    w->header.checksum = ig_hash64(&w->header, offsetof(struct ig_engine_header, checksum));
    return w->sink->patch(w->sink->user, 0, &w->header, sizeof w->header, w->error);
}

/* Leaves what it makes of the parts to the caller to release. */
static enum ingot_status pack_and_write(struct writer *w, uint64_t weights_size) {
    const struct ig_engine_image *image = w->image;
    const char *explanation = image->explanation ? image->explanation : "";
    size_t checksums = (size_t)((weights_size + IG_ENGINE_CHUNK - 1) / IG_ENGINE_CHUNK) * sizeof *w->checksums;
    IG_TRY(ig_plan_fold(&image->plan, w->allocator, &w->folded, w->error));
    if (w->folded.n_runs)
        IG_TRY(ig_compress_texts(image->plan.strings, image->plan.strings_size, w->allocator, &w->strings, w->error));
    IG_TRY(ig_compress_text(explanation, w->allocator, &w->explanation, w->error));
    w->checksums = ig_allocate(w->allocator, checksums, 64);
    w->chunk = ig_allocate(w->allocator, IG_ENGINE_CHUNK, 64);
    enum ingot_status status = INGOT_OUT_OF_MEMORY;
    if (w->checksums && w->chunk) {
        collect_parts(w, weights_size);
        status = write_all(w);
    } else {
        IG_ERR(w->error, INGOT_OUT_OF_MEMORY, "out of memory for writing an engine");
    }
    ig_release(w->allocator, w->checksums, checksums);
    ig_release(w->allocator, w->chunk, IG_ENGINE_CHUNK);
    return status;
}

static enum ingot_status check(const struct ig_engine_image *image, struct ingot_error *error) {
    enum ingot_status status = ig_refit_check(&image->refit, INT64_MAX - IG_ENGINE_ALIGNMENT, error);
    uint64_t size = status == INGOT_OK ? ig_refit_weights_size(&image->refit) : 0;
    if (status == INGOT_OK) status = ig_plan_check(&image->plan, image->code_size, size, error);
    if (status == INGOT_OK) return INGOT_OK;
    ig_error_prefix(error, "cannot write an engine: its plan breaks a rule");
    if (error) error->status = INGOT_INTERNAL;
    return INGOT_INTERNAL;
}

enum ingot_status ig_engine_write(const struct ig_engine_image *image, const struct ig_engine_sink *sink,
                                  const struct ingot_allocator *allocator, struct ingot_error *error) {
    struct writer w = {.image = image, .sink = sink, .allocator = allocator, .error = error};
    IG_TRY(check(image, error));
    uint64_t weights_size = image->stripped ? ig_refit_kept_size(&image->refit) : ig_refit_weights_size(&image->refit);
    enum ingot_status status = pack_and_write(&w, weights_size);
    ig_folded_release(&w.folded, allocator);
    ig_compressed_release(&w.strings, allocator);
    ig_compressed_release(&w.explanation, allocator);
    return status;
}
