/* Seats of processes; see dist.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dist/mpi.h"
#include "dist/place.h"
#include "dist/shared.h"

/* ---- Shared memory ----------------------------------------------------------------------------------------------- */

/* Rank 0's file, which has no name, and no memory behind what is not used. */
static enum ingot_status make_file(uint32_t ranks, int *out_file, struct ingot_error *error) {
    int file = memfd_create("ingot-group", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)ig_shared_bytes(ranks)) == 0) {
        *out_file = file;
        return INGOT_OK;
    }
    if (file >= 0) close(file);
    return IG_ERR(error, INGOT_OUT_OF_MEMORY, "no memory that %u ranks could share: %m", ranks);
}

static enum ingot_status map_file(int file, uint32_t ranks, void **out_memory, struct ingot_error *error) {
    struct stat found;
    if (fstat(file, &found) != 0 || (size_t)found.st_size != ig_shared_bytes(ranks))
        return IG_ERR(error, INGOT_INCOMPATIBLE, "rank 0 shares memory of another size: it has another build of Ingot");
    void *memory = mmap(NULL, ig_shared_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "cannot map what the ranks share: %m");
    *out_memory = memory;
    return INGOT_OK;
}

static enum ingot_status share(struct ig_links *links, uint32_t rank, uint32_t ranks, void **out_memory,
                               struct ingot_error *error) {
    int file = -1;
    if (rank == 0) IG_TRY(make_file(ranks, &file, error));
    enum ingot_status status = ig_links_share_file(links, &file, error);
    if (status == INGOT_OK) status = map_file(file, ranks, out_memory, error);
    if (file >= 0) close(file);
    return status;
}

/* On links between Unix sockets, which become the seat's. */
static enum ingot_status join_shared(struct ig_links *links, uint32_t rank, uint32_t ranks,
                                     const struct ig_group_options *options, struct ig_group **out_seat,
                                     struct ingot_error *error) {
    void *memory = NULL;
    enum ingot_status status = share(links, rank, ranks, &memory, error);
    if (status == INGOT_OK) return ig_shared_create(memory, rank, ranks, links, options, out_seat, error);
    ig_links_destroy(links);
    return status;
}

/* ---- Hosts ------------------------------------------------------------------------------------------------------- */

/* A host, and rank 0's proposal where to meet on it. */
struct host {
    char boot[40];
    char path[IG_ADDRESS_SIZE];
};

/* The number that Linux gives itself when it starts; containers of one host have the same. */
static void name_host(struct host *host) {
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, host->boot, sizeof host->boot - 1) : -1;
    if (size <= 0) gethostname(host->boot, sizeof host->boot - 1);
    if (file >= 0) close(file);
}

static enum ingot_status propose(const char *const *environment, struct host *host, struct ingot_error *error) {
    unsigned long long number[2] = {0, 0};
    char name[40];
    if (getrandom(number, sizeof number, 0) != sizeof number) number[0] = (unsigned long long)getpid();
    snprintf(name, sizeof name, "%016llx%016llx", number[0], number[1]);
    return ig_place_path(environment, name, host->path, error);
}

/* Exchanges links over TCP for links between Unix sockets, if all ranks are on one host; else out_links is NULL. */
static enum ingot_status move_to_host(struct ig_links *links, const struct ig_place *place,
                                      const struct ig_join_options *options, struct ig_links **out_links,
                                      struct ingot_error *error) {
    struct host mine = {{0}, {0}}, all[IG_MOST_RANKS];
    *out_links = NULL;
    name_host(&mine);
    if (place->rank == 0) IG_TRY(propose(options->environment, &mine, error));
    IG_TRY(ig_links_gather(links, &mine, sizeof mine, all, error));
    for (uint32_t r = 1; r < place->ranks; r++)
        if (memcmp(all[r].boot, all[0].boot, sizeof mine.boot) != 0) return INGOT_OK;
    all[0].path[sizeof all[0].path - 1] = '\0';
    return ig_links_meet(all[0].path, place->rank, place->ranks, options->group.seconds, options->group.allocator,
                         out_links, error);
}

/* ---- Joining ----------------------------------------------------------------------------------------------------- */

static enum ingot_status join_at(const struct ig_place *place, const struct ig_join_options *options,
                                 struct ig_group **out_seat, struct ingot_error *error) {
    struct ig_links *links, *near = NULL;
    IG_TRY(ig_links_meet(place->address, place->rank, place->ranks, options->group.seconds, options->group.allocator,
                         &links, error));
    if (strchr(place->address, '/'))
        return join_shared(links, place->rank, place->ranks, &options->group, out_seat, error);
    enum ingot_status status = move_to_host(links, place, options, &near, error);
    ig_links_destroy(links);
    IG_TRY(status);
    if (near) return join_shared(near, place->rank, place->ranks, &options->group, out_seat, error);
    if (place->is_mpi && options->transport == IG_TRANSPORT_BEST)
        return ig_mpi_join(place, &options->group, options->mpi_library, out_seat, error);
    return IG_ERR(error, INGOT_UNSUPPORTED,
                  "the ranks are on several hosts, which CPUs need MPI for: start them with mpirun or srun");
}

enum ingot_status ig_group_join(const struct ig_join_options *given, struct ig_group **out_seat,
                                struct ingot_error *error) {
    struct ig_join_options options = *given;
    struct ig_place place;
    if (!options.group.allocator) options.group.allocator = &ig_libc_allocator;
    IG_TRY(ig_place_read(options.environment, &place, error));
    if (place.ranks == 1 && options.transport != IG_TRANSPORT_MPI)
        return ig_group_create_local(1, &options.group, out_seat, error);
    if (options.transport == IG_TRANSPORT_MPI || !place.address[0]) {
        if (options.transport == IG_TRANSPORT_SHARED)
            return IG_ERR(error, INGOT_UNSUPPORTED, "the ranks are on several hosts, which share no memory");
        return ig_mpi_join(&place, &options.group, options.mpi_library, out_seat, error);
    }
    return join_at(&place, &options, out_seat, error);
}
