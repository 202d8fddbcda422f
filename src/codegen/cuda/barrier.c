/*
 * Places barriers between accesses of the threads of a block to shared data.
 *
 * A buffer is private to each thread if a single divided loop accesses it. For the others, the analysis tracks what has
 * been read and written since the last barrier; a statement that reads what was written, or writes what was read or
 * written, is preceded by a barrier. Loops are walked until a fixed point, because the state at their end reaches their
 * head.
 */
#include <string.h>

#include "codegen/cuda/printer.h"

/* Which buffers are read and written, a byte each. */
struct access {
    uint8_t *read, *written;
};

struct walk {
    struct ig_cuda_printer *p;
    uint32_t n_buffers;
    bool *tracked;
    uint8_t *noted; /* by expression: seen in this statement */
};

static struct access new_access(struct walk *w) {
    struct ig_job *job = w->p->base.job;
    return (struct access){IG_NEW_ARRAY(job, uint8_t, w->n_buffers + 1), IG_NEW_ARRAY(job, uint8_t, w->n_buffers + 1)};
}

/* ---- Accesses of a statement ------------------------------------------------------------------------------------- */

struct touching {
    struct walk *w;
    struct access *to;
};

static void note_loads(void *user, ig_x x) {
    struct touching *t = user;
    const struct ig_x_node *n = &t->w->p->base.k->x.at[x];
    if (t->w->noted[x]) return;
    t->w->noted[x] = 1;
    if (n->kind == IG_X_LOAD) t->to->read[n->i] = 1;
    for (int i = 0; i < 3; i++) {
        if (n->args[i] != IG_NO_X) note_loads(user, n->args[i]);
    }
}

/* Is it a vector access (vector.c)? It copies from its second argument to its first. */
static bool is_copy(const struct ig_stmt *s) {
    return s->kind == IG_S_CALL && (strncmp(s->text, "ig_copy_", 8) == 0 || strncmp(s->text, "ig_put_", 7) == 0);
}

static void note_own(struct walk *w, const struct ig_stmt *s, uint32_t place, struct access *to) {
    struct ig_code_printer *p = &w->p->base;
    struct touching t = {w, to};
    memset(w->noted, 0, p->k->x.count);
    ig_code_roots(p, s, note_loads, &t);
    const struct ig_code_place *at = &p->places.at[place];
    for (uint32_t i = 0; i < at->before.count; i++)
        note_loads(&t, at->before.at[i]);
    if (s->kind == IG_S_STORE) to->written[s->buffer] = 1;
    for (int i = 0; i < s->n_args; i++) {
        int b = s->args[i].buffer;
        if (b < 0) continue;
        if (is_copy(s)) {
            (i == 0 ? to->written : to->read)[b] = 1;
            continue;
        }
        to->read[b] = 1;
        if (p->k->buffers.at[b].written) to->written[b] = 1;
    }
    /* Template text may access all of the block's dynamic shared memory. */
    for (uint32_t b = 0; s->kind == IG_S_TEXT && b < w->n_buffers; b++) {
        if (p->k->buffers.at[b].kind == IG_BUFFER_SHARED) to->read[b] = to->written[b] = 1;
    }
}

static void note_all(struct walk *w, const struct ig_stmt *s, uint32_t *next, struct access *to) {
    note_own(w, s, (*next)++, to);
    for (uint32_t i = 0; i < s->body.count; i++)
        note_all(w, s->body.at[i], next, to);
}

/* Arrays in dynamic shared memory may overlap, so an access to one counts for all. */
static void join_shared(struct walk *w, struct access *a) {
    uint8_t read = 0, written = 0;
    const struct ig_buffer *buffers = w->p->base.k->buffers.at;
    for (uint32_t b = 0; b < w->n_buffers; b++) {
        if (buffers[b].kind != IG_BUFFER_SHARED) continue;
        read |= a->read[b];
        written |= a->written[b];
    }
    for (uint32_t b = 0; b < w->n_buffers; b++) {
        if (buffers[b].kind != IG_BUFFER_SHARED) continue;
        a->read[b] = read;
        a->written[b] = written;
    }
}

static bool is_divided(struct walk *w, const struct ig_stmt *s) {
    return s->kind == IG_S_FOR && (s->for_kind == IG_FOR_TEAM || ig_cuda_is_divided(&w->p->base, s));
}

