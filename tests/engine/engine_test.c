/* engine/: a written engine is read back unchanged, and nothing else is accepted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/hash/hash.h"
#include "base/memory.h"
#include "engine/check.h"
#include "engine/engine.h"
#include "engine/format.h"
#include "support/plan/small_plan.h"
#include "support/support.h"

/* ---- A small engine ---- */

static unsigned char weight_bytes[3 << 20];
static const struct ig_weight_entry weights[] = {
    {.offset = 0, .size = 10},
    {.offset = 64, .size = 100, .recipe_size = 6, .n_sources = 2},
    {.offset = 192, .size = 0},
    {.offset = 4096, .size = sizeof weight_bytes - 5, .recipe = 1, .recipe_size = 2, .sources = 1, .n_sources = 1},
};
static const struct ig_initializer_entry initializers[] = {
    {.name = 0, .alias = 2, .reason = IG_PLAN_NONE, .dtype = INGOT_F32, .rank = 2, .dims = {3, 4}, .hash = {1, 2}},
    {.name = 2, .alias = IG_PLAN_NONE, .reason = 0, .kind = INGOT_STRUCTURAL, .dtype = INGOT_I64},
    {.name = 4, .alias = IG_PLAN_NONE, .reason = IG_PLAN_NONE, .kind = INGOT_UNUSED, .dtype = INGOT_U8},
};
static const uint32_t sources[] = {0, 0};
static const char names[] = "a\0b\0c";
static _Alignas(64) unsigned char code[SMALL_CODE];

/* Pieces of many sizes: parts of chunks, and several of them. */
static enum ingot_status read_weight(void *user, uint32_t index, const void **out_data, size_t *out_size,
                                     struct ingot_error *error) {
    static uint64_t done, next_size = 1;
    static uint32_t last;
    if (user && *(int *)user == (int)index) return IG_ERR(error, INGOT_BAD_MODEL, "weight %u cannot be had", index);
    if (index != last || done == weights[index].size) done = 0;
    last = index;
    next_size = next_size < sizeof weight_bytes ? 3 * next_size + 1 : 1;
    *out_size = weights[index].size - done < next_size ? weights[index].size - done : next_size;
    *out_data = weight_bytes + done;
    done += *out_size;
    return INGOT_OK;
}

/* ---- Engines in memory ---- */

struct memory {
    unsigned char *data;
    size_t size, capacity, fail_after; /* fail_after: in bytes; 0: never */
};

static enum ingot_status memory_write(void *user, const void *data, size_t size, struct ingot_error *error) {
    struct memory *m = user;
    if (m->fail_after && m->size + size > m->fail_after) return IG_ERR(error, INGOT_IO, "the disk is full");
    if (m->size + size > m->capacity) {
        size_t capacity = 2 * (m->size + size) + 4096;
        unsigned char *grown = NULL;
        assert_int_equal(posix_memalign((void **)&grown, 4096, capacity), 0);
        if (m->size) memcpy(grown, m->data, m->size);
        free(m->data);
        m->data = grown;
        m->capacity = capacity;
    }
    memcpy(m->data + m->size, data, size);
    m->size += size;
    return INGOT_OK;
}

static enum ingot_status memory_patch(void *user, uint64_t offset, const void *data, size_t size,
                                      struct ingot_error *error) {
    struct memory *m = user;
    assert_true(offset + size <= m->size);
    memcpy(m->data + offset, data, size);
    return INGOT_OK;
}

static struct ig_engine_image small_image(void) {
    for (size_t i = 0; i < sizeof weight_bytes; i++)
        weight_bytes[i] = (unsigned char)(i * 7 + i / 300);
    for (size_t i = 0; i < sizeof code; i++)
        code[i] = (unsigned char)(i * 3);
    return (struct ig_engine_image){
        .target = "cpu:x86-64-v3",
        .required_features = IG_CPU_X86_64_V3,
        .plan = small_plan,
        .code = code,
        .code_size = sizeof code,
        .refit = {.n_weights = 3,
                  .n_initializers = COUNT(initializers),
                  .n_sources = COUNT(sources),
                  .names_size = sizeof names,
                  .recipes_size = 6,
                  .weights = weights,
                  .initializers = initializers,
                  .sources = sources,
                  .names = names,
                  .recipes = "recipe"},
        .weight_read = read_weight,
        .explanation = "{\"why\": 1}",
    };
}

