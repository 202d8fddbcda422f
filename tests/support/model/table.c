#include "support/model/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "support/model/onnx_model.h"

enum { IDS = 50 };

/* Exact in fp32. */
static float element(int64_t row, int64_t column) {
    return (float)row + (float)column / TABLE_COLUMNS;
}

static int64_t id(int i) {
    return (int64_t)i * (TABLE_ROWS - 1) / (IDS - 1);
}

struct pack {
    void *data;
    size_t size;
};

static void make_model(struct pack *pack) {
    struct test_model model;
    float *table = malloc(TABLE_BYTES);
    if (!table) abort();
    for (int64_t i = 0; i < (int64_t)TABLE_ROWS * TABLE_COLUMNS; i++)
        table[i] = element(i / TABLE_COLUMNS, i % TABLE_COLUMNS);
    test_model_init(&model, 17);
    test_input(&model, NULL, "ids", TEST_INT64, "n");
    test_raw(&model, NULL, "table", TEST_FLOAT, "1048576 16", table, TABLE_BYTES);
    test_node(&model, NULL, "Gather", "table ids", "y");
    test_output(&model, NULL, "y");
    void *packed = test_model_pack(&model, &pack->size);
    pack->data = malloc(pack->size);
    if (!pack->data) abort();
    memcpy(pack->data, packed, pack->size);
    test_model_deinit(&model);
    free(table);
}

enum ingot_status table_build(const struct ingot_build_options *options, const char *path, struct ingot_error *error) {
    struct pack pack;
    struct ingot_model *model;
    make_model(&pack);
    enum ingot_status status = ingot_model_load_memory(pack.data, pack.size, NULL, NULL, &model, error);
    if (status == INGOT_OK) {
        status = ingot_model_build(model, options, path, error);
        ingot_model_destroy(model);
    }
    free(pack.data);
    return status;
}

enum ingot_status table_run(struct ingot_context *context, struct ingot_error *error) {
    int64_t ids[IDS];
    struct ingot_tensor input = {INGOT_I64, 1, {IDS}, ids, INGOT_HOST}, output;
    for (int i = 0; i < IDS; i++)
        ids[i] = id(i);
    IG_TRY(ingot_context_set_input(context, 0, &input, error));
    IG_TRY(ingot_context_run(context, error));
    IG_TRY(ingot_context_output(context, 0, &output, error));
    const float *found = output.data;
    for (int i = 0; i < IDS * TABLE_COLUMNS; i++) {
        float wanted = element(ids[i / TABLE_COLUMNS], i % TABLE_COLUMNS);
        if (found[i] != wanted)
            return IG_ERR(error, INGOT_INTERNAL, "element %d is %g, not %g", i, (double)found[i], (double)wanted);
    }
    return INGOT_OK;
}
