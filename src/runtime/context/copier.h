/*
 * Large host copies, split between a few threads: one thread copies slower than a GPU fetches.
 *
 * A copy is divided into pieces, which the caller and its helpers take in order. The caller always knows how large the
 * contiguous finished prefix is, so that it can send it to the device while the rest is copied. Helpers sleep between
 * copies; one that wakes late finds less to do, and nobody waits for it.
 */
#ifndef IG_RUNTIME_COPIER_H
#define IG_RUNTIME_COPIER_H

#include "base/error.h"

struct ig_copier;

/* `threads` includes the caller's. If fewer helpers can be started, there are fewer. */
enum ingot_status ig_copier_create(unsigned threads, const struct ingot_allocator *allocator,
                                   struct ig_copier **out_copier, struct ingot_error *error);
void ig_copier_destroy(struct ig_copier *copier);

/* Begins a copy, after the last one has completed. Allocates nothing. The ranges must not overlap. */
void ig_copier_begin(struct ig_copier *copier, void *to, const void *from, size_t size);
/* Copies until the contiguous finished prefix has grown since the last call; returns its size in bytes. The copy is
 * complete when that is all of it: call until then. */
size_t ig_copier_advance(struct ig_copier *copier);

#endif
