/* A session's parts: session.c runs, bind.c runs tensors that stay, prepare.c prepares shapes, session_info.c tells about it. */
#ifndef INGOT_PYTHON_SESSION_H
#define INGOT_PYTHON_SESSION_H

#include "ingot_python.h"

/* An input or output. */
struct port {
    PyObject *name; /* interned */
    struct source source;
    struct array array;  /* during a call */
    void *scratch;       /* inputs that are not dense are copied here; PyMem */
    size_t scratch_size; /* bytes */
    /* What is bound: */
    PyObject *owner; /* NULL: nothing */
    struct source bound_source;
    struct array bound;
};

/* The driver's name for the legacy default stream, which frameworks call 0; 0 is the context's own to Ingot. */
#define LEGACY_STREAM ((void *)1)

/* What results are given out as: like the tensors that came in. */
enum style { STYLE_INGOT, STYLE_NUMPY, STYLE_EXCHANGE };

struct session {
    PyObject_HEAD vectorcall call;
    struct engine *engine; /* kept, unless it is parked */
    bool is_parked;
    struct ingot_context *context;
    PyObject *arena; /* kept; or NULL */
    struct guard guard;
    struct port *inputs, *outputs;
    PyObject **objects; /* the inputs of a call, borrowed */
    /* What the context is bound to now: */
    enum { OUTPUTS_OWN, OUTPUTS_BOUND } mode;
    enum ingot_memory memory; /* of outputs in the context's memory */
    bool is_bound;            /* inputs are what `bind` bound, not what a call left */
    int device;
    int misplaced;    /* the GPU of an input that was refused because it is not on `device`; -1: none was */
    void *stream;     /* a CUstream; NULL: that of the caller's framework, or the context's own */
    bool has_outputs; /* `bind` bound outputs, too */
};

/* A lease on a run's results, for whoever reads them: on any thread, with the GIL or without. */
struct held {
    atomic_size_t holders;
    struct ingot_lease *lease;
    void *stream; /* behind whose work it is released; NULL: all is over by then */
};

/* What a run gives out, and how. */
struct results {
    struct held *held; /* NULL: all outputs are stored in inputs */
    PyObject *updated; /* a tuple of the inputs that the run changes, in the places of the outputs; or NULL */
    void *stream;      /* NULL: the context's own */
    size_t n_outputs;
    int device;
    bool is_asked_later; /* the framework's current stream may be another than `stream` when results are given out */
    enum style style;
    const struct dl_exchange_api *api;
};

struct run {
    PyObject_HEAD struct results results;
    PyObject *keep; /* the inputs, until the run is done */
    bool is_done;
};

/* Leases the last run's results. `inputs`, in order, are those that the run may change. */
int results_take(struct session *session, void *stream, enum style style, const struct dl_exchange_api *api,
                 PyObject *const *inputs, struct results *out_results);
/* One object, or a tuple if there are several outputs. Takes the results. Those in host memory must be there. */
PyObject *results_give(struct state *state, struct results *results);
/* A run that has the results, which it takes, also on failure. */
struct run *run_new(struct state *state, struct results *results);
/* Makes work on `stream` see the run's results in GPU memory, and keeps the memory until that work is done: the GPU waits, not
 * the host. -1: the caller does not want that. */
int run_order(struct state *state, struct run *run, int64_t stream);

/* What a run takes from its inputs. */
struct demand {
    void *stream; /* NULL: the context's own */
    bool on_gpu;  /* an input is in GPU memory */
    const struct dl_exchange_api *api;
};
int session_place_input(struct session *self, size_t index, struct array *array, const struct dl_exchange_api *api,
                        struct demand *demand);
/* Says which input an exception is about; -1. */
int session_blame_input(struct session *self, size_t index);
/* Copies an input in host memory that is not dense. */
int session_pack_input(struct port *port, struct array *array, struct ingot_tensor *tensor);
/* Puts outputs into the context's memory. */
int session_own_outputs(struct session *self, enum ingot_memory memory);
/* Runs; waits unless results stay on the GPU. */
int session_launch(struct session *self, const struct demand *demand);

PyObject *session_bind(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *session_unbind(PyObject *self, PyObject *unused);
PyObject *session_run_bound(PyObject *self, PyObject *unused);
void session_drop_bound(struct session *self);

PyObject *session_wait(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *session_cancel(PyObject *self, PyObject *unused);
PyObject *session_set_time_limit(PyObject *self, PyObject *seconds);
PyObject *session_set_batch(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *session_batch(PyObject *self, PyObject *unused);
/* prepare.c: */
PyObject *session_prepare(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *session_prepare_wait(PyObject *self, PyObject *unused);

PyObject *session_trim(PyObject *self, PyObject *unused);
PyObject *session_profile(PyObject *self, PyObject *unused);
PyObject *session_timing(PyObject *self, PyObject *unused);
PyObject *session_memory(PyObject *self, PyObject *unused);
PyObject *session_plans(PyObject *self, PyObject *unused);

#endif
