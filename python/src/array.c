/*
 * Tensors of the caller's, read in place: through DLPack's C exchange API, the buffer protocol, or __dlpack__, in this order.
 * For an object that has both of the latter, the buffer protocol is the cheaper way to the same memory of the host.
 */
#include <stdint.h>
#include <string.h>

#include "ingot_python.h"

/* ---- Which way */

void source_clear(struct source *source) {
    Py_CLEAR(source->type);
}

int source_find(struct state *state, struct source *source, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (source->type == type) return 0;
    source_clear(source);
    source->api = NULL;
    source->is_buffer = PyObject_CheckBuffer(object);
    PyObject *capsule = PyObject_GetAttr((PyObject *)type, state->exchange_name);
    if (!capsule) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
        PyErr_Clear();
    } else {
        struct dl_exchange_api *api = NULL;
        if (PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
            api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
        while (api && api->version.major != DL_MAJOR)
            api = api->previous;
        source->api = api; /* it lives as long as the process, by its specification */
        Py_DECREF(capsule);
    }
    source->type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    return 0;
}

/* ---- What was read */

/* Checks sizes, and tells whether the elements are dense. */
static int finish(struct state *state, unsigned flags, struct array *array) {
    struct ingot_tensor *tensor = &array->tensor;
    int64_t size = (int64_t)ingot_dtype_size(tensor->dtype), bytes = size, dense = size;
    bool is_empty = false;
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] < 0) {
            refuse(state, "a dim is negative: %lld", (long long)tensor->dims[i]);
            return -1;
        }
        is_empty = is_empty || !tensor->dims[i];
    }
    array->is_dense = true;
    for (int i = tensor->rank; i-- > 0;) {
        if (__builtin_mul_overflow(bytes, tensor->dims[i] ? tensor->dims[i] : 1, &bytes)) {
            refuse(state, "the tensor is larger than memory");
            return -1;
        }
        if (tensor->dims[i] != 1 && array->strides[i] != dense) array->is_dense = false;
        dense = bytes;
    }
    if (is_empty) array->is_dense = true;
    if (!tensor->data && !is_empty) {
        refuse(state, "the tensor has no data");
        return -1;
    }
    if ((uintptr_t)tensor->data % (uintptr_t)size && !is_empty) array->is_dense = false;
    if (flags & ARRAY_WRITABLE && array->is_read_only) {
        refuse(state, "the memory is read-only");
        return -1;
    }
    return 0;
}

static enum ingot_dtype dtype_of_dlpack(struct dl_type type) {
    static const enum ingot_dtype floats[] = {
        [1] = INGOT_DTYPE_NONE, [2] = INGOT_F16, [4] = INGOT_F32, [8] = INGOT_F64};
    static const enum ingot_dtype ints[] = {[1] = INGOT_I8, [2] = INGOT_I16, [4] = INGOT_I32, [8] = INGOT_I64};
    static const enum ingot_dtype uints[] = {[1] = INGOT_U8, [2] = INGOT_U16, [4] = INGOT_U32, [8] = INGOT_U64};
    for (int i = 1; type.code > DL_BOOL && i < INGOT_DTYPE_COUNT; i++) { /* floats of 8 bits have codes of their own */
        struct dl_type own = dlpack_type((enum ingot_dtype)i);
        if (!memcmp(&own, &type, sizeof own)) return (enum ingot_dtype)i;
    }
    if (type.lanes != 1 || type.bits % 8 || type.bits > 64) return INGOT_DTYPE_NONE;
    switch (type.code) {
    case DL_FLOAT: return floats[type.bits / 8];
    case DL_INT: return ints[type.bits / 8];
    case DL_UINT: return uints[type.bits / 8];
    case DL_BFLOAT: return type.bits == 16 ? INGOT_BF16 : INGOT_DTYPE_NONE;
    case DL_BOOL: return type.bits == 8 ? INGOT_BOOL : INGOT_DTYPE_NONE;
    default: return INGOT_DTYPE_NONE;
    }
}

