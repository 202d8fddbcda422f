/* Connections to the other ranks' processes, which stay open as long as these live. */
#ifndef IG_DIST_LINKS_H
#define IG_DIST_LINKS_H

#include <stdint.h>

struct ig_links;

/* Ranks whose connection has ended, as bits; as far as this rank is connected with them. */
uint64_t ig_links_lost(struct ig_links *links);
/* Accepts NULL. */
void ig_links_destroy(struct ig_links *links);

#endif
