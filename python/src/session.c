/*
 * ingot.Session: one sequence of runs, with memory of its own. A call reads the tensors that it is given in place, runs, and
 * returns results that are leased: they are of the kind that the inputs are (NumPy arrays, PyTorch tensors, ingot.Tensor),
 * and lie where the inputs do.
 */
#include <string.h>

#include "session.h"

#define N_ARGS(n) ((n) & ~((size_t)1 << (8 * sizeof(size_t) - 1)))

/* ---- Inputs */

int session_blame_input(struct session *self, size_t index) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    struct state *state = state_of((PyObject *)self);
    if (type && (type == state->errors[INGOT_INVALID_ARGUMENT] || type == PyExc_TypeError)) {
        PyErr_Format(type, "input '%U': %S", self->inputs[index].name, value ? value : Py_None);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    } else {
        PyErr_Restore(type, value, traceback);
    }
    return -1;
}

/* Sorts arguments into self->objects. */
static int sort_arguments(struct session *self, PyObject *const *args, size_t n_args, PyObject *names) {
    struct state *state = state_of((PyObject *)self);
    size_t n = self->engine->n_inputs, n_named = names ? (size_t)PyTuple_Size(names) : 0;
    if (n_args > n) return refuse(state, "%zu inputs are given, the engine has %zu", n_args, n), -1;
    memset(self->objects, 0, n * sizeof *self->objects);
    for (size_t i = 0; i < n_args; i++)
        self->objects[i] = args[i];
    for (size_t k = 0; k < n_named; k++) {
        PyObject *name = PyTuple_GetItem(names, (Py_ssize_t)k);
        size_t i = 0;
        while (i < n && self->inputs[i].name != name && PyUnicode_Compare(self->inputs[i].name, name))
            i++;
        if (i == n) return refuse(state, "the engine has no input '%U'", name), -1;
        if (self->objects[i]) return refuse(state, "input '%U' is given twice", name), -1;
        self->objects[i] = args[n_args + k];
    }
    for (size_t i = 0; i < n; i++)
        if (!self->objects[i]) return refuse(state, "input '%U' is missing", self->inputs[i].name), -1;
    return 0;
}

int session_pack_input(struct port *port, struct array *array, struct ingot_tensor *tensor) {
    size_t bytes = tensor_bytes(tensor);
    if (bytes > port->scratch_size) {
        PyMem_Free(port->scratch);
        port->scratch_size = 0;
        port->scratch = PyMem_Malloc(bytes);
        if (!port->scratch) return PyErr_NoMemory(), -1;
        port->scratch_size = bytes;
    }
    array_pack(array, port->scratch);
    tensor->data = port->scratch;
    tensor->memory = INGOT_HOST;
    return 0;
}

int session_place_input(struct session *self, size_t index, struct array *array, const struct dl_exchange_api *api,
                        struct demand *demand) {
    struct state *state = state_of((PyObject *)self);
    struct port *port = &self->inputs[index];
    struct ingot_tensor tensor = array->tensor;
    if (self->engine->is_updated[index] && (array->is_read_only || !array->is_dense))
        return refuse(state, "input '%U' is changed by the run: it must be writable and contiguous", port->name), -1;
    if (tensor.memory == INGOT_CUDA) {
        if (!self->engine->is_cuda)
            return refuse(state, "input '%U' is in GPU memory, the engine is for the CPU", port->name), -1;
        if (array->device != self->device) {
            self->misplaced = array->device;
            return refuse(state, "input '%U' is on GPU %d, the session on GPU %d", port->name, array->device,
                          self->device),
                   -1;
        }
        if (!array->is_dense)
            return refuse(state, "input '%U' is in GPU memory and not contiguous: pass a contiguous copy", port->name),
                   -1;
        if (!demand->on_gpu && !self->stream) {
            void *stream = NULL;
            if (api && api->current_stream(DL_CUDA, self->device, &stream)) return -1;
            demand->stream = stream ? stream : LEGACY_STREAM;
        }
        demand->on_gpu = true;
    } else if (!array->is_dense && session_pack_input(port, array, &tensor)) {
        return -1;
    }
    struct ingot_error error;
    enum ingot_status status = ingot_context_set_input(self->context, index, &tensor, &error);
    return status ? raise_error(state, status, &error), -1 : 0;
}

