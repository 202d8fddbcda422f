/* Attributes of operators, from Python's values. */
#include <string.h>

#include "network.h"

/* A list of int, float or str, of which one decides the kind. */
static enum ingot_attribute_kind kind_of_list(PyObject *sequence) {
    enum ingot_attribute_kind kind = INGOT_ATTRIBUTE_INTS;
    for (Py_ssize_t i = 0; i < PyTuple_Size(sequence); i++) {
        PyObject *item = PyTuple_GetItem(sequence, i);
        if (PyUnicode_Check(item)) return INGOT_ATTRIBUTE_DIMS;
        if (PyFloat_Check(item)) kind = INGOT_ATTRIBUTE_FLOATS;
    }
    return kind;
}

/* Dims as texts: numbers are written out. */
static int read_dims(PyObject *sequence, struct attribute_memory *memory, struct ingot_attribute *attribute) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < PyTuple_Size(sequence); i++) {
        PyObject *text = PyObject_Str(PyTuple_GetItem(sequence, i));
        if (!text || PyList_Append(list, text)) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    int rc = list ? texts_read(list, "dims", &memory->texts) : -1;
    Py_XDECREF(list);
    attribute->kind = INGOT_ATTRIBUTE_DIMS;
    attribute->count = memory->texts.count;
    attribute->dims = memory->texts.items;
    return rc;
}

static int read_list(PyObject *value, struct attribute_memory *memory, struct ingot_attribute *attribute) {
    memory->sequence = PySequence_Tuple(value);
    if (!memory->sequence) return -1;
    attribute->kind = kind_of_list(memory->sequence);
    if (attribute->kind == INGOT_ATTRIBUTE_DIMS) return read_dims(memory->sequence, memory, attribute);
    size_t n = attribute->count = (size_t)PyTuple_Size(memory->sequence);
    int64_t *ints = memory->list = PyMem_Calloc(n + 1, sizeof *ints);
    double *floats = memory->list;
    if (!ints) return PyErr_NoMemory(), -1;
    for (size_t i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *item = PyTuple_GetItem(memory->sequence, (Py_ssize_t)i);
        if (attribute->kind == INGOT_ATTRIBUTE_INTS) {
            PyObject *number = PyNumber_Index(item);
            if (number) ints[i] = PyLong_AsLongLong(number);
            Py_XDECREF(number);
        } else {
            floats[i] = PyFloat_AsDouble(item);
        }
    }
    if (attribute->kind == INGOT_ATTRIBUTE_INTS)
        attribute->ints = ints;
    else
        attribute->floats = floats;
    return PyErr_Occurred() ? -1 : 0;
}

static int read_tensor(struct state *state, PyObject *value, struct attribute_memory *memory,
                       struct ingot_attribute *attribute) {
    if (array_read(state, NULL, value, ARRAY_KEEP, 1, &memory->array)) return -1;
    memory->has_array = true;
    if (array_make_dense(state, &memory->array, "a tensor attribute", &memory->copy)) return -1;
    memory->tensor = memory->array.tensor;
    attribute->kind = INGOT_ATTRIBUTE_TENSOR;
    attribute->tensor = &memory->tensor;
    return 0;
}

static int read_text(struct state *state, PyObject *value, bool is_core, struct attribute_memory *memory,
                     struct ingot_attribute *attribute) {
    if (PyObject_IsInstance(value, (PyObject *)state->dtype_type) == 1) {
        attribute->kind = INGOT_ATTRIBUTE_DTYPE;
        return dtype_from_object(state, value, &attribute->dtype);
    }
    if (texts_read(value, "an attribute", &memory->texts)) return -1;
    attribute->kind = is_core ? INGOT_ATTRIBUTE_DIMS : INGOT_ATTRIBUTE_STRING;
    attribute->count = is_core;
    if (is_core)
        attribute->dims = memory->texts.items;
    else
        attribute->string = memory->texts.items[0];
    return 0;
}

static int read_one(struct state *state, PyObject *value, bool is_core, struct attribute_memory *memory,
                    struct ingot_attribute *attribute) {
    if (PyUnicode_Check(value)) return read_text(state, value, is_core, memory, attribute);
    if (PyFloat_Check(value)) {
        attribute->kind = INGOT_ATTRIBUTE_FLOAT;
        attribute->f = PyFloat_AsDouble(value);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (PyLong_Check(value)) { /* bool too */
        attribute->kind = INGOT_ATTRIBUTE_INT;
        attribute->i = PyLong_AsLongLong(value);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (Py_TYPE(value) == state->network_type) {
        attribute->kind = INGOT_ATTRIBUTE_BODY;
        attribute->body = ((struct network *)value)->network;
        if (!attribute->body) refuse(state, "the body is finished");
        return attribute->body ? 0 : -1;
    }
    if (PyList_Check(value) || PyTuple_Check(value)) return read_list(value, memory, attribute);
    return read_tensor(state, value, memory, attribute);
}

int attributes_read(struct state *state, PyObject *kwargs, bool is_core, struct attributes *out_attributes) {
    *out_attributes = (struct attributes){0};
    size_t n = kwargs ? (size_t)PyDict_Size(kwargs) : 0;
    out_attributes->items = PyMem_Calloc(n + 1, sizeof *out_attributes->items);
    out_attributes->memory = PyMem_Calloc(n + 1, sizeof *out_attributes->memory);
    if (!out_attributes->items || !out_attributes->memory) {
        attributes_free(out_attributes);
        return PyErr_NoMemory(), -1;
    }
    PyObject *name, *value;
    for (Py_ssize_t at = 0; !PyErr_Occurred() && n && PyDict_Next(kwargs, &at, &name, &value);) {
        size_t i = out_attributes->count;
        struct ingot_attribute *attribute = &out_attributes->items[i];
        if (value == Py_None) continue; /* left out */
        out_attributes->count++;
        attribute->name = PyUnicode_AsUTF8AndSize(name, NULL);
        if (attribute->name) read_one(state, value, is_core, &out_attributes->memory[i], attribute);
    }
    if (!PyErr_Occurred()) return 0;
    attributes_free(out_attributes);
    return -1;
}

void attributes_free(struct attributes *attributes) {
    for (size_t i = 0; attributes->memory && i < attributes->count; i++) {
        struct attribute_memory *memory = &attributes->memory[i];
        PyMem_Free(memory->list);
        texts_free(&memory->texts);
        Py_XDECREF(memory->sequence);
        if (memory->has_array) array_release(&memory->array);
        PyMem_Free(memory->copy);
    }
    PyMem_Free(attributes->items);
    PyMem_Free(attributes->memory);
    *attributes = (struct attributes){0};
}
