/*
 * What the files of the extension module share. It is a client of ingot/ingot.h, and of Python's limited API of 3.11, so that
 * one build serves all later versions: types are heap types, and everything that changes is in the module's state.
 *
 * Functions that return PyObject * or int follow Python's conventions: NULL or -1 with an exception set.
 */
#ifndef INGOT_PYTHON_H
#define INGOT_PYTHON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <structmember.h>

#include "ingot/ingot.h"

#include "dlpack.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- The module's state ------------------------------------------------------------------------------------------- */

enum { STATUS_COUNT = INGOT_CANCELLED + 1 };

struct state {
    PyObject *error;                /* ingot.Error */
    PyObject *errors[STATUS_COUNT]; /* its subclasses, by status */
    PyObject *dtypes[INGOT_DTYPE_COUNT];
    PyTypeObject *dtype_type; /* ingot.DType: a kind of str */
    PyTypeObject *tensor_type, *run_type, *engine_type, *session_type, *arena_type;
    PyTypeObject *model_type, *cache_type, *network_type, *value_type;
    PyTypeObject *tensor_info, *symbol_info, *initializer_info, *profile_row; /* named tuples */
    PyObject *exchange_name, *dlpack_name, *dlpack_device_name;               /* attributes' names */
    /* NumPy, once somebody else has imported it */
    PyTypeObject *ndarray;
    PyObject *numpy_dtypes[INGOT_DTYPE_COUNT];
    PyObject *numpy_api;    /* the capsule of its C API */
    PyObject *numpy_layout; /* True: arrays have the fields that numpy.c knows */
};

/* Of an object of one of this module's types, which cannot be subclassed. */
static inline struct state *state_of(PyObject *self) {
    return PyType_GetModuleState(Py_TYPE(self));
}

/* Memory by Python's rules is not aligned enough; this is what models are made with, so that what they give away can
 * outlive them. */
extern const struct ingot_allocator python_allocator;

/* ---- Errors (error.c) ---------------------------------------------------------------------------------------------- */

int add_errors(PyObject *module, struct state *state);
/* Sets the exception for a failed call; NULL. `error` may be partly filled. */
PyObject *raise_error(struct state *state, enum ingot_status status, const struct ingot_error *error);
/* Sets ingot.InvalidArgument; NULL. The format is that of PyErr_Format. */
PyObject *refuse(struct state *state, const char *format, ...);

/* ---- Types of elements and infos (info.c) --------------------------------------------------------------------------- */

int add_infos(PyObject *module, struct state *state);
/* A new reference to an ingot.DType. */
PyObject *dtype_object(struct state *state, enum ingot_dtype dtype);
/* From a name such as "f32", NumPy's ("float32") or PyTorch's ("torch.float32"), or an object whose str() is one. -1. */
int dtype_from_object(struct state *state, PyObject *object, enum ingot_dtype *out_dtype);
PyObject *shape_tuple(int rank, const int64_t *dims);
/* int, or str where the dim is dynamic. */
PyObject *symbolic_shape(const struct ingot_tensor_info *info);
PyObject *tensor_info(struct state *state, const struct ingot_tensor_info *info);
/* A new named tuple of `type`; takes the references in `fields`, also on failure, where one may be NULL. */
PyObject *named_tuple(PyTypeObject *type, PyObject **fields, Py_ssize_t n);
/* The object as the class of ingot._show that prints it. Takes the reference. */
PyObject *shown(const char *class, PyObject *object);
PyTypeObject *make_named_tuple(PyObject *module, const char *name, const char *doc, const char *const *fields,
                               const char *const *docs, int n);
/* A Python string, or None for NULL. */
PyObject *text_or_none(const char *text);

/* ---- Options (options.c) --------------------------------------------------------------------------------------------- */

/* Strings borrowed from a Python sequence that is kept. */
struct texts {
    PyObject *sequence;
    const char **items;
    size_t count;
};
/* None or NULL: no strings. A str alone counts as one. */
int texts_read(PyObject *object, const char *what, struct texts *out_texts);
void texts_free(struct texts *texts);
/* A file's path as UTF-8 or the file system's bytes, from str, bytes or os.PathLike: `*out_holder` owns it. */
int path_read(PyObject *object, PyObject **out_holder, const char **out_path);

/* Gathers text that the library writes. */
struct text_sink {
    struct ingot_sink sink;
    char *text;
    size_t length, capacity;
    bool failed;
};
void text_sink_init(struct text_sink *sink);
/* The text as str; frees the sink's memory. */
PyObject *text_sink_finish(struct text_sink *sink);