static int place_inputs(struct session *self, struct demand *demand, size_t *out_read) {
    struct state *state = state_of((PyObject *)self);
    int64_t stream = self->stream ? (int64_t)(intptr_t)self->stream : (int64_t)(intptr_t)LEGACY_STREAM;
    for (size_t i = 0; i < self->engine->n_inputs; i++) {
        struct port *port = &self->inputs[i];
        if (array_read(state, &port->source, self->objects[i], ARRAY_BORROW, stream, &port->array))
            return session_blame_input(self, i);
        *out_read = i + 1;
        if (session_place_input(self, i, &port->array, port->source.api, demand)) return -1;
    }
    return 0;
}

/* ---- Runs */

int session_own_outputs(struct session *self, enum ingot_memory memory) {
    if (self->mode == OUTPUTS_OWN && self->memory == memory) return 0;
    struct ingot_error error;
    for (size_t i = 0; i < self->engine->n_outputs; i++) {
        if (self->engine->updates[i] != SIZE_MAX) continue;
        enum ingot_status status = ingot_context_set_output_in(self->context, i, memory, NULL, 0, &error);
        if (status) return raise_error(state_of((PyObject *)self), status, &error), -1;
    }
    self->mode = OUTPUTS_OWN;
    self->memory = memory;
    return 0;
}

static enum ingot_status launch(struct ingot_context *context, const struct demand *demand, struct ingot_error *error) {
    if (!demand->on_gpu && !demand->stream) return ingot_context_run(context, error);
    enum ingot_status status = ingot_context_enqueue(context, demand->stream, error);
    return status || demand->on_gpu ? status : ingot_context_wait(context, error);
}

int session_launch(struct session *self, const struct demand *demand) {
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = launch(self->context, demand, &error);
    Py_END_ALLOW_THREADS if (status) return raise_error(state_of((PyObject *)self), status, &error), -1;
#ifndef INGOT_PYTHON_RUNTIME
    if (atomic_load_explicit(&self->engine->looks, memory_order_relaxed) > 0) lent_look(self->engine);
#endif
    return 0;
}

/* Results look like the first input that tells. */
static enum style choose_style(struct session *self, const struct dl_exchange_api **out_api) {
    struct state *state = state_of((PyObject *)self);
    *out_api = NULL;
    for (size_t i = 0; i < self->engine->n_inputs; i++) {
        const struct source *source = &self->inputs[i].source;
        if (source->api && source->api->import_managed && source->type != state->tensor_type)
            return *out_api = source->api, STYLE_EXCHANGE;
        if (state->ndarray ? source->type == state->ndarray : source->is_buffer) {
            if (numpy_find(state, false) == 1 && source->type == state->ndarray) return STYLE_NUMPY;
        }
    }
    return STYLE_INGOT;
}

/* The run of sorted arguments. */
static int run_objects(struct session *self, bool only_enqueue, struct results *out_results) {
    struct demand demand = {self->stream, false, NULL};
    size_t n_read = 0;
    self->is_bound = false;
    int rc = place_inputs(self, &demand, &n_read);
    if (!rc) rc = session_own_outputs(self, demand.on_gpu ? INGOT_CUDA : INGOT_HOST);
    if (!rc) {
        struct demand launch = demand;
        launch.on_gpu = launch.on_gpu || only_enqueue;
        rc = session_launch(self, &launch);
    }
    if (!rc) {
        const struct dl_exchange_api *api;
        enum style style = choose_style(self, &api);
        rc = results_take(self, demand.stream, style, api, self->objects, out_results);
    }
    for (size_t i = 0; i < n_read; i++)
        array_release(&self->inputs[i].array);
    return rc;
}

PyObject *session_call(PyObject *object, PyObject *const *args, size_t n_args, PyObject *names) {
    struct session *self = (struct session *)object;
    struct state *state = state_of(object);
    struct results results;
    if (guard_enter(state, &self->guard, "session")) return NULL;
    self->misplaced = -1;
    int rc = sort_arguments(self, args, N_ARGS(n_args), names);
    if (!rc) rc = run_objects(self, false, &results);
    guard_leave(&self->guard);
    return rc ? NULL : results_give(state, &results);
}

