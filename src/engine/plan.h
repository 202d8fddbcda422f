/*
 * The plan: the program that the runtime executes. Flat arrays of fixed-size little-endian records with indices instead
 * of pointers, so that after one validation they are used in place. The compiler fills an ig_plan; the runtime's has
 * its arrays pointing into the mapped file.
 */
#ifndef IG_ENGINE_PLAN_H
#define IG_ENGINE_PLAN_H

#include <stdint.h>

#include "base/collective.h"
#include "base/library.h"
#include "base/machine.h"
#include "base/tensor_map.h"

#define IG_PLAN_NONE UINT32_MAX
/* Kernels for GPUs access up to 16 bytes at once, and require buffers aligned to that. */
#define IG_KERNEL_ALIGNMENT 16

/* Offset of a NUL-terminated string in the plan's string table. */
typedef uint32_t ig_plan_string;
/* Index of a number that depends on the shapes: one of the slots that the shape program fills. */
typedef uint32_t ig_slot;

/* Slots 0 … n_symbols-1 are the symbols; instruction i fills slot n_symbols + i. The demand program goes on with slot
 * n_symbols + n_instrs, in the same way. */
enum ig_shape_op { IG_SHAPE_CONST, IG_SHAPE_ADD, IG_SHAPE_MUL, IG_SHAPE_DIV, IG_SHAPE_MOD, IG_SHAPE_MIN, IG_SHAPE_MAX };
struct ig_shape_instr {
    uint32_t op;
    uint32_t a, b; /* slots, both lower than the result's */
    uint32_t reserved;
    int64_t value; /* CONST */
};

/* An equality that the plan assumes and its kernels rely on: shapes for which the slots differ are refused. */
struct ig_plan_check {
    ig_slot a, b;
    ig_plan_string text; /* "n == m" */
};

/* The source of a symbol's value: dim `axis` of input `input` or, if axis is IG_PLAN_NONE, element `element` of the
 * integer input `input` (read on the host when a run begins). */
struct ig_plan_symbol {
    ig_plan_string name;
    uint32_t input;
    uint32_t axis;
    uint32_t element;
    int64_t lo, hi; /* the range that the engine was built for; lo == hi: kernels take parts of it, down to 1, too */
    /*
     * IG_PLAN_NONE: the symbol counts rows that do not affect each other. Then the main plan's inputs and outputs have
     * them along the axis whose dim is this symbol's slot, of which each has at most one, and their other dims do not
     * depend on it; rows appended to the inputs, of any content, leave the first rows of the outputs as they were. Else
     * the reason why that is not so, for people (ir/rows/rows.h).
     */
    ig_plan_string mixes;
    uint32_t reserved;
};

struct ig_plan_tensor { /* input or output of a subplan */
    ig_plan_string name;
    uint32_t dtype, rank;
    uint32_t buffer;
    ig_slot dims[INGOT_MAX_RANK];
    ig_plan_string symbols[INGOT_MAX_RANK];
    /* Of an output of the main plan: 1 + the input in whose memory it is to be stored, which has the same type and dims; 0:
     * none. In the order of the steps, whatever else reads the input comes before the step that writes the output. */
    uint32_t updates;
    uint32_t reserved;
};

enum ig_plan_buffer_kind {
    IG_PLAN_ARENA,  /* in the arena, live from step `first` to step `last` */
    IG_PLAN_INPUT,  /* index: the plan's input; bound memory, written by an output alone that updates it */
    IG_PLAN_OUTPUT, /* index: the plan's output; bound memory */
    IG_PLAN_WEIGHT, /* index: byte offset / 64 into the weights section, and the copies behind it */
    IG_PLAN_ALIAS,  /* memory of buffer `index` (a reshape, a part) at byte offset slot `offset` */
    IG_PLAN_SEAT, /* CUDA: this rank's struct ig_window_seat (base/window.h); index 0; for alternatives of collectives */
};
/* The first step that uses an ARENA or OUTPUT buffer writes it, and no other step does; aliases are only read. Runtimes
 * rely on this to reorder steps. */
struct ig_plan_buffer {
    uint32_t kind;
    uint32_t index;
    ig_slot bytes;
    ig_slot offset;       /* ALIAS; else IG_PLAN_NONE */
    uint32_t first, last; /* ARENA: first and last live step, inclusive */
};

