/* Shapes of a session that are prepared before a run needs them. */
#include <string.h>

#include "session.h"

static int read_dims(struct session *self, size_t index, PyObject *shape, struct ingot_tensor *tensor) {
    struct state *state = state_of((PyObject *)self);
    Py_ssize_t rank = PySequence_Size(shape);
    if (rank < 0) return -1;
    if (rank > INGOT_MAX_RANK)
        return refuse(state, "the shape has %zd dims, at most %d are possible", rank, INGOT_MAX_RANK), -1;
    tensor->dtype = self->engine->inputs[index].dtype;
    tensor->rank = (int)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *dim = PySequence_GetItem(shape, i);
        tensor->dims[i] = dim ? PyLong_AsLongLong(dim) : -1;
        Py_XDECREF(dim);
        if (PyErr_Occurred()) return -1;
        if (tensor->dims[i] < 0) return refuse(state, "the shape has the dim %lld", (long long)tensor->dims[i]), -1;
    }
    return 0;
}

/* A shape, in memory of that kind, or a tensor, which the port's array keeps. */
static int read_input(struct session *self, size_t index, PyObject *object, enum ingot_memory memory,
                      struct ingot_tensor *tensor) {
    struct state *state = state_of((PyObject *)self);
    struct port *port = &self->inputs[index];
    tensor->memory = memory;
    if (PyTuple_Check(object) || PyList_Check(object)) return read_dims(self, index, object, tensor);
    if (array_read(state, &port->source, object, ARRAY_BORROW, self->stream ? (int64_t)(intptr_t)self->stream : 1,
                   &port->array))
        return -1;
    *tensor = port->array.tensor;
    if (tensor->memory == INGOT_CUDA && (!self->engine->is_cuda || port->array.device != self->device))
        return refuse(state, "the tensor is not on the session's device"), -1;
    if (port->array.is_dense || tensor->memory == INGOT_CUDA) return 0;
    return session_pack_input(port, &port->array, tensor);
}

static int read_inputs(struct session *self, PyObject *inputs, enum ingot_memory memory, struct ingot_tensor *tensors) {
    struct state *state = state_of((PyObject *)self);
    size_t n = self->engine->n_inputs;
    bool is_dict = PyDict_Check(inputs);
    Py_ssize_t given = is_dict ? PyDict_Size(inputs) : PyTuple_Size(inputs);
    if ((size_t)given != n) return refuse(state, "%zd inputs are given, the engine has %zu", given, n), -1;
    for (size_t i = 0; i < n; i++) {
        PyObject *name = self->inputs[i].name;
        PyObject *input = is_dict ? PyDict_GetItemWithError(inputs, name) : PyTuple_GetItem(inputs, (Py_ssize_t)i);
        if (!input && !PyErr_Occurred()) refuse(state, "input '%U' is missing", name);
        if (!input) return -1;
        if (read_input(self, i, input, memory, &tensors[i])) return session_blame_input(self, i);
    }
    return 0;
}

/* Results lie where a run of these inputs would put them. */
static int prepare(struct session *self, const struct ingot_tensor *tensors, bool background) {
    bool on_gpu = false;
    for (size_t i = 0; i < self->engine->n_inputs; i++)
        on_gpu = on_gpu || tensors[i].memory == INGOT_CUDA;
    if (self->mode == OUTPUTS_OWN && session_own_outputs(self, on_gpu ? INGOT_CUDA : INGOT_HOST)) return -1;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_context_prepare(self->context, tensors, self->engine->n_inputs,
                                                          background ? INGOT_PREPARE_IN_BACKGROUND : 0, &error);
    Py_END_ALLOW_THREADS return status ? raise_error(state_of((PyObject *)self), status, &error), -1 : 0;
}

PyObject *session_prepare(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"inputs", "background", "device", NULL};
    struct session *self = (struct session *)object;
    struct state *state = state_of(object);
    PyObject *given;
    int background = 0;
    const char *device = "cpu";
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|ps:prepare", names, &given, &background, &device)) return NULL;
    bool on_gpu = !strcmp(device, "cuda");
    if (!on_gpu && strcmp(device, "cpu") != 0) return refuse(state, "device is '%s', expected 'cpu' or 'cuda'", device);
    if (on_gpu && !self->engine->is_cuda) return refuse(state, "device is 'cuda', the engine is for the CPU");
    PyObject *inputs = PyDict_Check(given) ? Py_NewRef(given) : PySequence_Tuple(given);
    struct ingot_tensor *tensors = PyMem_Calloc(self->engine->n_inputs + 1, sizeof *tensors);
    int rc = !inputs ? -1 : tensors ? 0 : (PyErr_NoMemory(), -1);
    if (!rc) rc = guard_enter(state, &self->guard, "session");
    if (!rc) {
        for (size_t i = 0; i < self->engine->n_inputs; i++)
            self->inputs[i].array = (struct array){{INGOT_DTYPE_NONE}};
        rc = read_inputs(self, inputs, on_gpu ? INGOT_CUDA : INGOT_HOST, tensors);
        if (!rc) rc = prepare(self, tensors, background);
        for (size_t i = 0; i < self->engine->n_inputs; i++)
            array_release(&self->inputs[i].array);
        guard_leave(&self->guard);
    }
    PyMem_Free(tensors);
    Py_XDECREF(inputs);
    return rc ? NULL : Py_NewRef(Py_None);
}

PyObject *session_prepare_wait(PyObject *object, PyObject *unused) {
    struct session *self = (struct session *)object;
    struct state *state = state_of(object);
    if (guard_enter(state, &self->guard, "session")) return NULL;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_context_prepare_wait(self->context, &error);
    Py_END_ALLOW_THREADS guard_leave(&self->guard);
    return status ? raise_error(state, status, &error) : Py_NewRef(Py_None);
}