static PyObject *session_enqueue(PyObject *object, PyObject *const *args, Py_ssize_t n_args, PyObject *names) {
    struct session *self = (struct session *)object;
    struct state *state = state_of(object);
    struct results results;
    if (guard_enter(state, &self->guard, "session")) return NULL;
    int rc = sort_arguments(self, args, (size_t)n_args, names);
    if (!rc) rc = run_objects(self, true, &results);
    struct run *run = rc ? NULL : run_new(state, &results);
    if (run) {
        run->results.is_asked_later = true;
        run->keep = PyTuple_New((Py_ssize_t)self->engine->n_inputs);
        for (size_t i = 0; run->keep && i < self->engine->n_inputs; i++)
            PyTuple_SetItem(run->keep, (Py_ssize_t)i, Py_NewRef(self->objects[i]));
        if (!run->keep) Py_CLEAR(run);
    }
    guard_leave(&self->guard);
    return (PyObject *)run;
}

/* ---- Making */

static int ports_init(struct port **ports, const struct ingot_tensor_info *infos, size_t n) {
    *ports = PyMem_Calloc(n + 1, sizeof **ports);
    if (!*ports) return PyErr_NoMemory(), -1;
    for (size_t i = 0; i < n; i++) {
        PyObject *name = text_or_none(infos[i].name);
        if (!name) return -1;
        PyUnicode_InternInPlace(&name);
        (*ports)[i].name = name;
    }
    return 0;
}

static void ports_free(struct port *ports, size_t n) {
    for (size_t i = 0; ports && i < n; i++) {
        Py_XDECREF(ports[i].name);
        source_clear(&ports[i].source);
        source_clear(&ports[i].bound_source);
        PyMem_Free(ports[i].scratch);
    }
    PyMem_Free(ports);
}

/* A handle as int, or an object that has one: PyTorch's and CuPy's streams, and CUDA Python's protocol. */
static int read_stream(struct state *state, PyObject *object, void **out_stream) {
    if (object == Py_None) return 0;
    PyObject *number = NULL;
    if (PyLong_Check(object)) {
        number = Py_NewRef(object);
    } else if (PyObject_HasAttrString(object, "__cuda_stream__")) {
        PyObject *pair = PyObject_CallMethod(object, "__cuda_stream__", NULL);
        number = pair ? PySequence_GetItem(pair, 1) : NULL;
        Py_XDECREF(pair);
    } else {
        const char *attribute = PyObject_HasAttrString(object, "cuda_stream") ? "cuda_stream" : "ptr";
        number = PyObject_GetAttrString(object, attribute);
    }
    void *stream = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    if (PyErr_Occurred()) return -1;
    *out_stream = stream ? stream : LEGACY_STREAM;
    return 0;
}

static int read_options(PyObject *kwargs, struct state *state, struct session *self,
                        struct ingot_context_options *options, PyObject **out_machines) {
    static char *names[] = {
        "threads",        "arena",         "device",   "stream", "profile", "timing", "max_plan_instances",
        "max_plan_bytes", "whole_batches", "machines", "gpus",   NULL};
    PyObject *none = PyTuple_New(0), *arena = Py_None, *stream = Py_None, *machines = Py_None;
    if (!none) return -1;
    int profile = 0, timing = 0, whole = 0;
    Py_ssize_t instances = 0, bytes = 0;
    int ok = PyArg_ParseTupleAndKeywords(none, kwargs, "|IOiOppnnpOI:session", names, &options->threads, &arena,
                                         &options->device, &stream, &profile, &timing, &instances, &bytes, &whole,
                                         &machines, &options->gpus);
    Py_DECREF(none);
    if (!ok) return -1;
    if (arena != Py_None && Py_TYPE(arena) != state->arena_type)
        return PyErr_Format(PyExc_TypeError, "arena is %R, expected an ingot.Arena", arena), -1;
    if (instances < 0 || bytes < 0) return refuse(state, "a bound is negative"), -1;
    if (stream != Py_None && !self->engine->is_cuda) return refuse(state, "an engine for the CPU has no streams"), -1;
    if (read_stream(state, stream, &self->stream)) return -1;
    if (machines != Py_None && path_read(machines, out_machines, &options->machines)) return -1;
    options->profile = profile;
    options->timing = timing;
    options->whole_batches = whole;
    options->max_plan_instances = (size_t)instances;
    options->max_plan_bytes = (size_t)bytes;
    self->device = options->device;
    if (arena != Py_None) {
        self->arena = Py_NewRef(arena);
        options->arena = ((struct arena *)arena)->arena;
    }
    return 0;
}

