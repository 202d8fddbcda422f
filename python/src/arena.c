/* ingot.Arena: memory for intermediate results that sessions share. */
#include "ingot_python.h"

static PyObject *arena_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"device", "max_bytes", NULL};
    PyObject *device = Py_None;
    Py_ssize_t max_bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|On:Arena", names, &device, &max_bytes)) return NULL;
    struct ingot_arena_options options = INGOT_ARENA_OPTIONS_INIT;
    if (device != Py_None) {
        long number = PyLong_AsLong(device);
        if (PyErr_Occurred()) return NULL;
        options.memory = INGOT_CUDA;
        options.device = (int)number;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct arena *self = (struct arena *)alloc(type, 0);
    if (!self) return NULL;
    struct state *state = state_of((PyObject *)self);
    struct ingot_error error = {0};
    enum ingot_status status = INGOT_OK;
    if (max_bytes < 0) {
        Py_DECREF(self);
        return refuse(state, "max_bytes is %zd, expected at least 0", max_bytes);
    }
    options.max_bytes = (size_t)max_bytes;
    status = ingot_arena_create(&options, &self->arena, &error);
    if (!status) return (PyObject *)self;
    Py_DECREF(self);
    return raise_error(state, status, &error);
}

static void arena_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (((struct arena *)self)->arena) ingot_arena_release(((struct arena *)self)->arena);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *arena_trim(PyObject *self, PyObject *unused) {
    Py_BEGIN_ALLOW_THREADS ingot_arena_trim(((struct arena *)self)->arena);
    Py_END_ALLOW_THREADS return Py_NewRef(Py_None);
}

static PyObject *arena_info(PyObject *self, PyObject *unused) {
    struct ingot_arena_info info;
    struct ingot_error error;
    enum ingot_status status = ingot_arena_describe(((struct arena *)self)->arena, &info, &error);
    if (status) return raise_error(state_of(self), status, &error);
    return Py_BuildValue("{s:n,s:n,s:n,s:K,s:K}", "bytes", (Py_ssize_t)info.bytes, "peak_bytes",
                         (Py_ssize_t)info.peak_bytes, "sessions", (Py_ssize_t)info.contexts, "runs",
                         (unsigned long long)info.executions, "followed", (unsigned long long)info.followed);
}

static PyMethodDef arena_methods[] = {
    {"trim", arena_trim, METH_NOARGS,
     "trim($self)\n--\n\nShrinks it to what the largest run since the last trim needed."},
    {"info", arena_info, METH_NOARGS, "info($self)\n--\n\nBytes held and runs made, as a dict."},
    {0},
};

static PyType_Slot arena_slots[] = {
    {Py_tp_doc,
     "Arena(device=None, max_bytes=0)\n--\n\n"
     "Memory for intermediate results, shared by sessions (Engine.session(arena=...)) on the CPU, or on GPU `device`:\n"
     "as much as the largest run needs, at most `max_bytes` (0: no bound). For any thread."},
    {Py_tp_new, arena_new},
    {Py_tp_dealloc, arena_dealloc},
    {Py_tp_methods, arena_methods},
    {0, NULL},
};

static PyType_Spec arena_spec = {"ingot.Arena", sizeof(struct arena), 0, Py_TPFLAGS_DEFAULT, arena_slots};

int add_arena(PyObject *module, struct state *state) {
    state->arena_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &arena_spec, NULL);
    return state->arena_type ? PyModule_AddType(module, state->arena_type) : -1;
}
