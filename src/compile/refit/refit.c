/* Engines with other weights; see refit.h. */
#include "compile/refit/refit.h"

#include <fnmatch.h>
#include <string.h>

#include "base/hash/hash_all.h"
#include "base/map.h"
#include "base/text.h"
#include "compile/refit/in_place.h"
#include "compile/refit/recipes.h"
#include "compile/weights.h"

enum { MOST_NAMED = 3 }; /* names in a message */

/* ---- Names and types -------------------------------------------------------------------------------------------- */

static const char *name_of(const struct ig_refit *r, uint32_t i) {
    return r->tables.names + r->tables.initializers[i].name;
}

/* "f32[64,3,7,7]" */
static const char *type_text(struct ig_job *job, uint32_t dtype, uint32_t rank, const int64_t *dims) {
    struct ig_text text;
    ig_text_init(&text, job);
    ig_text_printf(&text, "%s[", ingot_dtype_name((enum ingot_dtype)dtype));
    for (uint32_t i = 0; i < rank; i++)
        ig_text_printf(&text, "%s%lld", i ? "," : "", (long long)dims[i]);
    ig_text_add(&text, "]");
    return text.at;
}

/* Collects names for one message. */
struct names {
    struct ig_text text;
    unsigned count;
};

static void mention(struct names *names, const char *name) {
    if (names->count++ < MOST_NAMED) ig_text_printf(&names->text, "%s'%.100s'", names->count > 1 ? ", " : "", name);
}

static const char *and_others(struct ig_job *job, const struct names *names) {
    return names->count > MOST_NAMED ? ig_format(job, " and %u more", names->count - MOST_NAMED) : "";
}

/* ---- Finding the tensors ---------------------------------------------------------------------------------------- */

static bool is_wanted(const struct ig_refit_input *input, const char *name) {
    for (size_t i = 0; i < input->n_only; i++) {
        if (strcmp(input->only[i], name) == 0 || fnmatch(input->only[i], name, 0) == 0) return true;
    }
    return input->n_only == 0;
}

static void check_replaceable(const struct ig_refit *r) {
    if (r->file->stripped) return;
    for (uint32_t i = 0; i < r->tables.n_initializers; i++) {
        if (r->tables.initializers[i].kind == INGOT_REFITTABLE) return;
    }
    ig_raise(
        r->job, INGOT_INVALID_ARGUMENT,
        "the engine's model has no initialiser that could be replaced (weights in nodes, such as Constant, are part "
        "of its logic)");
}

static void check_patterns(struct ig_job *job, const struct ig_refit_input *input) {
    for (size_t i = 0; i < input->n_only; i++) {
        struct ig_refit_input one = {.only = &input->only[i], .n_only = 1};
        size_t k = 0;
        while (k < input->n_tensors && !is_wanted(&one, input->tensors[k].name))
            k++;
        if (k == input->n_tensors)
            ig_raise(job, INGOT_INVALID_ARGUMENT, "no tensor is given for '%.200s'", input->only[i]);
    }
}

static void check_type(struct ig_refit *r, uint32_t i, const struct ingot_tensor *found) {
    const struct ig_initializer_entry *e = &r->tables.initializers[i];
    const bool elsewhere = found->memory == INGOT_CUDA && !r->input->fetch;
    bool same = found->dtype == (enum ingot_dtype)e->dtype && found->rank == (int)e->rank;
    for (uint32_t k = 0; same && k < e->rank; k++)
        same = found->dims[k] == e->dims[r->is_turned[i] ? 1 - k : k];
    if (same && !elsewhere) return;
    const char *where = elsewhere ? " in the memory of a GPU" : "";
    ig_raise(r->job, INGOT_INVALID_ARGUMENT, "initialiser '%.200s': expected %s%s, found %s%s", name_of(r, i),
             r->is_turned[i] ? "the transpose of " : "", type_text(r->job, e->dtype, e->rank, e->dims),
             type_text(r->job, found->dtype, (uint32_t)found->rank, found->dims), where);
}

