/* Networks made by code in tests: every call must succeed. */
#ifndef TESTS_SUPPORT_MODEL_BY_CODE_H
#define TESTS_SUPPORT_MODEL_BY_CODE_H

#include "ingot/ingot.h"
#include "support/support.h"

/* Of the call that failed. */
extern struct ingot_error by_code_error;

#define MUST(call)                                                                \
    do {                                                                          \
        if ((call) != INGOT_OK) fail_msg("%s: %s", #call, by_code_error.message); \
    } while (0)

struct ingot_network *network_create(void);
ingot_value network_input(struct ingot_network *network, const char *name, enum ingot_dtype dtype, int rank,
                          const char *const *dims);
/* f32[d0,d1], or f32[d0] where d1 is 0; the data are borrowed. */
ingot_value network_weight(struct ingot_network *network, const char *name, int64_t d0, int64_t d1, const float *data);
ingot_value network_scalar(struct ingot_network *network, float number);
struct ingot_operator network_operator(const char *name, const ingot_value *inputs, size_t n_inputs,
                                       const struct ingot_attribute *attributes, size_t n_attributes);
/* An operator with one output. */
ingot_value network_add(struct ingot_network *network, const char *name, const ingot_value *inputs, size_t n_inputs,
                        const struct ingot_attribute *attributes, size_t n_attributes);
struct ingot_model *network_finish(struct ingot_network *network);

/* Arguments of the last two: inputs, and attributes made by the macros below. */
#define INPUTS(...) (const ingot_value[]){__VA_ARGS__}, sizeof((ingot_value[]){__VA_ARGS__}) / sizeof(ingot_value)
#define ATTRIBUTES(...)                            \
    (const struct ingot_attribute[]){__VA_ARGS__}, \
        sizeof((struct ingot_attribute[]){__VA_ARGS__}) / sizeof(struct ingot_attribute)
#define INT(name, value)                \
    {                                   \
        name, INGOT_ATTRIBUTE_INT, 0, { \
            .i = value                  \
        }                               \
    }
#define INTS(name, ...)                                                     \
    {                                                                       \
        name, INGOT_ATTRIBUTE_INTS, sizeof((int64_t[]){__VA_ARGS__}) / 8, { \
            .ints = (int64_t[]) {                                           \
                __VA_ARGS__                                                 \
            }                                                               \
        }                                                                   \
    }
#define DIMS(name, ...)                                                                       \
    {                                                                                         \
        name, INGOT_ATTRIBUTE_DIMS, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), { \
            .dims = (const char *const[]) {                                                   \
                __VA_ARGS__                                                                   \
            }                                                                                 \
        }                                                                                     \
    }

#endif
