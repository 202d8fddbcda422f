/* Types of elements, and the named tuples that describe inputs, symbols, initialisers and kernels. */
#include <string.h>

#include "ingot_python.h"

/* ---- Types of elements */

static const char dtype_doc[] =
    "The type of a tensor's elements, by its name: 'f32', 'f16', 'bf16', 'f64', 'i8', 'i16', 'i32', "
    "'i64', 'u8', 'u16', 'u32', 'u64' or 'bool'; or one of the narrow ones, with a byte for each element: 'i4', 'u4', "
    "'i2', 'u2', 'f8e4m3fn', 'f8e5m2', 'f8e4m3fnuz', 'f8e5m2fnuz', 'f8e8m0', 'f4e2m1'.";

/* Other names: NumPy's, which are PyTorch's too. */
static const struct {
    const char *name;
    enum ingot_dtype dtype;
} aliases[] = {
    {"float32", INGOT_F32}, {"float", INGOT_F32},  {"float16", INGOT_F16}, {"half", INGOT_F16},
    {"float64", INGOT_F64}, {"double", INGOT_F64}, {"int8", INGOT_I8},     {"int16", INGOT_I16},
    {"int32", INGOT_I32},   {"int64", INGOT_I64},  {"uint8", INGOT_U8},    {"uint16", INGOT_U16},
    {"uint32", INGOT_U32},  {"uint64", INGOT_U64},
};

PyObject *dtype_object(struct state *state, enum ingot_dtype dtype) {
    return Py_NewRef(state->dtypes[dtype < INGOT_DTYPE_COUNT ? dtype : INGOT_DTYPE_NONE]);
}

static enum ingot_dtype dtype_by_name(const char *name) {
    if (!strncmp(name, "torch.", 6)) name += 6;
    for (int i = INGOT_DTYPE_NONE + 1; i < INGOT_DTYPE_COUNT; i++)
        if (!strcmp(name, ingot_dtype_name((enum ingot_dtype)i)) ||
            (ml_dtypes_names[i] && !strcmp(name, ml_dtypes_names[i])))
            return (enum ingot_dtype)i;
    for (size_t i = 0; i < ARRAY_LENGTH(aliases); i++)
        if (!strcmp(name, aliases[i].name)) return aliases[i].dtype;
    return INGOT_DTYPE_NONE;
}

int dtype_from_object(struct state *state, PyObject *object, enum ingot_dtype *out_dtype) {
    /* str(np.float32) is "<class 'numpy.float32'>": a type goes by its name. */
    PyObject *text = PyType_Check(object) ? PyObject_GetAttrString(object, "__name__") : PyObject_Str(object);
    const char *name = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (name) *out_dtype = dtype_by_name(name);
    bool is_found = name && *out_dtype != INGOT_DTYPE_NONE;
    if (name && !is_found) refuse(state, "no type of elements is called '%.80s'; ingot.DType names them", name);
    Py_XDECREF(text);
    return is_found ? 0 : -1;
}

static int add_dtypes(PyObject *module, struct state *state) {
    state->dtype_type =
        (PyTypeObject *)PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){s:(),s:s,s:s}", "DType", &PyUnicode_Type,
                                              "__slots__", "__module__", "ingot", "__doc__", dtype_doc);
    if (!state->dtype_type || PyModule_AddObjectRef(module, "DType", (PyObject *)state->dtype_type)) return -1;
    for (int i = 0; i < INGOT_DTYPE_COUNT; i++) {
        state->dtypes[i] =
            PyObject_CallFunction((PyObject *)state->dtype_type, "s", i ? ingot_dtype_name((enum ingot_dtype)i) : "");
        if (!state->dtypes[i]) return -1;
    }
    return 0;
}

/* ---- Named tuples */