static int read_dlpack(struct state *state, const struct dl_tensor *tensor, unsigned flags, struct array *array) {
    struct ingot_tensor *value = &array->tensor;
    value->dtype = dtype_of_dlpack(tensor->dtype);
    if (value->dtype == INGOT_DTYPE_NONE) {
        refuse(state, "Ingot has no type of elements like DLPack's (code %d, %d bits, %d lanes)", tensor->dtype.code,
               tensor->dtype.bits, tensor->dtype.lanes);
        return -1;
    }
    if (tensor->ndim < 0 || tensor->ndim > INGOT_MAX_RANK || (tensor->ndim && !tensor->shape)) {
        refuse(state, "a tensor has %d dims, expected at most %d", (int)tensor->ndim, INGOT_MAX_RANK);
        return -1;
    }
    switch (tensor->device.type) {
    case DL_CPU: value->memory = INGOT_HOST; break;
    case DL_CUDA_HOST: value->memory = INGOT_PINNED; break;
    case DL_CUDA:
    case DL_CUDA_MANAGED: value->memory = INGOT_CUDA; break;
    default: refuse(state, "a tensor is on a device of DLPack's type %d", (int)tensor->device.type); return -1;
    }
    array->device = value->memory == INGOT_CUDA ? tensor->device.id : 0;
    value->rank = tensor->ndim;
    value->data = tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL;
    int64_t size = (int64_t)ingot_dtype_size(value->dtype), dense = size;
    for (int i = value->rank; i-- > 0;) {
        value->dims[i] = tensor->shape[i];
        array->strides[i] = tensor->strides ? (int64_t)((uint64_t)tensor->strides[i] * (uint64_t)size) : dense;
        dense = (int64_t)((uint64_t)dense * (uint64_t)tensor->shape[i]); /* finish() refuses what overflows */
    }
    return finish(state, flags, array);
}

/* ---- The buffer protocol */

static enum ingot_dtype dtype_of_format(const char *format, Py_ssize_t size) {
    static const enum ingot_dtype ints[] = {[1] = INGOT_I8, [2] = INGOT_I16, [4] = INGOT_I32, [8] = INGOT_I64};
    static const enum ingot_dtype uints[] = {[1] = INGOT_U8, [2] = INGOT_U16, [4] = INGOT_U32, [8] = INGOT_U64};
    if (!format) format = "B";
    if (*format == '@' || *format == '=' || *format == '<') format++;
    if (!*format || format[1] || size < 1 || size > 8) return INGOT_DTYPE_NONE;
    if (strchr("bhilq", *format)) return ints[size];
    if (strchr("BHILQ", *format)) return uints[size];
    switch (*format) {
    case 'f': return size == 4 ? INGOT_F32 : INGOT_DTYPE_NONE;
    case 'd': return size == 8 ? INGOT_F64 : INGOT_DTYPE_NONE;
    case 'e': return size == 2 ? INGOT_F16 : INGOT_DTYPE_NONE;
    case '?': return size == 1 ? INGOT_BOOL : INGOT_DTYPE_NONE;
    default: return INGOT_DTYPE_NONE;
    }
}

static int read_buffer(struct state *state, unsigned flags, struct array *array) {
    const Py_buffer *buffer = &array->buffer;
    struct ingot_tensor *value = &array->tensor;
    value->dtype = dtype_of_format(buffer->format, buffer->itemsize);
    if (value->dtype == INGOT_DTYPE_NONE) {
        refuse(state, "Ingot has no type of elements like the buffer format '%.20s'", buffer->format);
        return -1;
    }
    if (buffer->ndim > INGOT_MAX_RANK) {
        refuse(state, "a tensor has %d dims, expected at most %d", buffer->ndim, INGOT_MAX_RANK);
        return -1;
    }
    value->rank = buffer->ndim;
    value->data = buffer->buf;
    value->memory = INGOT_HOST;
    array->is_read_only = buffer->readonly;
    for (int i = 0; i < value->rank; i++) {
        value->dims[i] = buffer->shape[i];
        array->strides[i] = buffer->strides[i];
    }
    return finish(state, flags, array);
}

