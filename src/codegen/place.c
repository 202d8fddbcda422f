/*
 * Places each expression: at the head of the outermost loop body in which all that it depends on is known. Three things
 * limit this: the loops of its variables; statements that write an accumulator or a buffer that it reads; and, for
 * loads, conditions, which may be what makes them safe.
 */
#include "codegen/printer.h"

#include <string.h>

/* ---- The statements ---------------------------------------------------------------------------------------------- */

static void set_bit(uint64_t *bits, uint32_t i) {
    bits[i / 64] |= (uint64_t)1 << (i % 64);
}

static bool has_bit(const uint64_t *bits, uint32_t i) {
    return bits[i / 64] >> (i % 64) & 1;
}

static void own_writes(struct ig_code_printer *p, const struct ig_stmt *s, uint64_t *bits) {
    if (s->kind == IG_S_STORE) set_bit(bits, ig_code_resource_of_buffer(p, s->buffer));
    if (s->kind == IG_S_ACC || s->kind == IG_S_UPDATE) set_bit(bits, (uint32_t)s->var);
    if (s->kind == IG_S_TEXT) {
        for (uint32_t b = 0; b < p->k->buffers.count; b++) {
            if (p->k->buffers.at[b].written) set_bit(bits, ig_code_resource_of_buffer(p, (int)b));
        }
    }
    for (int i = 0; s->kind == IG_S_CALL && i < s->n_args; i++) {
        int b = s->args[i].buffer;
        if (b >= 0 && p->k->buffers.at[b].written) set_bit(bits, ig_code_resource_of_buffer(p, b));
    }
}

/* Numbers the statements in pre-order; returns the resources that the statement and its body write. */
static const uint64_t *number(struct ig_code_printer *p, const struct ig_stmt *s) {
    struct ig_code_place place = {.stmt = s, .writes = IG_NEW_ARRAY(p->job, uint64_t, p->words)};
    IG_PUSH(p->job, &p->places, place);
    own_writes(p, s, place.writes);
    for (uint32_t i = 0; i < s->body.count; i++) {
        const uint64_t *inner = number(p, s->body.at[i]);
        for (uint32_t w = 0; w < p->words; w++)
            place.writes[w] |= inner[w];
    }
    return place.writes;
}

const char *ig_code_next_reference(const char *text, size_t *out_length, ig_x *out_x, bool *out_at) {
    const char *at = strchr(text, '@');
    *out_x = IG_NO_X;
    *out_at = false;
    *out_length = at ? (size_t)(at - text) : strlen(text);
    if (!at) return NULL;
    if (at[1] == '@') {
        *out_at = true;
        return at + 2;
    }
    ig_x x = 0;
    for (at++; *at >= '0' && *at <= '9'; at++)
        x = x * 10 + (ig_x)(*at - '0');
    *out_x = x;
    return at;
}

void ig_code_roots(struct ig_code_printer *p, const struct ig_stmt *s, void (*visit)(void *user, ig_x x), void *user) {
    const ig_x roots[] = {s->kind == IG_S_FOR && s->for_kind == IG_FOR_TILE ? IG_NO_X : s->lo,
                          s->kind == IG_S_FOR && s->for_kind == IG_FOR_TILE ? IG_NO_X : s->hi, s->step, s->index,
                          s->value};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (roots[i] != IG_NO_X) visit(user, roots[i]);
    }
    for (int i = 0; i < s->n_args; i++)
        visit(user, s->args[i].index);
    const char *rest = s->kind == IG_S_TEXT ? s->text : NULL;
    while (rest) {
        size_t length;
        ig_x x;
        bool at;
        rest = ig_code_next_reference(rest, &length, &x, &at);
        if (x != IG_NO_X) visit(user, x);
    }
}

/* ---- Levels ------------------------------------------------------------------------------------------------------ */

/* The path from the outermost statement to one that uses expressions. Level i means: computed just before path[i]. */
struct walk {
    struct ig_code_printer *p;
    uint32_t path[64];
    int depth;  /* path[depth] is the statement itself */
    int *level; /* by expression; valid if stamp is this statement's */
    uint32_t *stamp;
    struct ig_map *placed; /* (place or body, expression) pairs that are done */
};

static const struct ig_stmt *on_path(const struct walk *w, int i) {
    return w->p->places.at[w->path[i]].stmt;
}

/* The outermost level such that nothing writes the resource between it and the use. */
static int level_of_resource(const struct walk *w, uint32_t resource) {
    int level = w->depth;
    while (level > 0 && !has_bit(w->p->places.at[w->path[level - 1]].writes, resource))
        level--;
    return level;
}

static int level_of_load(const struct walk *w, const struct ig_x_node *n) {
    int level = w->depth > 0 ? 1 : 0;
    for (int i = 0; i < w->depth; i++) {
        if (on_path(w, i)->kind == IG_S_IF) level = i + 1;
    }
    if (!w->p->k->buffers.at[n->i].written) return level;
    int stable = level_of_resource(w, ig_code_resource_of_buffer(w->p, (int)n->i));
    return stable > level ? stable : level;
}

static int level_of_var(const struct walk *w, int64_t var) {
    for (int i = 0; i < w->depth; i++) {
        if (on_path(w, i)->kind == IG_S_FOR && on_path(w, i)->var == var) return i + 1;
    }
    ig_raise(w->p->job, INGOT_INTERNAL, "loop variable %d is used outside its loop", (int)var);
}

