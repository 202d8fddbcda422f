/*
 * Internals of the CUDA printer: print.c (the frame), statement.c (who executes what), barrier.c (barriers within the
 * block), vector.c (16-byte accesses), quantize.c
 * (quantisation without conversions), rounded.c (which functions have short forms), prelude.c and prelude_quantize.c (functions), micro.c (the CPU's micro-kernels).
 */
#ifndef IG_CODEGEN_CUDA_PRINTER_H
#define IG_CODEGEN_CUDA_PRINTER_H

#include "codegen/cuda/print.h"
#include "codegen/printer.h"

/* Who executes the current statement. */
enum ig_cuda_level {
    IG_CUDA_BLOCK,  /* all threads of the block together */
    IG_CUDA_TEAM,   /* the threads of a team together */
    IG_CUDA_THREAD, /* each thread separately */
};

struct ig_cuda_printer {
    struct ig_code_printer base; /* first: hooks of the language receive its address */
    enum ig_cuda_level level;
    int threads, lanes; /* of the block that work on one tile; per team */
    bool waits_late;    /* for its predecessor: behind loads of weights, in the middle of its text */
    bool producer;      /* a warp of the block only fetches, so that the block cannot meet */
    bool served;        /* a warp of the block only copies (attention), so that only the others meet */
    bool turns;         /* the block has several groups of `threads`, which do tiles in turns */
    bool *fence;        /* by place: a barrier precedes it */
    bool *is_private;   /* by buffer: every thread has its own copy */
    int spread_var;     /* SPREAD buffers: variable of the current loop; -1: none */
    const char *spread_slot;
};

/* Is the loop divided among the threads of the block, or team, that reach it? */
bool ig_cuda_is_divided(struct ig_code_printer *p, const struct ig_stmt *s);
/* Fill p->is_private, then p->fence. */
void ig_cuda_place_buffers(struct ig_cuda_printer *p);
void ig_cuda_place_fences(struct ig_cuda_printer *p);

/* A number that is rounded, moved by a zero point and bounded, as a byte; NaN becomes the lower bound. */
struct ig_cuda_byte {
    ig_x number;         /* f32 */
    int zero, low, high; /* the bounds are the byte's */
};
bool ig_cuda_match_byte(const struct ig_loops *k, ig_x x, struct ig_cuda_byte *out);
/* Rewrites quantisation in a kernel's expressions (quantize.c). */
void ig_cuda_quantize(struct ig_loops *k);

/* Combines the loads and stores of vector loops (IG_FOR_VECTOR) into accesses of up to 16 bytes. */
void ig_cuda_vectorize(struct ig_loops *k);

/* Fills p->form. */
void ig_cuda_find_rounded(struct ig_code_printer *p);

void ig_cuda_stmt(struct ig_cuda_printer *p, const struct ig_stmt *s, uint32_t *next);
extern const struct ig_code_language ig_cuda_language;

/* Prints a micro-kernel as a function NAME(thread, threads, …) that these threads execute together. */
void ig_cuda_micro(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

extern const struct ig_code_function ig_cuda_functions[];
extern const size_t ig_cuda_functions_count;
extern const struct ig_code_function ig_cuda_functions_quantize[];
extern const size_t ig_cuda_functions_quantize_count;

#endif
