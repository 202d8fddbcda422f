/*
 * How processes find each other: rank 0 listens at an address that all know, the others connect to it and say who they
 * are, and it tells all of them whether the group is complete. Nothing but that, and what little a group needs to begin
 * with, goes over these connections. They stay open, so that the end of a process ends its connection, which others see.
 *
 * An address is "HOST:PORT" (TCP), or a path with a '/' (a Unix socket, which rank 0 makes, and removes when all have
 * come). Whoever can reach a TCP address can join: use it in networks that you trust.
 */
#ifndef IG_DIST_LINKS_H
#define IG_DIST_LINKS_H

#include "dist/dist.h"

struct ig_links;

#define IG_ADDRESS_SIZE 256

/* Waits until all ranks have come, at most for `seconds` (0: IG_GROUP_SECONDS). INGOT_TIMEOUT, which says who is missing;
 * INGOT_INCOMPATIBLE: a rank has another number of ranks, the number of another one, or another version of Ingot;
 * INGOT_IO: the address cannot be used. All ranks that have come return the same error. */
enum ingot_status ig_links_meet(const char *address, uint32_t rank, uint32_t ranks, double seconds,
                                const struct ingot_allocator *allocator, struct ig_links **out_links,
                                struct ingot_error *error);
/* Accepts NULL. */
void ig_links_destroy(struct ig_links *links);

/* out_all[r * size …] = what rank r brings, on all ranks. */
enum ingot_status ig_links_gather(struct ig_links *links, const void *mine, size_t size, void *out_all,
                                  struct ingot_error *error);
/* Rank 0's open file, over Unix sockets: the others get descriptors of their own. */
enum ingot_status ig_links_share_file(struct ig_links *links, int *file, struct ingot_error *error);
/* All ranks' open files: descriptors of one's own of the others', out_files[r]. */
enum ingot_status ig_links_share_files(struct ig_links *links, int own, int *out_files, struct ingot_error *error);

/* Ranks whose connection has ended, as bits. Rank 0 is connected with all others, these with rank 0. */
uint64_t ig_links_lost(struct ig_links *links);

#endif
