/* A model: one job, whose arena holds the imported graph and everything built from it. */
#ifndef IG_API_MODEL_H
#define IG_API_MODEL_H

#include "base/job.h"
#include "ingot/ingot.h"
#include "ir/graph.h"

struct ingot_model {
    const struct ingot_allocator *allocator;
    struct ig_job job;
    struct ig_graph *graph;
    const void *data; /* of the ONNX file; NULL: there is none */
    size_t size;
    size_t n_inputs, n_outputs;
    struct ingot_tensor_info *inputs, *outputs;
    struct ingot_model_metadata metadata;
    struct ingot_tensor *results; /* of the last evaluation; data NULL if there is none */
};

/* Without a graph yet. */
enum ingot_status ig_model_create(const struct ingot_allocator *allocator, struct ingot_model **out_model,
                                  struct ingot_error *error);
/* Gives the model its graph, which is in its job; call it within the job. */
void ig_model_take(struct ingot_model *model, struct ig_graph *graph);
/* The text of dims is in the job's arena. */
struct ingot_tensor_info ig_model_describe_port(struct ig_graph *graph, const struct ig_port *port);

/* Reads and checks the caller's options into those of this version, which have their defaults. `target`, of IG_TARGET_SIZE
 * bytes, gets the target's name where that is this machine's GPU. */
enum { IG_TARGET_SIZE = sizeof((struct ingot_gpu_info *)0)->target };
enum ingot_status ig_build_options_read(const struct ingot_build_options *given,
                                        struct ingot_build_options *out_options, char *target,
                                        struct ingot_error *error);

#endif
