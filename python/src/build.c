/* Building engines: ingot.compile's options, as keywords. */
#include <limits.h>
#include <string.h>

#include "ingot_python.h"

/* What the options of one call borrow. */
struct build {
    struct ingot_build_options options;
    struct ingot_build_report report;
    struct callback callback;
    struct texts shape_names, shape_specs, passes, precision_of, timing_caches, adapter_layers, fuse_of, io_types,
        shard_of;
    struct ingot_shape_spec *shapes;
    unsigned ranks[64];
    PyObject *holders[4]; /* of paths */
    int n_holders;
};

static int read_path(struct build *build, PyObject *object, const char **out_path) {
    if (object == Py_None) return 0;
    return path_read(object, &build->holders[build->n_holders++], out_path);
}

static int read_texts(PyObject *object, const char *what, struct texts *texts, const char *const **out_items,
                      size_t *out_n) {
    if (texts_read(object, what, texts)) return -1;
    *out_items = texts->items;
    *out_n = texts->count;
    return 0;
}

/* A dict of names and specifications, both str. */
static int read_shapes(struct build *build, PyObject *object) {
    if (object == Py_None) return 0;
    if (!PyDict_Check(object)) return PyErr_Format(PyExc_TypeError, "shapes is %R, expected a dict", object), -1;
    PyObject *values = PyDict_Values(object);
    int rc = values && !texts_read(object, "shapes", &build->shape_names) &&
                     !texts_read(values, "shapes", &build->shape_specs)
                 ? 0
                 : -1;
    Py_XDECREF(values);
    if (rc) return -1;
    build->shapes = PyMem_Calloc(build->shape_names.count + 1, sizeof *build->shapes);
    if (!build->shapes) return PyErr_NoMemory(), -1;
    for (size_t i = 0; i < build->shape_names.count; i++)
        build->shapes[i] = (struct ingot_shape_spec){build->shape_names.items[i], build->shape_specs.items[i]};
    build->options.shapes = build->shapes;
    build->options.n_shapes = build->shape_names.count;
    return 0;
}

/* A number of ranks, or several. */
static int read_ranks(struct build *build, PyObject *object) {
    const size_t most = ARRAY_LENGTH(build->ranks);
    if (object == Py_None) return 0;
    PyObject *list = PyLong_Check(object) ? Py_BuildValue("[O]", object) : PySequence_List(object);
    if (!list) return -1;
    Py_ssize_t count = PyList_Size(list);
    int rc = (size_t)count > most ? (PyErr_Format(PyExc_ValueError, "%zd numbers of ranks", count), -1) : 0;
    for (Py_ssize_t i = 0; !rc && i < count; i++) {
        unsigned long number = PyLong_AsUnsignedLong(PyList_GetItem(list, i));
        rc = PyErr_Occurred() ? -1 : 0;
        build->ranks[i] = number > UINT_MAX ? UINT_MAX : (unsigned)number;
    }
    build->options.ranks = build->ranks;
    build->options.n_ranks = rc ? 0 : (size_t)count;
    Py_DECREF(list);
    return rc;
}

static int read_callable(PyObject *object, const char *what, PyObject **out_callable) {
    if (object == Py_None) return 0;
    if (!PyCallable_Check(object)) return PyErr_Format(PyExc_TypeError, "%s is not callable", what), -1;
    *out_callable = object;
    return 0;
}

