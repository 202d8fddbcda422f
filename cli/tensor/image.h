/* Pictures as network inputs, and class labels. */
#ifndef CLI_IMAGE_H
#define CLI_IMAGE_H

#include "options.h"
#include "tensor/tensor.h"

struct image_arguments {
    const char *file, *labels;
    unsigned top;
    const char *input, *layout, *fit, *filter, *order, *scale, *mean, *std;
};
#define IMAGE_ARGUMENTS_DEFAULT \
    { .top = 5 }
#define IMAGE_OPTION_ROWS(i)                                                                                             \
    {"image", 0, OPTION_TEXT, "FILE", "a picture (PNG, JPEG, BMP, GIF) for an input of rank 4", &(i).file},              \
        {"image-input", 0, OPTION_TEXT, "NAME", "which input it is (default: the first of rank 4)", &(i).input},         \
        {"layout", 0, OPTION_TEXT, "L", "nchw or nhwc (default: by which axis has size 1 or 3)", &(i).layout},           \
        {"fit", 0, OPTION_TEXT, "F", "stretch (the default) or crop (the middle, nothing distorted)", &(i).fit},         \
        {"filter", 0, OPTION_TEXT, "F", "area (the default) or bilinear", &(i).filter},                                  \
        {"order", 0, OPTION_TEXT, "O", "rgb (the default) or bgr; one channel gets the grey value", &(i).order},         \
        {"scale",                                                                                                        \
         0,                                                                                                              \
         OPTION_TEXT,                                                                                                    \
         "S",                                                                                                            \
         "multiplies pixels of 0 to 255 (default: 1/255 for floating\ntypes, 1 for "                                     \
         "integers)",                                                                                                    \
         &(i).scale},                                                                                                    \
        {"mean", 0, OPTION_TEXT, "M[,M,M]", "subtracted after scaling (default 0)", &(i).mean},                          \
        {"std", 0, OPTION_TEXT, "S[,S,S]", "divided by after that (default 1)", &(i).std},                               \
        {"labels", 0, OPTION_TEXT, "FILE", "a label per line: prints the classes with the highest scores", &(i).labels}, \
    {                                                                                                                    \
        "top", 0, OPTION_UNSIGNED, "N", "how many of them (default 5)", &(i).top                                         \
    }

/* Reads a picture into a tensor for the given input, and adds it to the list. */
enum ingot_status image_prepare(const struct image_arguments *arguments, const struct ingot_tensor_info *infos,
                                size_t n, const struct option_list *shapes, struct tensor_list *list,
                                struct ingot_error *error);
/* Prints the best classes of each row of scores: probability (by softmax, unless the row already is one) and label. */
enum ingot_status labels_print(const struct image_arguments *arguments, const struct ingot_tensor *scores,
                               struct ingot_error *error);

#endif