static struct memory write_image(const struct ig_engine_image *image) {
    struct ingot_error error;
    struct memory memory = {0};
    struct ig_engine_sink sink = {&memory, memory_write, memory_patch};
    if (ig_engine_write(image, &sink, &ig_libc_allocator, &error) != INGOT_OK) fail_msg("%s", error.message);
    return memory;
}

/* ---- Round trips --------------------- */

static void check_contents(const struct ig_engine_file *file, uint32_t n_weights) {
    assert_string_equal(file->target, "cpu:x86-64-v3");
    assert_true(file->required_features == IG_CPU_X86_64_V3);
    assert_int_equal(file->refit.recipes_size, 6);
    assert_memory_equal(file->refit.recipes, "recipe", 6);
    assert_int_equal(file->refit.n_weights, n_weights);
    assert_memory_equal(file->refit.weights, weights, n_weights * sizeof *weights);
    assert_int_equal(file->refit.n_initializers, COUNT(initializers));
    assert_memory_equal(file->refit.initializers, initializers, sizeof initializers);
    assert_int_equal(file->refit.n_sources, COUNT(sources));
    assert_memory_equal(file->refit.sources, sources, sizeof sources);
    assert_memory_equal(file->refit.names, names, sizeof names);
    char *text;
    size_t size;
    assert_int_equal(ig_engine_unpack_explanation(file, &ig_libc_allocator, &text, &size, NULL), INGOT_OK);
    assert_string_equal(text, "{\"why\": 1}");
    assert_int_equal(size, strlen(text) + 1);
    ig_release(&ig_libc_allocator, text, size);
    assert_int_equal((uintptr_t)file->code % 4096, 0);
    assert_int_equal((uintptr_t)file->weights % 64, 0);
    assert_int_equal(file->code_size, sizeof code);
    assert_memory_equal(file->code, code, sizeof code);
#define SAME(count, table, array)                     \
    assert_int_equal(file->plan.count, COUNT(array)); \
    assert_memory_equal(file->plan.table, array, sizeof array)
    SAME(n_symbols, symbols, symbols);
    SAME(n_instrs, instrs, instrs);
    SAME(n_tensors, tensors, tensors);
    SAME(n_buffers, buffers, buffers);
    SAME(n_operands, operands, operands);
    SAME(n_dims, dims, dim_table);
    SAME(n_steps, steps, steps);
    SAME(n_kernels, kernels, kernels);
    SAME(n_calls, calls, calls);
    SAME(n_collectives, collectives, collectives);
    SAME(n_subplans, subplans, subplans);
    SAME(n_checks, checks, checks);
    SAME(n_demand_instrs, demand_instrs, demand_instrs);
    SAME(n_demands, demands, demands);
    SAME(strings_size, strings, strings);
    uint64_t end = 0;
    for (uint32_t i = 0; i < n_weights; i++) {
        for (; end < weights[i].offset; end++)
            assert_int_equal(file->weights[end], 0);
        assert_memory_equal(file->weights + weights[i].offset, weight_bytes, weights[i].size);
        end = weights[i].offset + weights[i].size;
    }
    assert_int_equal(file->weights_size, (end + 63) / 64 * 64);
}

static void test_round_trip(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    for (image.refit.n_weights = 1; image.refit.n_weights <= 4; image.refit.n_weights++) { /* the plan uses weight 1 */
        struct memory memory = write_image(&image), again = write_image(&image);
        assert_int_equal(memory.size, again.size);
        assert_memory_equal(memory.data, again.data, memory.size);
        struct ig_engine_file file;
        enum ingot_status status =
            ig_engine_open_memory(memory.data, memory.size, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error);
        if (status != INGOT_OK) fail_msg("%s", error.message);
        check_contents(&file, image.refit.n_weights);
        ig_engine_close(&file);
        free(memory.data);
        free(again.data);
    }
}

/* Without the weights that have a recipe. */
static void test_stripped(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    image.refit.n_weights = 4;
    image.stripped = true;
    struct memory memory = write_image(&image);
    struct ig_engine_file file;
    if (ig_engine_open_memory(memory.data, memory.size, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error) !=
        INGOT_OK)
        fail_msg("%s", error.message);
    assert_true(file.stripped);
    assert_int_equal(file.stored_size, 64);
    assert_memory_equal(file.weights, weight_bytes, weights[0].size);
    assert_int_equal(file.weights_size, 4096 + sizeof weight_bytes - 5 + 5);
    ig_engine_close(&file);
    free(memory.data);
}