PyObject *session_new(PyObject *engine, PyObject *kwargs) {
    struct state *state = state_of(engine);
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->session_type, Py_tp_alloc);
    struct session *self = (struct session *)alloc(state->session_type, 0);
    if (!self) return NULL;
    self->call = session_call;
    self->engine = (struct engine *)Py_NewRef(engine);
    struct ingot_context_options options = INGOT_CONTEXT_OPTIONS_INIT;
    PyObject *machines = NULL;
    self->objects = PyMem_Calloc(self->engine->n_inputs + 1, sizeof *self->objects);
    if (!self->objects) PyErr_NoMemory();
    bool ok = self->objects && !read_options(kwargs, state, self, &options, &machines) &&
              !ports_init(&self->inputs, self->engine->inputs, self->engine->n_inputs) &&
              !ports_init(&self->outputs, self->engine->outputs, self->engine->n_outputs);
    if (ok) {
        struct ingot_error error;
        enum ingot_status status;
        Py_BEGIN_ALLOW_THREADS status = ingot_context_create(self->engine->engine, &options, &self->context, &error);
        Py_END_ALLOW_THREADS ok = !status;
        if (status) raise_error(state, status, &error);
    }
    Py_XDECREF(machines);
    if (!ok) Py_CLEAR(self);
    return (PyObject *)self;
}

static void session_dealloc(PyObject *object) {
    struct session *self = (struct session *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->context) {
        Py_BEGIN_ALLOW_THREADS ingot_context_destroy(self->context);
        Py_END_ALLOW_THREADS
    }
    session_drop_bound(self);
    ports_free(self->inputs, self->engine->n_inputs);
    ports_free(self->outputs, self->engine->n_outputs);
    PyMem_Free(self->objects);
    Py_XDECREF(self->arena);
    if (!self->is_parked) Py_DECREF((PyObject *)self->engine);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

void session_park(PyObject *session) {
    struct session *self = (struct session *)session;
    self->is_parked = true;
    Py_DECREF((PyObject *)self->engine);
}

void session_unpark(PyObject *session) {
    struct session *self = (struct session *)session;
    self->is_parked = false;
    Py_INCREF((PyObject *)self->engine);
}

int session_gpu(const PyObject *session) {
    return ((const struct session *)session)->device;
}

int session_misplaced(const PyObject *session) {
    return ((const struct session *)session)->misplaced;
}

static PyObject *session_engine(PyObject *self, void *unused) {
    return Py_NewRef((PyObject *)((struct session *)self)->engine);
}

static PyGetSetDef session_getset[] = {{"engine", session_engine, NULL, "The engine that it runs.", NULL}, {0}};

static PyMemberDef session_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct session, call), READONLY, NULL},
    {0},
};

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS
static PyMethodDef session_methods[] = {
    {"enqueue", (PyCFunction)(void (*)(void))session_enqueue, METH_FASTCALL | METH_KEYWORDS,
     "enqueue($self, /, *inputs, **named)\n--\n\n"
     "Begins a run and returns an ingot.Run, whose result() waits. On the CPU the run is done then."},
    {"bind", KEYWORDS(session_bind),
     "bind($self, inputs, outputs=None)\n--\n\n"
     "Binds tensors for run_bound, by name (a dict) or in order; they are read and written in place, and kept until\n"
     "others are bound. Outputs are bound all, or none."},
    {"unbind", session_unbind, METH_NOARGS, "unbind($self)\n--\n\nLets go of what is bound."},
    {"run_bound", session_run_bound, METH_NOARGS,
     "run_bound($self)\n--\n\n"
     "Runs what is bound. Returns None where outputs are bound, else the results. Allocates nothing in the former "
     "case."},
    {"wait", KEYWORDS(session_wait),
     "wait($self, timeout=None)\n--\n\nWaits for all enqueued runs; ingot.Timeout after `timeout` seconds."},
    {"cancel", session_cancel, METH_NOARGS,
     "cancel($self)\n--\n\nGives up the runs that nobody has waited for: they raise ingot.Cancelled. For any thread."},
    {"set_time_limit", session_set_time_limit, METH_O,
     "set_time_limit($self, seconds, /)\n--\n\nLimits how long a run may take; 0: no limit. Then it raises "
     "ingot.Timeout."},
    {"set_batch", KEYWORDS(session_set_batch),
     "set_batch($self, symbol, sizes=None)\n--\n\n"
     "Rounds the sizes of `symbol` up to the nearest of `sizes` (None: powers of two) and hides the padding. None as "
     "symbol:\n"
     "sizes are taken as they are."},
    {"batch", session_batch, METH_NOARGS,
     "batch($self)\n--\n\nHow sizes were rounded up, as a dict; None: they are not."},
    {"prepare", KEYWORDS(session_prepare),
     "prepare($self, inputs, background=False, device='cpu')\n--\n\n"
     "Prepares for runs of inputs of these shapes, so that the first is as fast as later ones: plans memory and "
     "captures\n"
     "what is launched. inputs: by name (a dict) or in order, each a shape, or a tensor; one whose elements are sizes "
     "must\n"
     "be a tensor. device: where inputs given as shapes will be, 'cpu' or 'cuda'. background: on a thread of its own, "
     "while\n"
     "the session runs. Waits for enqueued runs first. ingot.InvalidArgument names an input that does not fit."},
    {"prepare_wait", session_prepare_wait, METH_NOARGS,
     "prepare_wait($self)\n--\n\n"
     "Waits until all shapes are prepared. Raises the first failure in the background since the last call."},
    {"trim", session_trim, METH_NOARGS, "trim($self)\n--\n\nGives back the memory that grew with the runs."},
    {"profile", session_profile, METH_NOARGS,
     "profile($self)\n--\n\nA list of ingot.ProfileRow, of a session made with profile=True."},
    {"timing", session_timing, METH_NOARGS,
     "timing($self)\n--\n\nOf the last run, made with timing=True, on a GPU: a dict of ms."},
    {"memory", session_memory, METH_NOARGS, "memory($self)\n--\n\nThe bytes that the bound shapes need, as a dict."},
    {"plans", session_plans, METH_NOARGS,
     "plans($self)\n--\n\nWhat is kept for further runs of known shapes, as a dict."},
    {0},
};

