/*
 * NumPy, where it is imported: its arrays as results, and a quick way to read those that come in.
 *
 * An array's fields are part of NumPy's stable ABI (PyArrayObject_fields of its C API), and a buffer of it costs ten times as long to
 * ask for as they cost to read. Nothing of NumPy's headers is needed to build; so the first time, one array is looked at both
 * ways, and unless they agree, buffers remain the way.
 */
#include <string.h>

#include "ingot_python.h"

struct fields {
    PyObject_HEAD char *data;
    int rank;
    Py_ssize_t *dims, *strides; /* strides in bytes */
    PyObject *base, *dtype;
    int flags;
};
enum { WRITEABLE = 0x400, DENSE = 0x101 /* in C's order, and aligned */ };

/* Functions of NumPy's C API, by their places in its table, which are as stable. */
enum { NEW_FROM_DESCR = 94, SET_BASE = 282 };
typedef PyObject *(*new_from_descr)(PyTypeObject *type, PyObject *dtype, int rank, const Py_ssize_t *dims,
                                    const Py_ssize_t *strides, void *data, int flags, PyObject *like);
typedef int (*set_base)(PyObject *array, PyObject *base);

const char *const ml_dtypes_names[INGOT_DTYPE_COUNT] = {
    [INGOT_BF16] = "bfloat16",
    [INGOT_I4] = "int4",
    [INGOT_U4] = "uint4",
    [INGOT_I2] = "int2",
    [INGOT_U2] = "uint2",
    [INGOT_F8E4M3FN] = "float8_e4m3fn",
    [INGOT_F8E5M2] = "float8_e5m2",
    [INGOT_F8E4M3FNUZ] = "float8_e4m3fnuz",
    [INGOT_F8E5M2FNUZ] = "float8_e5m2fnuz",
    [INGOT_F8E8M0] = "float8_e8m0fnu",
    [INGOT_F4E2M1] = "float4_e2m1fn",
};

/* numpy.dtype of Ingot's, borrowed. */
static PyObject *numpy_dtype(struct state *state, enum ingot_dtype dtype) {
    static const char *const names[INGOT_DTYPE_COUNT] = {
        [INGOT_F32] = "float32", [INGOT_F16] = "float16", [INGOT_F64] = "float64", [INGOT_I8] = "int8",
        [INGOT_I16] = "int16",   [INGOT_I32] = "int32",   [INGOT_I64] = "int64",   [INGOT_U8] = "uint8",
        [INGOT_U16] = "uint16",  [INGOT_U32] = "uint32",  [INGOT_U64] = "uint64",  [INGOT_BOOL] = "bool",
    };
    if (state->numpy_dtypes[dtype]) return state->numpy_dtypes[dtype];
    PyObject *name;
    if (ml_dtypes_names[dtype]) {
        PyObject *module = PyImport_ImportModule("ml_dtypes");
        if (!module) {
            if (PyErr_ExceptionMatches(PyExc_ImportError))
                PyErr_Format(state->errors[INGOT_UNSUPPORTED], "NumPy has no %s: install ml_dtypes, or use DLPack",
                             ingot_dtype_name(dtype));
            return NULL;
        }
        name = PyObject_GetAttrString(module, ml_dtypes_names[dtype]);
        Py_DECREF(module);
    } else {
        name = PyUnicode_FromString(names[dtype]);
    }
    PyObject *numpy = name ? PyImport_ImportModule("numpy") : NULL;
    if (numpy) state->numpy_dtypes[dtype] = PyObject_CallMethod(numpy, "dtype", "O", name);
    Py_XDECREF(numpy);
    Py_XDECREF(name);
    return state->numpy_dtypes[dtype];
}

/* ---- Reading */

static bool agrees(PyObject *array, PyObject *dtype) {
    const struct fields *fields = (const struct fields *)array;
    Py_buffer buffer;
    if (PyObject_GetBuffer(array, &buffer, PyBUF_STRIDED)) return false;
    bool same = fields->data == buffer.buf && fields->rank == buffer.ndim && fields->dtype == dtype &&
                fields->flags & WRITEABLE;
    for (int i = 0; same && i < buffer.ndim; i++)
        same = fields->dims[i] == buffer.shape[i] && fields->strides[i] == buffer.strides[i];
    PyBuffer_Release(&buffer);
    if (!same) return false;
    PyObject *none = PyObject_CallMethod(array, "setflags", "i", 0);
    Py_XDECREF(none);
    return none && !(fields->flags & WRITEABLE);
}

