/* ingot.Engine: a loaded engine file. Any number of threads may use it. */
#include <string.h>

#include "refit.h"

static PyObject *engine_call(PyObject *object, PyObject *const *args, size_t n_args, PyObject *names);

/* ---- Making */

static int describe_ports(struct engine *self) {
    struct ingot_engine *engine = self->engine;
    self->n_inputs = ingot_engine_input_count(engine);
    self->n_outputs = ingot_engine_output_count(engine);
    self->inputs = PyMem_Calloc(self->n_inputs + 1, sizeof *self->inputs);
    self->outputs = PyMem_Calloc(self->n_outputs + 1, sizeof *self->outputs);
    self->updates = PyMem_Calloc(self->n_outputs + 1, sizeof *self->updates);
    self->is_updated = PyMem_Calloc(self->n_inputs + 1, sizeof *self->is_updated);
    if (!self->inputs || !self->outputs || !self->updates || !self->is_updated) return PyErr_NoMemory(), -1;
    for (size_t i = 0; i < self->n_inputs; i++)
        ingot_engine_input(engine, i, &self->inputs[i]);
    for (size_t i = 0; i < self->n_outputs; i++)
        ingot_engine_output(engine, i, &self->outputs[i]);
    for (size_t i = 0; i < self->n_outputs; i++) {
        self->updates[i] = ingot_engine_updated_input(engine, i);
        if (self->updates[i] != SIZE_MAX)
            self->any_update = self->is_updated[self->updates[i]] = true;
        else
            self->any_own = true;
    }
    self->is_cuda = !strncmp(ingot_engine_target(engine), "cuda", 4);
    return 0;
}

PyObject *engine_new(struct state *state, PyObject *path, void *data, size_t size, enum ingot_verify verify,
                     unsigned ranks) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->engine_type, Py_tp_alloc);
    struct engine *self = (struct engine *)alloc(state->engine_type, 0);
    if (!self) {
        if (data) python_allocator.release(NULL, data, size);
        return NULL;
    }
    self->call = engine_call;
    self->data = data;
    self->size = size;
    self->ranks = ranks;
    PyObject *holder = NULL;
    const char *file = NULL;
    bool ok = data || !path_read(path, &holder, &file);
    if (ok && path) self->path = Py_NewRef(path);
    if (ok) {
        struct ingot_load_options options = INGOT_LOAD_OPTIONS_INIT;
        options.verify = verify;
        options.ranks = ranks;
        struct ingot_error error;
        enum ingot_status status;
        Py_BEGIN_ALLOW_THREADS status = data ? ingot_engine_load_memory(data, size, &options, &self->engine, &error)
                                             : ingot_engine_load(file, &options, &self->engine, &error);
        Py_END_ALLOW_THREADS ok = !status;
        if (status) raise_error(state, status, &error);
    }
    Py_XDECREF(holder);
    if (!ok || describe_ports(self)) Py_CLEAR(self);
    return (PyObject *)self;
}

static void engine_dealloc(PyObject *object) {
    struct engine *self = (struct engine *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (size_t i = 0; i < ARRAY_LENGTH(self->idle); i++)
        Py_XDECREF(atomic_load(&self->idle[i]));
    if (self->engine) {
        Py_BEGIN_ALLOW_THREADS ingot_engine_release(self->engine);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(self->inputs);
    PyMem_Free(self->outputs);
    PyMem_Free(self->updates);
    PyMem_Free(self->is_updated);
    if (self->data) python_allocator.release(NULL, self->data, self->size);
#ifndef INGOT_PYTHON_RUNTIME
    lent_free(atomic_load(&self->lent));
#endif
    Py_XDECREF(self->path);
    Py_XDECREF(self->report);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* A copy, aligned as the library wants it. */
static PyObject *load_bytes(struct state *state, PyObject *source, enum ingot_verify verify, unsigned ranks) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(source, &buffer, PyBUF_SIMPLE)) return NULL;
    size_t size = (size_t)buffer.len;
    void *data = python_allocator.alloc(NULL, size ? size : 1, 64);
    if (data && size) memcpy(data, buffer.buf, size);
    PyBuffer_Release(&buffer);
    return data ? engine_new(state, NULL, data, size, verify, ranks) : PyErr_NoMemory();
}

PyObject *load(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"source", "verify", "ranks", NULL};
    static const char *const verifies[] = {"all", "later", "no_weights"};
    PyObject *source;
    const char *verify = "all";
    unsigned ranks = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|sI:load", names, &source, &verify, &ranks)) return NULL;
    struct state *state = PyModule_GetState(module);
    for (int i = 0; i < (int)ARRAY_LENGTH(verifies); i++) {
        if (strcmp(verify, verifies[i]) != 0) continue;
        if (PyObject_CheckBuffer(source)) return load_bytes(state, source, (enum ingot_verify)i, ranks);
        return engine_new(state, source, NULL, 0, (enum ingot_verify)i, ranks);
    }
    return refuse(state, "verify is '%s', expected 'all', 'later' or 'no_weights'", verify);
}