enum ig_plan_step_kind {
    IG_STEP_KERNEL, /* kernel(bufs, dims, tiles) */
    IG_STEP_COPY,   /* copies operand 0 to operand 1: for outputs that are an input or a constant, or not aligned */
    /* Operand 0: condition (bool); runs plan `a` if true, else plan `b`. See below for the other operands. */
    IG_STEP_IF,
    /* Operands 0, 1: trip count (i64; IG_PLAN_NONE: unbounded), condition (bool; IG_PLAN_NONE: true); body plan `a`;
     * n_carried. */
    IG_STEP_LOOP,
    /* Collective `kernel` of the ranks (base/collective.h) from operand 0 to operand 1, of which a send has only the first
     * and a receive only the second; the other is IG_PLAN_NONE. The dims are its outer and its inner size, then the part of
     * each rank. All ranks' plans have the same collectives in the same order, but that of two ranks is a send of nothing on the
     * others. Its alternatives are kernels for GPUs that reach
     * each other's memory, with the seat as last operand and the number of the collective among the plan's as first dim; the runtime
     * chooses. The first has these operands otherwise. The second does what this step and the next, a kernel, do: its second dim is the number
     * of lines of the message, and its tiles that of rows, both of which have to fit (base/window.h). It needs not write operand 1. */
    IG_STEP_COLLECTIVE,
};
/*
 * Operands are buffer numbers in the plan's operand table.
 *  - KERNEL: the kernel's buffers in order.
 *  - IF: condition, captures…, results…; both plans have the captures as inputs and the results as outputs.
 *  - LOOP: trip count, condition, initial carried…, captures…, final carried…, scanned…; the body has the inputs
 *    iteration (i64), condition (bool), carried…, captures… and the outputs condition, carried…, scanned… (one slice).
 */
struct ig_plan_step {
    uint32_t kind;
    uint32_t kernel;
    uint32_t operands, n_operands; /* first index into the operand table; count */
    uint32_t dims, n_dims;         /* first index into the dim table (slots); count */
    ig_slot tiles, scratch, work;
    uint32_t a, b;                /* subplans of the bodies */
    uint32_t n_inputs, n_carried; /* IF: number of captures; LOOP: number of captures, of carried values */
    ig_plan_string label;         /* ONNX nodes of the region, for profiles */
    /* KERNEL: the same step by other kernels, as records of the step table that belong to no subplan; slot `choice` says
     * which one runs: 0 is this one, i the alternative i - 1. COLLECTIVE: at most two, and no choice. */
    uint32_t alternatives, n_alternatives;
    ig_slot choice;
    uint32_t demand; /* KERNEL, COPY: entry demand-1 of the demand table; 0: not known */
};

/* What a step demands of a machine (base/machine.h). Only profiles ask for that: the slots are those of the shape program or
 * of the demand program, which does not run when shapes are bound. */
struct ig_plan_demand {
    ig_slot constants, reads, writes;
    ig_slot operations[IG_UNIT_COUNT];
    ig_slot turns;
};

enum { IG_MOST_LASTING = 8 }; /* persistent blocks per multiprocessor */

struct ig_plan_kernel {
    /* Offset in the code section: CPU: of the function; CUDA: of the cubin that contains it. */
    uint64_t entry;
    uint64_t portable; /* CUDA: offset of its PTX, NUL-terminated; UINT64_MAX: none */
    ig_plan_string name;
    ig_plan_string fingerprint;
    ig_plan_string tactic;
    uint32_t threads;      /* CUDA: threads per block */
    uint32_t shared_bytes; /* CUDA: bytes of dynamic shared memory per block */
    uint32_t waits;        /* CUDA: 1: waits for the preceding kernel itself, so that it may start early */
    /* CUDA: 0: code. Else entry library-1 of the call table, whose operands and dims the kernel has; entry is 0 and
     * portable UINT64_MAX. */
    uint32_t library;
    /* CUDA: persistent blocks, each taking tiles until none is left; so many per multiprocessor are enough. 0: one block
     * per tile. */
    uint32_t lasting;
    uint32_t n_maps;                                /* CUDA: tensor maps, passed after the other parameters */
    struct ig_tensor_map maps[IG_MOST_TENSOR_MAPS]; /* entries from n_maps on are zero */
    /* CPU: tiles of a turn: a turn begins when the one before has ended, and sees what that one wrote; 0: no turns. */
    uint32_t turn;
    /* CPU: 1: what a worker does of the kernel (or of a turn) it does in one call, since the tiles of a call share work; 0: it may
     * do it in several, and give some away. */
    uint32_t whole;
    uint32_t kind; /* CPU: an ig_cpu_kind, for estimates */
};

/* The engine's main plan, or a body of control flow. A body's tensors are its inputs and outputs. All subplans share
 * one shape program and its slots. */
