/* From regions to kernels; see kernels.h. */
#include "compile/kernels.h"

#include <string.h>

#include "base/hash/hash.h"

void ig_kernel_set_init(struct ig_kernel_set *set, struct ig_job *job, const struct ig_kernel_compiler *compiler,
                        const struct ig_tuner *tuner, const struct ig_variant_set *variants) {
    *set = (struct ig_kernel_set){
        .job = job, .target = compiler->target, .compiler = compiler, .tuner = tuner, .variants = variants};
    ig_map_init(&set->by_fingerprint, job);
}

void ig_kernel_set_restart(struct ig_kernel_set *set) {
    ig_map_init(&set->by_fingerprint, set->job);
    set->kernels.count = set->groups.count = 0;
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

/* Is the error a candidate's fault? All others end the build. */
static bool is_refusal(enum ingot_status status) {
    return status == INGOT_TOOLCHAIN || status == INGOT_UNSUPPORTED || status == INGOT_INTERNAL;
}

static void refuse(struct ig_kernel_set *set, const struct ig_compiled_kernel *k, const struct ingot_error *error) {
    const char *tactic = k->kernel && k->kernel->tactic ? k->kernel->tactic : "";
    struct ig_refusal r = {k->fingerprint, tactic, k->at, k->choice, ig_memdup(set->job, error, sizeof *error)};
    IG_PUSH(set->job, &set->refusals, r);
}

static const struct ig_refusal *find_refusal(const struct ig_kernel_set *set, const char *fingerprint,
                                             const struct ig_sizes *at, int choice) {
    for (uint32_t i = 0; i < set->refusals.count; i++) {
        const struct ig_refusal *r = &set->refusals.at[i];
        if (r->at == at && r->choice == choice && strcmp(r->fingerprint, fingerprint) == 0) return r;
    }
    return NULL;
}

struct printing {
    struct ig_kernel_set *set;
    struct ig_compiled_kernel *kernel;
};

static void print_candidate(struct ig_job *job, void *argument) {
    struct printing *p = argument;
    struct ig_compiled_kernel *k = p->kernel;
    k->kernel = ig_kernel_candidate(k->graph, k->region, p->set->target, k->at, k->choice);
    k->source = NULL;
    if (k->kernel && !k->kernel->library)
        k->source = ig_kernel_compiler_print(job, p->set->compiler, k->kernel, k->symbol);
}

/* Makes the candidate `choice` at the sizes `at`; false if it is refused, or there is none. */
static bool try_candidate(struct ig_kernel_set *set, struct ig_compiled_kernel *k, const struct ig_sizes *at,
                          int choice) {
    struct printing p = {set, k};
    struct ingot_error error;
    if (find_refusal(set, k->fingerprint, at, choice)) return false;
    k->at = at;
    k->choice = choice;
    k->kernel = NULL;
    enum ingot_status status = ig_job_run(set->job, print_candidate, &p, &error);
    if (status == INGOT_OK) return k->kernel != NULL;
    if (!is_refusal(status)) ig_raise_error(set->job, &error);
    refuse(set, k, &error);
    return false;
}

static void choose_candidate(struct ig_kernel_set *set, struct ig_compiled_kernel *k) {
    const int choices[] = {k->tuned ? k->tuned->choice : 0, 0, IG_CHOICE_PLAIN};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (try_candidate(set, k, NULL, choices[i])) return;
    }
    const struct ig_refusal *first = find_refusal(set, k->fingerprint, NULL, choices[0]);
    IG_ASSERT(set->job, first != NULL);
    ig_raise_error(set->job, first->error);
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static void add_kernel(struct ig_kernel_set *set, struct ig_kernel_group *group, const struct ig_compiled_kernel *k) {
    IG_PUSH(set->job, &group->kernels, set->kernels.count);
    IG_PUSH(set->job, &set->kernels, *k);
}

static const char *new_symbol(const struct ig_kernel_set *set, const struct ig_region *region) {
    return ig_format(set->job, "%s_%u", ig_family_name(region->family), set->kernels.count);
}

/* A variant's tactic may turn out to be one that the group has, if the tuner chose that. */
static bool find_tactic(const struct ig_kernel_set *set, const struct ig_kernel_group *group, const char *tactic,
                        uint32_t *out_kernel) {
    for (uint32_t i = 0; i < group->kernels.count; i++) {
        *out_kernel = group->kernels.at[i];
        const char *other = set->kernels.at[*out_kernel].kernel->tactic;
        if (other && strcmp(other, tactic) == 0) return true;
    }
    return false;
}

static void add_variants(struct ig_kernel_set *set, struct ig_kernel_group *group,
                         const struct ig_compiled_kernel *first) {
    for (uint32_t i = 0; i < group->variants->list.count; i++) {
        const struct ig_variant *variant = &group->variants->list.at[i];
        struct ig_compiled_kernel k = *first;
        uint32_t known;
        k.symbol = new_symbol(set, first->region);
        k.tuned = NULL; /* the first kernel shows the times of all */
        if (!try_candidate(set, &k, variant->at, variant->choice))
            IG_PUSH(set->job, &group->kernels, group->kernels.at[0]);
        else if (find_tactic(set, group, k.kernel->tactic, &known))
            IG_PUSH(set->job, &group->kernels, known);
        else
            add_kernel(set, group, &k);
    }
}

static const struct ig_kernel_group *use(struct ig_kernel_set *set, struct ig_kernel_group *group,
                                         const struct ig_fingerprint *fingerprint) {
    group->latest = *fingerprint;
    for (uint32_t i = 0; i < group->kernels.count; i++) {
        bool again = false;
        for (uint32_t j = 0; j < i && !again; j++)
            again = group->kernels.at[j] == group->kernels.at[i];
        if (!again) set->kernels.at[group->kernels.at[i]].uses++;
    }
    return group;
}

const struct ig_kernel_group *ig_kernel_set_add(struct ig_kernel_set *set, struct ig_graph *graph,
                                                const struct ig_region *region) {
    const struct ig_fingerprint fingerprint = ig_region_fingerprint(graph, region, set->target);
    const char *text = fingerprint.text;
    uint32_t index;
    if (ig_map_get_name(&set->by_fingerprint, text, &index)) return use(set, &set->groups.at[index], &fingerprint);
    struct ig_compiled_kernel k = {
        .graph = graph,
        .region = region,
    };
    char *digits = ig_alloc(set->job, 33);
    ig_hash128_print(ig_hash128(text, strlen(text)), digits);
    k.fingerprint = digits;
    k.symbol = new_symbol(set, region);
    k.tuned = set->tuner ? ig_tuner_get(set->tuner, digits) : NULL;
    choose_candidate(set, &k);
    struct ig_kernel_group group = {.fingerprint = digits, .first = fingerprint};
    if (set->variants) group.variants = ig_variants_get(set->variants, text);
    add_kernel(set, &group, &k);
    if (group.variants) add_variants(set, &group, &k);
    ig_map_put_name(&set->by_fingerprint, text, set->groups.count);
    IG_PUSH(set->job, &set->groups, group);
    return use(set, &set->groups.at[set->groups.count - 1], &fingerprint);
}

const struct ig_kernel_group *ig_kernel_set_group(const struct ig_kernel_set *set, uint32_t first) {
    for (uint32_t i = 0; i < set->groups.count; i++) {
        if (set->groups.at[i].kernels.at[0] == first) return &set->groups.at[i];
    }
    return NULL;
}

/* From `start` to where the next piece of code begins. */
static uint64_t bytes_from(const struct ig_kernel_set *set, uint64_t start) {
    uint64_t end = set->code.size;
    for (uint32_t i = 0; i < set->kernels.count; i++) {
        const struct ig_compiled_kernel *k = &set->kernels.at[i];
        if (!k->source) continue;
        uint64_t entry = set->code.entries[k->code_index];
        uint64_t portable = set->code.portable ? set->code.portable[k->code_index] : UINT64_MAX;
        if (entry > start && entry < end) end = entry;
        if (portable > start && portable < end) end = portable;
    }
    return end - start;
}

uint64_t ig_kernel_set_bytes(const struct ig_kernel_set *set, uint32_t kernel) {
    const struct ig_compiled_kernel *k = &set->kernels.at[kernel];
    if (!k->source) return 0;
    uint64_t portable = set->code.portable ? set->code.portable[k->code_index] : UINT64_MAX;
    uint64_t bytes = bytes_from(set, set->code.entries[k->code_index]);
    return portable == UINT64_MAX ? bytes : bytes + bytes_from(set, portable);
}

void ig_kernel_set_count(const struct ig_kernel_set *set, unsigned *out_regions, unsigned *out_new) {
    *out_regions = *out_new = 0;
    for (uint32_t i = 0; i < set->groups.count; i++) {
        const struct ig_kernel_group *group = &set->groups.at[i];
        const uint32_t uses = set->kernels.at[group->kernels.at[0]].uses;
        bool is_new = false;
        for (uint32_t k = 0; k < group->kernels.count; k++) {
            const struct ig_compiled_kernel *kernel = &set->kernels.at[group->kernels.at[k]];
            is_new |= kernel->source && set->code.is_new[kernel->code_index];
        }
        *out_regions += uses;
        *out_new += is_new ? uses : 0;
    }
}

/* Some kernels of a set, compiled to find those that do not compile. */
struct trial {
    struct ig_kernel_set *set;
    const struct ig_source *sources;
    uint32_t first, count;
    void (*progress)(void *user, unsigned done, unsigned total);
    void *user;
    struct ig_code code;
};

static void try_compile(struct ig_job *job, void *argument) {
    struct trial *t = argument;
    ig_kernel_compiler_run(job, t->set->compiler, t->sources + t->first, t->count, t->progress, t->user, &t->code);
}

/* Refuses the kernels that do not compile, found by bisection; `owners`: the numbers of the sources' kernels. */
static void find_culprits(struct ig_kernel_set *set, const struct ig_source *sources, const uint32_t *owners,
                          uint32_t first, uint32_t count) {
    struct trial t = {.set = set, .sources = sources, .first = first, .count = count};
    struct ingot_error error;
    enum ingot_status status = ig_job_run(set->job, try_compile, &t, &error);
    if (status == INGOT_OK) return;
    if (!is_refusal(status)) ig_raise_error(set->job, &error);
    if (count == 1) {
        const struct ig_compiled_kernel *k = &set->kernels.at[owners[first]];
        refuse(set, k, &error);
        return;
    }
    find_culprits(set, sources, owners, first, count / 2);
    find_culprits(set, sources, owners, first + count / 2, count - count / 2);
}

bool ig_kernel_set_compile(struct ig_kernel_set *set, void (*progress)(void *user, unsigned done, unsigned total),
                           void *user) {
    struct ig_source *sources = IG_NEW_ARRAY(set->job, struct ig_source, set->kernels.count + 1);
    uint32_t *owners = IG_NEW_ARRAY(set->job, uint32_t, set->kernels.count + 1), count = 0;
    for (uint32_t i = 0; i < set->kernels.count; i++) {
        struct ig_compiled_kernel *k = &set->kernels.at[i];
        if (!k->source) continue;
        sources[count] = (struct ig_source){k->symbol, k->source};
        owners[count] = i;
        k->code_index = count++;
    }
    struct trial all = {set, sources, 0, count, progress, user, {0}};
    struct ingot_error error;
    enum ingot_status status = ig_job_run(set->job, try_compile, &all, &error);
    set->code = all.code;
    if (status == INGOT_OK) return true;
    uint32_t before = set->refusals.count;
    if (is_refusal(status)) find_culprits(set, sources, owners, 0, count);
    if (set->refusals.count == before) ig_raise_error(set->job, &error); /* no kernel is at fault */
    return false;
}
