/* What collectives take between the ranks of a group: a small table of links, by what the ranks compute on. */
#ifndef IG_COMPILE_LINKS_H
#define IG_COMPILE_LINKS_H

#include "ir/graph.h"
#include "ir/target.h"

struct ig_link {
    const char *name;
    double start; /* microseconds of a collective of few bytes, between two ranks */
    double step;  /* microseconds for each further rank */
    double rate;  /* bytes per microsecond that a rank sends, and receives meanwhile */
};
const struct ig_link *ig_link_of(const struct ig_target *target);

/* Microseconds of a collective of so many bytes: of the whole value. */
double ig_link_time(const struct ig_link *link, enum ig_op op, double bytes, int ranks);

#endif
