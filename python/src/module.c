/* The extension module ingot._ingot. */
#include "refit.h"

static PyObject *gpu_count(PyObject *module, PyObject *unused) {
    int count;
    struct ingot_error error;
    enum ingot_status status = ingot_gpu_count(&count, &error);
    return status ? raise_error(PyModule_GetState(module), status, &error) : PyLong_FromLong(count);
}

static PyObject *gpu_info(PyObject *module, PyObject *args) {
    int device = 0;
    if (!PyArg_ParseTuple(args, "|i:gpu_info", &device)) return NULL;
    struct ingot_gpu_info info;
    struct ingot_error error;
    enum ingot_status status = ingot_gpu_describe(device, &info, &error);
    if (status) return raise_error(PyModule_GetState(module), status, &error);
    return Py_BuildValue("{s:s,s:s,s:K,s:I,s:i}", "name", info.name, "target", info.target, "memory_bytes",
                         (unsigned long long)info.memory_bytes, "multiprocessors", info.multiprocessors, "driver",
                         info.driver);
}

static PyObject *dtype(PyObject *module, PyObject *name) {
    enum ingot_dtype dtype;
    struct state *state = PyModule_GetState(module);
    return dtype_from_object(state, name, &dtype) ? NULL : dtype_object(state, dtype);
}

/* What a call of a C function costs, for bench/python_calls.py. */
static PyObject *nothing(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    return Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"load", (PyCFunction)(void (*)(void))load, METH_VARARGS | METH_KEYWORDS,
     "load(source, verify='all', ranks=0)\n--\n\n"
     "An ingot.Engine from a file's path or an engine's bytes. verify: 'all' checksums before it returns, the weights' "
     "'later'\n"
     "(at the first run), or 'no_weights'. ranks: threads or GPUs that each run is divided among, for which it was "
     "built. The "
     "file must not change while the\nengine lives."},
    {"as_tensor", as_tensor, METH_O,
     "as_tensor(tensor, /)\n--\n\nAn ingot.Tensor over the memory of any contiguous tensor, which it keeps."},
    {"from_address", (PyCFunction)(void (*)(void))from_address, METH_VARARGS | METH_KEYWORDS,
     "from_address(address, shape, dtype, device='cpu', owner=None)\n--\n\n"
     "An ingot.Tensor over memory at an address, which must stay as long as the tensor; `owner` is kept."},
    {"dtype", dtype, METH_O,
     "dtype(name, /)\n--\n\nThe ingot.DType of a name: 'f32', 'float32', torch.float32, numpy.float32."},
    {"gpu_count", gpu_count, METH_NOARGS, "gpu_count()\n--\n\nThe number of GPUs; ingot.DeviceError without a driver."},
    {"gpu_info", gpu_info, METH_VARARGS,
     "gpu_info(device=0)\n--\n\nName, target, memory and so on of a GPU, as a dict."},
#ifndef INGOT_PYTHON_RUNTIME
    {"refit_file", (PyCFunction)(void (*)(void))refit_file, METH_VARARGS | METH_KEYWORDS,
     "refit_file(path, tensors, out=None, *, only=None, partial=False, ignore_unknown=False, progress=None)\n--\n\n"
     "Writes the engine file `path` with other weights to `out`, which may be `path` itself. Without `out`, only tells "
     "what\n"
     "would change. Returns counts, as a dict."},
    {"open_adapter", (PyCFunction)(void (*)(void))open_adapter, METH_VARARGS | METH_KEYWORDS,
     "open_adapter(folder, base)\n--\n\n"
     "The weights W + scale * B A that a low-rank adapter (what PEFT's save_pretrained writes to a folder) makes of "
     "those\n"
     "in `base`, a dict of tensors or a file as for refits: a dict of ingot.Tensor by base's names, of the adapted "
     "layers\n"
     "alone. Give it to a refit with partial=True; base's own take the adapter off again. ingot.BadTensor if the "
     "adapter\n"
     "does not fit, ingot.Unsupported for other kinds of adapters."},
#endif
    {"_nothing", (PyCFunction)(void (*)(void))nothing, METH_FASTCALL, NULL},
    {0},
};

static int add_names(struct state *state) {
    state->exchange_name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    state->dlpack_name = PyUnicode_InternFromString("__dlpack__");
    state->dlpack_device_name = PyUnicode_InternFromString("__dlpack_device__");
    return state->exchange_name && state->dlpack_name && state->dlpack_device_name ? 0 : -1;
}

static int execute(PyObject *module) {
    struct state *state = PyModule_GetState(module);
    if (add_names(state) || add_errors(module, state) || add_infos(module, state) || add_tensor(module, state) ||
        add_run(module, state) || add_engine(module, state) || add_session(module, state) || add_arena(module, state))
        return -1;
#ifndef INGOT_PYTHON_RUNTIME
    if (add_cache(module, state) || add_model(module, state) || add_network(module, state) || add_watch(module))
        return -1;
#endif
    return PyModule_AddStringConstant(module, "__version__", ingot_version());
}

/* Every object of the state, which consists of nothing else, for the collector. */
static int visit_all(struct state *state, int (*visit)(PyObject **object, void *arg), void *arg) {
    PyObject **objects = (PyObject **)state;
    for (size_t i = 0; i < sizeof *state / sizeof *objects; i++) {
        int rc = visit(&objects[i], arg);
        if (rc) return rc;
    }
    return 0;
}

struct visitor {
    visitproc visit;
    void *arg;
};

static int visit_one(PyObject **object, void *arg) {
    const struct visitor *visitor = arg;
    return *object ? visitor->visit(*object, visitor->arg) : 0;
}

static int clear_one(PyObject **object, void *unused) {
    Py_CLEAR(*object);
    return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    struct visitor visitor = {visit, arg};
    struct state *state = PyModule_GetState(module);
    return state ? visit_all(state, visit_one, &visitor) : 0;
}

static int clear(PyObject *module) {
    struct state *state = PyModule_GetState(module);
    return state ? visit_all(state, clear_one, NULL) : 0;
}

static void release(void *module) {
    clear(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "ingot._ingot",
    .m_doc = "The part of ingot that is written in C; use the package ingot.",
    .m_size = sizeof(struct state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__ingot(void);
PyMODINIT_FUNC PyInit__ingot(void) {
    return PyModuleDef_Init(&definition);
}