PyObject *call_by_tuple(vectorcall call, PyObject *self, PyObject *args, PyObject *kwargs) {
    size_t n_args = (size_t)PyTuple_Size(args), n_named = kwargs ? (size_t)PyDict_Size(kwargs) : 0, k = n_args;
    PyObject **all = PyMem_Calloc(n_args + n_named + 1, sizeof *all);
    PyObject *names = all && n_named ? PyTuple_New((Py_ssize_t)n_named) : NULL, *name, *value, *result = NULL;
    for (size_t i = 0; all && i < n_args; i++)
        all[i] = PyTuple_GetItem(args, (Py_ssize_t)i);
    for (Py_ssize_t at = 0; names && PyDict_Next(kwargs, &at, &name, &value); k++) {
        all[k] = value;
        PyTuple_SetItem(names, (Py_ssize_t)(k - n_args), Py_NewRef(name));
    }
    if (!all)
        PyErr_NoMemory();
    else if (!n_named || names)
        result = call(self, all, n_args, names);
    Py_XDECREF(names);
    PyMem_Free(all);
    return result;
}

static PyObject *session_tp_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    return call_by_tuple(session_call, self, args, kwargs);
}

static PyType_Slot session_slots[] = {
    {Py_tp_doc,
     "One sequence of runs over an engine (Engine.session), for one thread at a time. Call it with all inputs, in "
     "order or\n"
     "by name: host tensors, or tensors on the session's GPU, of the types and shapes that the engine says. Returns "
     "the\n"
     "output, or a tuple of several, as the kind of tensor that the inputs are. What is returned never changes."},
    {Py_tp_dealloc, session_dealloc},
    {Py_tp_call, session_tp_call},
    {Py_tp_methods, session_methods},
    {Py_tp_getset, session_getset},
    {Py_tp_members, session_members},
    {0, NULL},
};

static PyType_Spec session_spec = {"ingot.Session", sizeof(struct session), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | HAVE_VECTORCALL,
                                   session_slots};

int add_session(PyObject *module, struct state *state) {
    state->session_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &session_spec, NULL);
    return state->session_type ? PyModule_AddType(module, state->session_type) : -1;
}
