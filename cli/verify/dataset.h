/* The cases in a folder in ONNX's test layout, and in the .npz form. */
#ifndef CLI_DATASET_H
#define CLI_DATASET_H

#include "verify/compare.h"

/* The input and output sets of one folder: test_data_set_N/{input,output}_K.pb, and io.npz, whose arrays are named like
 * the model's inputs and outputs. */
struct dataset {
    char *name;                         /* "test_data_set_0" */
    struct tensor_list inputs, outputs; /* from .pb: by index (names NULL); from .npz: by name */
};

struct datasets {
    struct dataset *at;
    size_t count;
    struct tolerance tolerance;
};

/* `inputs` and `outputs` are the model's. A folder without data gives no sets. out_sets->tolerance is the default that
 * the folder may override. */
enum ingot_status datasets_read(const char *folder, const struct ingot_tensor_info *inputs, size_t n_inputs,
                                const struct ingot_tensor_info *outputs, size_t n_outputs, struct datasets *out_sets,
                                struct ingot_error *error);
void datasets_free(struct datasets *sets);

#endif
