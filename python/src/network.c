/* ingot.Network: a model built by code, operator by operator (docs/network.md), and ingot.Value, a tensor in it. */
#include "network.h"

#include <stdlib.h>
#include <string.h>

struct value {
    PyObject_HEAD struct network *network; /* kept */
    ingot_value value;
};

/* ---- Values */

static PyObject *value_new(struct network *network, ingot_value number) {
    PyTypeObject *type = state_of((PyObject *)network)->value_type;
    struct value *self = (struct value *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    self->network = (struct network *)Py_NewRef((PyObject *)network);
    self->value = number;
    return (PyObject *)self;
}

static void value_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF((PyObject *)((struct value *)self)->network);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int enter(struct network *self) {
    struct state *state = state_of((PyObject *)self);
    if (guard_enter(state, &self->guard, "network")) return -1;
    if (self->network) return 0;
    guard_leave(&self->guard);
    return refuse(state, "the network is finished"), -1;
}

static int describe(PyObject *object, struct ingot_tensor_info *out_info) {
    struct value *self = (struct value *)object;
    if (enter(self->network)) return -1;
    struct ingot_error error;
    enum ingot_status status = ingot_network_describe(self->network->network, self->value, out_info, &error);
    guard_leave(&self->network->guard);
    return status ? raise_error(state_of(object), status, &error), -1 : 0;
}

static PyObject *value_shape(PyObject *self, void *unused) {
    struct ingot_tensor_info info;
    return describe(self, &info) ? NULL : symbolic_shape(&info);
}

static PyObject *value_dtype(PyObject *self, void *unused) {
    struct ingot_tensor_info info;
    return describe(self, &info) ? NULL : dtype_object(state_of(self), info.dtype);
}

static PyObject *value_rank(PyObject *self, void *unused) {
    struct ingot_tensor_info info;
    return describe(self, &info) ? NULL : PyLong_FromLong(info.rank);
}

static PyObject *value_network(PyObject *self, void *unused) {
    return Py_NewRef((PyObject *)((struct value *)self)->network);
}

static PyObject *value_repr(PyObject *self) {
    struct value *value = (struct value *)self;
    struct ingot_tensor_info info;
    if (!value->network->network || describe(self, &info)) {
        PyErr_Clear();
        return PyUnicode_FromFormat("<ingot.Value %u>", (unsigned)value->value);
    }
    PyObject *shape = symbolic_shape(&info);
    PyObject *text = shape ? PyUnicode_FromFormat("<ingot.Value %u: %s%R>", (unsigned)value->value,
                                                  ingot_dtype_name(info.dtype), shape)
                           : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyGetSetDef value_getset[] = {
    {"shape", value_shape, NULL, "A tuple of int, or str for what varies.", NULL},
    {"dtype", value_dtype, NULL, "An ingot.DType.", NULL},
    {"rank", value_rank, NULL, "The number of dims.", NULL},
    {"network", value_network, NULL, "The network that it belongs to.", NULL},
    {0},
};

static PyType_Slot value_slots[] = {
    {Py_tp_doc, "A tensor in an ingot.Network."},
    {Py_tp_dealloc, value_dealloc},
    {Py_tp_repr, value_repr},
    {Py_tp_getset, value_getset},
    {0, NULL},
};

static PyType_Spec value_spec = {"ingot.Value", sizeof(struct value), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, value_slots};

/* The number of a value of this network. */
static int number_of(struct network *self, PyObject *object, ingot_value *out_number) {
    struct state *state = state_of((PyObject *)self);
    if (Py_TYPE(object) != state->value_type)
        return PyErr_Format(PyExc_TypeError, "expected an ingot.Value, got %R", Py_TYPE(object)), -1;
    if (((struct value *)object)->network != self) return refuse(state, "the value belongs to another network"), -1;
    *out_number = ((struct value *)object)->value;
    return 0;
}

/* ---- Making a network */

static PyObject *network_alloc(PyTypeObject *type, PyObject *owners) {
    struct network *self = (struct network *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self) self->owners = owners ? Py_NewRef(owners) : PyList_New(0);
    if (self && !self->owners) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *network_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"onnx_opset", NULL};
    struct ingot_network_options options = INGOT_NETWORK_OPTIONS_INIT;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:Network", names, &options.onnx_opset)) return NULL;
    options.allocator = &python_allocator;
    struct network *self = (struct network *)network_alloc(type, NULL);
    if (!self) return NULL;
    struct ingot_error error;
    enum ingot_status status = ingot_network_create(&options, &self->network, &error);
    if (!status) return (PyObject *)self;
    raise_error(state_of((PyObject *)self), status, &error);
    Py_DECREF((PyObject *)self);
    return NULL;
}

static void network_dealloc(PyObject *object) {
    struct network *self = (struct network *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (!self->outer) ingot_network_destroy(self->network); /* a body is its outer network's */
    Py_XDECREF((PyObject *)self->outer);
    Py_XDECREF(self->owners);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *network_body(PyObject *object, PyObject *unused) {
    struct network *self = (struct network *)object;
    struct network *body = (struct network *)network_alloc(Py_TYPE(object), self->owners);
    if (!body) return NULL;
    body->outer = (struct network *)Py_NewRef(object);
    struct ingot_error error;
    enum ingot_status status = INGOT_OK;
    bool entered = !enter(self);
    if (entered) {
        status = ingot_network_create_body(self->network, &body->network, &error);
        guard_leave(&self->guard);
    }
    if (status) raise_error(state_of(object), status, &error);
    if (!entered || status) Py_CLEAR(body);
    return (PyObject *)body;
}

/* Whether the network that a body is for still exists. */
static int enter_body(struct network *self) {
    for (struct network *outer = self->outer; outer; outer = outer->outer)
        if (!outer->network) return refuse(state_of((PyObject *)self), "the network is finished"), -1;
    return enter(self);
}

/* What a call made: a value, or the call's failure. */
static PyObject *leave(struct network *self, enum ingot_status status, ingot_value value,
                       const struct ingot_error *error) {
    guard_leave(&self->guard);
    return status ? raise_error(state_of((PyObject *)self), status, error) : value_new(self, value);
}

/* ---- Inputs and tensors */

static PyObject *network_input(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "dtype", "shape", NULL};
    const char *name;
    PyObject *dtype, *shape;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO:input", names, &name, &dtype, &shape)) return NULL;
    struct network *self = (struct network *)object;
    struct state *state = state_of(object);
    enum ingot_dtype type;
    PyObject *sequence = dtype_from_object(state, dtype, &type) ? NULL : PySequence_Tuple(shape);
    if (!sequence) return NULL;
    PyObject *texts = PyList_New(0);
    for (Py_ssize_t i = 0; texts && i < PyTuple_Size(sequence); i++) {
        PyObject *text = PyObject_Str(PyTuple_GetItem(sequence, i));
        if (!text || PyList_Append(texts, text)) Py_CLEAR(texts);
        Py_XDECREF(text);
    }
    Py_DECREF(sequence);
    struct texts dims = {0};
    PyObject *result = NULL;
    if (texts && !texts_read(texts, "shape", &dims) && !enter_body(self)) {
        ingot_value value = INGOT_NO_VALUE;
        struct ingot_error error;
        enum ingot_status status =
            ingot_network_input(self->network, name, type, (int)dims.count, dims.items, &value, &error);
        result = leave(self, status, value, &error);
    }
    texts_free(&dims);
    Py_XDECREF(texts);
    return result;
}

static PyObject *network_size_input(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "symbol", NULL};
    const char *name, *symbol;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ss:size_input", names, &name, &symbol)) return NULL;
    struct network *self = (struct network *)object;
    if (enter_body(self)) return NULL;
    ingot_value value = INGOT_NO_VALUE;
    struct ingot_error error;
    enum ingot_status status = ingot_network_size_input(self->network, name, symbol, &value, &error);
    return leave(self, status, value, &error);
}

static PyObject *network_set_range(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"symbol", "lo", "hi", NULL};
    const char *symbol;
    long long lo, hi;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sLL:set_range", names, &symbol, &lo, &hi)) return NULL;
    struct network *self = (struct network *)object;
    if (enter_body(self)) return NULL;
    struct ingot_error error;
    enum ingot_status status = ingot_network_set_range(self->network, symbol, lo, hi, &error);
    guard_leave(&self->guard);
    return status ? raise_error(state_of(object), status, &error) : Py_NewRef(Py_None);
}

