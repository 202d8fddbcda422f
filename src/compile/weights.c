/*
 * Weights as a sequence of slabs, which a crew evaluates while the caller writes those before. The graphs belong to the
 * job's thread: it opens each weight, some slabs before the first is needed. See weights.h.
 */
#include "compile/weights.h"

#include "base/cpu.h"
#include "base/crew.h"
#include "base/spare.h"
#include "ir/eval/eval_slab.h"

/* A slab should fit the caches with what it is made of; what a weight holds counts from there on. */
enum { SLAB_BYTES = 2 << 20, MOST_HOLDING = 2 };

/* A weight whose slabs are read, or have been. */
struct opened {
    struct opened *older;
    struct ig_slabs *slabs;
    uint32_t index;
    bool is_holding;
};

/* A slab on its way from the crew to the reader. */
struct item {
    struct ig_weight_reader *reader;
    struct opened *weight;
    uint32_t slab;
    struct ig_slab result;
    enum ingot_status status;
    struct ingot_error error;
};

struct ig_weight_reader {
    struct ig_job *job;
    struct ig_crew *crew;
    struct ig_spares spares; /* the memory of slabs */
    const struct ig_weight *weights;
    uint32_t count, next;  /* weights, the next to open */
    struct opened *newest; /* the last one opened; NULL: none yet */
    uint32_t next_slab;    /* of the newest */
    uint32_t n_holding;
    struct item *items; /* a ring */
    uint32_t ahead;     /* its length */
    uint32_t n_items, n_read;
    bool is_reading; /* item n_read was handed out */
};

/* ---- Evaluation, by the crew */

static void evaluate(struct ig_job *job, void *argument) {
    struct item *item = argument;
    ig_slab_evaluate(job, item->weight->slabs, item->slab, &item->result);
}

static void work(void *user, uint32_t number) {
    struct ig_weight_reader *r = user;
    struct item *item = &r->items[number % r->ahead];
    struct ig_job job;
    ig_job_init(&job, &r->spares.allocator);
    item->status = ig_job_run(&job, evaluate, item, &item->error);
    ig_job_deinit(&job);
}

/* ---- The job's thread */

/* False if there is none, or those that are open hold as much memory as they may. */
static bool open_next(struct ig_weight_reader *r) {
    while (r->next < r->count && r->weights[r->next].size == 0)
        r->next++;
    if (r->next == r->count || r->n_holding == MOST_HOLDING) return false;
    const struct ig_weight *w = &r->weights[r->next];
    struct opened *opened = IG_NEW(r->job, struct opened);
    opened->older = r->newest;
    opened->index = r->next++;
    opened->slabs = ig_slabs_open(w->graph, w->value, SLAB_BYTES);
    opened->is_holding = opened->slabs->held > SLAB_BYTES;
    r->newest = opened;
    r->next_slab = 0;
    r->n_holding += opened->is_holding;
    IG_ASSERT(r->job, (uint64_t)opened->slabs->dim * opened->slabs->row_bytes == w->size);
    ig_slabs_prefetch(opened->slabs);
    return true;
}

static void fill(struct ig_weight_reader *r) {
    while (r->n_items - r->n_read < r->ahead) {
        if ((!r->newest || r->next_slab == r->newest->slabs->count) && !open_next(r)) break;
        struct item *item = &r->items[r->n_items++ % r->ahead];
        *item = (struct item){.reader = r, .weight = r->newest, .slab = r->next_slab++};
    }
    ig_crew_offer(r->crew, r->n_items);
}

static void end_item(struct ig_weight_reader *r) {
    struct item *item = &r->items[r->n_read++ % r->ahead];
    ig_slab_free(&r->spares.allocator, &item->result);
    if (item->slab + 1 == item->weight->slabs->count) {
        ig_slabs_close(item->weight->slabs);
        r->n_holding -= item->weight->is_holding;
        item->weight->is_holding = false;
    }
    r->is_reading = false;
}

/* When the crew has ended. */
static void drop(void *resource) {
    struct ig_weight_reader *r = resource;
    for (struct opened *opened = r->newest; opened; opened = opened->older)
        ig_slabs_close(opened->slabs); /* harmless for one that is closed */
    for (uint32_t i = 0; i < r->ahead; i++)
        ig_slab_free(&r->spares.allocator, &r->items[i].result);
    ig_spares_deinit(&r->spares);
}

struct ig_weight_reader *ig_weights_open(struct ig_job *job, const struct ig_weight *weights, uint32_t count,
                                         unsigned jobs) {
    struct ig_weight_reader *r = IG_NEW(job, struct ig_weight_reader);
    if (jobs == 0) jobs = ig_cpu_processors();
    if (jobs > IG_CREW_MOST) jobs = IG_CREW_MOST;
    *r = (struct ig_weight_reader){.job = job, .weights = weights, .count = count, .ahead = 2 * jobs + 2};
    r->items = IG_NEW_ARRAY(job, struct item, r->ahead);
    ig_spares_init(&r->spares, job->allocator);
    ig_defer(job, drop, r);
    r->crew = ig_crew_create(job, jobs, work, r);
    return r;
}

const void *ig_weights_read(struct ig_weight_reader *r, uint32_t index, size_t *out_size) {
    if (r->is_reading) end_item(r);
    fill(r);
    IG_ASSERT(r->job, r->n_read < r->n_items);
    ig_crew_wait(r->crew, r->n_read);
    struct item *item = &r->items[r->n_read % r->ahead];
    if (item->status != INGOT_OK) ig_raise_error(r->job, &item->error);
    IG_ASSERT(r->job, item->weight->index == index);
    r->is_reading = true;
    *out_size = item->result.size;
    return item->result.data;
}

void ig_weights_close(struct ig_weight_reader *r) {
    ig_crew_destroy(r->crew);
    ig_undefer(r->job, r);
    drop(r);
}
