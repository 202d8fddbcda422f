/* Connections to other processes; see links.h. */
#include "dist/links.h"

uint64_t ig_links_lost(struct ig_links *links) {
    return 0;
}

void ig_links_destroy(struct ig_links *links) {
}
