/* Networks built by code: network.c has the objects, attribute.c what operators are given. */
#ifndef INGOT_PYTHON_NETWORK_H
#define INGOT_PYTHON_NETWORK_H

#include "ingot_python.h"

struct network {
    PyObject_HEAD struct ingot_network *network; /* NULL once it is finished */
    struct network *outer;                       /* of a body: kept; or NULL */
    PyObject *owners;                            /* a list, shared with bodies: what the weights borrow */
    struct guard guard;
};

/* A network's attributes for one operator, and what they borrow. */
struct attributes {
    struct ingot_attribute *items;
    size_t count;
    struct attribute_memory {
        void *list; /* PyMem */
        struct texts texts;
        PyObject *sequence;
        struct array array;
        bool has_array;
        void *copy;
        struct ingot_tensor tensor;
    } * memory;
};
/* From the keywords of Network.add that are not its own. `is_core`: strings are dims. */
int attributes_read(struct state *state, PyObject *kwargs, bool is_core, struct attributes *out_attributes);
void attributes_free(struct attributes *attributes);

#endif