/* Keeps what a weight borrows, in a capsule. */
static void release_kept(PyObject *capsule) {
    struct array *array = PyCapsule_GetPointer(capsule, "ingot.array");
    array_release(array);
    PyMem_Free(array);
}

static int keep_array(struct network *self, struct array *array) {
    struct array *kept = PyMem_Malloc(sizeof *kept);
    if (!kept) return PyErr_NoMemory(), -1;
    *kept = *array;
    PyObject *capsule = PyCapsule_New(kept, "ingot.array", release_kept);
    if (!capsule) {
        PyMem_Free(kept);
        return -1;
    }
    array->has_buffer = false; /* the capsule's now */
    array->managed = NULL;
    array->managed_old = NULL;
    int rc = PyList_Append(self->owners, capsule);
    Py_DECREF(capsule);
    return rc;
}

static PyObject *network_weight(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "tensor", "copy", NULL};
    const char *name;
    PyObject *tensor;
    int copy = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|p:weight", names, &name, &tensor, &copy)) return NULL;
    struct network *self = (struct network *)object;
    struct state *state = state_of(object);
    struct array array;
    if (array_read(state, NULL, tensor, ARRAY_KEEP, 1, &array)) return NULL;
    void *dense = NULL;
    PyObject *result = NULL;
    if (!array_make_dense(state, &array, "a weight", &dense) && !enter_body(self)) {
        ingot_value value = INGOT_NO_VALUE;
        struct ingot_error error;
        copy = copy || dense;
        enum ingot_status status = ingot_network_weight(self->network, name, &array.tensor, copy, &value, &error);
        result = leave(self, status, value, &error);
        if (!status && !copy && keep_array(self, &array)) {
            /* The network has a weight whose memory nobody keeps: let the process keep it. */
            array.has_buffer = false;
            array.managed = NULL;
            array.managed_old = NULL;
            Py_CLEAR(result);
        }
    }
    array_release(&array);
    PyMem_Free(dense);
    return result;
}