/* Names to initialisers; where an initialiser has another name too, by both. */
static void map_names(const struct ig_refit *r, struct ig_map *out_map) {
    ig_map_init(out_map, r->job);
    for (uint32_t i = 0; i < r->tables.n_initializers; i++) {
        uint32_t alias = r->tables.initializers[i].alias;
        if (alias != IG_PLAN_NONE) ig_map_put_name(out_map, r->tables.names + alias, i);
    }
    for (uint32_t i = 0; i < r->tables.n_initializers; i++)
        ig_map_put_name(out_map, name_of(r, i), i);
}

static struct ingot_tensor transposed(struct ig_job *job, const struct ingot_tensor *t) {
    enum { BLOCK = 32 }; /* rows and columns that stay in the cache together */
    size_t size = ingot_dtype_size(t->dtype);
    int64_t rows = t->dims[0], columns = t->dims[1];
    struct ingot_tensor out = *t;
    out.dims[0] = columns;
    out.dims[1] = rows;
    out.data = ig_alloc_array(job, (size_t)ingot_tensor_elements(t) + 1, size);
    for (int64_t row = 0; row < rows; row += BLOCK) {
        int64_t end = row + BLOCK < rows ? row + BLOCK : rows;
        for (int64_t c = 0; c < columns; c++) {
            for (int64_t k = row; k < end; k++)
                memcpy((char *)out.data + (size_t)(c * rows + k) * size,
                       (const char *)t->data + (size_t)(k * columns + c) * size, size);
        }
    }
    return out;
}

/*
 * The initialiser that a tensor replaces, and whether one is the other's transpose. Names of parameters count more than
 * those of initialisers: numbers such as "val_57" differ from one export to the next.
 */
static bool find_initializer(const struct ig_refit *r, const struct ig_map *map, const struct ingot_named_tensor *given,
                             uint32_t *out_index, bool *out_turned) {
    const bool by_alias = given->alias && ig_map_get_name(map, given->alias, out_index);
    if (!by_alias && !ig_map_get_name(map, given->name, out_index)) return false;
    const struct ig_initializer_entry *e = &r->tables.initializers[*out_index];
    *out_turned = by_alias ? given->is_transposed != (e->is_transposed != 0)
                           : e->is_transposed && strcmp(given->name, name_of(r, *out_index)) != 0;
    return by_alias || !given->alias || e->alias == IG_PLAN_NONE;
}

/* Fills `tensors`, and which of them are wanted. */
static void find_tensors(struct ig_refit *r, const struct ig_refit_input *input, bool *wanted) {
    struct ig_map map;
    struct names unknown = {.count = 0};
    ig_text_init(&unknown.text, r->job);
    map_names(r, &map);
    for (size_t k = 0; k < input->n_tensors; k++) {
        const struct ingot_named_tensor *given = &input->tensors[k];
        uint32_t i;
        bool turned;
        if (!given->name) ig_raise(r->job, INGOT_INVALID_ARGUMENT, "tensor %zu has no name", k);
        if (!find_initializer(r, &map, given, &i, &turned)) {
            if (is_wanted(input, given->name)) mention(&unknown, given->name);
            continue;
        }
        if (r->tables.initializers[i].kind == INGOT_UNUSED) continue;
        r->tensors[i] = given->tensor;
        r->is_turned[i] = turned && given->tensor.rank == 2 && r->tables.initializers[i].rank == 2;
        check_type(r, i, &r->tensors[i]);
        if (!r->tensors[i].data) r->tensors[i].data = (void *)(uintptr_t) ""; /* no elements */
        wanted[i] = is_wanted(input, given->name) || is_wanted(input, name_of(r, i));
    }
    if (unknown.count && !input->ignore_unknown)
        ig_raise(r->job, INGOT_INVALID_ARGUMENT, "the engine's model has no initialiser %s%s", unknown.text.at,
                 and_others(r->job, &unknown));
}

/* What is in an empty slot for an adapter. */
static struct ingot_tensor zeros(struct ig_job *job, const struct ig_initializer_entry *e) {
    struct ingot_tensor t = {.dtype = (enum ingot_dtype)e->dtype, .rank = (int)e->rank};
    memcpy(t.dims, e->dims, sizeof t.dims);
    t.data = ig_alloc_array(job, (size_t)ingot_tensor_elements(&t) + 1, ingot_dtype_size(t.dtype));
    return t;
}

