/*
 * The host's copies of much memory, shared by a few threads: one thread alone copies slower than a GPU fetches.
 *
 * A copy is divided into pieces, which the caller and its helpers take in order until none is left. The caller learns how
 * much is there from the start without a gap, so that it can send that on its way while the rest is copied. Helpers sleep
 * between copies; one that wakes late finds less to do, and nobody waits for it.
 */
#ifndef IG_RUNTIME_COPIER_H
#define IG_RUNTIME_COPIER_H

#include "base/error.h"

struct ig_copier;

/* `threads`: the caller's included; where fewer can be had, those. */
enum ingot_status ig_copier_create(unsigned threads, const struct ingot_allocator *allocator,
                                   struct ig_copier **out_copier, struct ingot_error *error);
void ig_copier_destroy(struct ig_copier *copier);

/* Begins a copy; the last one is over. Allocates nothing. The memory must not overlap. */
void ig_copier_begin(struct ig_copier *copier, void *to, const void *from, size_t size);
/* Copies along until more is there than when it was last called, and returns how much is there from the start. The copy is
 * over when that is all of it; the caller goes on until then. */
size_t ig_copier_advance(struct ig_copier *copier);

#endif
