/*
 * Locks on things being built: each is one byte of a file, at an offset that follows from the thing's key, locked by
 * fcntl (open file description locks, Linux 3.15). So there is one file, of no bytes, for any number of things and
 * processes, and the kernel ends the locks of a process that ends, however it ends. Two things at one offset, of which
 * there are 2^62, would wait for each other, and nothing else.
 *
 * Where a file system knows no such locks (some on a network), things are built twice.
 */
#ifndef IG_CACHE_LOCK_H
#define IG_CACHE_LOCK_H

#include "cache/cache.h"

/* False if another opening of the file has the lock. True if locks do not work. */
bool ig_lock_try(int fd, const struct ig_cache_id *id);
/* Asks again and again, with pauses of 1 to 20 ms. False if it still is another's after `seconds`. */
bool ig_lock_wait(int fd, const struct ig_cache_id *id, unsigned seconds);
void ig_lock_release(int fd, const struct ig_cache_id *id);
void ig_lock_release_all(int fd);

#endif
