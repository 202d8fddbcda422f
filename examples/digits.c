/* Compiles the network of the demo in memory, runs it on one picture, and prints the class. */
#include <stdio.h>
#include <string.h>

#include "ingot/ingot.h"

static const char levels[] = " .:-=+*#@";
static const char picture[8][9] = {
    "  #@*-  ", "  **#*  ", "    +=  ", "   +#.  ", "  =@@*  ", "  =:=@. ", " :#-+#  ", " .*@#-  ",
};

static int fail(const struct ingot_error *error) {
    fprintf(stderr, "%s: %s\n", ingot_status_name(error->status), error->message);
    return 1;
}

int main(int argc, char **argv) {
    struct ingot_error error;
    struct ingot_model *model;
    if (ingot_model_load(argc > 1 ? argv[1] : "examples/digits/digits.onnx", NULL, &model, &error)) return fail(&error);

    void *data;
    size_t size;
    struct ingot_engine *engine;
    struct ingot_context *context;
    if (ingot_model_build_memory(model, NULL, &data, &size, &error)) return fail(&error);
    if (ingot_engine_load_memory(data, size, NULL, &engine, &error)) return fail(&error);
    if (ingot_context_create(engine, NULL, &context, &error)) return fail(&error);

    float pixels[64];
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            pixels[8 * y + x] = (float)(strchr(levels, picture[y][x]) - levels) / 8;
    struct ingot_tensor input = {INGOT_F32, 4, {1, 1, 8, 8}, pixels, INGOT_HOST}, output;
    if (ingot_context_set_input(context, 0, &input, &error)) return fail(&error);
    if (ingot_context_run(context, &error)) return fail(&error);
    if (ingot_context_output(context, 0, &output, &error)) return fail(&error);

    const float *probability = output.data;
    int best = 0;
    for (int i = 1; i < 10; i++)
        if (probability[i] > probability[best]) best = i;
    printf("a %d, with probability %.3f (engine of %zu bytes)\n", best, probability[best], size);

    ingot_context_destroy(context);
    ingot_engine_release(engine);
    ingot_blob_release(model, data, size);
    ingot_model_destroy(model);
    return 0;
}