/* Calls of Python from a library's callback, on the thread that has released the GIL by callback_release. */
struct callback {
    PyThreadState *thread;
    PyObject *progress, *note; /* callables, or NULL */
    bool failed;               /* an exception is kept: */
    PyObject *type, *value, *traceback;
};
void callback_release(struct callback *callback);
/* Takes the GIL; -1 if a callable raised, with that exception set. */
int callback_acquire(struct callback *callback);
void callback_progress(void *callback, const char *what, unsigned done, unsigned total);
void callback_note(void *callback, const char *text);

/* ---- Tensors of the caller's (array.c) ------------------------------------------------------------------------------- */

/* How tensors of a type are read, found once. */
struct source {
    PyTypeObject *type; /* kept; NULL: none yet */
    const struct dl_exchange_api *api;
    bool is_buffer; /* the type has the buffer protocol */
};
void source_clear(struct source *source);
int source_find(struct state *state, struct source *source, PyObject *object);

/* A tensor of the caller's, as it is. */
struct array {
    struct ingot_tensor tensor;      /* with `data`; not necessarily dense */
    int64_t strides[INGOT_MAX_RANK]; /* in bytes */
    int device;                      /* of INGOT_CUDA: the GPU's number */
    bool is_dense, is_read_only;     /* dense: row-major, and aligned to its elements */
    bool has_buffer;                 /* what is to be released: */
    Py_buffer buffer;
    struct dl_managed_versioned *managed;
    struct dl_managed *managed_old;
};
enum array_flags {
    ARRAY_BORROW = 0,   /* valid as long as the caller holds the object, and does not change it */
    ARRAY_KEEP = 1,     /* valid until array_release */
    ARRAY_WRITABLE = 2, /* read-only memory is an error */
};
/* `stream`: for __dlpack__ of GPU memory, what Python's array API standard says; -1: the producer must not synchronise. */
int array_read(struct state *state, struct source *source, PyObject *object, unsigned flags, int64_t stream,
               struct array *out_array);
void array_release(struct array *array);
/* Has who made a tensor in GPU memory order it for `stream`, as __dlpack__ says. */
int array_order(struct state *state, PyObject *object, int64_t stream);
/* Copies a tensor in host memory that is not dense to `target`, dense. */
void array_pack(const struct array *array, void *target);
/* The same tensor, dense and in host memory: in place, or copied to memory that `*out_copy` owns (PyMem_Free). -1 with an
 * exception for tensors elsewhere. `what`: "weight 'w'". */
int array_make_dense(struct state *state, struct array *array, const char *what, void **out_copy);
/* Bytes of the elements; the tensor's sizes are known not to overflow. */
static inline size_t tensor_bytes(const struct ingot_tensor *tensor) {
    return (size_t)ingot_tensor_elements(tensor) * ingot_dtype_size(tensor->dtype);
}

/* Reads a NumPy array for as long as the caller holds it; false: it must be read in another way. */
bool numpy_read(struct state *state, PyObject *object, struct array *array);

/* ---- Ingot's tensors (tensor.c, numpy.c, dlpack.c, view.c) ---------------------------------------------------------------------------- */

struct tensor {
    PyObject_HEAD struct ingot_tensor value;
    int device;      /* of INGOT_CUDA: the GPU's number */
    PyObject *owner; /* keeps the data alive; NULL: `memory` does */
    void *memory;    /* PyMem */
    bool is_read_only;
    Py_ssize_t shape[INGOT_MAX_RANK], strides[INGOT_MAX_RANK]; /* for buffers; strides in bytes */
    int64_t dims[INGOT_MAX_RANK], steps[INGOT_MAX_RANK];       /* for DLPack, once asked for; steps in elements */
};
int add_tensor(PyObject *module, struct state *state);
/* A tensor over memory that `owner` keeps alive. */
PyObject *tensor_over(struct state *state, const struct ingot_tensor *value, int device, PyObject *owner);
/* A tensor with a copy of host memory. */
PyObject *tensor_copy(struct state *state, const struct ingot_tensor *value);
/* By type: its name in the package ml_dtypes; NULL: NumPy has it. */
extern const char *const ml_dtypes_names[INGOT_DTYPE_COUNT];
/* A NumPy array over memory that `owner` keeps alive. NumPy must be there (numpy_find). */
PyObject *numpy_over(struct state *state, const struct ingot_tensor *value, bool is_read_only, PyObject *owner);
/* Whether NumPy is imported already (or, with `import`, can be). -1 on other failures. */
int numpy_find(struct state *state, bool import);
PyObject *as_tensor(PyObject *module, PyObject *object);
/* The same for a tensor's `owner`, if as_tensor made it. */
int as_tensor_order(struct state *state, PyObject *owner, int64_t stream);
PyObject *from_address(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused);
struct dl_type dlpack_type(enum ingot_dtype dtype);
/* Of a dense tensor, whose sizes go to `dims` and `steps`, which must exist as long as `*out_tensor`. */
void dlpack_describe(const struct ingot_tensor *value, int device, int64_t *dims, int64_t *steps,
                     struct dl_tensor *out_tensor);