static void test_files(void **state) {
    char folder[] = "/tmp/ingot-engine-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/small.ingot", folder);
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    struct ig_file_writer writer;
    struct ig_engine_sink sink = ig_engine_file_sink(&writer);
    assert_int_equal(ig_file_writer_open(&writer, path, &ig_libc_allocator, &error), INGOT_OK);
    assert_int_equal(ig_engine_write(&image, &sink, &ig_libc_allocator, &error), INGOT_OK);
    assert_int_equal(ig_file_writer_commit(&writer, &error), INGOT_OK);
    struct ig_engine_file file;
    assert_int_equal(ig_engine_open(path, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error), INGOT_OK);
    check_contents(&file, 3);
    ig_engine_close(&file);
    ig_engine_close(&file);
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(ig_engine_open(path, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error), INGOT_BAD_ENGINE);
    assert_non_null(strstr(error.message, path));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(ig_engine_open(path, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error), INGOT_BAD_ENGINE);
    assert_non_null(strstr(error.message, "not an Ingot engine"));
    unlink(path);
    assert_int_equal(ig_engine_open(path, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error), INGOT_IO);
    rmdir(folder);
}

/* ---- Failing writes -------- */

static void test_failing_sinks(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    for (size_t limit = 1; limit < 50000; limit += 997) {
        struct memory memory = {.fail_after = limit};
        struct ig_engine_sink sink = {&memory, memory_write, memory_patch};
        enum ingot_status status = ig_engine_write(&image, &sink, &ig_libc_allocator, &error);
        assert_true(status == INGOT_IO || (status == INGOT_OK && memory.size <= limit));
        free(memory.data);
    }
    int bad = 1;
    image.weight_user = &bad;
    struct memory memory = {0};
    struct ig_engine_sink sink = {&memory, memory_write, memory_patch};
    assert_int_equal(ig_engine_write(&image, &sink, &ig_libc_allocator, &error), INGOT_BAD_MODEL);
    assert_string_equal(error.message, "weight 1 cannot be had");
    free(memory.data);
}

static void *refuse_alloc(void *user, size_t size, size_t alignment) {
    int *left = user;
    return (*left)-- > 0 ? ig_libc_allocator.alloc(NULL, size, alignment) : NULL;
}

static void plain_release(void *user, void *memory, size_t size) {
    free(memory);
}

static void test_failing_allocators(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    for (int allowed = 0; allowed < 2; allowed++) {
        int left = allowed;
        struct ingot_allocator allocator = {&left, refuse_alloc, plain_release};
        struct memory memory = {0};
        struct ig_engine_sink sink = {&memory, memory_write, memory_patch};
        assert_int_equal(ig_engine_write(&image, &sink, &allocator, &error), INGOT_OUT_OF_MEMORY);
        free(memory.data);
    }
}

static void test_defects_are_not_written(void **state) {
    struct ingot_error error;
    struct memory memory = {0};
    struct ig_engine_sink sink = {&memory, memory_write, memory_patch};
    struct ig_engine_image image = small_image();
    image.code_size = 10; /* kernel 1 begins at 64 */
    assert_int_equal(ig_engine_write(&image, &sink, &ig_libc_allocator, &error), INGOT_INTERNAL);
    assert_non_null(strstr(error.message, "kernel 1"));
    image = small_image();
    const struct ig_weight_entry overlapping[] = {{.size = 10}, {.size = 100}, {.offset = 64}};
    image.refit.weights = overlapping;
    assert_int_equal(ig_engine_write(&image, &sink, &ig_libc_allocator, &error), INGOT_INTERNAL);
    const struct ig_weight_entry crooked[] = {{.size = 10}, {.offset = 72, .size = 100}, {.offset = 192}};
    image.refit.weights = crooked;
    assert_int_equal(ig_engine_write(&image, &sink, &ig_libc_allocator, &error), INGOT_INTERNAL);
    const struct ig_weight_entry lost[] = {{.size = 10}, {.offset = 64, .size = 99, .recipe = 5, .recipe_size = 2}};
    image.refit.weights = lost, image.refit.n_weights = 2;
    assert_int_equal(ig_engine_write(&image, &sink, &ig_libc_allocator, &error), INGOT_INTERNAL);
    assert_non_null(strstr(error.message, "weight 1 has no recipe"));
    image = small_image();
    const uint32_t structural[] = {0, 1};
    image.refit.sources = structural;
    assert_int_equal(ig_engine_write(&image, &sink, &ig_libc_allocator, &error), INGOT_INTERNAL);
    assert_non_null(strstr(error.message, "source 1 is no initialiser that can be replaced"));
    image = small_image();
    image.target = "a target whose name is so long that it cannot have been meant seriously by anybody";
    assert_int_equal(ig_engine_write(&image, &sink, &ig_libc_allocator, &error), INGOT_INTERNAL);
    assert_int_equal(memory.size, 0);
}

