/* ingot.Model: an imported network, for one thread at a time. */
#include <string.h>

#include "ingot_python.h"

/* ---- Making */

PyObject *model_wrap(struct state *state, struct ingot_model *model, PyObject *owners) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->model_type, Py_tp_alloc);
    struct model *self = (struct model *)alloc(state->model_type, 0);
    if (!self) {
        ingot_model_destroy(model);
        return NULL;
    }
    self->model = model;
    self->owners = Py_XNewRef(owners);
    return (PyObject *)self;
}

static enum ingot_status load_model(PyObject *source, const char *path, const char *folder, bool missing_weights,
                                    struct ingot_model **out_model, struct ingot_error *error, Py_buffer *buffer) {
    struct ingot_model_options options = INGOT_MODEL_OPTIONS_INIT;
    options.allocator = &python_allocator;
    options.missing_weights = missing_weights;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status =
        path ? ingot_model_load(path, &options, out_model, error)
             : ingot_model_load_memory(buffer->buf, (size_t)buffer->len, folder, &options, out_model, error);
    Py_END_ALLOW_THREADS return status;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"source", "folder", "missing_weights", NULL};
    PyObject *source, *folder = Py_None, *path_holder = NULL, *folder_holder = NULL;
    int missing_weights = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|Op:Model", names, &source, &folder, &missing_weights))
        return NULL;
    const char *path = NULL, *folder_path = NULL;
    Py_buffer buffer = {0};
    bool is_memory = PyObject_CheckBuffer(source);
    if (folder != Py_None && path_read(folder, &folder_holder, &folder_path)) return NULL;
    int rc = is_memory ? PyObject_GetBuffer(source, &buffer, PyBUF_SIMPLE) : path_read(source, &path_holder, &path);
    struct state *state = PyType_GetModuleState(type);
    PyObject *result = NULL;
    if (!rc) {
        struct ingot_model *model;
        struct ingot_error error;
        enum ingot_status status = load_model(source, path, folder_path, missing_weights, &model, &error, &buffer);
        result = status ? raise_error(state, status, &error) : model_wrap(state, model, NULL);
    }
    if (buffer.obj) PyBuffer_Release(&buffer);
    Py_XDECREF(path_holder);
    Py_XDECREF(folder_holder);
    return result;
}

static void model_dealloc(PyObject *object) {
    struct model *self = (struct model *)object;
    PyTypeObject *type = Py_TYPE(object);
    ingot_model_destroy(self->model);
    Py_XDECREF(self->owners);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- Attributes */

static PyObject *infos(PyObject *self, size_t n,
                       void (*describe)(const struct ingot_model *, size_t, struct ingot_tensor_info *)) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        struct ingot_tensor_info info;
        describe(((struct model *)self)->model, i, &info);
        PyObject *item = tensor_info(state_of(self), &info);
        if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item)) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *model_inputs(PyObject *self, void *unused) {
    return infos(self, ingot_model_input_count(((struct model *)self)->model), ingot_model_input);
}

static PyObject *model_outputs(PyObject *self, void *unused) {
    return infos(self, ingot_model_output_count(((struct model *)self)->model), ingot_model_output);
}

static PyObject *model_metadata(PyObject *self, void *unused) {
    struct ingot_model_metadata data;
    ingot_model_describe(((struct model *)self)->model, &data);
    PyObject *properties = PyDict_New();
    for (size_t i = 0; properties && i < data.n_properties; i++) {
        PyObject *key = text_or_none(data.properties[i].key), *value = text_or_none(data.properties[i].value);
        if (!key || !value || PyDict_SetItem(properties, key, value)) Py_CLEAR(properties);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    if (!properties) return NULL;
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N,s:L,s:N}", "producer", text_or_none(data.producer),
                         "producer_version", text_or_none(data.producer_version), "domain", text_or_none(data.domain),
                         "description", text_or_none(data.description), "graph_name", text_or_none(data.graph_name),
                         "graph_description", text_or_none(data.graph_description), "version", (long long)data.version,
                         "properties", properties);
}

static PyObject *model_text(PyObject *object, PyObject *unused) {
    struct model *self = (struct model *)object;
    if (guard_enter(state_of(object), &self->guard, "model")) return NULL;
    struct text_sink sink;
    text_sink_init(&sink);
    struct ingot_error error;
    enum ingot_status status = ingot_model_print(self->model, &sink.sink, &error);
    guard_leave(&self->guard);
    PyObject *text = text_sink_finish(&sink);
    if (!status || !text) return text;
    Py_DECREF(text);
    return raise_error(state_of(object), status, &error);
}

/* ---- The reference evaluator */

struct evaluation {
    size_t n_inputs, n_outputs;
    struct array *arrays;
    void **copies;
    struct ingot_tensor *inputs, *outputs;
};

static void evaluation_free(struct evaluation *evaluation, size_t n_read) {
    for (size_t i = 0; i < n_read; i++) {
        array_release(&evaluation->arrays[i]);
        PyMem_Free(evaluation->copies[i]);
    }
    PyMem_Free(evaluation->arrays);
    PyMem_Free(evaluation->copies);
    PyMem_Free(evaluation->inputs);
    PyMem_Free(evaluation->outputs);
}

