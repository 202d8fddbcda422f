/* See siblings.h. */
#include "pass/fuse/siblings.h"

#include <stdlib.h>

#include "ir/canonical.h"
#include "ir/part.h"
#include "pass/fuse/regions.h"

/* How many parts a joined kernel may have: each of its blocks looks for its own. */
enum { MOST_PARTS = 12 };

struct joining {
    struct ig_graph *g;
    uint32_t *last_of; /* by region: the map that was met last and reads its results; IG_NO_REGION: none */
    uint32_t *read_at; /* by region: the first region that reads its results */
    bool *dead;        /* by region: was joined to another one */
    bool exchanges;    /* there are collectives, which maps between them hide */
    uint32_t given;    /* the first small map that reads nothing that a kernel computes; IG_NO_REGION: none */
};

static void find_first_readers(struct joining *s) {
    const struct ig_graph *g = s->g;
    for (uint32_t r = g->regions.count; r-- > 0;) {
        const struct ig_region *region = &g->regions.at[r];
        for (uint32_t i = 0; i < region->inputs.count; i++) {
            uint32_t from = ig_part_producer(g, region->inputs.at[i]);
            if (from != IG_NO_REGION) s->read_at[from] = r;
        }
    }
}

/* At most so many: a concatenation has one for each operand. */
static uint32_t parts_of(const struct ig_graph *g, const struct ig_region *region) {
    uint32_t parts = region->outputs.count;
    for (uint32_t i = 0; i < region->nodes.count; i++) {
        const struct ig_node *n = &g->nodes.at[region->nodes.at[i]];
        if (n->op == IG_OP_concat) parts += n->n_in - 1;
    }
    return parts;
}

static int compare_ids(const void *a, const void *b) {
    ig_node_id x = *(const ig_node_id *)a, y = *(const ig_node_id *)b;
    return (x > y) - (x < y);
}

/* Moves what region `joined` has to another one. Both may hold copies of the same views, and read the same inputs. */
static void join(struct joining *s, uint32_t joined, uint32_t with) {
    struct ig_graph *g = s->g;
    struct ig_region *to = &g->regions.at[with];
    const struct ig_region *from = &g->regions.at[joined];
    uint32_t nodes = to->nodes.count, inputs = to->inputs.count;
    for (uint32_t i = 0; i < from->nodes.count; i++) {
        ig_node_id id = from->nodes.at[i];
        if (g->nodes.at[id].region == joined) g->nodes.at[id].region = with;
        if (!bsearch(&id, to->nodes.at, nodes, sizeof id, compare_ids)) IG_PUSH(g->job, &to->nodes, id);
    }
    for (uint32_t i = 0; i < from->inputs.count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < inputs && !known; k++)
            known = to->inputs.at[k] == from->inputs.at[i];
        if (!known) IG_PUSH(g->job, &to->inputs, from->inputs.at[i]);
    }
    for (uint32_t i = 0; i < from->outputs.count; i++)
        IG_PUSH(g->job, &to->outputs, from->outputs.at[i]);
    qsort(to->nodes.at, to->nodes.count, sizeof *to->nodes.at, compare_ids);
    to->anchor = to->nodes.at[to->nodes.count - 1];
    ig_region_arrange(g, to);
    s->dead[joined] = true;
    if (s->read_at[joined] < s->read_at[with]) s->read_at[with] = s->read_at[joined];
}

/* Does the map read only what is there from the beginning, and are its results so few that they may be there, too? */
static bool is_given(const struct ig_graph *g, const struct ig_region *region) {
    enum { FEW = 1 << 16 };
    int64_t elements;
    for (uint32_t i = 0; i < region->inputs.count; i++) {
        if (ig_part_producer(g, region->inputs.at[i]) != IG_NO_REGION) return false;
    }
    for (uint32_t i = 0; i < region->outputs.count; i++) {
        ig_dim count = ig_type_elements(g->dims, ig_type_of(g, region->outputs.at[i]));
        if (!ig_dim_usual(g->dims, count, &elements) || elements > FEW) return false;
    }
    return true;
}

/* Joins such a map to the first one: rotations and masks of positions, say. */
static void place_given(struct joining *s, uint32_t r) {
    struct ig_graph *g = s->g;
    if (s->given == IG_NO_REGION) {
        s->given = r;
    } else if (parts_of(g, &g->regions.at[s->given]) + parts_of(g, &g->regions.at[r]) <= MOST_PARTS) {
        join(s, r, s->given);
    }
}

/* Joins the latest map that reads what region r does, unless something before r needs that one's results. */
static void place(struct joining *s, uint32_t r) {
    struct ig_graph *g = s->g;
    if (g->regions.at[r].family != IG_FAMILY_MAP) return;
    if (!s->exchanges && is_given(g, &g->regions.at[r])) {
        place_given(s, r);
        return;
    }
    for (uint32_t i = 0; i < g->regions.at[r].inputs.count; i++) {
        uint32_t from = ig_part_producer(g, g->regions.at[r].inputs.at[i]);
        uint32_t before = from == IG_NO_REGION ? IG_NO_REGION : s->last_of[from];
        if (before == IG_NO_REGION || s->dead[before] || s->read_at[before] <= r) continue;
        if (parts_of(g, &g->regions.at[before]) + parts_of(g, &g->regions.at[r]) > MOST_PARTS) continue;
        join(s, before, r);
    }
    for (uint32_t i = 0; i < g->regions.at[r].inputs.count; i++) {
        uint32_t from = ig_part_producer(g, g->regions.at[r].inputs.at[i]);
        if (from != IG_NO_REGION) s->last_of[from] = r;
    }
}

void ig_join_siblings(struct ig_graph *g) {
    struct joining s = {.g = g, .given = IG_NO_REGION};
    s.last_of = IG_NEW_ARRAY(g->job, uint32_t, g->regions.count + 1);
    s.read_at = IG_NEW_ARRAY(g->job, uint32_t, g->regions.count + 1);
    s.dead = IG_NEW_ARRAY(g->job, bool, g->regions.count + 1);
    for (uint32_t r = 0; r < g->regions.count; r++)
        s.last_of[r] = s.read_at[r] = IG_NO_REGION;
    for (uint32_t r = 0; r < g->regions.count; r++)
        s.exchanges |= g->regions.at[r].family == IG_FAMILY_COLLECTIVE;
    find_first_readers(&s);
    for (uint32_t r = 0; r < g->regions.count; r++)
        place(&s, r);
    ig_regions_remove(g, s.dead);
}
