/* Other weights for an engine: from a dict of tensors, or a file of them. */
#include "ingot_python.h"

#include "refit.h"

struct refit {
    struct ingot_refit_options options;
    struct callback callback;
    struct texts only;
    struct weights weights;
};

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
    refit->weights.borrows = options->borrow;
    if (options->borrow && !PyDict_Check(tensors))
        return refuse(state, "what is borrowed must be a dict of tensors"), -1;
    if (weights_read(state, tensors, &refit->weights)) return -1;
    if (refit->weights.has_device) options->device = refit->weights.device;
    return 0;
}

static void refit_free(struct refit *refit) {
    weights_free(&refit->weights);
    texts_free(&refit->only);
}

/* Of the engine, or of the file. */
static PyObject *run(struct state *state, struct refit *refit, struct engine *engine, const char *path,
                     const char *out_path) {
    struct weights *weights = &refit->weights;
    struct ingot_refit_info info;
    struct ingot_error error;
    enum ingot_status status;
    callback_release(&refit->callback);
    status =
        engine
            ? ingot_engine_refit(engine->engine, weights->tensors, weights->n_tensors, &refit->options, &info, &error)
            : ingot_refit_file(path, weights->tensors, weights->n_tensors, &refit->options, out_path, &info, &error);
    int raised = callback_acquire(&refit->callback);
    if (!status && weights->room && info.changed) {
        lent_keep(engine, weights->room, weights->arrays);
        weights->room = NULL;
    }
    if (raised) return NULL;
    if (status) return raise_error(state, status, &error);
    return Py_BuildValue("{s:n,s:n,s:n,s:K,s:n,s:K,s:K}", "changed", (Py_ssize_t)info.changed, "unchanged",
                         (Py_ssize_t)info.unchanged, "weights", (Py_ssize_t)info.weights, "weight_bytes",
                         (unsigned long long)info.weight_bytes, "borrowed", (Py_ssize_t)info.borrowed, "borrowed_bytes",
                         (unsigned long long)info.borrowed_bytes, "owned_bytes", (unsigned long long)info.owned_bytes);
}

PyObject *engine_refit(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"tensors", "only", "partial", "ignore_unknown", "progress", "borrow", NULL};
    PyObject *tensors, *only = Py_None, *progress = Py_None;
    int partial = 0, ignore_unknown = 0, borrow = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OppOp:refit", names, &tensors, &only, &partial, &ignore_unknown,
                                     &progress, &borrow))
        return NULL;
    struct state *state = state_of(self);
    struct refit refit = {INGOT_REFIT_OPTIONS_INIT};
    refit.options.borrow = borrow;
    refit.weights.accepts_gpu = ((struct engine *)self)->is_cuda;
    PyObject *result = NULL;
    if (!read_rest(state, &refit, tensors, only, progress, partial, ignore_unknown)) {
        result = run(state, &refit, (struct engine *)self, NULL, NULL);
        if (result) ((struct engine *)self)->is_refitted = true;
        if (result && borrow && refit.weights.has_device)
            atomic_store(&((struct engine *)self)->gpu, refit.weights.device);
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