PyTypeObject *make_named_tuple(PyObject *module, const char *name, const char *doc, const char *const *fields,
                               const char *const *docs, int n) {
    PyStructSequence_Field all[16] = {{0}};
    if (n >= (int)ARRAY_LENGTH(all)) Py_FatalError("ingot: a named tuple with too many fields");
    for (int i = 0; i < n; i++)
        all[i] = (PyStructSequence_Field){fields[i], docs ? docs[i] : NULL};
    PyStructSequence_Desc description = {name, doc, all, n};
    PyTypeObject *type = PyStructSequence_NewType(&description);
    if (type && PyModule_AddObjectRef(module, strrchr(name, '.') + 1, (PyObject *)type)) Py_CLEAR(type);
    return type;
}

PyObject *named_tuple(PyTypeObject *type, PyObject **fields, Py_ssize_t n) {
    bool is_whole = true;
    for (Py_ssize_t i = 0; i < n; i++)
        is_whole = is_whole && fields[i];
    PyObject *tuple = is_whole ? PyStructSequence_New(type) : NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (tuple)
            PyStructSequence_SetItem(tuple, i, fields[i]);
        else
            Py_XDECREF(fields[i]);
    }
    return tuple;
}

PyObject *text_or_none(const char *text) {
    if (!text) return Py_NewRef(Py_None);
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

PyObject *shape_tuple(int rank, const int64_t *dims) {
    PyObject *tuple = PyTuple_New(rank);
    for (int i = 0; tuple && i < rank; i++) {
        PyObject *dim = PyLong_FromLongLong(dims[i]);
        if (!dim || PyTuple_SetItem(tuple, i, dim)) Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *symbolic_shape(const struct ingot_tensor_info *info) {
    PyObject *tuple = PyTuple_New(info->rank);
    for (int i = 0; tuple && i < info->rank; i++) {
        PyObject *dim = info->dims[i] >= 0 ? PyLong_FromLongLong(info->dims[i]) : text_or_none(info->symbols[i]);
        if (!dim || PyTuple_SetItem(tuple, i, dim)) Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *tensor_info(struct state *state, const struct ingot_tensor_info *info) {
    PyObject *fields[] = {text_or_none(info->name), dtype_object(state, info->dtype), symbolic_shape(info)};
    return named_tuple(state->tensor_info, fields, ARRAY_LENGTH(fields));
}

static const char *const tensor_fields[] = {"name", "dtype", "shape"};
static const char *const tensor_docs[] = {"str", "DType", "a tuple of int, or str for what varies: 'batch', '2*seq+1'"};
static const char *const symbol_fields[] = {"name", "lo", "hi", "mixes"};
static const char *const symbol_docs[] = {"str", "the least size that the engine was built for", "the largest",
                                          "why what it counts is not independent; None: it is"};
static const char *const initializer_fields[] = {"name",  "alias", "is_transposed", "kind",       "reason",
                                                 "dtype", "shape", "slot",          "is_borrowed"};
static const char *const profile_fields[] = {"kernel",   "origin", "calls", "total_ms",
                                             "floor_ms", "bound",  "bytes", "operations"};

int add_infos(PyObject *module, struct state *state) {
    if (add_dtypes(module, state)) return -1;
    state->tensor_info = make_named_tuple(module, "ingot.TensorInfo", "An input or output.", tensor_fields, tensor_docs,
                                          ARRAY_LENGTH(tensor_fields));
    state->symbol_info = make_named_tuple(module, "ingot.SymbolInfo", "A size that the inputs decide.", symbol_fields,
                                          symbol_docs, ARRAY_LENGTH(symbol_fields));
    state->initializer_info =
        make_named_tuple(module, "ingot.InitializerInfo", "A weight of the model that an engine was built from.",
                         initializer_fields, NULL, ARRAY_LENGTH(initializer_fields));
    state->profile_row = make_named_tuple(module, "ingot.ProfileRow", "What one step of the plan took.", profile_fields,
                                          NULL, ARRAY_LENGTH(profile_fields));
    return state->tensor_info && state->symbol_info && state->initializer_info && state->profile_row ? 0 : -1;
}

PyObject *shown(const char *class, PyObject *object) {
    PyObject *module = PyImport_ImportModule("ingot._show");
    PyObject *result = module ? PyObject_CallMethod(module, class, "O", object) : NULL;
    Py_XDECREF(module);
    Py_DECREF(object);
    return result;
}
