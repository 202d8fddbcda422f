#include "support/check/rewrite_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "ir/text/print.h"
#include "support/check/passes.h"
#include "support/support.h"

enum { MAX_PORTS = 8 };

static const struct ig_target target = {.isa = IG_ISA_X86_64_V3, .vector_bytes = 32, .vector_registers = 16};
static const struct ig_target gpu = {.isa = IG_ISA_CUDA, .sm = 90, .sm_own = true};

/* ---- Graphs ------------------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Data that the text gives as a hash are zeros after parsing; replaces them with random numbers. */
static void fill_constants(struct ig_graph *g) {
    uint64_t state = 5;
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (n->op != IG_OP_constant || ig_type_of(g, n->out)->dtype != INGOT_F32) continue;
        const struct ig_data *data = ig_attr(g, n, IG_ATTR_data)->data;
        float *numbers = (float *)(uintptr_t)data->bytes;
        const size_t count = data->size / sizeof *numbers;
        bool given = count <= 16;
        for (size_t i = 0; i < count; i++)
            given |= numbers[i] != 0;
        for (size_t i = 0; i < count && !given; i++)
            numbers[i] = (float)next_random(&state) / (float)(1u << 30) - 1;
    }
}

struct ig_graph *rewrite_graph(struct ig_job *job, const char *nodes) {
    static const char inputs[] = "graph {\n"
                                 "  input %0 \"x\": f32[batch,4,6,5]\n"
                                 "  input %1 \"y\": f32[batch,seq,12]\n"
                                 "  input %2 \"z\": i32[batch]\n";
    char *text = ig_format(job, "%s%s}\n", inputs, nodes);
    struct ig_graph *g = ig_graph_parse(job, ig_dims_create(job), text, strlen(text));
    fill_constants(g);
    return g;
}

static void make_inputs(struct ig_job *job, bool poison, struct ingot_tensor *out_inputs) {
    static const struct ingot_tensor shapes[] = {{INGOT_F32, 4, {3, 4, 6, 5}, NULL, INGOT_HOST},
                                                 {INGOT_F32, 3, {3, 7, 12}, NULL, INGOT_HOST},
                                                 {INGOT_I32, 1, {3}, NULL, INGOT_HOST}};
    static const float hostile[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e30f, 1e-40f};
    uint64_t state = 11;
    for (int i = 0; i < 3; i++) {
        int64_t count = ingot_tensor_elements(&shapes[i]);
        out_inputs[i] = shapes[i];
        out_inputs[i].data = ig_alloc_array(job, (size_t)count, sizeof(float));
        for (int64_t k = 0; k < count; k++) {
            double number = (double)next_random(&state) / (1u << 30) - 1;
            if (shapes[i].dtype == INGOT_I32) number *= 9;
            bool spoil = poison && shapes[i].dtype == INGOT_F32 && k % 5 == 0;
            ig_store_f64(shapes[i].dtype, out_inputs[i].data, k, spoil ? hostile[k / 5 % 6] : number * 3);
        }
    }
}

/* "add f32[batch,3]; mul f32[3]": the nodes that run, in order. */
static const char *summarize(struct ig_graph *g) {
    struct ig_text text;
    ig_text_init(&text, g->job);
    ig_text_add(&text, "");
    for (ig_node_id id = 0; id < g->nodes.count; id++) {
        const struct ig_node *n = &g->nodes.at[id];
        if (ig_info(g, n->out)->is_const) continue;
        ig_text_printf(&text, "%s%s ", text.length ? "; " : "", ig_op_info(n->op)->name);
        ig_type_print(g->dims, ig_type_of(g, n->out), &text);
    }
    return text.at;
}

/* ---- Running a case ----------------------------------------------------------------------------------------------- */

static struct ig_graph *run_passes_for(const struct ig_target *wanted, struct ig_graph *g, const char *names) {
    const struct ig_pass_options options = {.target = wanted};
    return passes_named(g, names, &options);
}

struct ig_graph *rewrite_by_passes(struct ig_graph *g, const char *names) {
    return run_passes_for(&target, g, names);
}

static struct ig_graph *graph_of(struct ig_job *job, const struct rewrite *r) {
    enum { MANY = 1000 };
    struct ig_graph *g = rewrite_graph(job, r->before);
    if (r->flags & REWRITE_MANY) ig_dim_set_usual(g->dims, ig_dim_symbol(g->dims, "batch"), MANY);
    return g;
}

static double largest(const struct ingot_tensor *t) {
    double most = 0;
    for (int64_t i = 0; i < ingot_tensor_elements(t); i++) {
        double v = fabs(ig_load_f64(t->dtype, t->data, i));
        if (isfinite(v) && v > most) most = v;
    }
    return most;
}

static void compare(const struct rewrite *r, const struct ingot_tensor *a, const struct ingot_tensor *b) {
    double allowed = r->tolerance * largest(a);
    assert_int_equal(ingot_tensor_elements(a), ingot_tensor_elements(b));
    for (int64_t i = 0; i < ingot_tensor_elements(a); i++) {
        double p = ig_load_f64(a->dtype, a->data, i), q = ig_load_f64(b->dtype, b->data, i);
        bool same = p == q || (isnan(p) && isnan(q)) || fabs(p - q) <= allowed;
        if (!same) fail_msg("%s: element %lld was %.9g, is %.9g\n%s", r->passes, (long long)i, p, q, r->before);
    }
}

static void check_rewrite(struct ig_job *job, void *argument) {
    const struct rewrite *r = argument;
    struct ig_graph *before = graph_of(job, r);
    struct ig_graph *after = run_passes_for(r->flags & REWRITE_ON_GPU ? &gpu : &target, before, r->passes);
    const char *found = summarize(after);
    if (r->after && strcmp(found, r->after) != 0)
        fail_msg("%s:\n%sfound    %s\nexpected %s", r->passes, r->before, found, r->after);
    struct ingot_tensor inputs[3], expected[MAX_PORTS], results[MAX_PORTS];
    make_inputs(job, r->flags & REWRITE_POISON, inputs);
    ig_eval_graph(job, before, inputs, expected);
    ig_eval_graph(job, after, inputs, results);
    for (uint32_t i = 0; i < before->outputs.count; i++) {
        compare(r, &expected[i], &results[i]);
        ig_eval_release(job, &expected[i]);
        ig_eval_release(job, &results[i]);
    }
}

void rewrite_in_job(void (*body)(struct ig_job *job, void *argument), const void *argument, const char *what) {
    struct ig_job job;
    struct ingot_error error = {0};
    ig_job_init(&job, &ig_libc_allocator);
    if (ig_job_run(&job, body, (void *)(uintptr_t)argument, &error)) fail_msg("%s: %s", what, error.message);
    ig_job_deinit(&job);
}

void check_rewrites(const struct rewrite *rewrites, size_t count) {
    for (size_t i = 0; i < count; i++)
        rewrite_in_job(check_rewrite, &rewrites[i], rewrites[i].before);
}

void check_all_passes(const struct rewrite *rewrites, size_t count) {
    char names[1024] = "";
    for (int i = 0; i < ig_pass_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "", ig_passes[i].name);
    for (size_t i = 0; i < count; i++) {
        struct rewrite all = rewrites[i];
        all.passes = names;
        all.after = NULL;
        all.tolerance = all.tolerance > 1e-5 ? all.tolerance : 1e-5;
        all.flags = 0;
        check_rewrites(&all, 1);
    }
}