/* ---- Calling: on a session that is idle, or on another one, so that any thread may call */

static PyObject *engine_session(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (PyTuple_Size(args)) return refuse(state_of(self), "a session's options are keywords");
    return session_new(self, kwargs);
}

/* Into a place that is empty; false: there is none. */
static bool shelve(struct engine *self, PyObject *session) {
    for (size_t i = 0; i < ARRAY_LENGTH(self->idle); i++) {
        PyObject *none = NULL;
        if (atomic_compare_exchange_strong(&self->idle[i], &none, session)) return true;
    }
    return false;
}

static void give_session(struct engine *self, PyObject *session) {
    session_park(session); /* the caller of the engine holds it */
    if (shelve(self, session)) return;
    session_unpark(session);
    Py_DECREF(session);
}

static PyObject *take_session(struct engine *self, int gpu) {
    for (size_t i = 0; i < ARRAY_LENGTH(self->idle); i++) {
        PyObject *session = atomic_exchange(&self->idle[i], NULL);
        if (!session) continue;
        session_unpark(session);
        if (session_gpu(session) == gpu) return session;
        give_session(self, session);
    }
    PyObject *options = gpu ? Py_BuildValue("{s:i}", "device", gpu) : NULL;
    PyObject *session = gpu && !options ? NULL : session_new((PyObject *)self, options);
    Py_XDECREF(options);
    return session;
}

/* `*out_gpu`: where the inputs are, if the session had to refuse them for that; else -1. */
static PyObject *call_on(struct engine *self, int gpu, PyObject *const *args, size_t n_args, PyObject *names,
                         int *out_gpu) {
    PyObject *session = take_session(self, gpu);
    *out_gpu = -1;
    if (!session) return NULL;
    PyObject *outputs = session_call(session, args, n_args, names);
    if (!outputs) *out_gpu = session_misplaced(session);
    give_session(self, session);
    return outputs;
}

/* On the GPU of the call before, at first that of the build or of borrowed weights; if the inputs are on another one, there. */
static PyObject *engine_call(PyObject *object, PyObject *const *args, size_t n_args, PyObject *names) {
    struct engine *self = (struct engine *)object;
    int gpu = atomic_load_explicit(&self->gpu, memory_order_relaxed), other, none;
    PyObject *outputs = call_on(self, gpu, args, n_args, names, &other);
    if (outputs || other < 0) return outputs;
    PyErr_Clear();
    outputs = call_on(self, other, args, n_args, names, &none);
    if (outputs) atomic_store_explicit(&self->gpu, other, memory_order_relaxed);
    return outputs;
}

static PyObject *engine_tp_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    return call_by_tuple(engine_call, self, args, kwargs);
}

/* ---- Attributes */

static PyObject *infos(struct state *state, const struct ingot_tensor_info *list, size_t n) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *info = tensor_info(state, &list[i]);
        if (!info || PyTuple_SetItem(tuple, (Py_ssize_t)i, info)) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *engine_inputs(PyObject *self, void *unused) {
    return infos(state_of(self), ((struct engine *)self)->inputs, ((struct engine *)self)->n_inputs);
}

static PyObject *engine_outputs(PyObject *self, void *unused) {
    return infos(state_of(self), ((struct engine *)self)->outputs, ((struct engine *)self)->n_outputs);
}

/* {output's name: input's name} */
static PyObject *engine_updates(PyObject *object, void *unused) {
    struct engine *self = (struct engine *)object;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < self->n_outputs; i++) {
        if (self->updates[i] == SIZE_MAX) continue;
        PyObject *input = text_or_none(self->inputs[self->updates[i]].name);
        if (!input || PyDict_SetItemString(dict, self->outputs[i].name, input)) Py_CLEAR(dict);
        Py_XDECREF(input);
    }
    return dict;
}