/* ---- Damage ---- */

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static enum ingot_status open_bytes(const unsigned char *data, size_t size, enum ingot_verify verify,
                                    struct ingot_error *error) {
    struct ig_engine_file file;
    memset(error, 0, sizeof *error);
    enum ingot_status status = ig_engine_open_memory(data, size, verify, &ig_libc_allocator, &file, error);
    if (status == INGOT_OK) ig_engine_close(&file);
    if (status != INGOT_OK) assert_true(strlen(error->message) > 10);
    return status;
}

/* A change of any byte of a file is detected. */
static void test_every_byte_counts(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    struct memory memory = write_image(&image);
    for (size_t i = 0; i < memory.size; i++) {
        for (int change = 1; change < 256; change = change == 1 ? 0x80 : 256) {
            memory.data[i] ^= (unsigned char)change;
            assert_int_not_equal(open_bytes(memory.data, memory.size, INGOT_VERIFY_ALL, &error), INGOT_OK);
            memory.data[i] ^= (unsigned char)change;
        }
    }
    assert_int_equal(open_bytes(memory.data, memory.size, INGOT_VERIFY_ALL, &error), INGOT_OK);
    free(memory.data);
}

static void test_every_length_counts(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    struct memory memory = write_image(&image);
    for (size_t size = 0; size < memory.size; size++) {
        assert_int_not_equal(open_bytes(memory.data, size, INGOT_VERIFY_NO_WEIGHTS, &error), INGOT_OK);
    }
    memory_write(&memory, "", 1, &error);
    assert_int_equal(open_bytes(memory.data, memory.size, INGOT_VERIFY_ALL, &error), INGOT_BAD_ENGINE);
    free(memory.data);
}

/* Several bytes changed, pieces moved, pieces zeroed, in a buffer of exactly the file's size. */
static void test_mutations(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    struct memory memory = write_image(&image);
    uint64_t random = 42;
    for (int round = 0; round < 2000; round++) {
        unsigned char *copy = NULL;
        assert_int_equal(posix_memalign((void **)&copy, 64, memory.size), 0);
        memcpy(copy, memory.data, memory.size);
        size_t from = next_random(&random) % memory.size, to = next_random(&random) % memory.size;
        size_t most = memory.size - (from > to ? from : to), length = 1 + next_random(&random) % 64;
        if (length > most) length = most;
        switch (round % 3) {
        case 0:
            for (size_t i = 0; i < length; i++)
                copy[to + i] = (unsigned char)next_random(&random);
            break;
        case 1: memmove(copy + to, copy + from, length); break;
        default: memset(copy + to, round & 1 ? 0 : 0xff, length);
        }
        bool same = memcmp(copy, memory.data, memory.size) == 0;
        enum ingot_status status = open_bytes(copy, memory.size, INGOT_VERIFY_ALL, &error);
        assert_true(same == (status == INGOT_OK));
        free(copy);
    }
    free(memory.data);
}

static void test_weights_later(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    image.refit.n_weights = 4;
    struct memory memory = write_image(&image);
    struct ig_engine_file file;
    assert_int_equal(
        ig_engine_open_memory(memory.data, memory.size, INGOT_VERIFY_LATER, &ig_libc_allocator, &file, &error),
        INGOT_OK);
    assert_int_equal(ig_engine_check_weights(&file, &error), INGOT_OK);
    size_t first = (size_t)(file.weights - memory.data);
    memory.data[first + (2 << 20)] ^= 1;
    assert_int_equal(ig_engine_check_weights(&file, &error), INGOT_BAD_ENGINE);
    assert_non_null(strstr(error.message, "from byte 2097152 to 3145728"));
    ig_engine_close(&file);
    assert_int_equal(open_bytes(memory.data, memory.size, INGOT_VERIFY_LATER, &error), INGOT_OK);
    assert_int_equal(open_bytes(memory.data, memory.size, INGOT_VERIFY_NO_WEIGHTS, &error), INGOT_OK);
    assert_int_equal(open_bytes(memory.data, memory.size, INGOT_VERIFY_ALL, &error), INGOT_BAD_ENGINE);
    free(memory.data);
}

