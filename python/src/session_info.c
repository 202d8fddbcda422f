/* What a session tells, and how it is adjusted. */
#include <math.h>

#include "session.h"

#define RETURN(status, error) return (status) ? raise_error(state_of(object), status, error) : Py_NewRef(Py_None)

static struct ingot_context *context_of(PyObject *object) {
    return ((struct session *)object)->context;
}

/* ---- Waiting */

PyObject *session_wait(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"timeout", NULL};
    PyObject *timeout = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:wait", names, &timeout)) return NULL;
    double seconds = timeout == Py_None ? INFINITY : PyFloat_AsDouble(timeout);
    if (PyErr_Occurred()) return NULL;
    if (!(seconds >= 0)) return refuse(state_of(object), "timeout is %R, expected at least 0", timeout);
    struct session *self = (struct session *)object;
    if (guard_enter(state_of(object), &self->guard, "session")) return NULL;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = isinf(seconds) ? ingot_context_wait(self->context, &error)
                                                   : ingot_context_wait_for(self->context, seconds, &error);
    Py_END_ALLOW_THREADS guard_leave(&self->guard);
    RETURN(status, &error);
}

PyObject *session_cancel(PyObject *object, PyObject *unused) {
    ingot_context_cancel(context_of(object));
    return Py_NewRef(Py_None);
}

PyObject *session_set_time_limit(PyObject *object, PyObject *seconds) {
    double limit = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred()) return NULL;
    struct session *self = (struct session *)object;
    if (guard_enter(state_of(object), &self->guard, "session")) return NULL;
    struct ingot_error error;
    enum ingot_status status = ingot_context_set_time_limit(self->context, limit, &error);
    guard_leave(&self->guard);
    RETURN(status, &error);
}

PyObject *session_trim(PyObject *object, PyObject *unused) {
    struct session *self = (struct session *)object;
    if (guard_enter(state_of(object), &self->guard, "session")) return NULL;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_context_trim(self->context, &error);
    Py_END_ALLOW_THREADS guard_leave(&self->guard);
    RETURN(status, &error);
}

/* ---- Batches */

static int64_t *read_sizes(PyObject *object, size_t *out_n) {
    PyObject *tuple = PySequence_Tuple(object);
    *out_n = tuple ? (size_t)PyTuple_Size(tuple) : 0;
    int64_t *sizes = tuple ? PyMem_Calloc(*out_n + 1, sizeof *sizes) : NULL;
    if (tuple && !sizes) PyErr_NoMemory();
    for (size_t i = 0; sizes && i < *out_n; i++)
        sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, (Py_ssize_t)i));
    Py_XDECREF(tuple);
    if (!sizes || !PyErr_Occurred()) return sizes;
    PyMem_Free(sizes);
    return NULL;
}

PyObject *session_set_batch(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"symbol", "sizes", NULL};
    struct ingot_batch_options options = INGOT_BATCH_OPTIONS_INIT;
    PyObject *list = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "z|O:set_batch", names, &options.symbol, &list)) return NULL;
    int64_t *sizes = NULL;
    if (list != Py_None) {
        sizes = read_sizes(list, &options.n_sizes);
        if (!sizes) return NULL;
        options.sizes = sizes;
    }
    struct session *self = (struct session *)object;
    struct ingot_error error;
    enum ingot_status status = INGOT_OK;
    bool entered = !guard_enter(state_of(object), &self->guard, "session");
    if (entered) {
        status = ingot_context_set_batch(self->context, options.symbol ? &options : NULL, &error);
        guard_leave(&self->guard);
    }
    PyMem_Free(sizes);
    if (!entered) return NULL;
    RETURN(status, &error);
}