/* NumPy exports no buffers of ml_dtypes' types, which it does not know: those are read as the integers that they are. */
static int read_ml_dtypes(struct state *state, PyObject *object, unsigned flags, struct array *array) {
    PyObject *type = PyObject_GetAttrString(object, "dtype");
    PyObject *name = type ? PyObject_Str(type) : NULL;
    int dtype = name ? INGOT_DTYPE_COUNT - 1 : 0;
    while (dtype > 0 && !(ml_dtypes_names[dtype] && !PyUnicode_CompareWithASCIIString(name, ml_dtypes_names[dtype])))
        dtype--;
    Py_XDECREF(type);
    Py_XDECREF(name);
    PyErr_Clear();
    if (dtype == 0) return 1;
    bool is_byte = ingot_dtype_size((enum ingot_dtype)dtype) == 1;
    PyObject *view = PyObject_CallMethod(object, "view", "s", is_byte ? "uint8" : "uint16");
    int rc = view ? PyObject_GetBuffer(view, &array->buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT) : -1;
    Py_XDECREF(view); /* the buffer keeps it */
    if (rc) return -1;
    array->has_buffer = true;
    if (read_buffer(state, flags, array)) return -1;
    array->tensor.dtype = (enum ingot_dtype)dtype;
    return 0;
}

/* ---- __dlpack__ */

/* Calls object.__dlpack__, with max_version where it is understood. */
static PyObject *call_dlpack(struct state *state, PyObject *object, PyObject *stream) {
    PyObject *method = PyObject_GetAttr(object, state->dlpack_name);
    PyObject *none = method ? PyTuple_New(0) : NULL;
    PyObject *keywords = none ? Py_BuildValue("{s:(ii)}", "max_version", DL_MAJOR, DL_MINOR) : NULL;
    PyObject *capsule = NULL;
    if (keywords && (!stream || !PyDict_SetItemString(keywords, "stream", stream))) {
        capsule = PyObject_Call(method, none, keywords);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (!PyDict_DelItemString(keywords, "max_version")) capsule = PyObject_Call(method, none, keywords);
        }
    }
    Py_XDECREF(keywords);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
}

/* Takes what is in a capsule. */
static int take_capsule(struct state *state, PyObject *capsule, struct array *array) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        array->managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (PyCapsule_SetName(capsule, "used_dltensor_versioned")) return -1;
        if (array->managed->version.major == DL_MAJOR) return 0;
        refuse(state, "the tensor is of DLPack %u, expected %d", array->managed->version.major, DL_MAJOR);
        return -1;
    }
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        array->managed_old = PyCapsule_GetPointer(capsule, "dltensor");
        return PyCapsule_SetName(capsule, "used_dltensor");
    }
    refuse(state, "__dlpack__ returned no capsule with a tensor");
    return -1;
}

static int read_managed(struct state *state, unsigned flags, struct array *array) {
    if (array->managed) array->is_read_only = array->managed->flags & DL_READ_ONLY;
    return read_dlpack(state, array->managed ? &array->managed->tensor : &array->managed_old->tensor, flags, array);
}

static int read_capsule(struct state *state, PyObject *object, unsigned flags, int64_t stream, struct array *array) {
    PyObject *device = PyObject_CallMethodObjArgs(object, state->dlpack_device_name, NULL);
    int type, id;
    bool is_device = device && PyTuple_Check(device) && PyArg_ParseTuple(device, "ii", &type, &id);
    if (device && !is_device && !PyErr_Occurred())
        refuse(state, "__dlpack_device__ returned %R, expected two ints", device);
    Py_XDECREF(device);
    if (!is_device) return -1;
    bool on_gpu = type == DL_CUDA || type == DL_CUDA_MANAGED;
    PyObject *number = on_gpu ? PyLong_FromLongLong(stream) : NULL;
    if (on_gpu && !number) return -1;
    PyObject *capsule = call_dlpack(state, object, number);
    Py_XDECREF(number);
    int rc = capsule ? take_capsule(state, capsule, array) : -1;
    Py_XDECREF(capsule);
    return rc ? -1 : read_managed(state, flags, array);
}

int array_order(struct state *state, PyObject *object, int64_t stream) {
    if (!PyObject_HasAttrString((PyObject *)Py_TYPE(object), "__dlpack__")) return 0;
    PyObject *number = PyLong_FromLongLong(stream);
    PyObject *capsule = number ? call_dlpack(state, object, number) : NULL;
    Py_XDECREF(number);
    Py_XDECREF(capsule); /* nobody takes it: the order is what it was asked for */
    return capsule ? 0 : -1;
}

/* ---- All of them */