static void test_versions(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    struct memory memory = write_image(&image);
    memory.data[IG_ENGINE_MAGIC_SIZE] += 1;
    assert_int_equal(open_bytes(memory.data, memory.size, INGOT_VERIFY_ALL, &error), INGOT_INCOMPATIBLE);
    assert_non_null(strstr(error.message, "build it again"));
    struct ig_engine_file file;
    assert_int_equal(
        ig_engine_open_memory(memory.data + 1, memory.size - 1, INGOT_VERIFY_ALL, &ig_libc_allocator, &file, &error),
        INGOT_INVALID_ARGUMENT);
    free(memory.data);
}

/* ---- Plans that break a rule, with valid checksums ------------- */

/* Follows a step of subplan `s`, or its alternative. */
static uint64_t follow_step(const struct ig_engine_file *file, uint32_t s, const struct ig_plan_step *step) {
    const struct ig_plan *p = &file->plan;
    const struct ig_subplan *sub = &p->subplans[s];
    uint64_t sum = 0, n_slots = (uint64_t)p->n_symbols + p->n_instrs;
    sum += strlen(p->strings + step->label);
    for (uint32_t k = 0; k < step->n_dims; k++)
        assert_true(p->dims[step->dims + k] < n_slots);
    for (uint32_t k = 0; k < step->n_operands; k++) {
        uint32_t buffer = p->operands[step->operands + k];
        while (buffer != IG_PLAN_NONE && p->buffers[sub->buffers + buffer].kind == IG_PLAN_ALIAS) {
            buffer = p->buffers[sub->buffers + buffer].index;
        }
        if (buffer != IG_PLAN_NONE) assert_true(p->buffers[sub->buffers + buffer].bytes < n_slots);
    }
    uint32_t library = step->kind == IG_STEP_KERNEL ? p->kernels[step->kernel].library : 0;
    if (library) assert_null(ig_library_use_error(&p->calls[library - 1], step->n_operands, step->n_dims));
    if (step->kind == IG_STEP_KERNEL && !library)
        sum += ((const unsigned char *)file->code)[p->kernels[step->kernel].entry];
    for (uint32_t m = 0; step->kind == IG_STEP_KERNEL && m < p->kernels[step->kernel].n_maps; m++)
        assert_null(ig_tensor_map_error(&p->kernels[step->kernel].maps[m], step->n_operands, step->n_dims));
    if (step->kind == IG_STEP_IF || step->kind == IG_STEP_LOOP) assert_true(step->a > s && step->a < p->n_subplans);
    if (step->demand) {
        const ig_slot *slots = (const ig_slot *)&p->demands[step->demand - 1];
        for (size_t i = 0; i < sizeof(struct ig_plan_demand) / sizeof *slots; i++)
            assert_true(slots[i] < n_slots + p->n_demand_instrs);
    }
    return sum;
}

/* Every 32-bit field of the plan's tables gets hostile values, one at a time, with corrected checksums. If the plan is
 * accepted, every index that the runtime uses is followed here and must be valid. */