/* Slots for adapters keep what they have, if no tensors are given for them; in an engine without weights, they are
 * empty. */
static void check_missing(struct ig_refit *r, const struct ig_refit_input *input) {
    struct names missing = {.count = 0};
    bool all = r->file->stripped || !(input->partial || input->n_only);
    ig_text_init(&missing.text, r->job);
    for (uint32_t i = 0; all && i < r->tables.n_initializers; i++) {
        const struct ig_initializer_entry *e = &r->tables.initializers[i];
        bool given = e->kind != INGOT_REFITTABLE || r->tensors[i].data;
        if (!given && e->slot && r->file->stripped) r->tensors[i] = zeros(r->job, e);
        if (!given && !e->slot) mention(&missing, name_of(r, i));
    }
    if (missing.count)
        ig_raise(r->job, INGOT_INVALID_ARGUMENT, "no tensor is given for %s%s", missing.text.at,
                 and_others(r->job, &missing));
}

/* ---- What is borrowed ------------------------------------------------------------------------------------------- */

static bool is_for_gpu(const struct ig_refit *r) {
    return strncmp(r->file->target, "cuda", 4) == 0;
}

/* Can kernels read the tensor where it is? As they read inputs. */
static bool is_readable(const struct ig_refit *r, const struct ingot_tensor *t) {
    const size_t alignment = is_for_gpu(r) ? IG_KERNEL_ALIGNMENT : ingot_dtype_size(t->dtype);
    return (t->memory == INGOT_CUDA) == is_for_gpu(r) && (uintptr_t)t->data % alignment == 0;
}

/* Decides for each weight; what is said of initialisers that are not given stays. */
static void find_borrowed(struct ig_refit *r, const bool *wanted) {
    const struct ig_refit_input *input = r->input;
    bool *can = IG_NEW_ARRAY(r->job, bool, r->tables.n_weights + 1);
    if (input->borrow) ig_in_place_find(r->job, r->file, can);
    for (uint32_t w = 0; w < r->tables.n_weights; w++) {
        const struct ig_weight_entry *weight = &r->tables.weights[w];
        const uint32_t *sources = r->tables.sources + weight->sources;
        if (input->borrowed) r->borrowed[w] = input->borrowed[w];
        if (weight->n_sources == 1 && r->tensors[sources[0]].data && (wanted[sources[0]] || r->file->stripped)) {
            const struct ingot_tensor *given = &r->tensors[sources[0]];
            const bool in_place = can[w] && !r->is_turned[sources[0]] && is_readable(r, given);
            r->borrowed[w] = in_place ? given->data : NULL;
        }
        for (uint32_t k = 0; !r->borrowed[w] && k < weight->n_sources; k++)
            r->is_made[sources[k]] = true;
    }
}

static bool was_borrowed(const struct ig_refit *r, uint32_t w) {
    return r->input && r->input->borrowed && r->input->borrowed[w];
}

/* Initialisers that are only borrowed, and where they are read in other places from now on. */
static void compare_borrowed(struct ig_refit *r) {
    for (uint32_t w = 0; w < r->tables.n_weights; w++) {
        if (!r->borrowed[w]) continue;
        uint32_t i = r->tables.sources[r->tables.weights[w].sources];
        const bool moved = !r->input->borrowed || r->input->borrowed[w] != r->borrowed[w];
        r->info.borrowed++;
        r->info.borrowed_bytes += r->tables.weights[w].size;
        if (moved && !r->is_made[i]) r->replaced[i] = true;
    }
    for (uint32_t w = 0; w < r->tables.n_weights; w++)
        r->info.owned_bytes += r->tables.weights[w].size;
    r->info.owned_bytes -= r->info.borrowed_bytes;
}