static int read_options(struct state *state, PyObject *args, PyObject *kwargs, struct build *build,
                        PyObject **out_path) {
    static char *names[] = {
        "path",          "target",        "opt_level",      "shapes",   "passes",    "cc",           "jobs",
        "verify_passes", "progress",      "nvrtc",          "portable", "precision", "precision_of", "device",
        "tune",          "timing_caches", "note",           "tactics",  "variants",  "cache",        "strip_weights",
        "adapters",      "adapter_rank",  "adapter_layers", "fuse_of",  "io_types",  "strict_qdq",   "ranks",
        "sharding",      "shard_of",      "objective",      "memory",   NULL};
    struct ingot_build_options *o = &build->options;
    PyObject *shapes = Py_None, *passes = Py_None, *cc = Py_None, *progress = Py_None, *nvrtc = Py_None,
             *precision_of = Py_None, *timing = Py_None, *note = Py_None, *cache = Py_None, *layers = Py_None,
             *fuse_of = Py_None, *io_types = Py_None, *ranks = Py_None, *shard_of = Py_None;
    int verify = 0, portable = 0, strip = 0, strict = 0;
    unsigned long long memory = 0;
    *out_path = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$ziOOOIpOOpzOidOOzIOpIIOOOpOzOzK:build", names, out_path,
                                     &o->target, &o->opt_level, &shapes, &passes, &cc, &o->jobs, &verify, &progress,
                                     &nvrtc, &portable, &o->precision, &precision_of, &o->device, &o->tune_seconds,
                                     &timing, &note, &o->tactics, &o->variants, &cache, &strip, &o->adapters,
                                     &o->adapter_rank, &layers, &fuse_of, &io_types, &strict, &ranks, &o->sharding,
                                     &shard_of, &o->objective, &memory))
        return -1;
    o->verify_passes = verify;
    o->portable = portable;
    o->strip_weights = strip;
    o->strict_qdq = strict;
    o->memory = memory;
    if (cache != Py_None && Py_TYPE(cache) != state->cache_type)
        return PyErr_Format(PyExc_TypeError, "cache is %R, expected an ingot.Cache", cache), -1;
    if (cache != Py_None) o->cache = ((struct cache *)cache)->cache;
    if (read_shapes(build, shapes) || read_ranks(build, ranks) || read_path(build, cc, &o->cc) ||
        read_path(build, nvrtc, &o->nvrtc) ||
        read_texts(passes, "passes", &build->passes, &o->pass_switches, &o->n_pass_switches) ||
        read_texts(precision_of, "precision_of", &build->precision_of, &o->precision_of, &o->n_precision_of) ||
        read_texts(timing, "timing_caches", &build->timing_caches, &o->timing_caches, &o->n_timing_caches) ||
        read_texts(layers, "adapter_layers", &build->adapter_layers, &o->adapter_layers, &o->n_adapter_layers) ||
        read_texts(fuse_of, "fuse_of", &build->fuse_of, &o->fuse_of, &o->n_fuse_of) ||
        read_texts(shard_of, "shard_of", &build->shard_of, &o->shard_of, &o->n_shard_of) ||
        read_texts(io_types, "io_types", &build->io_types, &o->io_types, &o->n_io_types) ||
        read_callable(progress, "progress", &build->callback.progress) ||
        read_callable(note, "note", &build->callback.note))
        return -1;
    o->progress = callback_progress;
    o->note = callback_note;
    o->progress_user = o->note_user = &build->callback;
    o->report = &build->report;
    return 0;
}

static void build_free(struct build *build) {
    texts_free(&build->shape_names);
    texts_free(&build->shape_specs);
    texts_free(&build->passes);
    texts_free(&build->precision_of);
    texts_free(&build->timing_caches);
    texts_free(&build->adapter_layers);
    texts_free(&build->fuse_of);
    texts_free(&build->io_types);
    texts_free(&build->shard_of);
    PyMem_Free(build->shapes);
    for (int i = 0; i < build->n_holders; i++)
        Py_XDECREF(build->holders[i]);
}

static PyObject *report(const struct ingot_build_report *report) {
    return Py_BuildValue("{s:I,s:I,s:I,s:I,s:N,s:N,s:K,s:K}", "kernels_cached", report->kernels_cached,
                         "kernels_compiled", report->kernels_compiled, "regions", report->regions, "regions_new",
                         report->regions_new, "structure_cached", PyBool_FromLong(report->structure_cached),
                         "engine_cached", PyBool_FromLong(report->engine_cached), "quads_proved",
                         (unsigned long long)report->quads_proved, "quads_widened",
                         (unsigned long long)report->quads_widened);
}

/* Builds and loads. */
static PyObject *build_engine(struct state *state, struct model *model, struct build *build, PyObject *path) {
    struct ingot_error error;
    enum ingot_status status;
    PyObject *holder = NULL, *engine = NULL;
    const char *file = NULL;
    void *data = NULL;
    size_t size = 0;
    if (path != Py_None && path_read(path, &holder, &file)) return NULL;
    callback_release(&build->callback);
    status = file ? ingot_model_build(model->model, &build->options, file, &error)
                  : ingot_model_build_memory(model->model, &build->options, &data, &size, &error);
    int raised = callback_acquire(&build->callback);
    Py_XDECREF(holder);
    if (raised) {
        if (!status && data) python_allocator.release(NULL, data, size);
        return NULL;
    }
    if (status) return raise_error(state, status, &error);
    /* The memory is of python_allocator, with which the model was made, so that the engine can own it without the model. It
     * was written just now: nothing is to be verified. */
    const struct ingot_build_options *o = &build->options;
    unsigned ranks = o->n_ranks ? o->ranks[o->n_ranks - 1] : 0;
    engine = engine_new(state, file ? path : NULL, data, size, INGOT_VERIFY_NO_WEIGHTS, ranks);
    if (!engine) return NULL;
    ((struct engine *)engine)->report = report(&build->report);
    if (((struct engine *)engine)->is_cuda) atomic_store(&((struct engine *)engine)->gpu, o->device);
    return engine;
}

PyObject *model_build(PyObject *self, PyObject *args, PyObject *kwargs) {
    struct state *state = state_of(self);
    struct model *model = (struct model *)self;
    struct build build = {INGOT_BUILD_OPTIONS_INIT, INGOT_BUILD_REPORT_INIT};
    PyObject *path, *engine = NULL;
    if (!read_options(state, args, kwargs, &build, &path) && !guard_enter(state, &model->guard, "model")) {
        engine = build_engine(state, model, &build, path);
        guard_leave(&model->guard);
    }
    build_free(&build);
    return engine;
}
