/* ingot.Tensor shown to other libraries by DLPack. */
#include <stdlib.h>

#include "session.h"

/* Elements of less than 8 bits are shown as the bytes that they are: i4 and i2 as int8, the others as uint8. */
struct dl_type dlpack_type(enum ingot_dtype dtype) {
    static const struct dl_type types[INGOT_DTYPE_COUNT] = {
        [INGOT_F32] = {DL_FLOAT, 32, 1},
        [INGOT_F16] = {DL_FLOAT, 16, 1},
        [INGOT_BF16] = {DL_BFLOAT, 16, 1},
        [INGOT_F64] = {DL_FLOAT, 64, 1},
        [INGOT_I8] = {DL_INT, 8, 1},
        [INGOT_I16] = {DL_INT, 16, 1},
        [INGOT_I32] = {DL_INT, 32, 1},
        [INGOT_I64] = {DL_INT, 64, 1},
        [INGOT_U8] = {DL_UINT, 8, 1},
        [INGOT_U16] = {DL_UINT, 16, 1},
        [INGOT_U32] = {DL_UINT, 32, 1},
        [INGOT_U64] = {DL_UINT, 64, 1},
        [INGOT_BOOL] = {DL_BOOL, 8, 1},
        [INGOT_I4] = {DL_INT, 8, 1},
        [INGOT_U4] = {DL_UINT, 8, 1},
        [INGOT_I2] = {DL_INT, 8, 1},
        [INGOT_U2] = {DL_UINT, 8, 1},
        [INGOT_F4E2M1] = {DL_UINT, 8, 1},
        [INGOT_F8E4M3FN] = {DL_FLOAT8_E4M3FN, 8, 1},
        [INGOT_F8E4M3FNUZ] = {DL_FLOAT8_E4M3FNUZ, 8, 1},
        [INGOT_F8E5M2] = {DL_FLOAT8_E5M2, 8, 1},
        [INGOT_F8E5M2FNUZ] = {DL_FLOAT8_E5M2FNUZ, 8, 1},
        [INGOT_F8E8M0] = {DL_FLOAT8_E8M0FNU, 8, 1},
    };
    return types[dtype];
}

void dlpack_describe(const struct ingot_tensor *value, int device, int64_t *dims, int64_t *steps,
                     struct dl_tensor *out_tensor) {
    bool on_gpu = value->memory == INGOT_CUDA;
    int64_t step = 1;
    for (int i = value->rank; i-- > 0;) {
        dims[i] = value->dims[i];
        steps[i] = step;
        step *= value->dims[i];
    }
    *out_tensor = (struct dl_tensor){
        .data = step ? value->data : NULL,
        .device = {on_gpu ? DL_CUDA : DL_CPU, on_gpu ? device : 0},
        .ndim = value->rank,
        .dtype = dlpack_type(value->dtype),
        .shape = dims,
        .strides = steps,
    };
}

static void describe(struct tensor *self, struct dl_tensor *out_tensor) {
    dlpack_describe(&self->value, self->device, self->dims, self->steps, out_tensor);
}

/* Deleters may be called from any thread, with or without the GIL. */
static void drop(PyObject *object) {
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(object);
    PyGILState_Release(gil);
}

static void delete_versioned(struct dl_managed_versioned *managed) {
    PyObject *owner = managed->context;
    free(managed);
    drop(owner);
}

static void delete_old(struct dl_managed *managed) {
    PyObject *owner = managed->context;
    free(managed);
    drop(owner);
}

static struct dl_managed_versioned *export(struct tensor *self) {
    struct dl_managed_versioned *managed = calloc(1, sizeof *managed);
    if (!managed) return (void *)PyErr_NoMemory();
    managed->version = (struct dl_version){DL_MAJOR, DL_MINOR};
    managed->context = Py_NewRef((PyObject *)self);
    managed->deleter = delete_versioned;
    managed->flags = self->is_read_only ? DL_READ_ONLY : 0;
    describe(self, &managed->tensor);
    return managed;
}

/* A capsule that nobody took. */
static void delete_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        delete_old(PyCapsule_GetPointer(capsule, "dltensor"));
    }
}