/* ---- Private buffers --------------------------------------------------------------------------------------------- */

struct owners {
    struct walk *w;
    const struct ig_stmt **owner; /* by buffer: the divided loop that accesses it */
    bool *shared;
};

static void find_owners(struct owners *o, const struct ig_stmt *s, uint32_t *next, const struct ig_stmt *divided) {
    const struct ig_stmt *const *body = (const struct ig_stmt *const *)s->body.at;
    uint32_t n_body = s->body.count;
    struct access a = new_access(o->w);
    if (!divided && is_divided(o->w, s)) divided = s;
    note_own(o->w, s, (*next)++, &a);
    for (uint32_t b = 0; b < o->w->n_buffers; b++) {
        if (!a.read[b] && !a.written[b]) continue;
        if (!divided || (o->owner[b] && o->owner[b] != divided)) o->shared[b] = true;
        o->owner[b] = divided;
    }
    for (uint32_t i = 0; i < n_body; i++)
        find_owners(o, body[i], next, divided);
}

static struct walk begin(struct ig_cuda_printer *p) {
    return (struct walk){.p = p,
                         .n_buffers = p->base.k->buffers.count,
                         .tracked = IG_NEW_ARRAY(p->base.job, bool, p->base.k->buffers.count + 1),
                         .noted = IG_NEW_ARRAY(p->base.job, uint8_t, p->base.k->x.count + 1)};
}

void ig_cuda_place_buffers(struct ig_cuda_printer *p) {
    struct walk w = begin(p);
    struct owners o = {.w = &w,
                       .owner = IG_NEW_ARRAY(p->base.job, const struct ig_stmt *, w.n_buffers + 1),
                       .shared = IG_NEW_ARRAY(p->base.job, bool, w.n_buffers + 1)};
    uint32_t next = 0;
    find_owners(&o, p->base.k->top, &next, NULL);
    for (uint32_t b = 0; b < w.n_buffers; b++) {
        enum ig_buffer_kind kind = p->base.k->buffers.at[b].kind;
        p->is_private[b] = kind == IG_BUFFER_SPREAD || (kind == IG_BUFFER_LOCAL && !o.shared[b]);
    }
}

/* ---- Outputs ----------------------------------------------------------------------------------------------------- */

/* The stores to each buffer, and whether they may store to one position repeatedly. */
struct stores {
    struct walk *w;
    int *count;  /* by buffer */
    bool *again; /* by buffer: one position is stored to repeatedly */
    bool *read;  /* by buffer: read, or passed to a call */
    const struct ig_stmt *loops[64];
    int depth;
};

static bool contains_var(const struct ig_loops *k, ig_x x, int var) {
    const struct ig_x_node *n = &k->x.at[x];
    if (n->kind == IG_X_VAR && n->i == var) return true;
    for (int i = 0; i < 3; i++) {
        if (n->args[i] != IG_NO_X && contains_var(k, n->args[i], var)) return true;
    }
    return false;
}

static void find_stores(struct stores *o, const struct ig_stmt *s, uint32_t *next) {
    struct access a = new_access(o->w);
    note_own(o->w, s, (*next)++, &a);
    for (uint32_t b = 0; b < o->w->n_buffers; b++)
        o->read[b] |= a.read[b];
    if (s->kind == IG_S_STORE || is_copy(s)) {
        int buffer = is_copy(s) ? s->args[0].buffer : s->buffer;
        ig_x index = is_copy(s) ? s->args[0].index : s->index;
        o->count[buffer]++;
        for (int i = 0; i < o->depth; i++)
            o->again[buffer] |= !contains_var(o->w->p->base.k, index, o->loops[i]->var);
    }
    bool loop = s->kind == IG_S_FOR && s->for_kind != IG_FOR_TILE && !is_divided(o->w, s) && o->depth < 64;
    if (loop) o->loops[o->depth++] = s;
    for (uint32_t i = 0; i < s->body.count; i++)
        find_stores(o, s->body.at[i], next);
    if (loop) o->depth--;
}

/* Finds the buffers that may need barriers. Inputs are never written; outputs whose elements are stored only once and
 * never read do not concern other threads. */
