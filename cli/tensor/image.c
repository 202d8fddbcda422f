/* Images: decoded by stb_image, resized by stb_image_resize, laid out as the network expects. */
#include "tensor/image.h"

#include <math.h>
#include <stb_image.h>
#include <stb_image_resize.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shape.h"

/* What the input expects. */
struct target {
    const struct ingot_tensor_info *info;
    struct ingot_tensor tensor;
    bool channels_first;
    int height, width, channels;
    double scale, mean[3], std[3];
};

static enum ingot_status bad(struct ingot_error *error, const char *option, const char *value, const char *expected) {
    return cli_error(error, INGOT_INVALID_ARGUMENT, "--%s '%s': expected %s", option, value, expected);
}

static enum ingot_status find_input(const struct image_arguments *a, const struct ingot_tensor_info *infos, size_t n,
                                    const struct ingot_tensor_info **out_info, struct ingot_error *error) {
    for (size_t i = 0; i < n; i++) {
        if (a->input ? strcmp(infos[i].name, a->input) != 0 : infos[i].rank != 4) continue;
        if (infos[i].rank != 4) break;
        *out_info = &infos[i];
        return INGOT_OK;
    }
    return cli_error(error, INGOT_INVALID_ARGUMENT, "there is no input%s%s of rank 4 for the picture",
                     a->input ? " " : "", a->input ? a->input : "");
}

/* One number for all channels, or one each. */
static bool read_three(const char *text, double fallback, double *out_three) {
    for (int i = 0; i < 3; i++)
        out_three[i] = fallback;
    if (!text) return true;
    char *end;
    for (int i = 0; i < 3; i++) {
        out_three[i] = strtod(text, &end);
        if (end == text) return false;
        if (*end == 0 && i == 0) out_three[1] = out_three[2] = out_three[0];
        if (*end == 0) return i != 1;
        if (*end != ',') return false;
        text = end + 1;
    }
    return false;
}

static enum ingot_status read_scale(const struct image_arguments *a, struct target *t, struct ingot_error *error) {
    char *end;
    t->scale = dtype_is_float(t->info->dtype) ? 1.0 / 255 : 1;
    if (a->scale) {
        t->scale = strtod(a->scale, &end);
        if (*end == '/') t->scale /= strtod(end + 1, &end);
        if (end == a->scale || *end || !isfinite(t->scale))
            return bad(error, "scale", a->scale, "a number or a fraction such as 1/255");
    }
    if (!read_three(a->mean, 0, t->mean)) return bad(error, "mean", a->mean, "one number or three, joined by commas");
    if (!read_three(a->std, 1, t->std)) return bad(error, "std", a->std, "one number or three, joined by commas");
    return INGOT_OK;
}

static enum ingot_status settle(const struct image_arguments *a, const struct ingot_tensor_info *info,
                                const struct option_list *shapes, struct target *t, struct ingot_error *error) {
    struct ingot_shape_spec *specs;
    struct symbol_table symbols = {0};
    void *text;
    t->info = info;
    CLI_TRY(shape_specs(shapes, &specs, &text, error));
    size_t own = 0; /* specs of this input only */
    for (size_t i = 0; i < shapes->count; i++) {
        bool mine = strcmp(specs[i].name, info->name) == 0;
        for (int d = 0; d < 4; d++)
            mine |= strcmp(specs[i].name, info->symbols[d]) == 0;
        if (mine) specs[own++] = specs[i];
    }
    enum ingot_status status = shapes_settle(info, 1, specs, own, &symbols, &t->tensor, error);
    symbols_free(&symbols);
    free(specs);
    free(text);
    CLI_TRY(status);
    const int64_t *dims = t->tensor.dims;
    t->channels_first = dims[1] == 3 || (dims[1] == 1 && dims[3] != 3);
    if (a->layout) {
        t->channels_first = strcmp(a->layout, "nchw") == 0;
        if (!t->channels_first && strcmp(a->layout, "nhwc") != 0)
            return bad(error, "layout", a->layout, "nchw or nhwc");
    }
    t->channels = (int)(t->channels_first ? dims[1] : dims[3]);
    t->height = (int)(t->channels_first ? dims[2] : dims[1]);
    t->width = (int)(t->channels_first ? dims[3] : dims[2]);
    if ((t->channels != 1 && t->channels != 3) || dims[0] != 1 || t->height < 1 || t->width < 1 ||
        t->height > 1 << 15 || t->width > 1 << 15) {
        return cli_error(error, INGOT_INVALID_ARGUMENT,
                         "input '%s' takes no single picture of 1 or 3 channels; see --layout and --shape", info->name);
    }
    return read_scale(a, t, error);
}