PyObject *session_batch(PyObject *object, PyObject *unused) {
    struct ingot_batch_info info;
    struct ingot_error error;
    enum ingot_status status = ingot_context_batch(context_of(object), &info, &error);
    if (status) return raise_error(state_of(object), status, &error);
    if (!info.symbol) return Py_NewRef(Py_None);
    PyObject *sizes = PyTuple_New((Py_ssize_t)info.n_sizes);
    for (size_t i = 0; sizes && i < info.n_sizes; i++)
        PyTuple_SetItem(sizes, (Py_ssize_t)i, PyLong_FromLongLong(info.sizes[i]));
    if (!sizes) return NULL;
    return Py_BuildValue("{s:s,s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "symbol", info.symbol, "sizes", sizes, "runs",
                         (unsigned long long)info.runs, "hits", (unsigned long long)info.hits, "captures",
                         (unsigned long long)info.captures, "rows", (unsigned long long)info.rows, "computed_rows",
                         (unsigned long long)info.computed_rows, "plan_bytes", (unsigned long long)info.plan_bytes,
                         "padding_bytes", (unsigned long long)info.padding_bytes);
}

/* ---- What runs took */

static PyObject *profile_row(struct state *state, const struct ingot_profile_row *row) {
    PyObject *fields[] = {
        text_or_none(row->kernel),         text_or_none(row->origin),          PyLong_FromUnsignedLongLong(row->calls),
        PyFloat_FromDouble(row->total_ms), PyFloat_FromDouble(row->floor_ms),  text_or_none(row->bound),
        PyFloat_FromDouble(row->bytes),    PyFloat_FromDouble(row->operations)};
    return named_tuple(state->profile_row, fields, ARRAY_LENGTH(fields));
}

PyObject *session_profile(PyObject *object, PyObject *unused) {
    size_t n = ingot_context_profile(context_of(object), NULL, 0);
    struct ingot_profile_row *rows = PyMem_Calloc(n + 1, sizeof *rows);
    if (!rows) return PyErr_NoMemory();
    size_t written = ingot_context_profile(context_of(object), rows, n);
    if (written < n) n = written;
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *row = profile_row(state_of(object), &rows[i]);
        if (!row || PyList_SetItem(list, (Py_ssize_t)i, row)) Py_CLEAR(list);
    }
    PyMem_Free(rows);
    return list ? shown("Profile", list) : NULL;
}

PyObject *session_timing(PyObject *object, PyObject *unused) {
    struct ingot_timing timing;
    struct ingot_error error;
    enum ingot_status status = ingot_context_timing(context_of(object), &timing, &error);
    if (status) return raise_error(state_of(object), status, &error);
    return Py_BuildValue("{s:d,s:d,s:d}", "input_ms", timing.input_ms, "compute_ms", timing.compute_ms, "output_ms",
                         timing.output_ms);
}

PyObject *session_memory(PyObject *object, PyObject *unused) {
    struct ingot_memory_info info;
    struct ingot_error error;
    enum ingot_status status = ingot_context_memory(context_of(object), &info, &error);
    if (status) return raise_error(state_of(object), status, &error);
    return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:d,s:n,s:n}", "weights_bytes", (Py_ssize_t)info.weights_bytes,
                         "arena_bytes", (Py_ssize_t)info.arena_bytes, "lower_bound_bytes",
                         (Py_ssize_t)info.lower_bound_bytes, "scratch_bytes", (Py_ssize_t)info.scratch_bytes,
                         "transfer_bytes", (Py_ssize_t)info.transfer_bytes, "parallel_steps",
                         (Py_ssize_t)info.parallel_steps, "parallel_bytes", (Py_ssize_t)info.parallel_bytes,
                         "parallel_gain", info.parallel_gain, "exchange_bytes", (Py_ssize_t)info.exchange_bytes,
                         "nccl_bytes", (Py_ssize_t)info.nccl_bytes);
}

PyObject *session_plans(PyObject *object, PyObject *unused) {
    struct ingot_plans_info info;
    struct ingot_error error;
    enum ingot_status status = ingot_context_plans(context_of(object), &info, &error);
    if (status) return raise_error(state_of(object), status, &error);
    return Py_BuildValue("{s:n,s:n,s:K,s:K,s:K,s:K}", "instances", (Py_ssize_t)info.instances, "bytes",
                         (Py_ssize_t)info.bytes, "hits", (unsigned long long)info.hits, "misses",
                         (unsigned long long)info.misses, "captures", (unsigned long long)info.captures, "evictions",
                         (unsigned long long)info.evictions);
}