/* One number as a tensor of rank 0, by struct.pack, which checks ranges. */
static int pack_number(struct state *state, PyObject *number, enum ingot_dtype dtype, uint64_t *out_bits) {
    static const char *const formats[INGOT_DTYPE_COUNT] = {
        [INGOT_F32] = "<f", [INGOT_F16] = "<e", [INGOT_BF16] = "<f", [INGOT_F64] = "<d", [INGOT_I8] = "<b",
        [INGOT_I16] = "<h", [INGOT_I32] = "<i", [INGOT_I64] = "<q",  [INGOT_U8] = "<B",  [INGOT_U16] = "<H",
        [INGOT_U32] = "<I", [INGOT_U64] = "<Q", [INGOT_BOOL] = "<?",
    };
    if (!formats[dtype]) return refuse(state, "no number is made %s; cast it", ingot_dtype_name(dtype)), -1;
    PyObject *module = PyImport_ImportModule("struct");
    PyObject *bytes = module ? PyObject_CallMethod(module, "pack", "sO", formats[dtype], number) : NULL;
    Py_XDECREF(module);
    if (!bytes) {
        PyErr_Clear();
        return refuse(state, "%R is no %s", number, ingot_dtype_name(dtype)), -1;
    }
    *out_bits = 0;
    memcpy(out_bits, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
    Py_DECREF(bytes);
    if (dtype == INGOT_BF16) { /* rounded to nearest, ties to even; NaN stays NaN */
        uint32_t bits = (uint32_t)*out_bits;
        bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
        *out_bits = is_nan ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    }
    return 0;
}

static enum ingot_dtype dtype_of_number(PyObject *number) {
    if (PyBool_Check(number)) return INGOT_BOOL;
    return PyLong_Check(number) ? INGOT_I64 : INGOT_F32;
}

static PyObject *network_constant(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"tensor", "dtype", NULL};
    PyObject *source, *type = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:constant", names, &source, &type)) return NULL;
    struct network *self = (struct network *)object;
    struct state *state = state_of(object);
    enum ingot_dtype dtype = INGOT_DTYPE_NONE;
    if (type != Py_None && dtype_from_object(state, type, &dtype)) return NULL;
    struct array array = {.has_buffer = false};
    uint64_t bits;
    void *dense = NULL;
    int rc;
    if (PyLong_Check(source) || PyFloat_Check(source)) {
        if (type == Py_None) dtype = dtype_of_number(source);
        rc = pack_number(state, source, dtype, &bits);
        array.tensor = (struct ingot_tensor){.dtype = dtype, .data = &bits};
    } else {
        rc = array_read(state, NULL, source, ARRAY_KEEP, 1, &array);
        if (!rc) rc = array_make_dense(state, &array, "a constant", &dense);
        if (!rc && type != Py_None && dtype != array.tensor.dtype) {
            refuse(state, "the tensor is %s, expected %s", ingot_dtype_name(array.tensor.dtype),
                   ingot_dtype_name(dtype));
            rc = -1;
        }
    }
    PyObject *result = NULL;
    if (!rc && !enter_body(self)) {
        ingot_value value = INGOT_NO_VALUE;
        struct ingot_error error;
        enum ingot_status status = ingot_network_constant(self->network, &array.tensor, &value, &error);
        result = leave(self, status, value, &error);
    }
    array_release(&array);
    PyMem_Free(dense);
    return result;
}