/* Leaves no exception: what fails here is not known. */
static void learn_layout(struct state *state) {
    PyObject *size = PyObject_GetAttrString((PyObject *)state->ndarray, "__basicsize__");
    bool fits = size && PyLong_AsLong(size) >= (long)sizeof(struct fields);
    Py_XDECREF(size);
    for (int i = 1; fits && i < INGOT_DTYPE_COUNT; i++)
        fits = ml_dtypes_names[i] || numpy_dtype(state, (enum ingot_dtype)i);
    PyObject *dtype = state->numpy_dtypes[INGOT_I16];
    PyObject *array = fits ? PyObject_CallFunction((PyObject *)state->ndarray, "(iii)O", 2, 3, 4, dtype) : NULL;
    if (array && agrees(array, dtype)) state->numpy_layout = Py_NewRef(Py_True);
    Py_XDECREF(array);
    PyErr_Clear();
}

/* The capsule of NumPy's C API: of its second version, or the first. */
static PyObject *find_api(void) {
    PyObject *module = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (!module) {
        PyErr_Clear();
        module = PyImport_ImportModule("numpy.core._multiarray_umath");
    }
    PyObject *api = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    Py_XDECREF(module);
    if (api && !PyCapsule_IsValid(api, NULL)) Py_CLEAR(api);
    return api;
}

int numpy_find(struct state *state, bool import) {
    if (state->ndarray) return 1;
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *numpy = modules ? PyDict_GetItemString(modules, "numpy") : NULL;
    Py_XINCREF(numpy);
    if (!numpy && import) numpy = PyImport_ImportModule("numpy");
    if (!numpy) return import ? -1 : 0;
    PyObject *ndarray = PyObject_GetAttrString(numpy, "ndarray");
    PyObject *api = ndarray ? find_api() : NULL;
    Py_DECREF(numpy);
    if (!api || !PyType_Check(ndarray)) { /* while NumPy itself is being imported */
        Py_XDECREF(ndarray);
        Py_XDECREF(api);
        PyErr_Clear();
        return 0;
    }
    state->numpy_api = api;
    state->ndarray = (PyTypeObject *)ndarray;
    learn_layout(state);
    return 1;
}

bool numpy_read(struct state *state, PyObject *object, struct array *array) {
    const struct fields *fields = (const struct fields *)object;
    struct ingot_tensor *value = &array->tensor;
    if (Py_TYPE(object) != state->ndarray || !state->numpy_layout || fields->rank > INGOT_MAX_RANK) return false;
    int dtype = 1;
    while (dtype < INGOT_DTYPE_COUNT && state->numpy_dtypes[dtype] != fields->dtype)
        dtype++;
    if (dtype == INGOT_DTYPE_COUNT) return false; /* of another kind, or byte order */
    value->dtype = (enum ingot_dtype)dtype;
    value->rank = fields->rank;
    value->data = fields->data;
    value->memory = INGOT_HOST;
    array->is_read_only = !(fields->flags & WRITEABLE);
    for (int i = 0; i < value->rank; i++) {
        value->dims[i] = fields->dims[i];
        array->strides[i] = fields->strides[i];
    }
    return true;
}

/* ---- Results */

PyObject *numpy_over(struct state *state, const struct ingot_tensor *value, bool is_read_only, PyObject *owner) {
    if (value->memory == INGOT_CUDA) return refuse(state, "the tensor is in GPU memory, which NumPy cannot read");
    PyObject *dtype = numpy_dtype(state, value->dtype);
    if (!dtype) return NULL;
    void *const *table = PyCapsule_GetPointer(state->numpy_api, NULL);
    Py_ssize_t dims[INGOT_MAX_RANK];
    for (int i = 0; i < value->rank; i++)
        dims[i] = (Py_ssize_t)value->dims[i];
    /* Takes the reference to the dtype; allocates only where there is no data. */
    PyObject *array =
        ((new_from_descr)table[NEW_FROM_DESCR])(state->ndarray, Py_NewRef(dtype), value->rank, dims, NULL, value->data,
                                                is_read_only ? DENSE : DENSE | WRITEABLE, NULL);
    if (!array || !((set_base)table[SET_BASE])(array, Py_NewRef(owner))) return array;
    Py_DECREF(array);
    return NULL;
}
