/* Tensors that stay bound to a session, so that a run needs no arguments and allocates nothing. */
#include <string.h>

#include "session.h"

/* ---- Letting go */

static void port_drop(struct port *port) {
    if (!port->owner) return;
    array_release(&port->bound);
    Py_CLEAR(port->owner);
}

void session_drop_bound(struct session *self) {
    for (size_t i = 0; self->inputs && i < self->engine->n_inputs; i++)
        port_drop(&self->inputs[i]);
    for (size_t i = 0; self->outputs && i < self->engine->n_outputs; i++)
        port_drop(&self->outputs[i]);
    self->has_outputs = self->is_bound = false;
}

PyObject *session_unbind(PyObject *object, PyObject *unused) {
    struct session *self = (struct session *)object;
    if (guard_enter(state_of(object), &self->guard, "session")) return NULL;
    /* Runs in flight write to what is bound. */
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_context_wait(self->context, &error);
    Py_END_ALLOW_THREADS int rc = status ? (raise_error(state_of(object), status, &error), -1) : 0;
    if (!rc && self->mode == OUTPUTS_BOUND) {
        self->memory = INGOT_CUDA; /* so that it is set */
        rc = session_own_outputs(self, INGOT_HOST);
    }
    if (!rc) session_drop_bound(self);
    guard_leave(&self->guard);
    return rc ? NULL : Py_NewRef(Py_None);
}

/* ---- Binding */

static int check_output(struct session *self, size_t index, const struct array *array) {
    struct state *state = state_of((PyObject *)self);
    const struct ingot_tensor_info *info = &self->engine->outputs[index];
    const struct ingot_tensor *tensor = &array->tensor;
    bool fits = tensor->rank == info->rank;
    for (int i = 0; fits && i < info->rank; i++)
        fits = info->dims[i] < 0 || info->dims[i] == tensor->dims[i];
    if (tensor->dtype != info->dtype || !fits) {
        PyObject *expected = symbolic_shape(info), *found = shape_tuple(tensor->rank, tensor->dims);
        if (expected && found)
            refuse(state, "output '%s' is %s%R, the tensor for it is %s%R", info->name, ingot_dtype_name(info->dtype),
                   expected, ingot_dtype_name(tensor->dtype), found);
        Py_XDECREF(expected);
        Py_XDECREF(found);
        return -1;
    }
    if (!array->is_dense) return refuse(state, "the tensor for output '%s' is not contiguous", info->name), -1;
    if (tensor->memory == INGOT_CUDA && (!self->engine->is_cuda || array->device != self->device))
        return refuse(state, "the tensor for output '%s' is not on the session's device", info->name), -1;
    return 0;
}

static int bind_one(struct session *self, bool is_output, size_t index, PyObject *object) {
    struct state *state = state_of((PyObject *)self);
    struct port *port = is_output ? &self->outputs[index] : &self->inputs[index];
    struct array array;
    unsigned flags = is_output ? ARRAY_KEEP | ARRAY_WRITABLE : ARRAY_KEEP;
    if (array_read(state, &port->bound_source, object, flags, self->stream ? (int64_t)(intptr_t)self->stream : 1,
                   &array))
        return -1;
    int rc = 0;
    if (is_output) {
        rc = check_output(self, index, &array);
    } else if (!array.is_dense) {
        refuse(state, "input '%U' is not contiguous, so it cannot be bound: each run would copy it", port->name);
        rc = -1;
    }
    if (rc) {
        array_release(&array);
        return -1;
    }
    port_drop(port);
    port->bound = array;
    /* The Py_buffer may have pointed into itself (PyBuffer_FillInfo); its shape has been read. */
    port->owner = Py_NewRef(object);
    return 0;
}

/* `tensors`: a dict by names, or a sequence in order, of all ports. */
static int bind_all(struct session *self, bool is_output, PyObject *tensors) {
    struct state *state = state_of((PyObject *)self);
    size_t n = is_output ? self->engine->n_outputs : self->engine->n_inputs, n_own = n, k = 0;
    for (size_t i = 0; is_output && i < n; i++)
        n_own -= self->engine->updates[i] != SIZE_MAX; /* bound with the input */
    struct port *ports = is_output ? self->outputs : self->inputs;
    const char *what = is_output ? "outputs" : "inputs";
    bool is_dict = PyDict_Check(tensors);
    PyObject *sequence = is_dict ? NULL : PySequence_Tuple(tensors);
    if (!is_dict && !sequence) return -1;
    Py_ssize_t given = is_dict ? PyDict_Size(tensors) : PyTuple_Size(sequence);
    int rc = (size_t)given == n_own ? 0 : -1;
    if (rc) refuse(state, "%zd %s are given, the engine has %zu", given, what, n_own);
    for (size_t i = 0; !rc && i < n; i++) {
        if (is_output && self->engine->updates[i] != SIZE_MAX) continue;
        PyObject *tensor =
            is_dict ? PyDict_GetItemWithError(tensors, ports[i].name) : PyTuple_GetItem(sequence, (Py_ssize_t)k++);
        if (!tensor && !PyErr_Occurred()) refuse(state, "'%U' is missing from the %s", ports[i].name, what);
        rc = tensor ? bind_one(self, is_output, i, tensor) : -1;
    }
    Py_XDECREF(sequence);
    return rc;
}

