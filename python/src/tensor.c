/* ingot.Tensor: results, and whatever else of Ingot's is a tensor. Others read it by DLPack and the buffer protocol. */
#include <stdio.h>
#include <string.h>

#include "ingot_python.h"

/* ---- Making */

static struct tensor *tensor_new(struct state *state, const struct ingot_tensor *value) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->tensor_type, Py_tp_alloc);
    struct tensor *self = (struct tensor *)alloc(state->tensor_type, 0);
    if (!self) return NULL;
    self->value = *value;
    int64_t step = 1, size = (int64_t)ingot_dtype_size(value->dtype);
    for (int i = value->rank; i-- > 0;) {
        self->shape[i] = (Py_ssize_t)value->dims[i];
        self->strides[i] = (Py_ssize_t)(step * size);
        step *= value->dims[i];
    }
    return self;
}

PyObject *tensor_over(struct state *state, const struct ingot_tensor *value, int device, PyObject *owner) {
    struct tensor *self = tensor_new(state, value);
    if (!self) return NULL;
    self->device = device;
    self->owner = Py_NewRef(owner);
    return (PyObject *)self;
}

PyObject *tensor_copy(struct state *state, const struct ingot_tensor *value) {
    struct tensor *self = tensor_new(state, value);
    if (!self) return NULL;
    size_t size = tensor_bytes(value);
    self->value.memory = INGOT_HOST;
    self->value.data = self->memory = PyMem_Malloc(size ? size : 1);
    if (!self->memory) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    if (size) memcpy(self->memory, value->data, size);
    return (PyObject *)self;
}

static void tensor_dealloc(PyObject *object) {
    struct tensor *self = (struct tensor *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->owner);
    PyMem_Free(self->memory);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- The buffer protocol */

/* bf16 and narrow types have no format; their bits are shown as u16, and as the integers that they are in memory. */
static const char *const formats[INGOT_DTYPE_COUNT] = {
    [INGOT_F32] = "f",        [INGOT_F16] = "e",      [INGOT_BF16] = "H",   [INGOT_F64] = "d",
    [INGOT_I8] = "b",         [INGOT_I16] = "h",      [INGOT_I32] = "i",    [INGOT_I64] = "q",
    [INGOT_U8] = "B",         [INGOT_U16] = "H",      [INGOT_U32] = "I",    [INGOT_U64] = "Q",
    [INGOT_BOOL] = "?",       [INGOT_I4] = "b",       [INGOT_U4] = "B",     [INGOT_I2] = "b",
    [INGOT_U2] = "B",         [INGOT_F8E4M3FN] = "B", [INGOT_F8E5M2] = "B", [INGOT_F8E4M3FNUZ] = "B",
    [INGOT_F8E5M2FNUZ] = "B", [INGOT_F8E8M0] = "B",   [INGOT_F4E2M1] = "B",
};

static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags) {
    struct tensor *self = (struct tensor *)object;
    view->obj = NULL;
    if (self->value.memory == INGOT_CUDA) {
        PyErr_SetString(PyExc_BufferError, "the tensor is in GPU memory; use __dlpack__");
        return -1;
    }
    if (flags & PyBUF_WRITABLE && self->is_read_only) {
        PyErr_SetString(PyExc_BufferError, "the tensor is read-only");
        return -1;
    }
    static char nothing[8]; /* stands in for memory of no bytes */
    *view = (Py_buffer){
        .buf = self->value.data ? self->value.data : nothing,
        .obj = Py_NewRef(object),
        .len = (Py_ssize_t)tensor_bytes(&self->value),
        .itemsize = (Py_ssize_t)ingot_dtype_size(self->value.dtype),
        .readonly = self->is_read_only,
        .ndim = self->value.rank,
        .format = flags & PyBUF_FORMAT ? (char *)formats[self->value.dtype] : NULL,
        .shape = flags & PyBUF_ND ? self->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL,
    };
    return 0;
}

/* ---- As NumPy arrays */

static PyObject *tensor_numpy(PyObject *self, PyObject *unused) {
    struct state *state = state_of(self);
    if (numpy_find(state, true) < 0) return NULL;
    const struct tensor *tensor = (const struct tensor *)self;
    return numpy_over(state, &tensor->value, tensor->is_read_only, self);
}

static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", names, &dtype, &copy)) return NULL;
    PyObject *array = tensor_numpy(self, NULL);
    if (!array) return NULL;
    PyObject *own = dtype == Py_None ? NULL : PyObject_GetAttrString(array, "dtype");
    if (dtype != Py_None && !own) {
        Py_DECREF(array);
        return NULL;
    }
    int same = own ? PyObject_RichCompareBool(own, dtype, Py_EQ) : 1;
    Py_XDECREF(own);
    PyObject *result = NULL;
    if (same < 0)
        ;
    else if (!same && copy == Py_False)
        PyErr_SetString(PyExc_ValueError, "another dtype needs a copy");
    else if (!same)
        result = PyObject_CallMethod(array, "astype", "O", dtype);
    else if (copy == Py_True)
        result = PyObject_CallMethod(array, "copy", NULL);
    else
        result = Py_NewRef(array);
    Py_DECREF(array);
    return result;
}