static int evaluation_read(struct state *state, struct evaluation *evaluation, PyObject *args, size_t *out_read) {
    for (size_t i = 0; i < evaluation->n_inputs; i++) {
        struct array *array = &evaluation->arrays[i];
        if (array_read(state, NULL, PyTuple_GetItem(args, (Py_ssize_t)i), ARRAY_KEEP, 1, array)) return -1;
        *out_read = i + 1;
        if (array_make_dense(state, array, "an input", &evaluation->copies[i])) return -1;
        evaluation->inputs[i] = array->tensor;
    }
    return 0;
}

static PyObject *evaluate(PyObject *object, struct evaluation *evaluation) {
    struct state *state = state_of(object);
    struct model *self = (struct model *)object;
    struct ingot_error error;
    enum ingot_status status;
    if (guard_enter(state, &self->guard, "model")) return NULL;
    Py_BEGIN_ALLOW_THREADS status = ingot_model_evaluate(self->model, evaluation->inputs, evaluation->n_inputs,
                                                         evaluation->outputs, evaluation->n_outputs, &error);
    Py_END_ALLOW_THREADS PyObject *tuple =
        status ? raise_error(state, status, &error) : PyTuple_New((Py_ssize_t)evaluation->n_outputs);
    for (size_t i = 0; tuple && i < evaluation->n_outputs; i++) {
        PyObject *tensor = tensor_copy(state, &evaluation->outputs[i]);
        if (!tensor || PyTuple_SetItem(tuple, (Py_ssize_t)i, tensor)) Py_CLEAR(tuple);
    }
    guard_leave(&self->guard);
    return tuple;
}

static PyObject *model_evaluate(PyObject *object, PyObject *args) {
    struct state *state = state_of(object);
    struct model *self = (struct model *)object;
    struct evaluation evaluation = {ingot_model_input_count(self->model), ingot_model_output_count(self->model)};
    if ((size_t)PyTuple_Size(args) != evaluation.n_inputs)
        return refuse(state, "%zd inputs are given, the model has %zu", PyTuple_Size(args), evaluation.n_inputs);
    evaluation.arrays = PyMem_Calloc(evaluation.n_inputs + 1, sizeof *evaluation.arrays);
    evaluation.copies = PyMem_Calloc(evaluation.n_inputs + 1, sizeof *evaluation.copies);
    evaluation.inputs = PyMem_Calloc(evaluation.n_inputs + 1, sizeof *evaluation.inputs);
    evaluation.outputs = PyMem_Calloc(evaluation.n_outputs + 1, sizeof *evaluation.outputs);
    PyObject *result = NULL;
    size_t n_read = 0;
    if (!evaluation.arrays || !evaluation.copies || !evaluation.inputs || !evaluation.outputs)
        PyErr_NoMemory();
    else if (!evaluation_read(state, &evaluation, args, &n_read))
        result = evaluate(object, &evaluation);
    evaluation_free(&evaluation, n_read);
    return result;
}

static PyObject *model_repr(PyObject *object) {
    struct ingot_model *model = ((struct model *)object)->model;
    return PyUnicode_FromFormat("<ingot.Model with %zu inputs, %zu outputs>", ingot_model_input_count(model),
                                ingot_model_output_count(model));
}

static PyMethodDef model_methods[] = {
    {"build", (PyCFunction)(void (*)(void))model_build, METH_VARARGS | METH_KEYWORDS,
     "build($self, path=None, **options)\n--\n\nAn ingot.Engine, in memory or in the file `path`. ingot.compile has "
     "the options."},
    {"evaluate", model_evaluate, METH_VARARGS,
     "evaluate($self, /, *inputs)\n--\n\nRuns the reference evaluator: slow, in double precision. A tuple of "
     "ingot.Tensor."},
    {"text", model_text, METH_NOARGS, "text($self)\n--\n\nThe graph in its text form (docs/ir.md)."},
    {0},
};

static PyGetSetDef model_getset[] = {
    {"inputs", model_inputs, NULL, "A tuple of ingot.TensorInfo.", NULL},
    {"metadata", model_metadata, NULL, "What its file says about itself, as a dict; `properties` is one of str.", NULL},
    {"outputs", model_outputs, NULL, "A tuple of ingot.TensorInfo.", NULL},
    {0},
};

static PyType_Slot model_slots[] = {
    {Py_tp_doc,
     "Model(source, folder=None, missing_weights=False)\n--\n\n"
     "An imported ONNX model: a file's path, or its bytes with the folder of external data. ingot.compile builds it."},
    {Py_tp_new, model_new},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_repr, model_repr},
    {Py_tp_methods, model_methods},
    {Py_tp_getset, model_getset},
    {0, NULL},
};

static PyType_Spec model_spec = {"ingot.Model", sizeof(struct model), 0, Py_TPFLAGS_DEFAULT, model_slots};

int add_model(PyObject *module, struct state *state) {
    state->model_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &model_spec, NULL);
    return state->model_type ? PyModule_AddType(module, state->model_type) : -1;
}
