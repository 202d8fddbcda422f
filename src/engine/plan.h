/*
 * The plan: what the runtime follows. Flat arrays of fixed-size little-endian records, indices instead of pointers, so
 * that the section in the file is used as it lies after one validation. The compiler fills an ig_plan; the runtime sees
 * the same struct with its arrays pointing into the mapped file.
 */
#ifndef IG_ENGINE_PLAN_H
#define IG_ENGINE_PLAN_H

#include <stdint.h>

#include "base/library.h"
#include "base/tensor_map.h"

#define IG_PLAN_NONE UINT32_MAX

/* A string: offset into the plan's string table, terminated there. */
typedef uint32_t ig_plan_string;
/* A number of the current shapes: index into the slots that the shape program fills. */
typedef uint32_t ig_slot;

/* Slots 0 … n_symbols-1 are the symbols; instruction i fills slot n_symbols + i. */
enum ig_shape_op { IG_SHAPE_CONST, IG_SHAPE_ADD, IG_SHAPE_MUL, IG_SHAPE_DIV, IG_SHAPE_MOD, IG_SHAPE_MIN, IG_SHAPE_MAX };
struct ig_shape_instr {
    uint32_t op;
    uint32_t a, b; /* slots, both lower than the result's */
    uint32_t reserved;
    int64_t value; /* CONST */
};

/* What a plan took to be equal, and its kernels rely on: shapes for which the slots differ are refused. */
struct ig_plan_check {
    ig_slot a, b;
    ig_plan_string text; /* "n == m" */
};

/* How a symbol gets its value: dim `axis` of input `input`, or, where axis is IG_PLAN_NONE, element `element` of the
 * integer input `input` (read on the host when a run begins). */
struct ig_plan_symbol {
    ig_plan_string name;
    uint32_t input;
    uint32_t axis;
    uint32_t element;
    int64_t lo, hi; /* the range the engine was built for */
};

struct ig_plan_tensor { /* an input or output of the engine */
    ig_plan_string name;
    uint32_t dtype, rank;
    uint32_t buffer;
    ig_slot dims[INGOT_MAX_RANK];
    ig_plan_string symbols[INGOT_MAX_RANK];
};

enum ig_plan_buffer_kind {
    IG_PLAN_ARENA,  /* planned memory, live from step `first` to step `last` */
    IG_PLAN_INPUT,  /* index: of the plan's input; bound memory, read only */
    IG_PLAN_OUTPUT, /* index: of the plan's output */
    IG_PLAN_WEIGHT, /* index: byte offset / 64 into the weights section */
    IG_PLAN_ALIAS,  /* the memory of buffer `index` (a reshape, a part), at byte offset slot `offset` */
};
/* An arena's or output's is written by the first step that touches it, and by no other: runtimes may change the order of steps. */
struct ig_plan_buffer {
    uint32_t kind;
    uint32_t index;
    ig_slot bytes;
    ig_slot offset;       /* ALIAS; else IG_PLAN_NONE */
    uint32_t first, last; /* ARENA: steps between which it is live, both included */
};

enum ig_plan_step_kind {
    IG_STEP_KERNEL, /* kernel(bufs, dims, tiles) */
    IG_STEP_COPY,   /* buffer operand 0 to operand 1: what is an input or a constant and an output too */
    IG_STEP_IF,     /* operand 0: the condition (bool); then plan `a` or plan `b`; the rest as below */
    IG_STEP_LOOP,   /* operands 0, 1: trip (i64; IG_PLAN_NONE: unbounded), condition (bool; IG_PLAN_NONE: true); body
                       plan `a`; n_carried */
};
/*
 * Operands are buffer numbers in the plan's operand table. KERNEL: the kernel's buffers in order. IF: condition,
 * captures…, results…; both plans have inputs captures and outputs results. LOOP: trip, condition, initial carried…,
 * captures…, final carried…, scanned…; the body has inputs iteration i64, condition bool, carried…, captures… and outputs
 * condition, carried…, scanned… (one slice).
 */
struct ig_plan_step {
    uint32_t kind;
    uint32_t kernel;
    uint32_t operands, n_operands; /* first index into the operand table; count */
    uint32_t dims, n_dims;         /* first index into the dim table (slots); count */
    ig_slot tiles, scratch, work;
    uint32_t a, b;                /* plans of bodies */
    uint32_t n_inputs, n_carried; /* IF: captures; LOOP: captures, carried */
    ig_plan_string label;         /* the regions' ONNX nodes, for profiles */
};

struct ig_plan_kernel {
    uint64_t entry;    /* offset into the code section: of the function; CUDA: of the cubin that holds it */
    uint64_t portable; /* CUDA: offset of its PTX, a terminated text; UINT64_MAX: there is none */
    ig_plan_string name;
    ig_plan_string fingerprint;
    ig_plan_string tactic;
    uint32_t threads;      /* CUDA: of a block */
    uint32_t shared_bytes; /* CUDA: dynamic shared memory of a block */
    uint32_t waits; /* CUDA: 1 where it waits for the kernel before it by itself, so that it may be started early */
    uint32_t
        library; /* CUDA: not code of its own (entry is 0, portable UINT64_MAX) but call number library-1 of the table;
                         its operands and dims are those of the call. 0: code */
    uint32_t lasting; /* CUDA: 1 where a block does tiles until none is left, and there need not be more blocks than the
                         GPU has multiprocessors; 0 where it is given as many as there are tiles */
    uint32_t n_maps;  /* CUDA: tensor maps, which it gets behind its other parameters */
    struct ig_tensor_map maps[IG_MOST_TENSOR_MAPS]; /* those beyond n_maps are zero */
    uint32_t reserved;
};

/* One plan: the engine's main one, or a body of control flow (whose tensors name its inputs and outputs, and whose slots
 * are the main plan's: one shape program serves all). */
struct ig_subplan {
    uint32_t inputs, n_inputs; /* ranges of the tensor table */
    uint32_t outputs, n_outputs;
    uint32_t buffers, n_buffers; /* ranges of the buffer table; operands count from the subplan's first buffer */
    uint32_t steps, n_steps;
    uint32_t checks,
        n_checks; /* a range of the check table: the main plan's hold when shapes are bound, a body's when it
                                  is run */
};

struct ig_plan {
    uint32_t n_symbols, n_instrs, n_tensors, n_buffers, n_operands, n_dims, n_steps, n_kernels, n_calls, n_subplans,
        n_checks;
    uint32_t strings_size;
    const struct ig_plan_symbol *symbols;
    const struct ig_shape_instr *instrs;
    const struct ig_plan_tensor *tensors;
    const struct ig_plan_buffer *buffers;
    const uint32_t *operands;
    const ig_slot *dims;
    const struct ig_plan_step *steps;
    const struct ig_plan_kernel *kernels;
    const struct ig_library_call *calls; /* of libraries: base/library.h */
    const struct ig_subplan *subplans;   /* 0: the main plan */
    const struct ig_plan_check *checks;
    const char *strings;
};

/* A CPU kernel's address type. */
typedef void (*ig_cpu_kernel)(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch);

#endif