/* ---- Attributes */

static PyObject *tensor_shape(PyObject *self, void *unused) {
    return shape_tuple(((struct tensor *)self)->value.rank, ((struct tensor *)self)->value.dims);
}

static PyObject *tensor_dtype(PyObject *self, void *unused) {
    return dtype_object(state_of(self), ((struct tensor *)self)->value.dtype);
}

static PyObject *tensor_device(PyObject *object, void *unused) {
    struct tensor *self = (struct tensor *)object;
    if (self->value.memory == INGOT_CUDA) return PyUnicode_FromFormat("cuda:%d", self->device);
    return PyUnicode_FromString("cpu");
}

static PyObject *tensor_nbytes(PyObject *self, void *unused) {
    return PyLong_FromSize_t(tensor_bytes(&((struct tensor *)self)->value));
}

static PyObject *tensor_address(PyObject *self, void *unused) {
    return PyLong_FromVoidPtr(((struct tensor *)self)->value.data);
}

static PyObject *tensor_repr(PyObject *self) {
    PyObject *shape = tensor_shape(self, NULL), *device = tensor_device(self, NULL), *text = NULL;
    if (shape && device)
        text = PyUnicode_FromFormat("<ingot.Tensor %s%R on %U>", ingot_dtype_name(((struct tensor *)self)->value.dtype),
                                    shape, device);
    Py_XDECREF(shape);
    Py_XDECREF(device);
    return text;
}

static PyObject *tensor_tolist(PyObject *self, PyObject *unused) {
    struct tensor *tensor = (struct tensor *)self;
    enum ingot_dtype dtype = tensor->value.dtype;
    bool is_narrow_float = dtype >= INGOT_F8E4M3FN && dtype <= INGOT_F4E2M1;
    if (dtype == INGOT_BF16 || dtype == INGOT_F16 || is_narrow_float) { /* memoryview has no such floats */
        PyObject *array = tensor_numpy(self, NULL);
        PyObject *list = array ? PyObject_CallMethod(array, "tolist", NULL) : NULL;
        Py_XDECREF(array);
        return list;
    }
    PyObject *view = PyMemoryView_FromObject(self);
    PyObject *list = view ? PyObject_CallMethod(view, "tolist", NULL) : NULL;
    Py_XDECREF(view);
    return list;
}

/* A number of one element. */
static PyObject *tensor_item(PyObject *self, PyObject *unused) {
    int64_t elements = ingot_tensor_elements(&((struct tensor *)self)->value);
    if (elements != 1) return refuse(state_of(self), "the tensor has %lld elements, expected 1", (long long)elements);
    PyObject *list = tensor_tolist(self, NULL);
    while (list && PyList_Check(list)) {
        PyObject *inner = Py_NewRef(PyList_GetItem(list, 0));
        Py_DECREF(list);
        list = inner;
    }
    return list;
}

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA capsule, by the array "
     "API standard."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\nType and number of the device."},
    {"__array__", (PyCFunction)(void (*)(void))tensor_array, METH_VARARGS | METH_KEYWORDS,
     "__array__($self, dtype=None, copy=None)\n--\n\nA NumPy array."},
    {"numpy", tensor_numpy, METH_NOARGS,
     "numpy($self)\n--\n\nA NumPy array over the same memory, which stays as it is as long as the array lives."},
    {"tolist", tensor_tolist, METH_NOARGS, "tolist($self)\n--\n\nThe elements as nested lists."},
    {"item", tensor_item, METH_NOARGS, "item($self)\n--\n\nThe number in a tensor of one element."},
    {0},
};

static PyGetSetDef tensor_getset[] = {
    {"shape", tensor_shape, NULL, "A tuple of int.", NULL},
    {"dtype", tensor_dtype, NULL, "An ingot.DType.", NULL},
    {"device", tensor_device, NULL, "'cpu', or 'cuda:0' and so on.", NULL},
    {"nbytes", tensor_nbytes, NULL, "Bytes of the elements.", NULL},
    {"data_address", tensor_address, NULL, "The address of the elements.", NULL},
    {0},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_doc,
     "A dense tensor of Ingot's: a result, and what keeps its memory. Read it by DLPack (torch.from_dlpack and its\n"
     "like), by the buffer protocol, or as a NumPy array."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_getset},
    {Py_bf_getbuffer, tensor_getbuffer},
    {0, NULL},
};

static PyType_Spec tensor_spec = {"ingot.Tensor", sizeof(struct tensor), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};

int add_tensor(PyObject *module, struct state *state) {
    state->tensor_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &tensor_spec, NULL);
    return state->tensor_type ? PyModule_AddType(module, state->tensor_type) : -1;
}