static int level_of(struct walk *w, ig_x x) {
    if (w->stamp[x] == w->path[w->depth] + 1) return w->level[x];
    const struct ig_x_node *n = &w->p->k->x.at[x];
    int level = 0;
    if (n->kind == IG_X_VAR) level = level_of_var(w, n->i);
    if (n->kind == IG_X_ACC) level = level_of_resource(w, (uint32_t)n->i);
    if (n->kind == IG_X_LOAD) level = level_of_load(w, n);
    for (int i = 0; i < 3; i++) {
        if (n->args[i] == IG_NO_X) continue;
        int of_part = level_of(w, n->args[i]);
        if (of_part > level) level = of_part;
    }
    w->stamp[x] = w->path[w->depth] + 1;
    w->level[x] = level;
    return level;
}

static bool depends_on_writes(const struct ig_code_printer *p, ig_x x) {
    const struct ig_x_node *n = &p->k->x.at[x];
    if (n->kind == IG_X_ACC) return true;
    if (n->kind == IG_X_LOAD && p->k->buffers.at[n->i].written) return true;
    for (int i = 0; i < 3; i++) {
        if (n->args[i] != IG_NO_X && p->unstable[n->args[i]]) return true;
    }
    return false;
}

/* ---- Loads that a select chooses between ------------------------------------------------------------------------- */

/*
 * gcc makes masked loads of those that stand in an operand of "?:". Where the results of a body are stored as a group (rows
 * of five, say, each element by a statement of its own), gcc 12 and 13 load all of the group's vectors by the first one's
 * mask. Loads are safe without the condition, so that they can stand before it, which leaves nothing to mask.
 */
struct picks {
    struct ig_code_printer *p;
    uint8_t *seen; /* by expression: 1 outside of selects, 2 within */
};

static void find_picked(struct picks *picks, ig_x x, bool within) {
    uint8_t bit = within ? 2 : 1;
    if (picks->seen[x] & bit) return;
    picks->seen[x] |= bit;
    const struct ig_x_node *n = &picks->p->k->x.at[x];
    if (n->kind == IG_X_LOAD && within) picks->p->picked[x] = true;
    for (int i = 0; i < 3; i++) {
        if (n->args[i] != IG_NO_X) find_picked(picks, n->args[i], within || (n->kind == IG_X_SELECT && i > 0));
    }
}

static void find_picked_root(void *user, ig_x x) {
    find_picked(user, x, false);
}

static bool is_result(const struct ig_stmt *s) {
    return s->kind == IG_S_STORE || s->kind == IG_S_UPDATE;
}

static void find_all_picked(struct ig_code_printer *p) {
    struct picks picks = {p, IG_NEW_ARRAY(p->job, uint8_t, p->k->x.count)};
    for (uint32_t i = 0; i < p->places.count; i++) {
        const struct ig_stmt *s = p->places.at[i].stmt;
        uint32_t results = 0;
        for (uint32_t j = 0; j < s->body.count; j++)
            results += is_result(s->body.at[j]);
        for (uint32_t j = 0; results > 1 && j < s->body.count; j++) {
            if (is_result(s->body.at[j])) ig_code_roots(p, s->body.at[j], find_picked_root, &picks);
        }
    }
}

/* ---- Placing ----------------------------------------------------------------------------------------------------- */

static void place(struct walk *w, ig_x x) {
    int level = level_of(w, x);
    uint32_t host = w->path[level];
    /* A stable expression is computed once per body; others may have to be computed again before each statement. */
    bool stable = !w->p->unstable[x];
    uint32_t where = stable && level > 0 ? w->path[level - 1] : host;
    uint32_t key[3] = {where, x, stable}, unused;
    if (ig_map_get(w->placed, key, sizeof key, &unused)) return;
    ig_map_put(w->placed, key, sizeof key, 1);
    const struct ig_x_node *n = &w->p->k->x.at[x];
    for (int i = 0; i < 3; i++) {
        ig_x part = n->args[i];
        if (part == IG_NO_X) continue;
        place(w, part);
        w->p->uses[part]++;
        w->p->deep[part] |= level_of(w, part) < level;
    }
    IG_PUSH(w->p->job, &w->p->places.at[host].before, x);
}

static void place_root(void *user, ig_x x) {
    struct walk *w = user;
    place(w, x);
    w->p->uses[x]++;
    w->p->deep[x] |= level_of(w, x) < w->depth;
}

static void walk_stmt(struct walk *w, uint32_t *next) {
    struct ig_code_printer *p = w->p;
    uint32_t self = (*next)++;
    const struct ig_stmt *s = p->places.at[self].stmt;
    IG_ASSERT(p->job, w->depth < 63);
    w->path[w->depth] = self;
    ig_code_roots(p, s, place_root, w);
    w->depth++;
    for (uint32_t i = 0; i < s->body.count; i++)
        walk_stmt(w, next);
    w->depth--;
}

void ig_code_place_all(struct ig_code_printer *p) {
    uint32_t n = p->k->x.count;
    p->words = ig_code_resource_count(p) / 64 + 1;
    p->uses = IG_NEW_ARRAY(p->job, uint32_t, n);
    p->deep = IG_NEW_ARRAY(p->job, bool, n);
    p->unstable = IG_NEW_ARRAY(p->job, bool, n);
    p->picked = IG_NEW_ARRAY(p->job, bool, n);
    for (ig_x x = 0; x < n; x++)
        p->unstable[x] = depends_on_writes(p, x);
    number(p, p->k->top);
    if (p->language->splits_picks) find_all_picked(p);
    struct ig_map placed;
    ig_map_init(&placed, p->job);
    struct walk w = {
        .p = p, .level = IG_NEW_ARRAY(p->job, int, n), .stamp = IG_NEW_ARRAY(p->job, uint32_t, n), .placed = &placed};
    uint32_t next = 0;
    walk_stmt(&w, &next);
}