/* Brings the tensors whose bytes are read to the host, and transposes those that are. */
static void bring_tensors(struct ig_refit *r) {
    const uint32_t n = r->tables.n_initializers;
    struct ig_refit_copy *copies = IG_NEW_ARRAY(r->job, struct ig_refit_copy, n + 1);
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct ingot_tensor *t = &r->tensors[i];
        const bool is_read = r->is_made[i] || r->tables.initializers[i].kind == INGOT_STRUCTURAL;
        const size_t elements = (size_t)ingot_tensor_elements(t), size = ingot_dtype_size(t->dtype);
        if (!t->data || !is_read || elements == 0 || t->memory != INGOT_CUDA) continue;
        copies[count] = (struct ig_refit_copy){t->data, ig_alloc_array(r->job, elements, size), elements * size};
        t->data = copies[count++].to;
        t->memory = INGOT_HOST;
    }
    if (count) r->input->fetch(r->job, r->input->fetch_user, copies, count);
    for (uint32_t i = 0; i < n; i++) {
        if (r->tensors[i].data && r->is_turned[i] && r->is_made[i]) r->tensors[i] = transposed(r->job, &r->tensors[i]);
    }
}

/* ---- What changes ----------------------------------------------------------------------------------------------- */

/* The hashes of the tensors that are given, by initialiser. */
static const struct ig_hash128 *hash_tensors(const struct ig_refit *r) {
    const uint32_t n = r->tables.n_initializers;
    struct ig_hash128 *hashes = IG_NEW_ARRAY(r->job, struct ig_hash128, n + 1);
    struct ig_bytes *ranges = IG_NEW_ARRAY(r->job, struct ig_bytes, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const struct ingot_tensor *t = &r->tensors[i];
        if (t->data && (r->is_made[i] || r->tables.initializers[i].kind == INGOT_STRUCTURAL))
            ranges[i] = (struct ig_bytes){t->data, (size_t)ingot_tensor_elements(t) * ingot_dtype_size(t->dtype)};
    }
    ig_hash128_all(r->job, ranges, n, hashes);
    return hashes;
}

static void check_structural(struct ig_refit *r, uint32_t i, bool same, bool wanted) {
    const struct ig_initializer_entry *e = &r->tables.initializers[i];
    if (same || !wanted) return;
    ig_raise(
        r->job, INGOT_INVALID_ARGUMENT,
        "cannot replace the value of '%.200s' (%s): it was needed to %.300s, so that another value may need another "
        "engine: build the model again",
        name_of(r, i), type_text(r->job, e->dtype, e->rank, e->dims), r->tables.names + e->reason);
}

/* Compares values by their hashes. A tensor that is not wanted serves as a source if it is what the engine has. */
static void compare(struct ig_refit *r, const bool *wanted, struct ig_initializer_entry *entries) {
    const struct ig_hash128 *hashes = hash_tensors(r);
    for (uint32_t i = 0; i < r->tables.n_initializers; i++) {
        struct ig_initializer_entry *e = &entries[i];
        if (!r->tensors[i].data) continue;
        const struct ig_hash128 hash = hashes[i];
        if (e->kind == INGOT_REFITTABLE && !r->is_made[i]) { /* nobody knows what will be there */
            e->hash[0] = e->hash[1] = 0;
            *(r->replaced[i] ? &r->info.changed : &r->info.unchanged) += 1;
            continue;
        }
        bool refittable = e->kind == INGOT_REFITTABLE, stripped = r->file->stripped && refittable;
        bool same = !stripped && hash.low == e->hash[0] && hash.high == e->hash[1];
        if (!refittable) {
            check_structural(r, i, same, wanted[i]);
            continue;
        }
        if (!same && !wanted[i] && !stripped) {
            r->tensors[i].data = NULL;
            continue;
        }
        r->replaced[i] = !same;
        e->hash[0] = hash.low;
        e->hash[1] = hash.high;
        if (same)
            r->info.unchanged++;
        else
            r->info.changed++;
    }
}

static void check_sources(struct ig_refit *r, const struct ig_weight_entry *w, uint32_t replaced) {
    for (uint32_t k = 0; k < w->n_sources; k++) {
        uint32_t i = r->tables.sources[w->sources + k];
        if (r->tensors[i].data) continue;
        ig_raise(
            r->job, INGOT_INVALID_ARGUMENT,
            "'%.200s' is replaced, and the engine has it combined with '%.200s', whose present value is needed too "
            "and was not given",
            name_of(r, replaced), name_of(r, i));
    }
}

