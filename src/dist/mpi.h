/* Ranks that MPI started; see mpi.c. */
#ifndef IG_DIST_MPI_H
#define IG_DIST_MPI_H

#include "dist/place.h"

/* This process's seat among MPI_COMM_WORLD. Loads MPI's library, initialises it if nobody has, and finalises it at exit if so.
 * `library`: its file; NULL: by its usual names. INGOT_DEVICE, naming the files tried, if there is none; INGOT_INCOMPATIBLE if
 * it is not the one whose mpirun has started the ranks. */
enum ingot_status ig_mpi_join(const struct ig_place *place, const struct ig_group_options *options, const char *library,
                              struct ig_group **out_seat, struct ingot_error *error);

#endif