static PyObject *engine_symbols(PyObject *self, void *unused) {
    struct ingot_engine *engine = ((struct engine *)self)->engine;
    size_t n = ingot_engine_symbol_count(engine);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        struct ingot_symbol_info info;
        ingot_engine_symbol(engine, i, &info);
        PyObject *fields[] = {text_or_none(info.name), PyLong_FromLongLong(info.lo), PyLong_FromLongLong(info.hi),
                              text_or_none(info.mixes)};
        PyObject *item = named_tuple(state_of(self)->symbol_info, fields, ARRAY_LENGTH(fields));
        if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item)) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *initializer(struct state *state, const struct ingot_initializer_info *info) {
    static const char *const kinds[] = {"refittable", "structural", "unused"};
    PyObject *fields[] = {text_or_none(info->name),
                          text_or_none(info->alias),
                          PyBool_FromLong(info->is_transposed),
                          PyUnicode_FromString(kinds[info->kind]),
                          text_or_none(info->reason),
                          dtype_object(state, info->dtype),
                          shape_tuple(info->rank, info->dims),
                          PyLong_FromUnsignedLong(info->slot),
                          PyBool_FromLong(info->is_borrowed)};
    return named_tuple(state->initializer_info, fields, ARRAY_LENGTH(fields));
}

static PyObject *engine_initializers(PyObject *self, void *unused) {
    struct ingot_engine *engine = ((struct engine *)self)->engine;
    size_t n = ingot_engine_initializer_count(engine);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        struct ingot_initializer_info info;
        ingot_engine_initializer(engine, i, &info);
        PyObject *item = initializer(state_of(self), &info);
        if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item)) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *engine_explanation(PyObject *self, PyObject *unused) {
    const char *text;
    struct ingot_error error;
    enum ingot_status status = ingot_engine_explanation(((struct engine *)self)->engine, &text, &error);
    if (status) return raise_error(state_of(self), status, &error);
    PyObject *json = PyImport_ImportModule("json");
    PyObject *object = json ? PyObject_CallMethod(json, "loads", "s", text) : NULL;
    Py_XDECREF(json);
    return object ? shown("Explanation", object) : NULL;
}

static PyObject *engine_uncaptured(PyObject *self, PyObject *unused) {
    struct ingot_engine *engine = ((struct engine *)self)->engine;
    size_t n = ingot_engine_uncaptured(engine, NULL, 0);
    struct ingot_uncaptured_row *rows = PyMem_Calloc(n + 1, sizeof *rows);
    if (!rows) return PyErr_NoMemory();
    ingot_engine_uncaptured(engine, rows, n);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *pair = Py_BuildValue("(ss)", rows[i].origin, rows[i].reason);
        if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    PyMem_Free(rows);
    return list;
}

static PyObject *engine_target(PyObject *self, void *unused) {
    return PyUnicode_FromString(ingot_engine_target(((struct engine *)self)->engine));
}

static PyObject *engine_path(PyObject *self, void *unused) {
    PyObject *path = ((struct engine *)self)->path;
    return Py_NewRef(path ? path : Py_None);
}

static PyObject *engine_report(PyObject *self, void *unused) {
    PyObject *report = ((struct engine *)self)->report;
    return Py_NewRef(report ? report : Py_None);
}

/* The bytes of the engine file: as bytes, for pickle too. */
static PyObject *engine_tobytes(PyObject *object, PyObject *unused) {
    struct engine *self = (struct engine *)object;
    if (self->is_refitted) {
        PyErr_SetString(state_of(object)->errors[INGOT_UNSUPPORTED],
                        "the engine was refitted in memory: write the new weights to a file with ingot.refit_file");
        return NULL;
    }
    if (self->data) return PyBytes_FromStringAndSize(self->data, (Py_ssize_t)self->size);
    PyObject *io = PyImport_ImportModule("pathlib");
    PyObject *path = io ? PyObject_CallMethod(io, "Path", "O", self->path) : NULL;
    PyObject *bytes = path ? PyObject_CallMethod(path, "read_bytes", NULL) : NULL;
    Py_XDECREF(io);
    Py_XDECREF(path);
    return bytes;
}

static PyObject *engine_save(PyObject *self, PyObject *path) {
    PyObject *bytes = engine_tobytes(self, NULL);
    PyObject *files = bytes ? PyImport_ImportModule("ingot._files") : NULL;
    PyObject *result = files ? PyObject_CallMethod(files, "write", "OO", path, bytes) : NULL;
    Py_XDECREF(files);
    Py_XDECREF(bytes);
    return result;
}

static PyObject *engine_reduce(PyObject *self, PyObject *unused) {
    PyObject *module = PyImport_ImportModule("ingot");
    PyObject *function = module ? PyObject_GetAttrString(module, "load") : NULL;
    Py_XDECREF(module);
    PyObject *bytes = function ? engine_tobytes(self, NULL) : NULL;
    PyObject *result = bytes ? Py_BuildValue("(O(OsI))", function, bytes, "all", ((struct engine *)self)->ranks) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(function);
    return result;
}

