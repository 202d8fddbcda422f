#include "dist/mpi.h"
enum ingot_status ig_mpi_join(const struct ig_place *place, const struct ig_group_options *options, const char *library,
                              struct ig_group **out_seat, struct ingot_error *error) {
    return IG_ERR(error, INGOT_UNSUPPORTED, "no MPI");
}