static void find_tracked(struct walk *w) {
    struct ig_code_printer *p = &w->p->base;
    struct stores o = {.w = w,
                       .count = IG_NEW_ARRAY(p->job, int, w->n_buffers + 1),
                       .again = IG_NEW_ARRAY(p->job, bool, w->n_buffers + 1),
                       .read = IG_NEW_ARRAY(p->job, bool, w->n_buffers + 1)};
    uint32_t next = 0;
    find_stores(&o, p->k->top, &next);
    for (uint32_t b = 0; b < w->n_buffers; b++) {
        const struct ig_buffer *buffer = &p->k->buffers.at[b];
        w->tracked[b] = buffer->written && !w->p->is_private[b];
        bool once = buffer->once || (o.count[b] <= 1 && !o.again[b]);
        if (buffer->kind == IG_BUFFER_PARAM && once && !o.read[b]) w->tracked[b] = false;
    }
}

/* ---- Barriers ---------------------------------------------------------------------------------------------------- */

static void meet(struct walk *w, struct access *since) {
    memset(since->read, 0, w->n_buffers);
    memset(since->written, 0, w->n_buffers);
}

/* Accounts for accesses at `place` that follow those in `since`; puts a barrier before them if necessary. */
static void happen(struct walk *w, uint32_t place, struct access *what, struct access *since) {
    join_shared(w, what);
    bool wait = w->p->fence[place];
    for (uint32_t b = 0; b < w->n_buffers; b++) {
        if (!w->tracked[b]) continue;
        if (since->written[b] && (what->read[b] || what->written[b])) wait = true;
        if (since->read[b] && what->written[b]) wait = true;
    }
    w->p->fence[place] = wait;
    if (wait) meet(w, since);
    for (uint32_t b = 0; b < w->n_buffers; b++) {
        since->read[b] |= what->read[b];
        since->written[b] |= what->written[b];
    }
}

/* Adds the accesses of `from`; true if `to` grew. */
static bool add_access(struct walk *w, struct access *to, const struct access *from) {
    bool grew = false;
    for (uint32_t b = 0; b < w->n_buffers; b++) {
        grew |= (from->read[b] && !to->read[b]) || (from->written[b] && !to->written[b]);
        to->read[b] |= from->read[b];
        to->written[b] |= from->written[b];
    }
    return grew;
}

static struct access copy_access(struct walk *w, const struct access *from) {
    struct access a = new_access(w);
    add_access(w, &a, from);
    return a;
}

static bool meets_at_end(struct walk *w, const struct ig_stmt *s) {
    struct ig_code_reductions r;
    if (s->for_kind != IG_FOR_SIMD) return false;
    ig_code_find_reductions(&w->p->base, s, &r);
    return r.updates.count > 0;
}

static void walk_stmt(struct walk *w, const struct ig_stmt *s, uint32_t *next, struct access *since);

static void walk_body(struct walk *w, const struct ig_stmt *s, uint32_t *next, struct access *since) {
    for (uint32_t i = 0; i < s->body.count; i++)
        walk_stmt(w, s->body.at[i], next, since);
}

static void walk_stmt(struct walk *w, const struct ig_stmt *s, uint32_t *next, struct access *since) {
    uint32_t place = *next;
    struct access what = new_access(w);
    if (s->kind == IG_S_CALL && strcmp(s->text, "__syncthreads") == 0) {
        ++*next;
        meet(w, since);
        return;
    }
    if (is_divided(w, s) || (s->kind != IG_S_FOR && s->kind != IG_S_IF)) {
        note_all(w, s, next, &what);
        happen(w, place, &what, since);
        if (s->kind == IG_S_FOR && meets_at_end(w, s)) meet(w, since);
        return;
    }
    note_own(w, s, (*next)++, &what);
    happen(w, place, &what, since);
    uint32_t inside = *next;
    struct access head = copy_access(w, since);
    for (bool again = true; again;) {
        *next = inside;
        struct access end = copy_access(w, &head);
        walk_body(w, s, next, &end);
        again = add_access(w, &head, &end) && s->kind == IG_S_FOR;
    }
    add_access(w, since, &head);
}

void ig_cuda_place_fences(struct ig_cuda_printer *p) {
    struct walk w = begin(p);
    find_tracked(&w);
    struct access since = new_access(&w);
    uint32_t next = 0;
    walk_stmt(&w, p->base.k->top, &next, &since);
}
