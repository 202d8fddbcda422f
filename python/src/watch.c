/*
 * ingot._Watch: whether tensors of PyTorch that each call brings, a module's weights, are the same as before, and not written
 * to since. It is asked at each call, so it takes nanoseconds a tensor: where PyTorch's library has the functions, versions and
 * addresses are read by these, and else versions by the attribute's own getter.
 */
#include <string.h>

#include "ingot_python.h"

struct watched {
    PyObject *tensor; /* kept, so that no other takes its address */
    long long version;
    void *data, *cpp;
};

struct watch {
    PyObject_HEAD Py_ssize_t count;
    Py_ssize_t *places; /* of each tensor in the arguments */
    struct watched *tensors;
    PyObject *attribute; /* Tensor._version */
    descrgetfunc get;
    void *(*data)(PyObject *tensor);     /* Tensor.data_ptr, as PyTorch gives it to generated code; or NULL */
    int64_t (*version)(const void *cpp); /* at::TensorBase::_version; or NULL */
    size_t offset;                       /* of the at::TensorBase, one pointer, in tensors; 0: not known */
};

/* By the attribute. -1: tensors that are made in inference mode have none. */
static long long slow_version(const struct watch *self, PyObject *tensor) {
    PyObject *object = self->get(self->attribute, tensor, (PyObject *)Py_TYPE(tensor));
    long long version = object ? PyLong_AsLongLong(object) : -1;
    Py_XDECREF(object);
    if (PyErr_Occurred()) PyErr_Clear();
    return version;
}

/* Only of tensors that have one: the quick function would throw. */
static long long version_of(const struct watch *self, PyObject *tensor) {
    return self->offset ? self->version((char *)tensor + self->offset) : slow_version(self, tensor);
}

/* What Python's object stands for; by torch.utils.swap_tensors it can be another. */
static void *cpp_of(const struct watch *self, PyObject *tensor) {
    void *cpp = NULL;
    if (self->offset) memcpy(&cpp, (char *)tensor + self->offset, sizeof cpp);
    return cpp;
}

static bool is_same(const struct watch *self, const struct watched *known, PyObject *tensor) {
    return known->tensor == tensor && cpp_of(self, tensor) == known->cpp &&
           (known->version < 0 || version_of(self, tensor) == known->version) &&
           (!self->data || self->data(tensor) == known->data);
}

/* Where PyTorch keeps the pointer to the implementation, which its attribute _cdata tells: behind the object's head, or one
 * word further in earlier versions. */
static size_t find_offset(PyObject *tensor) {
    PyObject *number = PyObject_GetAttrString(tensor, "_cdata");
    void *expected = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    if (PyErr_Occurred()) PyErr_Clear();
    for (size_t offset = sizeof(PyObject); expected && offset <= sizeof(PyObject) + sizeof(void *);
         offset += sizeof(void *))
        if (!memcmp((char *)tensor + offset, &expected, sizeof expected)) return offset;
    return 0;
}

static PyObject *watch_changed(PyObject *object, PyObject *args) {
    const struct watch *self = (struct watch *)object;
    PyObject *changed = NULL;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        PyObject *tensor = PyList_GetItem(args, self->places[i]);
        if (!tensor) return Py_XDECREF(changed), NULL;
        if (is_same(self, &self->tensors[i], tensor)) continue;
        if (!changed && !(changed = PyList_New(0))) return NULL;
        PyObject *place = PyLong_FromSsize_t(self->places[i]);
        int rc = place ? PyList_Append(changed, place) : -1;
        Py_XDECREF(place);
        if (rc) return Py_DECREF(changed), NULL;
    }
    return changed ? changed : Py_NewRef(Py_None);
}

static PyObject *watch_accept(PyObject *object, PyObject *args) {
    struct watch *self = (struct watch *)object;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        PyObject *tensor = PyList_GetItem(args, self->places[i]), *before = self->tensors[i].tensor;
        if (!tensor) return NULL;
        if (self->version && !i) self->offset = find_offset(tensor);
        self->tensors[i] = (struct watched){Py_NewRef(tensor), slow_version(self, tensor),
                                            self->data ? self->data(tensor) : NULL, cpp_of(self, tensor)};
        Py_XDECREF(before);
    }
    return Py_NewRef(Py_None);
}

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"places", "version", "data_address", "version_address", NULL};
    PyObject *places, *attribute;
    Py_ssize_t data = 0, version = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|nn:_Watch", names, &PyList_Type, &places, &attribute, &data,
                                     &version))
        return NULL;
    descrgetfunc get = (descrgetfunc)PyType_GetSlot(Py_TYPE(attribute), Py_tp_descr_get);
    if (!get) return PyErr_SetString(PyExc_TypeError, "version is no attribute of a type"), NULL;
    struct watch *self = (struct watch *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    size_t count = (size_t)PyList_Size(places);
    self->attribute = Py_NewRef(attribute);
    self->get = get;
    self->data = (void *(*)(PyObject *))data;
    self->version = (int64_t(*)(const void *))version;
    self->places = PyMem_Calloc(count + 1, sizeof *self->places);
    self->tensors = PyMem_Calloc(count + 1, sizeof *self->tensors);
    if (!self->places || !self->tensors) {
        Py_DECREF((PyObject *)self);
        return PyErr_NoMemory();
    }
    for (size_t i = 0; i < count && !PyErr_Occurred(); i++)
        self->places[self->count++] = PyLong_AsSsize_t(PyList_GetItem(places, (Py_ssize_t)i));
    if (PyErr_Occurred()) Py_CLEAR(self);
    return (PyObject *)self;
}

static void watch_dealloc(PyObject *object) {
    struct watch *self = (struct watch *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_XDECREF(self->tensors[i].tensor);
    PyMem_Free(self->places);
    PyMem_Free(self->tensors);
    Py_XDECREF(self->attribute);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef watch_methods[] = {
    {"changed", watch_changed, METH_O,
     "changed($self, args, /)\n--\n\nThe places whose tensors are not as accepted, as a list; None if all are."},
    {"accept", watch_accept, METH_O, "accept($self, args, /)\n--\n\nTakes the tensors as they are now."},
    {0},
};

static PyType_Slot watch_slots[] = {
    {Py_tp_doc,
     "_Watch(places, version, data_address=0, version_address=0)\n--\n\n"
     "Watches the tensors in some places of calls' lists of arguments. version: the attribute torch.Tensor._version;\n"
     "data_address: of a C function from a tensor to its data's address; version_address: of "
     "at::TensorBase::_version.\n"
     "None has been accepted at first."},
    {Py_tp_new, watch_new},
    {Py_tp_dealloc, watch_dealloc},
    {Py_tp_methods, watch_methods},
    {0, NULL},
};

static PyType_Spec watch_spec = {"ingot._Watch", sizeof(struct watch), 0, Py_TPFLAGS_DEFAULT, watch_slots};

int add_watch(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &watch_spec, NULL);
    int rc = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;
    Py_XDECREF(type);
    return rc;
}
