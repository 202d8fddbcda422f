/* Tensors by name, as refits take them: refit_tensors.c reads them, and makes those of adapters. */
#ifndef INGOT_PYTHON_REFIT_H
#define INGOT_PYTHON_REFIT_H

#include "ingot_python.h"

/* Of a dict or a file. */
struct weights {
    struct ingot_tensors *file;       /* or: */
    struct ingot_named_tensor *named; /* of a dict */
    struct array *arrays;
    void **copies;
    size_t n_arrays;
    const struct ingot_named_tensor *tensors; /* of either */
    size_t n_tensors;
    PyObject *dict; /* a copy, which keeps tensors and names */
    /* Set by the caller: whether tensors may stay in a GPU's memory, and whether an engine is to borrow them. */
    bool accepts_gpu, borrows;
    bool has_device; /* some are in the memory of GPU `device` */
    int device;
    struct lent *room; /* for those that the engine borrows */
};
/* `tensors`: a dict, or a file's path. Free the weights also after a failure. */
int weights_read(struct state *state, PyObject *tensors, struct weights *out_weights);
void weights_free(struct weights *weights);

PyObject *open_adapter(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *engine_open_slot(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
