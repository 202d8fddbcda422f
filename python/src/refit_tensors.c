/* Tensors for refits: of the caller's, in a dict or a file, and those that low-rank adapters make. */
#include "refit.h"

#include <string.h>

/* ---- The caller's */

/* Tensors in GPU memory are on one GPU. */
static int read_device(struct state *state, struct weights *weights, const struct array *array, const char *name) {
    if (!array->is_dense) return refuse(state, "'%s' does not lie densely in the GPU's memory", name), -1;
    if (weights->has_device && weights->device != array->device)
        return refuse(state, "'%s' is on GPU %d, others are on GPU %d", name, array->device, weights->device), -1;
    weights->has_device = true;
    weights->device = array->device;
    return 0;
}

static int read_dict(struct state *state, struct weights *weights, PyObject *dict) {
    size_t n = (size_t)PyDict_Size(dict);
    weights->dict = PyDict_Copy(dict);
    weights->named = PyMem_Calloc(n + 1, sizeof *weights->named);
    weights->arrays = PyMem_Calloc(n + 1, sizeof *weights->arrays);
    weights->copies = PyMem_Calloc(n + 1, sizeof *weights->copies);
    if (!weights->dict || !weights->named || !weights->arrays || !weights->copies) return PyErr_NoMemory(), -1;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(weights->dict, &at, &name, &value);) {
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!text) return -1;
        struct array *array = &weights->arrays[weights->n_arrays];
        if (array_read(state, NULL, value, ARRAY_KEEP, 1, array)) return -1;
        void **copy = &weights->copies[weights->n_arrays];
        weights->n_arrays++;
        if (weights->borrows && !array->is_dense)
            return refuse(state, "'%s' does not lie densely in memory, so that it cannot be borrowed", text), -1;
        if (array->tensor.memory == INGOT_CUDA && weights->accepts_gpu) {
            if (read_device(state, weights, array, text)) return -1;
        } else if (array_make_dense(state, array, text, copy)) {
            return -1;
        }
        weights->named[weights->n_tensors++] = (struct ingot_named_tensor){.name = text, .tensor = array->tensor};
    }
    weights->tensors = weights->named;
    if (weights->borrows && weights->n_arrays && !(weights->room = lent_new(weights->n_arrays))) return -1;
    return 0;
}

static int open_file(struct state *state, struct weights *weights, PyObject *path) {
    PyObject *holder;
    const char *text;
    if (path_read(path, &holder, &text)) return -1;
    struct ingot_error error;
    enum ingot_status status = ingot_tensors_open(text, NULL, &weights->file, &error);
    Py_DECREF(holder);
    if (status) return raise_error(state, status, &error), -1;
    weights->tensors = ingot_tensors_list(weights->file, &weights->n_tensors);
    return 0;
}

int weights_read(struct state *state, PyObject *tensors, struct weights *out_weights) {
    return PyDict_Check(tensors) ? read_dict(state, out_weights, tensors) : open_file(state, out_weights, tensors);
}

void weights_free(struct weights *weights) {
    lent_free(weights->room);
    for (size_t i = 0; i < weights->n_arrays; i++) {
        array_release(&weights->arrays[i]);
        PyMem_Free(weights->copies[i]);
    }
    PyMem_Free(weights->arrays);
    PyMem_Free(weights->copies);
    PyMem_Free(weights->named);
    Py_XDECREF(weights->dict);
    if (weights->file) ingot_tensors_close(weights->file);
}

/* ---- Of adapters */

static void close_tensors(PyObject *capsule) {
    ingot_tensors_close(PyCapsule_GetPointer(capsule, "ingot.tensors"));
}

/* Tensors that lie at any address are copied to one that suits their type. */
static PyObject *tensor_of(struct state *state, const struct ingot_tensor *value, PyObject *owner) {
    bool is_aligned = (uintptr_t)value->data % ingot_dtype_size(value->dtype) == 0;
    PyObject *tensor = is_aligned ? tensor_over(state, value, 0, owner) : tensor_copy(state, value);
    if (tensor) ((struct tensor *)tensor)->is_read_only = true;
    return tensor;
}

/* A dict of ingot.Tensor by names; takes the tensors. */
static PyObject *dict_of(struct state *state, struct ingot_tensors *tensors) {
    PyObject *owner = PyCapsule_New(tensors, "ingot.tensors", close_tensors);
    if (!owner) {
        ingot_tensors_close(tensors);
        return NULL;
    }
    size_t n;
    const struct ingot_named_tensor *list = ingot_tensors_list(tensors, &n);
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < n; i++) {
        PyObject *tensor = tensor_of(state, &list[i].tensor, owner);
        if (!tensor || PyDict_SetItemString(dict, list[i].name, tensor)) Py_CLEAR(dict);
        Py_XDECREF(tensor);
    }
    Py_DECREF(owner);
    return dict;
}

PyObject *open_adapter(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"folder", "base", NULL};
    struct state *state = PyModule_GetState(module);
    PyObject *folder, *base, *holder;
    const char *path;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:open_adapter", names, &folder, &base)) return NULL;
    if (path_read(folder, &holder, &path)) return NULL;
    struct weights weights = {NULL};
    struct ingot_tensors *tensors;
    PyObject *dict = NULL;
    if (!weights_read(state, base, &weights)) {
        struct ingot_error error;
        enum ingot_status status;
        Py_BEGIN_ALLOW_THREADS status =
            ingot_tensors_open_adapter(path, weights.tensors, weights.n_tensors, NULL, &tensors, &error);
        Py_END_ALLOW_THREADS dict = status ? raise_error(state, status, &error) : dict_of(state, tensors);
    }
    weights_free(&weights);
    Py_DECREF(holder);
    return dict;
}

PyObject *engine_open_slot(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slot", "folder", NULL};
    struct state *state = state_of(self);
    PyObject *folder = Py_None, *holder = NULL;
    const char *path = NULL;
    long slot;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "l|O:open_slot", names, &slot, &folder)) return NULL;
    if (slot < 1 || slot > INT32_MAX) return refuse(state, "slot is %ld, expected 1 or more", slot);
    if (folder != Py_None && path_read(folder, &holder, &path)) return NULL;
    struct ingot_tensors *tensors;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status =
        ingot_tensors_open_slot(path, ((struct engine *)self)->engine, (unsigned)slot, NULL, &tensors, &error);
    Py_END_ALLOW_THREADS Py_XDECREF(holder);
    return status ? raise_error(state, status, &error) : dict_of(state, tensors);
}
