/* ingot.Cache: what builds keep for later ones. For any number of threads. */
#include "ingot_python.h"

static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"folder",       "max_bytes", "max_memory_bytes", "shared", "shared_seconds",
                            "trusted_keys", "key_file",  "engines",          NULL};
    struct ingot_cache_options options = INGOT_CACHE_OPTIONS_INIT;
    PyObject *folder = Py_None, *keys = Py_None, *key_file = Py_None, *folder_holder = NULL, *key_holder = NULL;
    unsigned long long max_bytes = 0;
    Py_ssize_t max_memory = 0;
    int engines = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OKnzdOOp:Cache", names, &folder, &max_bytes, &max_memory,
                                     &options.shared, &options.shared_seconds, &keys, &key_file, &engines))
        return NULL;
    struct state *state = PyType_GetModuleState(type);
    options.max_bytes = max_bytes;
    options.max_memory_bytes = max_memory > 0 ? (size_t)max_memory : 0;
    options.engines = engines;
    struct texts trusted = {0};
    struct cache *self = NULL;
    bool ok = (folder == Py_None || !path_read(folder, &folder_holder, &options.folder)) &&
              (key_file == Py_None || !path_read(key_file, &key_holder, &options.key_file)) &&
              !texts_read(keys, "trusted_keys", &trusted);
    if (ok) self = (struct cache *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self) {
        options.trusted_keys = trusted.items;
        options.n_trusted_keys = trusted.count;
        struct ingot_error error;
        enum ingot_status status;
        Py_BEGIN_ALLOW_THREADS status = ingot_cache_open(&options, &self->cache, &error);
        Py_END_ALLOW_THREADS if (status) {
            Py_CLEAR(self);
            raise_error(state, status, &error);
        }
    }
    texts_free(&trusted);
    Py_XDECREF(folder_holder);
    Py_XDECREF(key_holder);
    return (PyObject *)self;
}

static void cache_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    ingot_cache_close(((struct cache *)self)->cache);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *cache_info(PyObject *self, PyObject *unused) {
    struct ingot_cache_info info;
    struct ingot_error error;
    enum ingot_status status = ingot_cache_describe(((struct cache *)self)->cache, &info, &error);
    if (status) return raise_error(state_of(self), status, &error);
    return Py_BuildValue("{s:s,s:K,s:K,s:K,s:K,s:K,s:K}", "folder", info.folder, "max_bytes",
                         (unsigned long long)info.max_bytes, "entries", (unsigned long long)info.entries, "bytes",
                         (unsigned long long)info.bytes, "kernels", (unsigned long long)info.kernels, "structures",
                         (unsigned long long)info.structures, "engines", (unsigned long long)info.engines);
}

static void add_entry(void *list, const struct ingot_cache_entry *entry) {
    if (PyErr_Occurred()) return;
    PyObject *item = Py_BuildValue("{s:s,s:s,s:z,s:z,s:K,s:L}", "kind", entry->kind, "key", entry->key, "label",
                                   entry->label, "damage", entry->damage, "bytes", (unsigned long long)entry->bytes,
                                   "used", (long long)entry->used);
    if (item) PyList_Append(list, item);
    Py_XDECREF(item);
}

static PyObject *cache_list(PyObject *self, PyObject *unused) {
    PyObject *list = PyList_New(0);
    if (!list) return NULL;
    struct ingot_error error;
    enum ingot_status status = ingot_cache_list(((struct cache *)self)->cache, add_entry, list, &error);
    if (status && !PyErr_Occurred()) raise_error(state_of(self), status, &error);
    if (PyErr_Occurred()) Py_CLEAR(list);
    return list;
}

static PyObject *cache_prune(PyObject *self, PyObject *bytes) {
    unsigned long long max_bytes = PyLong_AsUnsignedLongLong(bytes);
    if (PyErr_Occurred()) return NULL;
    uint64_t entries, freed;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status =
        ingot_cache_prune(((struct cache *)self)->cache, max_bytes, &entries, &freed, &error);
    Py_END_ALLOW_THREADS if (status) return raise_error(state_of(self), status, &error);
    return Py_BuildValue("(KK)", (unsigned long long)entries, (unsigned long long)freed);
}

static PyObject *cache_export(PyObject *self, PyObject *path) {
    PyObject *holder;
    const char *file;
    if (path_read(path, &holder, &file)) return NULL;
    uint64_t entries;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_cache_export(((struct cache *)self)->cache, file, &entries, &error);
    Py_END_ALLOW_THREADS Py_DECREF(holder);
    if (status) return raise_error(state_of(self), status, &error);
    return PyLong_FromUnsignedLongLong(entries);
}

static PyObject *cache_import(PyObject *self, PyObject *path) {
    PyObject *holder;
    const char *file;
    if (path_read(path, &holder, &file)) return NULL;
    uint64_t entries, new;
    struct ingot_error error;
    enum ingot_status status;
    Py_BEGIN_ALLOW_THREADS status = ingot_cache_import(((struct cache *)self)->cache, file, &entries, &new, &error);
    Py_END_ALLOW_THREADS Py_DECREF(holder);
    if (status) return raise_error(state_of(self), status, &error);
    return Py_BuildValue("(KK)", (unsigned long long)entries, (unsigned long long)new);
}

static PyMethodDef cache_methods[] = {
    {"info", cache_info, METH_NOARGS, "info($self)\n--\n\nEntries and bytes of the folder, as a dict."},
    {"list", cache_list, METH_NOARGS,
     "list($self)\n--\n\nThe folder's entries, those used last first: a list of dicts."},
    {"prune", cache_prune, METH_O,
     "prune($self, max_bytes, /)\n--\n\nRemoves what was used longest ago. Returns the entries and bytes removed."},
    {"export_file", cache_export, METH_O,
     "export_file($self, path, /)\n--\n\nWrites all sound entries to one file. Returns how many."},
    {"import_file", cache_import, METH_O,
     "import_file($self, path, /)\n--\n\n"
     "Adds the entries of such a file, which must be one that you trust. Returns how many there are, and how many were "
     "new."},
    {0},
};

static PyType_Slot cache_slots[] = {
    {Py_tp_doc,
     "Cache(folder=None, max_bytes=0, max_memory_bytes=0, shared=None, shared_seconds=0, trusted_keys=None,\n"
     "      key_file=None, engines=False)\n--\n\n"
     "What builds make, kept in a folder (None: in memory) and perhaps on a server, so that nothing is made twice\n"
     "(docs/reuse.md). 0 is the default: 10^10 bytes, 64 MiB, 5 seconds."},
    {Py_tp_new, cache_new},
    {Py_tp_dealloc, cache_dealloc},
    {Py_tp_methods, cache_methods},
    {0, NULL},
};

static PyType_Spec cache_spec = {"ingot.Cache", sizeof(struct cache), 0, Py_TPFLAGS_DEFAULT, cache_slots};

int add_cache(PyObject *module, struct state *state) {
    state->cache_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &cache_spec, NULL);
    return state->cache_type ? PyModule_AddType(module, state->cache_type) : -1;
}