static void find_stale(struct ig_refit *r) {
    for (uint32_t w = 0; w < r->tables.n_weights; w++) {
        const struct ig_weight_entry *weight = &r->tables.weights[w];
        uint32_t replaced = IG_PLAN_NONE;
        for (uint32_t k = 0; k < weight->n_sources && replaced == IG_PLAN_NONE; k++) {
            uint32_t i = r->tables.sources[weight->sources + k];
            if (r->replaced[i]) replaced = i;
        }
        r->stale[w] = !r->borrowed[w] &&
                      (replaced != IG_PLAN_NONE || was_borrowed(r, w) || (r->file->stripped && weight->recipe_size));
        if (!r->stale[w]) continue;
        if (replaced != IG_PLAN_NONE) check_sources(r, weight, replaced);
        r->info.weights++;
        r->info.weight_bytes += weight->size;
    }
}

/* Nothing is replaced yet. Returns the entries of the initialisers, to be changed. */
static struct ig_initializer_entry *start(struct ig_job *job, const struct ig_refit_input *input, struct ig_refit *r) {
    const struct ig_refit_tables *tables = &input->file->refit;
    const uint32_t n = tables->n_initializers;
    struct ig_initializer_entry *entries = IG_NEW_ARRAY(job, struct ig_initializer_entry, n + 1);
    if (n) memcpy(entries, tables->initializers, n * sizeof *entries);
    *r = (struct ig_refit){.job = job, .input = input, .file = input->file, .tables = *tables};
    r->tables.initializers = entries;
    r->tensors = IG_NEW_ARRAY(job, struct ingot_tensor, n + 1);
    r->replaced = IG_NEW_ARRAY(job, bool, n + 1);
    r->stale = IG_NEW_ARRAY(job, bool, tables->n_weights + 1);
    r->borrowed = IG_NEW_ARRAY(job, const void *, tables->n_weights + 1);
    r->is_made = IG_NEW_ARRAY(job, bool, n + 1);
    r->is_turned = IG_NEW_ARRAY(job, bool, n + 1);
    return entries;
}

void ig_refit_begin(struct ig_job *job, const struct ig_refit_input *input, struct ig_refit *out_refit) {
    struct ig_refit r;
    struct ig_initializer_entry *entries = start(job, input, &r);
    bool *wanted = IG_NEW_ARRAY(job, bool, r.tables.n_initializers + 1);
    check_patterns(job, input);
    find_tensors(&r, input, wanted);
    check_missing(&r, input);
    find_borrowed(&r, wanted);
    compare_borrowed(&r);
    bring_tensors(&r);
    compare(&r, wanted, entries);
    check_replaceable(&r);
    find_stale(&r);
    *out_refit = r;
}

/* ---- New weights ------------------------------------------------------------------------------------------------ */

void ig_refit_open(struct ig_refit *r) {
    struct ig_weight *weights = IG_NEW_ARRAY(r->job, struct ig_weight, r->info.weights + 1);
    uint32_t count = 0;
    r->place = IG_NEW_ARRAY(r->job, uint32_t, r->tables.n_weights + 1);
    for (uint32_t i = 0; i < r->tables.n_weights; i++) {
        const struct ig_weight_entry *w = &r->tables.weights[i];
        if (!r->stale[i]) continue;
        struct ingot_tensor *sources = IG_NEW_ARRAY(r->job, struct ingot_tensor, w->n_sources + 1);
        for (uint32_t k = 0; k < w->n_sources; k++)
            sources[k] = r->tensors[r->tables.sources[w->sources + k]];
        r->place[i] = count;
        weights[count++] =
            ig_recipe_read(r->job, r->tables.recipes + w->recipe, w->recipe_size, sources, w->n_sources, w->size);
    }
    r->reader = ig_weights_open(r->job, weights, count, r->input ? r->input->jobs : 0);
}

const void *ig_refit_read(struct ig_refit *r, uint32_t index, size_t *out_size) {
    const struct ig_refit_input *input = r->input;
    if (input->progress)
        input->progress(input->progress_user, "weights", r->place[index] + 1, (unsigned)r->info.weights);
    return ig_weights_read(r->reader, r->place[index], out_size);
}

void ig_refit_close(struct ig_refit *r) {
    ig_weights_close(r->reader);
}

