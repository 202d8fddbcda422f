/* ingot.as_tensor and ingot.from_address: ingot.Tensor over memory of others. */
#include <stdlib.h>
#include <string.h>

#include "ingot_python.h"

/* A tensor of others, as an ingot.Tensor's owner. */
#define KEPT "ingot.array"
struct kept {
    struct array array;
    PyObject *object;
};

static void free_kept(struct kept *kept) {
    array_release(&kept->array);
    Py_DECREF(kept->object);
    PyMem_Free(kept);
}

static void release_kept(PyObject *capsule) {
    free_kept(PyCapsule_GetPointer(capsule, KEPT));
}

int as_tensor_order(struct state *state, PyObject *owner, int64_t stream) {
    if (!PyCapsule_IsValid(owner, KEPT)) return 0;
    const struct kept *kept = PyCapsule_GetPointer(owner, KEPT);
    return array_order(state, kept->object, stream);
}

PyObject *as_tensor(PyObject *module, PyObject *object) {
    struct state *state = PyModule_GetState(module);
    if (Py_TYPE(object) == state->tensor_type) return Py_NewRef(object);
    struct kept *kept = PyMem_Malloc(sizeof *kept);
    if (!kept) return PyErr_NoMemory();
    struct array *array = &kept->array;
    if (array_read(state, NULL, object, ARRAY_KEEP, 1, array)) {
        PyMem_Free(kept);
        return NULL;
    }
    kept->object = Py_NewRef(object);
    PyObject *owner = PyCapsule_New(kept, KEPT, release_kept), *tensor = NULL;
    if (!owner) {
        free_kept(kept);
        return NULL;
    }
    if (array->is_dense)
        tensor = tensor_over(state, &array->tensor, array->device, owner);
    else
        refuse(state, "the tensor is not contiguous");
    if (tensor) ((struct tensor *)tensor)->is_read_only = array->is_read_only;
    Py_DECREF(owner);
    return tensor;
}

/* "cpu", "cuda" or "cuda:1". */
static int read_device(struct state *state, const char *text, struct ingot_tensor *value, int *out_device) {
    char *end = NULL;
    *out_device = 0;
    value->memory = strncmp(text, "cuda", 4) != 0 ? INGOT_HOST : INGOT_CUDA;
    if (!strcmp(text, "cpu") || !strcmp(text, "cuda")) return 0;
    long number = strncmp(text, "cuda:", 5) != 0 || !text[5] ? -1 : strtol(text + 5, &end, 10);
    if (number < 0 || number > 1024 || *end)
        return refuse(state, "device is '%s', expected 'cpu' or 'cuda:0'", text), -1;
    *out_device = (int)number;
    return 0;
}

static int read_shape(struct state *state, PyObject *shape, struct ingot_tensor *value) {
    PyObject *tuple = PySequence_Tuple(shape);
    if (!tuple) return -1;
    Py_ssize_t rank = PyTuple_Size(tuple);
    int rc = rank <= INGOT_MAX_RANK
                 ? 0
                 : (refuse(state, "the shape has %zd dims, at most %d are possible", rank, INGOT_MAX_RANK), -1);
    value->rank = (int)rank;
    int64_t bytes = (int64_t)ingot_dtype_size(value->dtype);
    for (Py_ssize_t i = 0; !rc && i < rank; i++) {
        value->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (PyErr_Occurred())
            rc = -1;
        else if (value->dims[i] < 0 || __builtin_mul_overflow(bytes, value->dims[i] ? value->dims[i] : 1, &bytes))
            rc = (refuse(state, "the shape has the dim %lld", (long long)value->dims[i]), -1);
    }
    Py_DECREF(tuple);
    return rc;
}

PyObject *from_address(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"address", "shape", "dtype", "device", "owner", NULL};
    struct state *state = PyModule_GetState(module);
    PyObject *address, *shape, *dtype, *owner = Py_None;
    const char *device = "cpu";
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|sO:from_address", names, &address, &shape, &dtype, &device,
                                     &owner))
        return NULL;
    struct ingot_tensor value = {INGOT_DTYPE_NONE};
    int number;
    value.data = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred() || dtype_from_object(state, dtype, &value.dtype) ||
        read_device(state, device, &value, &number) || read_shape(state, shape, &value))
        return NULL;
    if (!value.data && ingot_tensor_elements(&value)) return refuse(state, "the address is 0");
    if ((uintptr_t)value.data % ingot_dtype_size(value.dtype))
        return refuse(state, "the address is not aligned to elements of %zu bytes", ingot_dtype_size(value.dtype));
    return tensor_over(state, &value, number, owner);
}
