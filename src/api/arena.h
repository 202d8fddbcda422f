/* The public arena: activation memory that contexts share, on a device of its own. */
#ifndef IG_API_ARENA_H
#define IG_API_ARENA_H

#include "runtime/frame/activations.h"

/* Fails unless contexts on the CPU, or on GPU `device`, can use the arena. */
enum ingot_status ig_arena_check(const struct ingot_arena *arena, bool on_gpu, int device, struct ingot_error *error);
struct ig_activations *ig_arena_activations(const struct ingot_arena *arena);

#endif