/* Gives the writer the old weights and the new ones. */
struct weight_source {
    struct ig_refit *refit;
    uint64_t *kept; /* by weight: offset in an engine without weights */
    uint32_t index;
    const void *data;
    size_t size;
};

static void read_piece(struct ig_job *job, void *argument) {
    struct weight_source *s = argument;
    s->data = ig_refit_read(s->refit, s->index, &s->size);
}

/* Called by the writer, which must not be left by a raise: so a nested job call turns a raise into a status. */
static enum ingot_status read_weight(void *user, uint32_t index, const void **out_data, size_t *out_size,
                                     struct ingot_error *error) {
    struct weight_source *s = user;
    struct ig_refit *r = s->refit;
    const struct ig_weight_entry *w = &r->tables.weights[index];
    s->index = index;
    s->data = r->file->weights + (r->file->stripped ? s->kept[index] : w->offset);
    s->size = (size_t)w->size;
    if (r->stale[index]) IG_TRY(ig_job_run(r->job, read_piece, s, error));
    *out_data = s->data;
    *out_size = s->size;
    return INGOT_OK;
}

/* Where an engine without weights has those that depend on no initialiser. */
static uint64_t *kept_offsets(struct ig_job *job, const struct ig_refit_tables *tables) {
    uint64_t *offsets = IG_NEW_ARRAY(job, uint64_t, tables->n_weights + 1), at = 0;
    for (uint32_t i = 0; i < tables->n_weights; i++) {
        offsets[i] = at;
        if (!tables->weights[i].recipe_size) at += (tables->weights[i].size + 63) / 64 * 64;
    }
    return offsets;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

struct text {
    const struct ingot_allocator *allocator;
    char *at;
    size_t size;
};

static void release_text(void *resource) {
    struct text *text = resource;
    ig_release(text->allocator, text->at, text->size);
}

static const char *explanation_of(struct ig_job *job, const struct ig_engine_file *file) {
    struct text *text = IG_NEW(job, struct text);
    struct ingot_error error;
    text->allocator = job->allocator;
    if (ig_engine_unpack_explanation(file, job->allocator, &text->at, &text->size, &error) != INGOT_OK)
        ig_raise_error(job, &error);
    ig_defer(job, release_text, text);
    return text->at;
}

/* What is replaced need not be sound, and reading it takes time. */
static void check_copied(const struct ig_refit *r, const uint64_t *kept) {
    struct ingot_error error = {INGOT_INTERNAL, ""};
    uint64_t chunk = 0;
    for (uint32_t i = 0; i < r->tables.n_weights; i++) {
        const struct ig_weight_entry *w = &r->tables.weights[i];
        uint64_t at = r->file->stripped ? kept[i] : w->offset;
        if (r->stale[i] || w->size == 0) continue;
        if (ig_engine_check_range(r->file, at, at + w->size, &chunk, &error) != INGOT_OK)
            ig_raise_error(r->job, &error);
    }
}

static void write(struct ig_refit *r, bool stripped, const struct ig_engine_sink *sink) {
    const struct ig_engine_file *file = r->file;
    struct weight_source source = {.refit = r, .kept = kept_offsets(r->job, &file->refit)};
    struct ig_engine_image image = {.target = file->target,
                                    .required_features = file->required_features,
                                    .plan = file->plan,
                                    .code = file->code,
                                    .code_size = file->code_size,
                                    .refit = r->tables,
                                    .stripped = stripped,
                                    .weight_read = read_weight,
                                    .weight_user = &source,
                                    .explanation = explanation_of(r->job, file)};
    struct ingot_error error;
    if (!stripped) check_copied(r, source.kept);
    ig_refit_open(r);
    enum ingot_status status = ig_engine_write(&image, sink, r->job->allocator, &error);
    ig_refit_close(r);
    if (status != INGOT_OK) ig_raise_error(r->job, &error);
}

void ig_refit_write(struct ig_refit *refit, const struct ig_engine_sink *sink) {
    write(refit, false, sink);
}

void ig_refit_strip(struct ig_job *job, const struct ig_engine_file *file, const struct ig_engine_sink *sink) {
    struct ig_refit r = {.job = job, .file = file, .tables = file->refit};
    uint32_t n = r.tables.n_initializers;
    struct ig_initializer_entry *entries = IG_NEW_ARRAY(job, struct ig_initializer_entry, n + 1);
    if (n) memcpy(entries, file->refit.initializers, n * sizeof *entries);
    for (uint32_t i = 0; i < n; i++) {
        if (entries[i].kind == INGOT_REFITTABLE) entries[i].hash[0] = entries[i].hash[1] = 0;
    }
    r.tables.initializers = entries;
    r.stale = IG_NEW_ARRAY(job, bool, r.tables.n_weights + 1);
    write(&r, true, sink);
}

/* ---- Models ------------------------------------------------------------------------------------------------------ */

static struct ingot_tensor tensor_of(const struct ig_initializer *one) {
    struct ingot_tensor tensor = {.dtype = one->dtype, .rank = one->rank, .data = (void *)(uintptr_t)one->bytes};
    memcpy(tensor.dims, one->dims, sizeof one->dims);
    return tensor;
}

struct ingot_named_tensor *ig_refit_tensors(struct ig_job *job, const struct ig_initializers *all, size_t *out_count) {
    struct ingot_named_tensor *tensors = IG_NEW_ARRAY(job, struct ingot_named_tensor, all->list.count + 1);
    *out_count = 0;
    for (uint32_t i = 0; i < all->list.count; i++) {
        const struct ig_initializer *one = all->list.at[i];
        if (!one->bytes || one->is_ambiguous) continue;
        tensors[(*out_count)++] =
            (struct ingot_named_tensor){one->name, tensor_of(one), one->alias, one->is_transposed};
    }
    return tensors;
}

/* One without elements may have no bytes. */
static bool has_value(const struct ig_initializer *one) {
    return !one->is_ambiguous && (one->bytes || one->size == 0);
}

static bool is_same(const struct ig_refit_tables *t, uint32_t i, const struct ig_initializer *one) {
    const struct ig_initializer_entry *e = &t->initializers[i];
    const bool same_type = e->dtype == (uint32_t)one->dtype && e->rank == (uint32_t)one->rank &&
                           memcmp(e->dims, one->dims, sizeof e->dims) == 0;
    return same_type && strcmp(t->names + e->name, one->name) == 0 && (e->kind != INGOT_REFITTABLE || has_value(one));
}

bool ig_refit_is_of(const struct ig_engine_file *file, const struct ig_initializers *all) {
    const uint32_t n = all ? all->list.count : 0;
    if (!file->stripped || file->refit.n_initializers != n) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_same(&file->refit, i, all->list.at[i])) return false;
    }
    return true;
}

