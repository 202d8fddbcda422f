/*
 * Inside the CUDA printer: print.c (the frame), statement.c (who executes what), barrier.c (where the threads wait for
 * each other), vector.c (accesses of 16 bytes), prelude.c (functions), micro.c (the CPU's micro-kernels).
 */
#ifndef IG_CODEGEN_CUDA_PRINTER_H
#define IG_CODEGEN_CUDA_PRINTER_H

#include "codegen/cuda/print.h"
#include "codegen/printer.h"

/* Who executes the statement at hand. */
enum ig_cuda_level {
    IG_CUDA_BLOCK,  /* all threads of the block together */
    IG_CUDA_TEAM,   /* the threads of a team together */
    IG_CUDA_THREAD, /* each thread for itself */
};

struct ig_cuda_printer {
    struct ig_code_printer base; /* first: hooks of the language get its address */
    enum ig_cuda_level level;
    int threads, lanes; /* of the block, as far as they do a tile; of the team */
    const char *meet;   /* how these wait for each other; NULL: as the whole block */
    bool turns;         /* the block has several times as many, which do tiles in turns */
    bool *fence;        /* by place: the block waits there */
    bool *is_private;   /* by buffer: each thread has one of its own */
    int spread_var;     /* SPREAD buffers: the variable of the loop at hand; -1: none */
    const char *spread_slot;
};

/* True where the loop is divided among the threads of the block, or team, that meet it. */
bool ig_cuda_is_divided(struct ig_code_printer *p, const struct ig_stmt *s);
/* Fills p->is_private, then p->fence. */
void ig_cuda_place_buffers(struct ig_cuda_printer *p);
void ig_cuda_place_fences(struct ig_cuda_printer *p);

/* Makes of the loads and stores of vector loops (IG_FOR_VECTOR) calls that copy up to 16 bytes at once. */
void ig_cuda_vectorize(struct ig_loops *k);

void ig_cuda_stmt(struct ig_cuda_printer *p, const struct ig_stmt *s, uint32_t *next);
extern const struct ig_code_language ig_cuda_language;

/* A micro-kernel as a function NAME(thread, threads, …): those threads do it together. */
void ig_cuda_micro(const struct ig_micro *micro, const struct ig_target *target, struct ig_text *text);

extern const struct ig_code_function ig_cuda_functions[];
extern const size_t ig_cuda_functions_count;

#endif
