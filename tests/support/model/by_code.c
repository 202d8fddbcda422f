/* See by_code.h. */
#include "support/model/by_code.h"

struct ingot_error by_code_error;

struct ingot_network *network_create(void) {
    struct ingot_network *network;
    MUST(ingot_network_create(NULL, &network, &by_code_error));
    return network;
}

ingot_value network_input(struct ingot_network *network, const char *name, enum ingot_dtype dtype, int rank,
                          const char *const *dims) {
    ingot_value value;
    MUST(ingot_network_input(network, name, dtype, rank, dims, &value, &by_code_error));
    return value;
}

ingot_value network_weight(struct ingot_network *network, const char *name, int64_t d0, int64_t d1, const float *data) {
    struct ingot_tensor tensor = {INGOT_F32, d1 ? 2 : 1, {d0, d1}, (void *)data, INGOT_HOST};
    ingot_value value;
    MUST(ingot_network_weight(network, name, &tensor, false, &value, &by_code_error));
    return value;
}

ingot_value network_scalar(struct ingot_network *network, float number) {
    struct ingot_tensor tensor = {INGOT_F32, 0, {0}, &number, INGOT_HOST};
    ingot_value value;
    MUST(ingot_network_constant(network, &tensor, &value, &by_code_error));
    return value;
}

struct ingot_operator network_operator(const char *name, const ingot_value *inputs, size_t n_inputs,
                                       const struct ingot_attribute *attributes, size_t n_attributes) {
    return (struct ingot_operator){name, inputs, n_inputs, attributes, n_attributes, NULL, INGOT_HERE};
}

ingot_value network_add(struct ingot_network *network, const char *name, const ingot_value *inputs, size_t n_inputs,
                        const struct ingot_attribute *attributes, size_t n_attributes) {
    struct ingot_operator op = network_operator(name, inputs, n_inputs, attributes, n_attributes);
    ingot_value value;
    MUST(ingot_network_add(network, &op, &value, 1, &by_code_error));
    return value;
}

struct ingot_model *network_finish(struct ingot_network *network) {
    struct ingot_model *model;
    MUST(ingot_network_finish(network, &model, &by_code_error));
    return model;
}
