/* Keeps values in small arrays: see kept.h. */
#include "kernel/kept.h"

void ig_kept_add(struct ig_kept *kept, ig_x x) {
    struct ig_loops *k = kept->k;
    const struct ig_x_node n = k->x.at[x];
    if (ig_dtype_is_float(n.dtype) && kept->wanted(kept->user, x)) {
        for (uint32_t i = 0; i < kept->values.count; i++) {
            if (kept->values.at[i].value == x) return;
        }
        if (kept->most > 0 && kept->values.count == kept->most) return;
        const char *name = ig_format(k->job, "kept%u", k->buffers.count);
        int array = kept->threads > 0 ? ig_loops_spread(k, n.dtype, kept->threads, kept->lanes, name)
                                      : ig_loops_local(k, n.dtype, kept->lanes, name);
        struct ig_kept_value value = {x, array};
        IG_PUSH(k->job, &kept->values, value);
        return;
    }
    for (int i = 0; i < 3 && n.kind != IG_X_LOAD; i++) {
        if (n.args[i] != IG_NO_X) ig_kept_add(kept, n.args[i]);
    }
}

ig_x ig_kept_read(const struct ig_kept *kept, ig_x x, ig_x lane) {
    struct ig_loops *k = kept->k;
    uint32_t count = kept->values.count;
    ig_x *from = IG_NEW_ARRAY(k->job, ig_x, count + 1), *to = IG_NEW_ARRAY(k->job, ig_x, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        from[i] = kept->values.at[i].value;
        to[i] = ig_x_load(k, kept->values.at[i].array, lane);
    }
    return ig_x_substitute(k, x, from, to, (int)count);
}