/* Decodes and resizes to height x width x channels floats from 0 to 255. */
static enum ingot_status decode(const struct image_arguments *a, const struct target *t, float **out_pixels,
                                struct ingot_error *error) {
    int width, height, present, x = 0, y = 0;
    bool crop = a->fit && strcmp(a->fit, "crop") == 0, bilinear = a->filter && strcmp(a->filter, "bilinear") == 0;
    if (a->fit && !crop && strcmp(a->fit, "stretch") != 0) return bad(error, "fit", a->fit, "stretch or crop");
    if (a->filter && !bilinear && strcmp(a->filter, "area") != 0)
        return bad(error, "filter", a->filter, "area or bilinear");
    unsigned char *bytes = stbi_load(a->file, &width, &height, &present, t->channels);
    if (!bytes) return cli_error(error, INGOT_BAD_TENSOR, "cannot read '%s': %s", a->file, stbi_failure_reason());
    if (width < 1 || height < 1) {
        stbi_image_free(bytes);
        return cli_error(error, INGOT_BAD_TENSOR, "cannot read '%s': it is %d pixels wide and %d high", a->file, width,
                         height);
    }
    size_t n = (size_t)width * (size_t)height * (size_t)t->channels;
    float *pixels = cli_alloc(n, sizeof *pixels);
    for (size_t i = 0; i < n; i++)
        pixels[i] = bytes[i];
    stbi_image_free(bytes);
    int row = width * t->channels * (int)sizeof *pixels;
    if (crop) { /* the largest centred part with the target's aspect ratio */
        int w = (int)fmin(width, round((double)height * t->width / t->height));
        int h = (int)fmin(height, round((double)width * t->height / t->width));
        x = (width - w) / 2, y = (height - h) / 2;
        width = w > 0 ? w : 1, height = h > 0 ? h : 1;
    }
    float *resized = cli_alloc((size_t)t->width * (size_t)t->height * (size_t)t->channels, sizeof *resized);
    stbir_filter filter = bilinear ? STBIR_FILTER_TRIANGLE : STBIR_FILTER_BOX;
    int good = stbir_resize_float_generic(
        pixels + ((size_t)y * (size_t)row / sizeof *pixels) + (size_t)(x * t->channels), width, height, row, resized,
        t->width, t->height, 0, t->channels, -1, 0, STBIR_EDGE_CLAMP, filter, STBIR_COLORSPACE_LINEAR, NULL);
    free(pixels);
    if (!good) {
        free(resized);
        return cli_error(error, INGOT_OUT_OF_MEMORY, "cannot resize '%s'", a->file);
    }
    *out_pixels = resized;
    return INGOT_OK;
}

static void lay_out(const struct target *t, const float *pixels, bool bgr) {
    int64_t plane = (int64_t)t->height * t->width;
    bool is_float = dtype_is_float(t->tensor.dtype);
    for (int64_t p = 0; p < plane; p++) {
        for (int c = 0; c < t->channels; c++) {
            int from = bgr ? t->channels - 1 - c : c;
            double value = ((double)pixels[p * t->channels + from] * t->scale - t->mean[c]) / t->std[c];
            if (!is_float)
                value = fmin(fmax(nearbyint(value), t->tensor.dtype == INGOT_I8 ? -128 : 0),
                             t->tensor.dtype == INGOT_I8 ? 127 : 255);
            tensor_set(&t->tensor, t->channels_first ? c * plane + p : p * t->channels + c, value);
        }
    }
}

enum ingot_status image_prepare(const struct image_arguments *arguments, const struct ingot_tensor_info *infos,
                                size_t n, const struct option_list *shapes, struct tensor_list *list,
                                struct ingot_error *error) {
    struct target target = {0};
    const struct ingot_tensor_info *info = NULL;
    float *pixels = NULL;
    bool bgr = arguments->order && strcmp(arguments->order, "bgr") == 0;
    if (arguments->order && !bgr && strcmp(arguments->order, "rgb") != 0)
        return bad(error, "order", arguments->order, "rgb or bgr");
    CLI_TRY(find_input(arguments, infos, n, &info, error));
    CLI_TRY(settle(arguments, info, shapes, &target, error));
    CLI_TRY(decode(arguments, &target, &pixels, error));
    enum ingot_status status = tensor_allocate(&target.tensor, error);
    if (status == INGOT_OK) {
        lay_out(&target, pixels, bgr);
        tensor_list_add(list, (struct named_tensor){cli_strdup(info->name), target.tensor});
    }
    free(pixels);
    return status;
}
