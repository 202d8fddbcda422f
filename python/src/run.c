/* ingot.Run: an enqueued run, and the lease on its results, which nothing overwrites while one of them is held. */
#include <math.h>
#include <stdlib.h>

#include "session.h"

/* ---- Leases */

static struct held *held_new(struct ingot_lease *lease, void *stream) {
    struct held *held = malloc(sizeof *held);
    if (!held) {
        ingot_lease_release(lease);
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&held->holders, 1);
    held->lease = lease;
    held->stream = stream;
    return held;
}

static struct held *hold(struct held *held) {
    atomic_fetch_add_explicit(&held->holders, 1, memory_order_relaxed);
    return held;
}

static void let_go(struct held *held) {
    struct ingot_error error;
    if (!held || atomic_fetch_sub_explicit(&held->holders, 1, memory_order_acq_rel) != 1) return;
    if (!held->stream || ingot_lease_release_after(held->lease, held->stream, &error)) ingot_lease_release(held->lease);
    free(held);
}

static int note_updates(const struct engine *engine, struct results *results, PyObject *const *inputs) {
    if (!engine->any_update) return 0;
    results->updated = PyTuple_New((Py_ssize_t)engine->n_outputs);
    for (size_t i = 0; results->updated && i < engine->n_outputs; i++) {
        PyObject *input = engine->updates[i] == SIZE_MAX ? Py_None : inputs[engine->updates[i]];
        PyTuple_SetItem(results->updated, (Py_ssize_t)i, Py_NewRef(input));
    }
    return results->updated ? 0 : -1;
}

static void drop(struct results *results) {
    let_go(results->held);
    results->held = NULL;
    Py_CLEAR(results->updated);
}

int results_take(struct session *session, void *stream, enum style style, const struct dl_exchange_api *api,
                 PyObject *const *inputs, struct results *out_results) {
    *out_results = (struct results){.stream = stream,
                                    .n_outputs = session->engine->n_outputs,
                                    .device = session->device,
                                    .is_asked_later = session->stream != NULL,
                                    .style = style,
                                    .api = api};
    if (session->engine->any_own) {
        struct ingot_lease *lease;
        struct ingot_error error;
        enum ingot_status status = ingot_context_lease(session->context, &lease, &error);
        if (status) return raise_error(state_of((PyObject *)session), status, &error), -1;
        out_results->held = held_new(lease, stream);
        if (!out_results->held) return -1;
    }
    if (!note_updates(session->engine, out_results, inputs)) return 0;
    drop(out_results);
    return -1;
}

/* ---- Results */

/* A result as a framework takes it: its description, its sizes and the hold on its memory. */
struct export {
    struct dl_managed_versioned managed;
    struct held *held;
    int64_t dims[INGOT_MAX_RANK], steps[INGOT_MAX_RANK];
};

static void delete_export(struct dl_managed_versioned *managed) {
    let_go(managed->context);
    free(managed);
}

static int held_order(struct state *state, struct held *held, int64_t stream) {
    void *reader = (void *)(intptr_t)stream;
    /* The lease is released behind the run's own stream anyway. */
    if (!held || stream == -1 || held->stream == reader) return 0;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_lease_follow(held->lease, reader, &error);
    Py_END_ALLOW_THREADS return status ? raise_error(state, status, &error), -1 : 0;
}

/* A framework uses what it imports on its current stream, which need not be the run's. */
static int order_for_framework(struct state *state, const struct results *results, const struct ingot_tensor *value) {
    void *stream = NULL;
    if (!results->is_asked_later || value->memory != INGOT_CUDA) return 0;
    if (results->api->current_stream(DL_CUDA, results->device, &stream)) return -1;
    return held_order(state, results->held, (int64_t)(intptr_t)(stream ? stream : LEGACY_STREAM));
}

static PyObject *import(struct state *state, const struct results *results, const struct ingot_tensor *value) {
    if (order_for_framework(state, results, value)) return NULL;
    struct export *export = malloc(sizeof *export);
    if (!export) return PyErr_NoMemory();
    export->managed = (struct dl_managed_versioned){
        .version = {DL_MAJOR, DL_MINOR}, .context = hold(results->held), .deleter = delete_export};
    dlpack_describe(value, results->device, export->dims, export->steps, &export->managed.tensor);
    void *object;
    if (!results->api->import_managed(&export->managed, &object)) return object;
    return NULL;
}

/* `run`: what keeps results that are no framework's. */
static PyObject *output(struct state *state, const struct results *results, struct run *run, size_t index) {
    PyObject *updated = results->updated ? PyTuple_GetItem(results->updated, (Py_ssize_t)index) : Py_None;
    if (updated != Py_None) return Py_NewRef(updated);
    struct ingot_tensor value;
    struct ingot_error error;
    enum ingot_status status = ingot_lease_output(results->held->lease, index, &value, &error);
    if (status) return raise_error(state, status, &error);
    if (results->style == STYLE_EXCHANGE) return import(state, results, &value);
    if (results->style == STYLE_NUMPY && value.memory != INGOT_CUDA)
        return numpy_over(state, &value, false, (PyObject *)run);
    return tensor_over(state, &value, results->device, (PyObject *)run);
}

static PyObject *outputs(struct state *state, const struct results *results, struct run *run) {
    if (results->n_outputs == 1) return output(state, results, run, 0);
    PyObject *tuple = PyTuple_New((Py_ssize_t)results->n_outputs);
    for (size_t i = 0; tuple && i < results->n_outputs; i++) {
        PyObject *item = output(state, results, run, i);
        if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item)) Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *results_give(struct state *state, struct results *results) {
    struct run *run = NULL;
    PyObject *given = NULL;
    if (results->style == STYLE_EXCHANGE) {
        given = outputs(state, results, NULL);
        drop(results);
    } else if ((run = run_new(state, results))) {
        given = outputs(state, &run->results, run);
        Py_DECREF((PyObject *)run);
    }
    return given;
}

/* ---- Runs */

struct run *run_new(struct state *state, struct results *results) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->run_type, Py_tp_alloc);
    struct run *self = (struct run *)alloc(state->run_type, 0);
    if (self)
        self->results = *results;
    else
        drop(results);
    return self;
}

static void run_dealloc(PyObject *object) {
    struct run *self = (struct run *)object;
    PyTypeObject *type = Py_TYPE(object);
    drop(&self->results);
    Py_XDECREF(self->keep);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- Waiting */

/* 1: the time has passed. */
static int wait_for(struct state *state, struct run *run, double seconds) {
    if (run->is_done || !run->results.held) return 0;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_lease_wait_for(run->results.held->lease, seconds, &error);
    Py_END_ALLOW_THREADS if (status == INGOT_TIMEOUT) return 1;
    if (status != INGOT_TIMEOUT) Py_CLEAR(run->keep);
    if (status) return raise_error(state, status, &error), -1;
    run->is_done = true;
    return 0;
}

int run_order(struct state *state, struct run *run, int64_t stream) {
    return held_order(state, run->results.held, stream);
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
    return outputs(state_of(self), &((struct run *)self)->results, (struct run *)self);
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