static void follow(const struct ig_engine_file *file) {
    const struct ig_plan *p = &file->plan;
    uint64_t sum = 0, n_slots = (uint64_t)p->n_symbols + p->n_instrs;
    for (uint32_t i = 0; i < p->n_symbols; i++) {
        sum += strlen(p->strings + p->symbols[i].name);
        if (p->symbols[i].mixes != IG_PLAN_NONE) sum += strlen(p->strings + p->symbols[i].mixes);
        const struct ig_plan_tensor *input = &p->tensors[p->subplans[0].inputs + p->symbols[i].input];
        if (p->symbols[i].axis != IG_PLAN_NONE) sum += input->dims[p->symbols[i].axis];
    }
    for (uint32_t s = 0; s < p->n_subplans; s++) {
        const struct ig_subplan *sub = &p->subplans[s];
        for (uint32_t i = 0; i < sub->n_checks; i++) {
            const struct ig_plan_check *check = &p->checks[sub->checks + i];
            assert_true(check->a < n_slots && check->b < n_slots);
            sum += strlen(p->strings + check->text);
        }
        for (uint32_t i = 0; i < sub->n_steps; i++) {
            const struct ig_plan_step *step = &p->steps[sub->steps + i];
            sum += follow_step(file, s, step);
            if (step->n_alternatives) assert_true(step->choice < n_slots);
            for (uint32_t k = 0; k < step->n_alternatives; k++) {
                assert_int_equal(p->steps[step->alternatives + k].kind, IG_STEP_KERNEL);
                sum += follow_step(file, s, &p->steps[step->alternatives + k]);
            }
        }
    }
    (void)sum;
}

static void fix_checksums(unsigned char *data) {
    struct ig_engine_header header;
    memcpy(&header, data, sizeof header);
    for (int part = 0; part < IG_PART_COUNT; part++) {
        struct ig_part_entry *entry = &header.parts[part];
        if (part != IG_PART_WEIGHTS) entry->checksum = ig_hash64(data + entry->offset, entry->size);
    }
    header.checksum = ig_hash64(&header, offsetof(struct ig_engine_header, checksum));
    memcpy(data, &header, sizeof header);
}

static void test_hostile_plans(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    struct memory memory = write_image(&image);
    struct ig_engine_header header;
    memcpy(&header, memory.data, sizeof header);
    static const uint32_t values[] = {0, 1,  2,  3,  4,          5,          7,          8,
                                      9, 17, 63, 64, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
    size_t first = header.parts[IG_PART_TENSORS].offset;
    size_t last = header.parts[IG_PART_CALLS].offset + header.parts[IG_PART_CALLS].size;
    unsigned accepted = 0, refused = 0;
    for (size_t at = first; at < last; at += 4) {
        uint32_t before;
        memcpy(&before, memory.data + at, 4);
        for (uint32_t v = 0; v < COUNT(values); v++) {
            memcpy(memory.data + at, &values[v], 4);
            fix_checksums(memory.data);
            struct ig_engine_file file;
            if (ig_engine_open_memory(memory.data, memory.size, INGOT_VERIFY_NO_WEIGHTS, &ig_libc_allocator, &file,
                                      &error) == INGOT_OK) {
                follow(&file);
                ig_engine_close(&file);
                accepted++;
            } else {
                refused++;
            }
        }
        memcpy(memory.data + at, &before, 4);
    }
    assert_true(accepted > 100 && refused > 100);
    free(memory.data);
}

/* Hostile numbers in the header, with a valid checksum. */
static void test_hostile_headers(void **state) {
    struct ingot_error error;
    struct ig_engine_image image = small_image();
    struct memory memory = write_image(&image);
    struct ig_engine_header header;
    memcpy(&header, memory.data, sizeof header);
    static const uint64_t values[] = {0, 1, 63, 64, 4096, UINT32_MAX, INT64_MAX, UINT64_MAX - 63, UINT64_MAX};
    for (size_t at = offsetof(struct ig_engine_header, file_size); at < sizeof header - 8; at += 8) {
        uint64_t before;
        memcpy(&before, memory.data + at, 8);
        for (uint32_t v = 0; v < COUNT(values); v++) {
            bool free_choice = at == offsetof(struct ig_engine_header, required_features);
            if (values[v] == before || free_choice) continue;
            memcpy(memory.data + at, &values[v], 8);
            uint64_t checksum = ig_hash64(memory.data, offsetof(struct ig_engine_header, checksum));
            memcpy(memory.data + offsetof(struct ig_engine_header, checksum), &checksum, 8);
            assert_int_equal(open_bytes(memory.data, memory.size, INGOT_VERIFY_NO_WEIGHTS, &error), INGOT_BAD_ENGINE);
        }
        memcpy(memory.data + at, &before, 8);
    }
    free(memory.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stripped),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_failing_sinks),
        cmocka_unit_test(test_failing_allocators),
        cmocka_unit_test(test_defects_are_not_written),
        cmocka_unit_test(test_every_byte_counts),
        cmocka_unit_test(test_every_length_counts),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_weights_later),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_hostile_plans),
        cmocka_unit_test(test_hostile_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
