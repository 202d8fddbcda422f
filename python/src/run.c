/* ingot.Run: an enqueued run, and the lease on its results, which nothing overwrites while one of them is held. */
#include <math.h>

#include "session.h"

struct run *run_new(struct session *session, void *stream, enum style style, const struct dl_exchange_api *api) {
    struct state *state = state_of((PyObject *)session);
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->run_type, Py_tp_alloc);
    struct run *self = (struct run *)alloc(state->run_type, 0);
    if (!self) return NULL;
    self->stream = stream;
    self->n_outputs = session->engine->n_outputs;
    self->device = session->device;
    self->is_asked_later = session->stream != NULL;
    self->style = style;
    self->api = api;
    struct ingot_error error;
    enum ingot_status status = INGOT_OK;
    if (session->engine->any_own) status = ingot_context_lease(session->context, &self->lease, &error);
    if (!status) return self;
    raise_error(state, status, &error);
    Py_DECREF(self);
    return NULL;
}

static void run_dealloc(PyObject *object) {
    struct run *self = (struct run *)object;
    PyTypeObject *type = Py_TYPE(object);
    struct ingot_error error;
    if (self->lease && (!self->stream || ingot_lease_release_after(self->lease, self->stream, &error)))
        ingot_lease_release(self->lease);
    Py_XDECREF(self->keep);
    Py_XDECREF(self->updated);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- Results */

/* A framework uses what it imports on its current stream, which need not be the run's. */
static int order_for_framework(struct state *state, struct run *run, const struct tensor *tensor) {
    void *stream = NULL;
    if (!run->is_asked_later || tensor->value.memory != INGOT_CUDA) return 0;
    if (run->api->current_stream(DL_CUDA, run->device, &stream)) return -1;
    return run_order(state, run, (int64_t)(intptr_t)(stream ? stream : LEGACY_STREAM));
}

static PyObject *output_as(struct state *state, struct run *run, PyObject *tensor) {
    if (run->style != STYLE_EXCHANGE) return Py_NewRef(tensor);
    if (order_for_framework(state, run, (struct tensor *)tensor)) return NULL;
    struct dl_managed_versioned *managed = tensor_export((struct tensor *)tensor);
    void *object;
    return managed && !run->api->import_managed(managed, &object) ? object : NULL;
}

int run_note_updates(struct session *session, struct run *run, PyObject *const *inputs) {
    const struct engine *engine = session->engine;
    if (!engine->any_update) return 0;
    run->updated = PyTuple_New((Py_ssize_t)engine->n_outputs);
    for (size_t i = 0; run->updated && i < engine->n_outputs; i++) {
        PyObject *input = engine->updates[i] == SIZE_MAX ? Py_None : inputs[engine->updates[i]];
        PyTuple_SetItem(run->updated, (Py_ssize_t)i, Py_NewRef(input));
    }
    return run->updated ? 0 : -1;
}

static PyObject *output(struct state *state, struct run *run, size_t index) {
    PyObject *updated = run->updated ? PyTuple_GetItem(run->updated, (Py_ssize_t)index) : Py_None;
    if (updated != Py_None) return Py_NewRef(updated);
    struct ingot_tensor value;
    struct ingot_error error;
    enum ingot_status status = ingot_lease_output(run->lease, index, &value, &error);
    if (status) return raise_error(state, status, &error);
    if (run->style == STYLE_NUMPY && value.memory != INGOT_CUDA)
        return numpy_over(state, &value, false, (PyObject *)run);
    PyObject *tensor = tensor_over(state, &value, run->device, (PyObject *)run);
    PyObject *result = tensor ? output_as(state, run, tensor) : NULL;
    Py_XDECREF(tensor);
    return result;
}

PyObject *run_outputs(struct state *state, struct run *run) {
    if (run->n_outputs == 1) return output(state, run, 0);
    PyObject *tuple = PyTuple_New((Py_ssize_t)run->n_outputs);
    for (size_t i = 0; tuple && i < run->n_outputs; i++) {
        PyObject *item = output(state, run, i);
        if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item)) Py_CLEAR(tuple);
    }
    return tuple;
}

/* ---- Waiting */

/* 1: the time has passed. */
static int wait_for(struct state *state, struct run *run, double seconds) {
    if (run->is_done || !run->lease) return 0;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_lease_wait_for(run->lease, seconds, &error);
    Py_END_ALLOW_THREADS if (status == INGOT_TIMEOUT) return 1;
    if (status != INGOT_TIMEOUT) Py_CLEAR(run->keep);
    if (status) return raise_error(state, status, &error), -1;
    run->is_done = true;
    return 0;
}

int run_order(struct state *state, struct run *run, int64_t stream) {
    void *reader = (void *)(intptr_t)stream;
    /* The lease is released behind the run's own stream anyway. */
    if (!run->lease || stream == -1 || run->stream == reader) return 0;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_lease_follow(run->lease, reader, &error);
    Py_END_ALLOW_THREADS return status ? raise_error(state, status, &error), -1 : 0;
}

static PyObject *run_wait(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &timeout)) return NULL;
    double seconds = timeout == Py_None ? INFINITY : PyFloat_AsDouble(timeout);
    if (PyErr_Occurred()) return NULL;
    if (!(seconds >= 0)) return refuse(state_of(self), "timeout is %R, expected at least 0", timeout);
    int rc = wait_for(state_of(self), (struct run *)self, seconds);
    if (rc == 1) PyErr_Format(state_of(self)->errors[INGOT_TIMEOUT], "the run is not done after %R s", timeout);
    return rc ? NULL : Py_NewRef(Py_None);
}

static PyObject *run_done(PyObject *self, PyObject *unused) {
    int rc = wait_for(state_of(self), (struct run *)self, 0);
    return rc < 0 ? NULL : PyBool_FromLong(!rc);
}

static PyObject *run_result(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *waited = run_wait(self, args, kwargs);
    if (!waited) return NULL;
    Py_DECREF(waited);
    return run_outputs(state_of(self), (struct run *)self);
}

static PyMethodDef run_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))run_wait, METH_VARARGS | METH_KEYWORDS,
     "wait($self, timeout=None)\n--\n\nWaits for this run; ingot.Timeout after `timeout` seconds."},
    {"done", run_done, METH_NOARGS, "done($self)\n--\n\nWhether the run has ended. Raises its failure."},
    {"result", (PyCFunction)(void (*)(void))run_result, METH_VARARGS | METH_KEYWORDS,
     "result($self, timeout=None)\n--\n\nWaits, and returns the output, or a tuple of several."},
    {0},
};

static PyType_Slot run_slots[] = {
    {Py_tp_doc, "An enqueued run (Session.enqueue). Results stay as they are while it, or one of them, is held."},
    {Py_tp_dealloc, run_dealloc},
    {Py_tp_methods, run_methods},
    {0, NULL},
};

static PyType_Spec run_spec = {"ingot.Run", sizeof(struct run), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, run_slots};

int add_run(PyObject *module, struct state *state) {
    state->run_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &run_spec, NULL);
    return state->run_type ? PyModule_AddType(module, state->run_type) : -1;
}
