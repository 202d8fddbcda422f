/* Other weights for an engine: from a dict of tensors, or a file of them. */
#include "ingot_python.h"

struct refit {
    struct ingot_refit_options options;
    struct callback callback;
    struct texts only;
    struct ingot_tensors *file;       /* or: */
    struct ingot_named_tensor *named; /* of a dict */
    struct array *arrays;
    void **copies;
    size_t n_arrays;
    const struct ingot_named_tensor *tensors; /* of either */
    size_t n_tensors;
    PyObject *dict; /* a copy, which keeps tensors and names */
};

static int read_dict(struct state *state, struct refit *refit, PyObject *dict) {
    size_t n = (size_t)PyDict_Size(dict);
    refit->dict = PyDict_Copy(dict);
    refit->named = PyMem_Calloc(n + 1, sizeof *refit->named);
    refit->arrays = PyMem_Calloc(n + 1, sizeof *refit->arrays);
    refit->copies = PyMem_Calloc(n + 1, sizeof *refit->copies);
    if (!refit->dict || !refit->named || !refit->arrays || !refit->copies) return PyErr_NoMemory(), -1;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(refit->dict, &at, &name, &value);) {
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!text) return -1;
        struct array *array = &refit->arrays[refit->n_arrays];
        if (array_read(state, NULL, value, ARRAY_KEEP, 1, array)) return -1;
        void **copy = &refit->copies[refit->n_arrays];
        refit->n_arrays++;
        if (array_make_dense(state, array, text, copy)) return -1;
        refit->named[refit->n_tensors++] = (struct ingot_named_tensor){.name = text, .tensor = array->tensor};
    }
    refit->tensors = refit->named;
    return 0;
}

static int open_file(struct state *state, struct refit *refit, PyObject *path) {
    PyObject *holder;
    const char *text;
    if (path_read(path, &holder, &text)) return -1;
    struct ingot_error error;
    enum ingot_status status = ingot_tensors_open(text, NULL, &refit->file, &error);
    Py_DECREF(holder);
    if (status) return raise_error(state, status, &error), -1;
    refit->tensors = ingot_tensors_list(refit->file, &refit->n_tensors);
    return 0;
}

static int read_rest(struct state *state, struct refit *refit, PyObject *tensors, PyObject *only, PyObject *progress,
                     int partial, int ignore_unknown) {
    struct ingot_refit_options *options = &refit->options;
    if (texts_read(only, "only", &refit->only)) return -1;
    if (progress != Py_None && !PyCallable_Check(progress))
        return PyErr_SetString(PyExc_TypeError, "progress is not callable"), -1;
    refit->callback.progress = progress == Py_None ? NULL : progress;
    options->only = refit->only.items;
    options->n_only = refit->only.count;
    options->partial = partial;
    options->ignore_unknown = ignore_unknown;
    options->progress = callback_progress;
    options->progress_user = &refit->callback;
    return PyDict_Check(tensors) ? read_dict(state, refit, tensors) : open_file(state, refit, tensors);
}

static void refit_free(struct refit *refit) {
    for (size_t i = 0; i < refit->n_arrays; i++) {
        array_release(&refit->arrays[i]);
        PyMem_Free(refit->copies[i]);
    }
    PyMem_Free(refit->arrays);
    PyMem_Free(refit->copies);
    PyMem_Free(refit->named);
    Py_XDECREF(refit->dict);
    if (refit->file) ingot_tensors_close(refit->file);
    texts_free(&refit->only);
}

/* Of the engine, or of the file. */
static PyObject *run(struct state *state, struct refit *refit, struct ingot_engine *engine, const char *path,
                     const char *out_path) {
    struct ingot_refit_info info;
    struct ingot_error error;
    enum ingot_status status;
    callback_release(&refit->callback);
    status = engine
                 ? ingot_engine_refit(engine, refit->tensors, refit->n_tensors, &refit->options, &info, &error)
                 : ingot_refit_file(path, refit->tensors, refit->n_tensors, &refit->options, out_path, &info, &error);
    if (callback_acquire(&refit->callback)) return NULL;
    if (status) return raise_error(state, status, &error);
    return Py_BuildValue("{s:n,s:n,s:n,s:K}", "changed", (Py_ssize_t)info.changed, "unchanged",
                         (Py_ssize_t)info.unchanged, "weights", (Py_ssize_t)info.weights, "weight_bytes",
                         (unsigned long long)info.weight_bytes);
}

PyObject *engine_refit(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"tensors", "only", "partial", "ignore_unknown", "progress", NULL};
    PyObject *tensors, *only = Py_None, *progress = Py_None;
    int partial = 0, ignore_unknown = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OppO:refit", names, &tensors, &only, &partial, &ignore_unknown,
                                     &progress))
        return NULL;
    struct state *state = state_of(self);
    struct refit refit = {INGOT_REFIT_OPTIONS_INIT};
    PyObject *result = NULL;
    if (!read_rest(state, &refit, tensors, only, progress, partial, ignore_unknown)) {
        result = run(state, &refit, ((struct engine *)self)->engine, NULL, NULL);
        if (result) ((struct engine *)self)->is_refitted = true;
    }
    refit_free(&refit);
    return result;
}

PyObject *refit_file(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", "tensors", "out", "only", "partial", "ignore_unknown", "progress", NULL};
    PyObject *path, *tensors, *out = Py_None, *only = Py_None, *progress = Py_None;
    int partial = 0, ignore_unknown = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O$OppO:refit_file", names, &path, &tensors, &out, &only,
                                     &partial, &ignore_unknown, &progress))
        return NULL;
    struct state *state = PyModule_GetState(module);
    struct refit refit = {INGOT_REFIT_OPTIONS_INIT};
    PyObject *path_holder = NULL, *out_holder = NULL, *result = NULL;
    const char *path_text, *out_text = NULL;
    if (!path_read(path, &path_holder, &path_text) && (out == Py_None || !path_read(out, &out_holder, &out_text)) &&
        !read_rest(state, &refit, tensors, only, progress, partial, ignore_unknown))
        result = run(state, &refit, NULL, path_text, out_text);
    refit_free(&refit);
    Py_XDECREF(path_holder);
    Py_XDECREF(out_holder);
    return result;
}