/* ---- The rest, by file ------------------------------------------------------------------------------------------------- */

/* An object that one thread may use at a time; more are an error. */
struct guard {
    atomic_flag busy;
};
int guard_enter(struct state *state, struct guard *guard, const char *what);
static inline void guard_leave(struct guard *guard) {
    atomic_flag_clear_explicit(&guard->busy, memory_order_release);
}

/* A call of an object with its arguments in a row, by CPython's vectorcall protocol. */
typedef PyObject *(*vectorcall)(PyObject *callable, PyObject *const *args, size_t n_args, PyObject *names);
/* Py_TPFLAGS_HAVE_VECTORCALL, which the limited API names from 3.12 on; types of 3.11 have it too. */
#define HAVE_VECTORCALL (1UL << 11)
/* tp_call by that; PyVectorcall_Call is in the limited API from 3.12 on. */
PyObject *call_by_tuple(vectorcall call, PyObject *self, PyObject *args, PyObject *kwargs);

struct engine {
    PyObject_HEAD vectorcall call;
    struct ingot_engine *engine;
    void *data; /* that it was loaded from; by python_allocator. NULL: a file */
    size_t size;
    unsigned ranks;               /* that its runs are divided among */
    PyObject *path;               /* of the file; or NULL */
    PyObject *report;             /* of the build; or NULL */
    _Atomic(PyObject *) idle[16]; /* sessions for calls of the engine itself; these do not count as its users */
    atomic_int gpu;               /* that the next of those calls is tried on */
    struct ingot_tensor_info *inputs, *outputs;
    size_t n_inputs, n_outputs;
    size_t *updates;          /* of each output: the input in whose memory it is stored; SIZE_MAX: none */
    bool *is_updated;         /* of each input: whether a run changes it */
    bool any_update, any_own; /* an output is stored in an input's memory, or is not */
    bool is_cuda, is_refitted;
    _Atomic(struct lent *) lent; /* memory that kernels read (lent.c) */
    atomic_int looks;            /* how many runs are still to look whether some of that is free */
};
int add_engine(PyObject *module, struct state *state);
/* Takes `data`, which may be NULL, also on failure. `ranks`: threads, or GPUs, that compute a run together; 0: one. */
PyObject *engine_new(struct state *state, PyObject *path, void *data, size_t size, enum ingot_verify verify,
                     unsigned ranks);
PyObject *load(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *engine_refit(PyObject *self, PyObject *args, PyObject *kwargs);

/* Room for n tensors that an engine borrows; NULL with an exception if there is no memory, or n is 0. */
struct lent *lent_new(size_t n);
void lent_free(struct lent *first);
/* Keeps the tensors that a refit has given the engine, as many as there is room for, and frees those that it no longer reads. */
void lent_keep(struct engine *engine, struct lent *room, struct array *arrays);
/* Behind a run. */
void lent_look(struct engine *engine);

struct run; /* an enqueued run, and the lease on its results */
int add_run(PyObject *module, struct state *state);

int add_session(PyObject *module, struct state *state);
/* A session of `engine` by keywords, which may be NULL. */
PyObject *session_new(PyObject *engine, PyObject *kwargs);
PyObject *session_call(PyObject *session, PyObject *const *args, size_t n_args, PyObject *names);
int session_gpu(const PyObject *session);
/* The GPU that an input of the last call is on, if the session, on another one, had to refuse it; else -1. */
int session_misplaced(const PyObject *session);
/* A session that the engine itself holds must not hold the engine: parked, it has no reference. */
void session_park(PyObject *session);
void session_unpark(PyObject *session);

struct arena {
    PyObject_HEAD struct ingot_arena *arena;
};
int add_arena(PyObject *module, struct state *state);

struct cache {
    PyObject_HEAD struct ingot_cache *cache;
};
struct model {
    PyObject_HEAD struct ingot_model *model;
    struct guard guard;
    PyObject *owners; /* of weights that a network borrowed; or NULL */
};
int add_cache(PyObject *module, struct state *state);
int add_model(PyObject *module, struct state *state);
PyObject *model_wrap(struct state *state, struct ingot_model *model, PyObject *owners);
PyObject *model_build(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *refit_file(PyObject *module, PyObject *args, PyObject *kwargs);
int add_network(PyObject *module, struct state *state);
int add_watch(PyObject *module);

#endif