static PyObject *engine_repr(PyObject *object) {
    struct engine *self = (struct engine *)object;
    return PyUnicode_FromFormat("<ingot.Engine for %s, %zu inputs, %zu outputs>", ingot_engine_target(self->engine),
                                self->n_inputs, self->n_outputs);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS
static PyMethodDef engine_methods[] = {
    {"session", KEYWORDS(engine_session),
     "session($self, *, threads=0, arena=None, device=0, stream=None, profile=False, timing=False,\n"
     "        max_plan_instances=0, max_plan_bytes=0, whole_batches=False, machines=None, gpus=0)\n--\n\n"
     "A new ingot.Session. threads: CPU threads of a run; 0: as many as this thread may use. arena: an ingot.Arena to\n"
     "share. device, stream: a GPU's number and a stream on it, for engines for GPUs. gpus: how many GPUs the "
     "engine's\n"
     "ranks share, with the same bits for each such number; 0: each rank has its own."},
#ifndef INGOT_PYTHON_RUNTIME
    {"refit", KEYWORDS(engine_refit),
     "refit($self, tensors, *, only=None, partial=False, ignore_unknown=False, progress=None, borrow=False)\n--\n\n"
     "Gives the engine other weights: from a dict of tensors by name, or a file (.onnx, .safetensors, .npz). Sessions "
     "may\n"
     "go on running: each run has the old weights or the new ones. borrow: kernels read the dict's tensors, which are\n"
     "dense, where they are, if the engine has them as they are; it keeps them alive. Returns counts, as a dict."},
    {"open_slot", KEYWORDS(engine_open_slot),
     "open_slot($self, slot, folder=None)\n--\n\n"
     "The tensors that put a low-rank adapter (what PEFT's save_pretrained writes to a folder) into slot `slot`, from "
     "1\n"
     "on, of an engine built with slots (adapters=8): zeros in layers that it does not change. None empties the slot.\n"
     "A dict of ingot.Tensor, for refit with partial=True. ingot.InvalidArgument if there is no such slot,\n"
     "ingot.BadTensor if the adapter does not fit, ingot.Unsupported for other kinds of adapters."},
#endif
    {"save", engine_save, METH_O, "save($self, path, /)\n--\n\nWrites the engine file."},
    {"tobytes", engine_tobytes, METH_NOARGS, "tobytes($self)\n--\n\nThe engine file's bytes, which ingot.load takes."},
    {"explanation", engine_explanation, METH_NOARGS,
     "explanation($self)\n--\n\nWhat the engine contains and why, as a dict (docs/engine.md)."},
    {"uncaptured", engine_uncaptured, METH_NOARGS,
     "uncaptured($self)\n--\n\nPairs (origin, reason) of what a run cannot launch in one go."},
    {"__reduce__", engine_reduce, METH_NOARGS, NULL},
    {0},
};

static PyGetSetDef engine_getset[] = {
    {"inputs", engine_inputs, NULL, "A tuple of ingot.TensorInfo.", NULL},
    {"outputs", engine_outputs, NULL, "A tuple of ingot.TensorInfo.", NULL},
    {"updates", engine_updates, NULL,
     "{output: input} for outputs that are stored in an input's memory: a decoder's cache. A run changes that tensor, "
     "which\n"
     "must be writable and dense, and returns it.",
     NULL},
    {"symbols", engine_symbols, NULL, "A tuple of ingot.SymbolInfo: the sizes that the inputs decide.", NULL},
    {"initializers", engine_initializers, NULL, "A tuple of ingot.InitializerInfo: the model's weights.", NULL},
    {"target", engine_target, NULL, "What it was built for: 'cpu:x86-64-v4', 'cuda:sm_90a'.", NULL},
    {"path", engine_path, NULL, "The file that it was loaded from, or None.", NULL},
    {"report", engine_report, NULL, "What the build did, as a dict; None if the engine was loaded.", NULL},
    {0},
};

static PyMemberDef engine_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct engine, call), READONLY, NULL},
    {0},
};

static PyType_Slot engine_slots[] = {
    {Py_tp_doc, "A compiled network, ready to run (ingot.load, ingot.compile). Call it with the inputs, as an "
                "ingot.Session, from\n"
                "any thread: it keeps sessions for that, on the GPU where the inputs are."},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_call, engine_tp_call},
    {Py_tp_members, engine_members},
    {Py_tp_repr, engine_repr},
    {Py_tp_methods, engine_methods},
    {Py_tp_getset, engine_getset},
    {0, NULL},
};

static PyType_Spec engine_spec = {"ingot.Engine", sizeof(struct engine), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | HAVE_VECTORCALL,
                                  engine_slots};

int add_engine(PyObject *module, struct state *state) {
    state->engine_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &engine_spec, NULL);
    return state->engine_type ? PyModule_AddType(module, state->engine_type) : -1;
}