static PyObject *versioned_capsule(struct tensor *self, bool is_copied) {
    struct dl_managed_versioned *managed = export(self);
    if (!managed) return NULL;
    if (is_copied) managed->flags |= DL_IS_COPIED;
    PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", delete_capsule);
    if (!capsule) delete_versioned(managed);
    return capsule;
}

static PyObject *old_capsule(struct tensor *self) {
    if (self->is_read_only) {
        PyErr_SetString(PyExc_BufferError, "the tensor is read-only, which DLPack before 1.0 cannot say");
        return NULL;
    }
    struct dl_managed *managed = calloc(1, sizeof *managed);
    if (!managed) return PyErr_NoMemory();
    managed->context = Py_NewRef((PyObject *)self);
    managed->deleter = delete_old;
    describe(self, &managed->tensor);
    PyObject *capsule = PyCapsule_New(managed, "dltensor", delete_capsule);
    if (!capsule) delete_old(managed);
    return capsule;
}

/* Of memory that is not a run's, only who has made it knows what writes to it. */
static int order(struct tensor *self, int64_t stream) {
    struct state *state = state_of((PyObject *)self);
    if (!self->owner) return 0;
    if (Py_TYPE(self->owner) == state->run_type) return run_order(state, (struct run *)self->owner, stream);
    return as_tensor_order(state, self->owner, stream);
}

/* What the standard allows: None for the CPU; for CUDA also -1 (no synchronisation), 1 (the legacy default stream, which None
 * means), 2 and handles, but not 0. */
static int check_stream(struct tensor *self, PyObject *stream) {
    bool on_gpu = self->value.memory == INGOT_CUDA;
    if (stream == Py_None) return on_gpu ? order(self, 1) : 0;
    if (!on_gpu) {
        PyErr_SetString(PyExc_BufferError, "the tensor is in host memory: stream must be None");
        return -1;
    }
    long long number = PyLong_AsLongLong(stream);
    if (number == -1 && PyErr_Occurred()) return -1;
    if (number && number >= -1) return order(self, number);
    PyErr_Format(PyExc_BufferError, "stream %lld is not allowed", number);
    return -1;
}

static int check_device(struct tensor *self, PyObject *device) {
    if (device == Py_None) return 0;
    int type, id;
    if (!PyTuple_Check(device)) {
        PyErr_SetString(PyExc_TypeError, "dl_device must be a tuple of two ints");
        return -1;
    }
    if (!PyArg_ParseTuple(device, "ii", &type, &id)) return -1;
    struct dl_tensor shown;
    describe(self, &shown);
    struct dl_device own = shown.device;
    if (type == own.type && id == own.id) return 0;
    PyErr_Format(PyExc_BufferError, "the tensor is on device (%d, %d) and is not copied to (%d, %d)", (int)own.type,
                 (int)own.id, type, id);
    return -1;
}

PyObject *tensor_dlpack(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO", names, &stream, &version, &device, &copy)) return NULL;
    struct tensor *self = (struct tensor *)object;
    if (check_stream(self, stream) || check_device(self, device)) return NULL;
    int major = 0, minor = 0;
    if (version != Py_None && (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii", &major, &minor))) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "max_version must be a tuple of two ints");
        return NULL;
    }
    int wants_copy = copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (wants_copy < 0) return NULL;
    if (wants_copy && self->value.memory == INGOT_CUDA) {
        PyErr_SetString(PyExc_BufferError, "a tensor in GPU memory is not copied: copy the imported one");
        return NULL;
    }
    PyObject *shown = wants_copy ? tensor_copy(state_of(object), &self->value) : Py_NewRef(object);
    if (!shown) return NULL;
    PyObject *capsule =
        major >= DL_MAJOR ? versioned_capsule((struct tensor *)shown, wants_copy) : old_capsule((struct tensor *)shown);
    Py_DECREF(shown);
    return capsule;
}

PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused) {
    struct dl_tensor shown;
    describe((struct tensor *)self, &shown);
    return Py_BuildValue("(ii)", (int)shown.device.type, (int)shown.device.id);
}