bool ig_refit_fits(const struct ig_engine_file *file, const struct ig_initializers *all) {
    for (uint32_t i = 0; i < file->refit.n_initializers; i++) {
        const struct ig_initializer_entry *e = &file->refit.initializers[i];
        const struct ig_initializer *one = all->list.at[i];
        if (e->kind != INGOT_STRUCTURAL || !one->bytes) continue;
        const struct ig_hash128 hash = ig_hash128(one->bytes, one->size);
        if (hash.low != e->hash[0] || hash.high != e->hash[1]) return false;
    }
    return true;
}

void ig_refit_complete(struct ig_job *job, const struct ig_refit_input *input, const struct ig_initializers *all,
                       const struct ig_engine_sink *sink) {
    struct ig_refit r;
    struct ig_initializer_entry *entries = start(job, input, &r);
    for (uint32_t i = 0; i < r.tables.n_initializers; i++) {
        if (entries[i].kind != INGOT_REFITTABLE) continue;
        r.tensors[i] = tensor_of(all->list.at[i]);
        r.is_made[i] = true;
    }
    const struct ig_hash128 *hashes = hash_tensors(&r);
    for (uint32_t i = 0; i < r.tables.n_initializers; i++) {
        if (entries[i].kind != INGOT_REFITTABLE || !r.tensors[i].data) continue; /* no elements: 0 */
        entries[i].hash[0] = hashes[i].low;
        entries[i].hash[1] = hashes[i].high;
    }
    find_stale(&r);
    write(&r, false, sink);
}