/* ---- Operators */

/* The values of one call of add; the first argument is the operator's name. */
static int read_inputs(struct network *self, PyObject *args, ingot_value *values) {
    for (Py_ssize_t i = 1; i < PyTuple_Size(args); i++) {
        PyObject *item = PyTuple_GetItem(args, i);
        values[i - 1] = INGOT_NO_VALUE;
        if (item != Py_None && number_of(self, item, &values[i - 1])) return -1;
    }
    return 0;
}

/* Takes a keyword of add's own out of the attributes; borrowed from `args` while the call lasts. */
static PyObject *take(PyObject *kwargs, const char *name) {
    PyObject *value = kwargs ? PyDict_GetItemString(kwargs, name) : NULL;
    if (!value) return Py_NewRef(Py_None);
    Py_INCREF(value);
    if (PyDict_DelItemString(kwargs, name)) Py_CLEAR(value);
    return value;
}

static int read_optional_text(PyObject *object, const char *what, const char **out_text) {
    if (!object) return -1;
    if (object == Py_None) return 0;
    if (!PyUnicode_Check(object)) return PyErr_Format(PyExc_TypeError, "%s is %R, expected str", what, object), -1;
    *out_text = PyUnicode_AsUTF8AndSize(object, NULL);
    return *out_text ? 0 : -1;
}

static PyObject *add_operator(struct network *self, const struct ingot_operator *op, size_t n_outputs) {
    ingot_value *values = PyMem_Calloc(n_outputs + 1, sizeof *values);
    if (!values) return PyErr_NoMemory();
    PyObject *result = NULL;
    if (!enter_body(self)) {
        struct ingot_error error;
        enum ingot_status status = ingot_network_add(self->network, op, values, n_outputs, &error);
        if (status || n_outputs == 1) {
            result = leave(self, status, values[0], &error);
        } else {
            guard_leave(&self->guard);
            result = PyTuple_New((Py_ssize_t)n_outputs);
            for (size_t i = 0; result && i < n_outputs; i++) {
                PyObject *value = value_new(self, values[i]);
                if (!value || PyTuple_SetItem(result, (Py_ssize_t)i, value)) Py_CLEAR(result);
            }
        }
    }
    PyMem_Free(values);
    return result;
}

static PyObject *network_add(PyObject *object, PyObject *args, PyObject *kwargs) {
    struct network *self = (struct network *)object;
    struct state *state = state_of(object);
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *name = n ? PyTuple_GetItem(args, 0) : Py_None;
    if (!PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "add: expected an operator's name, got %R", name);
    struct ingot_operator op = {.name = PyUnicode_AsUTF8AndSize(name, NULL), .n_inputs = (size_t)n - 1};
    if (!op.name) return NULL;
    PyObject *rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New();
    if (!rest) return NULL;
    PyObject *label = take(rest, "label"), *source = take(rest, "source"), *outputs = take(rest, "outputs"),
             *result = NULL;
    struct attributes attributes = {0};
    ingot_value *inputs = PyMem_Calloc((size_t)n, sizeof *inputs);
    long n_outputs = outputs == Py_None ? 1 : outputs ? PyLong_AsLong(outputs) : -1;
    bool is_core = *op.name >= 'a' && *op.name <= 'z' && !strchr(op.name, '.');
    if (!inputs)
        PyErr_NoMemory();
    else if (!PyErr_Occurred() && (n_outputs < 1 || n_outputs > 1 << 16))
        refuse(state, "outputs is %ld, expected at least 1", n_outputs);
    else if (!PyErr_Occurred() && !read_inputs(self, args, inputs) && !read_optional_text(label, "label", &op.label) &&
             !read_optional_text(source, "source", &op.source) && !attributes_read(state, rest, is_core, &attributes)) {
        op.inputs = inputs;
        op.attributes = attributes.items;
        op.n_attributes = attributes.count;
        result = add_operator(self, &op, (size_t)n_outputs);
    }
    attributes_free(&attributes);
    PyMem_Free(inputs);
    Py_XDECREF(label);
    Py_XDECREF(source);
    Py_XDECREF(outputs);
    Py_DECREF(rest);
    return result;
}

