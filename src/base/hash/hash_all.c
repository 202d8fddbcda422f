/* A crew hashes ranges one by one; see hash_all.h. */
#include "base/hash/hash_all.h"

#include "base/cpu.h"
#include "base/crew.h"

/* Fewer bytes are not worth a thread. */
static const size_t per_thread = (size_t)4 << 20;

struct hashing {
    const struct ig_bytes *ranges;
    struct ig_hash128 *hashes;
};

static void hash_one(void *user, uint32_t i) {
    const struct hashing *h = user;
    h->hashes[i] = ig_hash128(h->ranges[i].data, h->ranges[i].size);
}

void ig_hash128_all(struct ig_job *job, const struct ig_bytes *ranges, uint32_t count, struct ig_hash128 *out_hashes) {
    struct hashing hashing = {ranges, out_hashes};
    const unsigned most = ig_cpu_processors();
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += ranges[i].size;
    const size_t wanted = bytes / per_thread + 1;
    struct ig_crew *crew = ig_crew_create(job, wanted < most ? (unsigned)wanted : most, hash_one, &hashing);
    ig_crew_offer(crew, count);
    for (uint32_t i = 0; i < count; i++)
        ig_crew_wait(crew, i);
    ig_crew_destroy(crew);
}