struct ig_subplan {
    uint32_t inputs, n_inputs; /* ranges of the tensor table */
    uint32_t outputs, n_outputs;
    uint32_t buffers, n_buffers; /* ranges of the buffer table; operands are relative to the subplan's first buffer */
    uint32_t steps, n_steps;
    /* range of the check table: the main plan's must hold when shapes are bound, a body's when it runs */
    uint32_t checks, n_checks;
};

/* Of an engine for several ranks: the main plan of a rank of so many. Ascending by both, every rank of a number of ranks. All
 * have the same inputs and outputs, whole on every rank, and those with one rank have no collectives; but of an output that
 * only rank 0 computes, the first axis is 0 on others. Subplan 0 is the first one's. */
struct ig_plan_rank {
    uint32_t ranks, rank;
    uint32_t subplan;
    uint32_t reserved;
};

/*
 * Weights that are put together from others, when they are loaded: `count` pieces of so many bytes, `stride` from one to the next, which
 * lie in the weights section from `from` on and become one piece at `to`. These places follow the section, as if it went on: copies
 * lie one behind the other, from its end on, at multiples of 64 or where the one before ends. A rank's part of a weight that
 * is stored for fewer ranks is such copies, or, where it is one piece, a buffer within the stored one.
 */
struct ig_weight_copy {
    uint64_t to, from, piece, stride, count;
};

struct ig_plan {
    uint32_t n_symbols, n_instrs, n_tensors, n_buffers, n_operands, n_dims, n_steps, n_kernels, n_calls, n_collectives,
        n_subplans, n_ranks, n_copies, n_checks, n_demand_instrs, n_demands;
    uint32_t strings_size;
    const struct ig_plan_symbol *symbols;
    const struct ig_shape_instr *instrs;
    const struct ig_plan_tensor *tensors;
    const struct ig_plan_buffer *buffers;
    const uint32_t *operands;
    const ig_slot *dims;
    const struct ig_plan_step *steps;
    const struct ig_plan_kernel *kernels;
    const struct ig_library_call *calls; /* of vendor libraries: base/library.h */
    const struct ig_collective *collectives;
    const struct ig_subplan *subplans; /* subplan 0 is the main plan */
    const struct ig_plan_rank *ranks;  /* of main plans; none: subplan 0 is for one rank */
    const struct ig_weight_copy *copies;
    const struct ig_plan_check *checks;
    const struct ig_shape_instr *demand_instrs;
    const struct ig_plan_demand *demands;
    const char *strings;
};

/* The main plan of that rank; IG_PLAN_NONE if the plan has none for so many ranks. */
uint32_t ig_plan_rank_subplan(const struct ig_plan *plan, uint32_t ranks, uint32_t rank);
/* The numbers of ranks that the plan has main plans for, ascending: fills at most `capacity`, returns how many there are. */
uint32_t ig_plan_degrees(const struct ig_plan *plan, uint32_t *out_degrees, uint32_t capacity);

/* Where the copies behind a section of so many bytes end, at a multiple of 64. */
uint64_t ig_plan_copies_end(const struct ig_plan *plan, uint64_t section);

/* The bytes of a buffer, where they are the same for all shapes; else UINT64_MAX. */
uint64_t ig_plan_fixed_bytes(const struct ig_plan *plan, const struct ig_plan_buffer *buffer);
/* Does a buffer of weights lie within the section, or within copies that follow each other, whatever the shapes? */
bool ig_plan_copies_hold(const struct ig_plan *plan, uint64_t section, const struct ig_plan_buffer *weight);

/* The bytes of the weights that a main plan reads, without those of bodies of control flow. */
uint64_t ig_plan_weight_bytes(const struct ig_plan *plan, uint32_t subplan);

/* The ranks of a process: `count` of `ranks`, from `first` on. */
struct ig_plan_seats {
    uint32_t ranks, first, count;
};
/* By copy: is it in a weight that these ranks read? */
void ig_plan_copies_find(const struct ig_plan *plan, struct ig_plan_seats seats, bool *out_used);

/* A range of the weights section, in multiples of 64 bytes but for the section's end. */
struct ig_plan_range {
    uint64_t begin, end;
};
/* What these ranks read of a section of so many bytes, but for what is put together: ascending, with gaps between. Fills
 * out_ranges (NULL: none), which has room for as many as are returned without. */
uint32_t ig_plan_reads_find(const struct ig_plan *plan, uint64_t section, struct ig_plan_seats seats,
                            struct ig_plan_range *out_ranges);

/* A CPU kernel's function type. */
typedef void (*ig_cpu_kernel)(void *const *buf, const int64_t *dim, int64_t begin, int64_t end, void *scratch);

#endif
