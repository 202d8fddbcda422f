/* Exceptions: one for each status of the library, under ingot.Error. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ingot_python.h"

static const struct {
    const char *name;
    PyObject **base; /* Python's own exception that it also is; NULL: none */
    const char *doc;
} kinds[STATUS_COUNT] = {
    [INGOT_INVALID_ARGUMENT] = {"InvalidArgument", &PyExc_ValueError,
                                "The caller's arguments: a name, shape, type or option."},
    [INGOT_OUT_OF_MEMORY] = {"OutOfMemory", &PyExc_MemoryError, "An allocation failed."},
    [INGOT_IO] = {"FileError", &PyExc_OSError, "A file could not be read or written."},
    [INGOT_BAD_MODEL] = {"BadModel", &PyExc_ValueError, "The model is malformed or contradicts its own standard."},
    [INGOT_BAD_ENGINE] = {"BadEngine", &PyExc_ValueError, "The engine is damaged, cut off, or no engine at all."},
    [INGOT_BAD_TENSOR] = {"BadTensor", &PyExc_ValueError, "A tensor file is malformed."},
    [INGOT_UNSUPPORTED] = {"Unsupported", &PyExc_NotImplementedError, "Well-formed, but Ingot does not do this."},
    [INGOT_INCOMPATIBLE] = {"Incompatible", NULL, "The engine is for another version, target or machine."},
    [INGOT_TOOLCHAIN] = {"Toolchain", NULL, "There is no compiler, or it failed."},
    [INGOT_DEVICE] = {"DeviceError", NULL, "The device or the operating system failed."},
    [INGOT_INTERNAL] = {"InternalError", NULL, "A defect in Ingot: please report it."},
    [INGOT_TIMEOUT] = {"Timeout", &PyExc_TimeoutError, "A time limit has passed."},
    [INGOT_CANCELLED] = {"Cancelled", NULL, "The run was cancelled."},
};

/* A new exception class ingot.NAME, also as an attribute of the module. */
static PyObject *add_error(PyObject *module, const char *name, const char *doc, PyObject *bases, const char *status) {
    char full[64];
    snprintf(full, sizeof full, "ingot.%s", name);
    PyObject *dict = Py_BuildValue("{s:s}", "status", status);
    PyObject *type = dict ? PyErr_NewExceptionWithDoc(full, doc, bases, dict) : NULL;
    Py_XDECREF(dict);
    if (type && PyModule_AddObjectRef(module, name, type)) Py_CLEAR(type);
    return type;
}

int add_errors(PyObject *module, struct state *state) {
    state->error = add_error(module, "Error", "What went wrong, in one line. `status` names the kind.", NULL, "");
    if (!state->error) return -1;
    for (int i = 1; i < STATUS_COUNT; i++) {
        PyObject *bases = kinds[i].base ? PyTuple_Pack(2, state->error, *kinds[i].base) : PyTuple_Pack(1, state->error);
        if (!bases) return -1;
        state->errors[i] =
            add_error(module, kinds[i].name, kinds[i].doc, bases, ingot_status_name((enum ingot_status)i));
        Py_DECREF(bases);
        if (!state->errors[i]) return -1;
    }
    return 0;
}

PyObject *raise_error(struct state *state, enum ingot_status status, const struct ingot_error *error) {
    PyObject *type = status > INGOT_OK && (int)status < STATUS_COUNT ? state->errors[status] : state->error;
    /* Names from files are in the message; they need not be UTF-8. */
    PyObject *text = PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strnlen(error->message, sizeof error->message),
                                          "backslashreplace");
    if (text) PyErr_SetObject(type, text);
    Py_XDECREF(text);
    return NULL;
}

PyObject *refuse(struct state *state, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    PyErr_FormatV(state->errors[INGOT_INVALID_ARGUMENT], format, arguments);
    va_end(arguments);
    return NULL;
}

int guard_enter(struct state *state, struct guard *guard, const char *what) {
    if (!atomic_flag_test_and_set_explicit(&guard->busy, memory_order_acquire)) return 0;
    PyErr_Format(state->error, "the %s is in use by another thread; each thread needs one of its own", what);
    return -1;
}
