/* Recipes that leave bytes as they are; see in_place.h. */
#include "compile/refit/in_place.h"

#include "base/map.h"
#include "ir/same_bytes.h"
#include "ir/text/print.h"

bool ig_in_place_leaves_bytes(struct ig_job *job, const char *recipe, size_t length) {
    const struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), recipe, length);
    return g->inputs.count == 1 && g->outputs.count == 1 &&
           ig_same_bytes(g, g->outputs.at[0].value) == g->inputs.at[0].value;
}

/* Bytes of an initialiser, which the reader of files has checked not to overflow. */
static uint64_t size_of(const struct ig_initializer_entry *e) {
    uint64_t size = ingot_dtype_size((enum ingot_dtype)e->dtype);
    for (uint32_t i = 0; i < e->rank; i++)
        size *= (uint64_t)e->dims[i];
    return size;
}

void ig_in_place_find(struct ig_job *job, const struct ig_engine_file *file, bool *out_can) {
    const struct ig_refit_tables *t = &file->refit;
    struct ig_map known; /* recipe -> whether it leaves bytes as they are */
    ig_map_init(&known, job);
    ig_refit_find_apart(t, &file->plan, out_can);
    for (uint32_t i = 0; i < t->n_weights; i++) {
        const struct ig_weight_entry *w = &t->weights[i];
        uint32_t leaves = 0;
        if (w->n_sources != 1 || size_of(&t->initializers[t->sources[w->sources]]) != w->size) out_can[i] = false;
        if (!out_can[i]) continue;
        if (!ig_map_get(&known, t->recipes + w->recipe, w->recipe_size, &leaves)) {
            leaves = ig_in_place_leaves_bytes(job, t->recipes + w->recipe, w->recipe_size);
            ig_map_put(&known, t->recipes + w->recipe, w->recipe_size, leaves);
        }
        out_can[i] = leaves != 0;
    }
}