PyObject *session_bind(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"inputs", "outputs", NULL};
    PyObject *inputs, *outputs = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:bind", names, &inputs, &outputs)) return NULL;
    PyObject *unbound = session_unbind(object, NULL);
    if (!unbound) return NULL;
    Py_DECREF(unbound);
    struct session *self = (struct session *)object;
    if (guard_enter(state_of(object), &self->guard, "session")) return NULL;
    int rc = bind_all(self, false, inputs);
    if (!rc && outputs != Py_None) rc = bind_all(self, true, outputs);
    if (rc)
        session_drop_bound(self);
    else
        self->has_outputs = outputs != Py_None;
    guard_leave(&self->guard);
    return rc ? NULL : Py_NewRef(Py_None);
}

/* ---- Running */

/* Binds the context again, if calls or a first run came in between. */
static int place_bound(struct session *self, struct demand *demand) {
    for (size_t i = 0; i < self->engine->n_inputs; i++) {
        struct port *port = &self->inputs[i];
        if (!port->owner) return refuse(state_of((PyObject *)self), "nothing is bound: call bind first"), -1;
        if (session_place_input(self, i, &port->bound, port->bound_source.api, demand)) return -1;
    }
    if (!self->has_outputs) return session_own_outputs(self, demand->on_gpu ? INGOT_CUDA : INGOT_HOST);
    struct ingot_error error;
    for (size_t i = 0; i < self->engine->n_outputs; i++) {
        if (self->engine->updates[i] != SIZE_MAX) continue;
        const struct ingot_tensor *tensor = &self->outputs[i].bound.tensor;
        static char nothing; /* stands in for memory of no bytes, where NULL means the context's own */
        enum ingot_status status = ingot_context_set_output_in(
            self->context, i, tensor->memory, tensor->data ? tensor->data : &nothing, tensor_bytes(tensor), &error);
        if (status) return raise_error(state_of((PyObject *)self), status, &error), -1;
    }
    self->mode = OUTPUTS_BOUND;
    return 0;
}

/* A run may report any sizes where dims vary; what it wrote must be what the caller bound. */
static int check_sizes(struct session *self) {
    for (size_t i = 0; i < self->engine->n_outputs; i++) {
        const struct ingot_tensor *bound = &self->outputs[i].bound.tensor;
        struct ingot_tensor result;
        struct ingot_error error;
        bool is_fixed = !self->outputs[i].owner; /* an updated input */
        for (int k = 0; k < bound->rank; k++)
            is_fixed = is_fixed && self->engine->outputs[i].dims[k] >= 0;
        if (is_fixed || ingot_context_output(self->context, i, &result, &error)) continue;
        if (!memcmp(result.dims, bound->dims, sizeof *bound->dims * (size_t)bound->rank)) continue;
        PyObject *expected = shape_tuple(result.rank, result.dims), *found = shape_tuple(bound->rank, bound->dims);
        if (expected && found)
            refuse(state_of((PyObject *)self), "output '%U' is %R, the tensor bound to it %R", self->outputs[i].name,
                   expected, found);
        Py_XDECREF(expected);
        Py_XDECREF(found);
        return -1;
    }
    return 0;
}

static int prepare(struct session *self, struct demand *demand) {
    bool any_gpu = false;
    for (size_t i = 0; i < self->engine->n_inputs && self->is_bound; i++)
        any_gpu = any_gpu || self->inputs[i].bound.tensor.memory == INGOT_CUDA;
    if (self->is_bound && !any_gpu) return 0;
    /* On a GPU the stream is asked for each time: it is the caller's current one. */
    if (place_bound(self, demand)) return -1;
    self->is_bound = true;
    return 0;
}

/* Nothing that the host must wait for. */
static bool stays_on_gpu(struct session *self, const struct demand *demand) {
    for (size_t i = 0; i < self->engine->n_outputs && self->has_outputs; i++)
        if (self->outputs[i].owner && self->outputs[i].bound.tensor.memory != INGOT_CUDA) return false;
    return demand->on_gpu;
}

PyObject *session_run_bound(PyObject *object, PyObject *unused) {
    struct session *self = (struct session *)object;
    struct state *state = state_of(object);
    if (guard_enter(state, &self->guard, "session")) return NULL;
    struct demand demand = {self->stream, false, NULL};
    int rc = prepare(self, &demand);
    if (!rc) {
        demand.on_gpu = stays_on_gpu(self, &demand);
        rc = session_launch(self, &demand);
    }
    if (!rc && self->has_outputs && !demand.on_gpu) rc = check_sizes(self);
    const bool gives = !rc && !self->has_outputs;
    struct results results;
    if (gives) {
        for (size_t i = 0; i < self->engine->n_inputs; i++)
            self->objects[i] = self->inputs[i].owner;
        rc = results_take(self, demand.stream, state->ndarray ? STYLE_NUMPY : STYLE_INGOT, NULL, self->objects,
                          &results);
    }
    guard_leave(&self->guard);
    return rc ? NULL : gives ? results_give(state, &results) : Py_NewRef(Py_None);
}
