/* Options from Python: lists of strings, paths, callbacks. */
#include <stdlib.h>
#include <string.h>

#include "ingot_python.h"

/* ---- Memory */

static void *python_alloc(void *user, size_t size, size_t alignment) {
    void *memory;
    return posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, size) ? NULL : memory;
}

static void python_release(void *user, void *memory, size_t size) {
    free(memory);
}

const struct ingot_allocator python_allocator = {NULL, python_alloc, python_release};

/* ---- Strings */

int texts_read(PyObject *object, const char *what, struct texts *out_texts) {
    *out_texts = (struct texts){0};
    if (!object || object == Py_None) return 0;
    out_texts->sequence = PyUnicode_Check(object) ? PyTuple_Pack(1, object) : PySequence_Tuple(object);
    if (!out_texts->sequence) return -1;
    Py_ssize_t count = PyTuple_Size(out_texts->sequence);
    out_texts->items = PyMem_Calloc((size_t)count + 1, sizeof *out_texts->items);
    if (!out_texts->items) PyErr_NoMemory();
    for (Py_ssize_t i = 0; out_texts->items && i < count; i++) {
        PyObject *item = PyTuple_GetItem(out_texts->sequence, i);
        if (!PyUnicode_Check(item))
            PyErr_Format(PyExc_TypeError, "%s: expected strings, got %R", what, item);
        else
            out_texts->items[i] = PyUnicode_AsUTF8AndSize(item, NULL);
        if (!out_texts->items[i]) break;
        out_texts->count++;
    }
    if (!PyErr_Occurred()) return 0;
    texts_free(out_texts);
    return -1;
}

void texts_free(struct texts *texts) {
    PyMem_Free(texts->items);
    Py_XDECREF(texts->sequence);
    *texts = (struct texts){0};
}

int path_read(PyObject *object, PyObject **out_holder, const char **out_path) {
    PyObject *bytes;
    if (!PyUnicode_FSConverter(object, &bytes)) return -1;
    *out_path = PyBytes_AsString(bytes);
    *out_holder = bytes;
    return 0;
}

/* ---- Text that the library writes */

static void sink_write(void *user, const char *text, size_t length) {
    struct text_sink *sink = user;
    if (sink->length + length > sink->capacity && !sink->failed) {
        size_t capacity = 2 * (sink->length + length);
        char *grown = realloc(sink->text, capacity);
        sink->failed = !grown;
        if (grown) sink->text = grown, sink->capacity = capacity;
    }
    if (sink->failed) return;
    memcpy(sink->text + sink->length, text, length);
    sink->length += length;
}

void text_sink_init(struct text_sink *sink) {
    *sink = (struct text_sink){.sink = {sink, sink_write}};
}

PyObject *text_sink_finish(struct text_sink *sink) {
    PyObject *text =
        sink->failed ? PyErr_NoMemory()
                     : PyUnicode_DecodeUTF8(sink->text ? sink->text : "", (Py_ssize_t)sink->length, "backslashreplace");
    free(sink->text);
    return text;
}

/* ---- Callbacks */

void callback_release(struct callback *callback) {
    callback->thread = PyEval_SaveThread();
}

int callback_acquire(struct callback *callback) {
    PyEval_RestoreThread(callback->thread);
    if (!callback->failed) return 0;
    PyErr_Restore(callback->type, callback->value, callback->traceback);
    return -1;
}

/* Keeps the first exception, since the library knows nothing of them; with Python's signal handlers run in between, Ctrl-C
 * arrives as one. */
static void callback_end(struct callback *callback, PyObject *result) {
    bool failed = !result || PyErr_CheckSignals();
    Py_XDECREF(result);
    if (failed) {
        PyErr_Fetch(&callback->type, &callback->value, &callback->traceback);
        callback->failed = true;
    }
    callback->thread = PyEval_SaveThread();
}

void callback_progress(void *user, const char *what, unsigned done, unsigned total) {
    struct callback *callback = user;
    if (!callback->progress || callback->failed) return;
    PyEval_RestoreThread(callback->thread);
    callback_end(callback, PyObject_CallFunction(callback->progress, "sII", what, done, total));
}

void callback_note(void *user, const char *text) {
    struct callback *callback = user;
    if (!callback->note || callback->failed) return;
    PyEval_RestoreThread(callback->thread);
    callback_end(callback, PyObject_CallFunction(callback->note, "s", text));
}