static PyObject *network_output(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "value", NULL};
    const char *name;
    PyObject *source;
    ingot_value value;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO:output", names, &name, &source)) return NULL;
    struct network *self = (struct network *)object;
    if (number_of(self, source, &value) || enter_body(self)) return NULL;
    struct ingot_error error;
    enum ingot_status status = ingot_network_output(self->network, name, value, &error);
    guard_leave(&self->guard);
    return status ? raise_error(state_of(object), status, &error) : Py_NewRef(Py_None);
}

static PyObject *network_update(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "input", "value", NULL};
    const char *name;
    PyObject *input_object, *value_object;
    ingot_value input, value;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO:update", names, &name, &input_object, &value_object))
        return NULL;
    struct network *self = (struct network *)object;
    if (number_of(self, input_object, &input) || number_of(self, value_object, &value) || enter_body(self)) return NULL;
    struct ingot_error error;
    enum ingot_status status = ingot_network_update(self->network, name, input, value, &error);
    guard_leave(&self->guard);
    return status ? raise_error(state_of(object), status, &error) : Py_NewRef(Py_None);
}

static PyObject *network_finish(PyObject *object, PyObject *unused) {
    struct network *self = (struct network *)object;
    struct state *state = state_of(object);
    if (self->outer) return refuse(state, "a body is finished with its network");
    if (enter(self)) return NULL;
    struct ingot_model *model;
    struct ingot_error error;
    enum ingot_status status = ingot_network_finish(self->network, &model, &error);
    if (!status) self->network = NULL;
    guard_leave(&self->guard);
    return status ? raise_error(state, status, &error) : model_wrap(state, model, self->owners);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS
static PyMethodDef network_methods[] = {
    {"input", KEYWORDS(network_input),
     "input($self, name, dtype, shape)\n--\n\nAn input. Each dim is an int, a symbol ('batch') or an expression of "
     "symbols."},
    {"size_input", KEYWORDS(network_size_input),
     "size_input($self, name, symbol)\n--\n\nAn input i64[] whose value is the symbol: for sizes that no dim tells."},
    {"set_range", KEYWORDS(network_set_range), "set_range($self, symbol, lo, hi)\n--\n\nPromises lo <= symbol <= hi."},
    {"weight", KEYWORDS(network_weight),
     "weight($self, name, tensor, copy=False)\n--\n\n"
     "A weight, which refitting may replace. The tensor is in host memory; unless `copy`, it is used where it lies, "
     "and kept."},
    {"constant", KEYWORDS(network_constant),
     "constant($self, tensor, dtype=None)\n--\n\nA tensor, or a number (i64, f32 or bool unless dtype says otherwise), "
     "copied."},
    {"add", KEYWORDS(network_add),
     "add($self, op, /, *inputs, outputs=1, label=None, source=None, **attributes)\n--\n\n"
     "An operator: a core one ('matmul', docs/ir.md) or one of ONNX's ('Conv'). Inputs are values, or None where left "
     "out.\n"
     "Attributes are int, bool, float, str (of core operators: a dim), lists of int, float or dims, ingot.DType, "
     "tensors, and\n"
     "bodies; None is left out. Returns a value, or a tuple of several."},
    {"output", KEYWORDS(network_output), "output($self, name, value)\n--\n\nMakes a value an output."},
    {"update", KEYWORDS(network_update),
     "update($self, name, input, value)\n--\n\n"
     "Makes a value an output that is stored in the memory of an input of its type and dims: a decoder's cache."},
    {"body", network_body, METH_NOARGS,
     "body($self)\n--\n\nA body for control flow: a network of its own inputs and outputs."},
    {"finish", network_finish, METH_NOARGS, "finish($self)\n--\n\nMakes the ingot.Model. The network is done then."},
    {0},
};

static PyType_Slot network_slots[] = {
    {Py_tp_doc, "Network(onnx_opset=0)\n--\n\n"
                "A model built by code, for one thread at a time. A call that fails leaves it as it was. onnx_opset: "
                "which ONNX's\n"
                "operators have their meaning of; 0: the newest."},
    {Py_tp_new, network_new},
    {Py_tp_dealloc, network_dealloc},
    {Py_tp_methods, network_methods},
    {0, NULL},
};

static PyType_Spec network_spec = {"ingot.Network", sizeof(struct network), 0, Py_TPFLAGS_DEFAULT, network_slots};

int add_network(PyObject *module, struct state *state) {
    state->value_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &value_spec, NULL);
    state->network_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &network_spec, NULL);
    if (!state->value_type || !state->network_type) return -1;
    return PyModule_AddType(module, state->value_type) || PyModule_AddType(module, state->network_type) ? -1 : 0;
}