/* 1: not this way; no exception is set. */
static int try_exchange(struct state *state, const struct source *source, PyObject *object, unsigned flags,
                        struct array *array) {
    if (!source->api) return 1;
    if (!flags && source->api->read) {
        struct dl_tensor tensor;
        return source->api->read(object, &tensor) ? -1 : read_dlpack(state, &tensor, flags, array);
    }
    if (!source->api->export_managed) return 1;
    if (source->api->export_managed(object, &array->managed)) return -1;
    return read_managed(state, flags, array);
}

static int try_buffer(struct state *state, const struct source *source, PyObject *object, unsigned flags,
                      struct array *array) {
    if (!source->is_buffer) return 1;
    if (!PyObject_GetBuffer(object, &array->buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT)) {
        array->has_buffer = true;
        return read_buffer(state, flags, array);
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int rc = read_ml_dtypes(state, object, flags, array);
    if (rc == 1 && !PyObject_HasAttrString(object, "__dlpack__")) {
        PyErr_Restore(type, value, traceback);
        return -1;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return rc;
}

int array_read(struct state *state, struct source *source, PyObject *object, unsigned flags, int64_t stream,
               struct array *out_array) {
    struct source own = {0};
    if (!source) source = &own;
    out_array->is_read_only = out_array->has_buffer = false;
    out_array->managed = NULL;
    out_array->managed_old = NULL;
    out_array->device = 0;
    if (!(flags & ARRAY_KEEP) && numpy_read(state, object, out_array)) {
        int known = source->type == Py_TYPE(object) ? 0 : source_find(state, source, object);
        return known ? known : finish(state, flags, out_array);
    }
    int rc = source_find(state, source, object);
    if (!rc) rc = try_exchange(state, source, object, flags, out_array);
    if (rc == 1) rc = try_buffer(state, source, object, flags, out_array);
    if (rc == 1 && PyObject_HasAttrString((PyObject *)Py_TYPE(object), "__dlpack__"))
        rc = read_capsule(state, object, flags, stream, out_array);
    if (rc == 1) {
        PyErr_Format(PyExc_TypeError, "expected a tensor (DLPack or the buffer protocol), got %R", Py_TYPE(object));
        rc = -1;
    }
    if (rc) array_release(out_array);
    source_clear(&own);
    return rc;
}

/* Deleters may be written in Python, and know nothing of an exception that is set. */
static void call_deleter(struct array *array) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (array->managed && array->managed->deleter) array->managed->deleter(array->managed);
    if (array->managed_old && array->managed_old->deleter) array->managed_old->deleter(array->managed_old);
    PyErr_Restore(type, value, traceback);
}

void array_release(struct array *array) {
    if (array->has_buffer) PyBuffer_Release(&array->buffer);
    if (array->managed || array->managed_old) call_deleter(array);
    array->has_buffer = false;
    array->managed = NULL;
    array->managed_old = NULL;
}

/* ---- Dense copies */

static char *pack(const struct array *array, int axis, const char *from, char *to) {
    size_t size = ingot_dtype_size(array->tensor.dtype);
    if (axis == array->tensor.rank) return memcpy(to, from, size), to + size;
    int64_t dim = array->tensor.dims[axis], stride = array->strides[axis];
    if (axis == array->tensor.rank - 1 && stride == (int64_t)size) {
        memcpy(to, from, size * (size_t)dim);
        return to + size * (size_t)dim;
    }
    for (int64_t i = 0; i < dim; i++)
        to = pack(array, axis + 1, from + i * stride, to);
    return to;
}

void array_pack(const struct array *array, void *target) {
    if (ingot_tensor_elements(&array->tensor)) pack(array, 0, array->tensor.data, target);
}

int array_make_dense(struct state *state, struct array *array, const char *what, void **out_copy) {
    *out_copy = NULL;
    if (array->tensor.memory == INGOT_CUDA) {
        refuse(state, "%s is in GPU memory, expected host memory", what);
        return -1;
    }
    if (array->is_dense) return 0;
    *out_copy = PyMem_Malloc(tensor_bytes(&array->tensor));
    if (!*out_copy) {
        PyErr_NoMemory();
        return -1;
    }
    array_pack(array, *out_copy);
    array->tensor.data = *out_copy;
    array->is_dense = true;
    return 0;
}
