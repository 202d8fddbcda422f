/* The parts of `ingot inspect`. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include <jansson.h>
#include <stdio.h>

#include "session.h"

/* An engine with its parsed explanation (docs/engine.md), and the memory that the shapes of a run need. */
struct inspected {
    const char *path;
    struct session session;
    json_t *explanation;
    bool has_memory;
    struct ingot_memory_info memory;
    char shapes[256];           /* the shapes of that run: "x 1x3x224x224" */
    struct ingot_error problem; /* why the memory is unknown */
};

/* ---- inspect_text.c */

/* Lookups; missing keys and wrong types give empty results. */
const char *json_text(const json_t *object, const char *key);
json_int_t json_number(const json_t *object, const char *key);
/* The ops of a region, or labels, as one text: "conv, add, max"; the caller frees it. */
char *json_joined(const json_t *array);
/* The first region that runs kernel `index`, or NULL. */
const json_t *region_of_kernel(const json_t *explanation, size_t index);
/* Of an engine: "1 to 64, rows independent"; the caller frees it. */
char *symbol_text(const json_t *symbol);
/* "f32[batch,3,224,224]"; the caller frees it. */
char *info_type_text(const struct ingot_tensor_info *info);

/* ---- The parts: inspect_engine.c, inspect_html.c, inspect_model.c, inspect_sharing.c, inspect_difference.c,
 * inspect_why.c */

void inspect_engine_print(const struct inspected *engine);
void inspect_initializers_print(const struct ingot_engine *engine, bool json);
/* How the network is divided among ranks; nothing of an engine for one. `all`: product by product. */
void inspect_ranks_print(const json_t *explanation, bool all, FILE *to);
void inspect_kernels_print(const json_t *explanation);
/* `which` is a kernel's number or name; false if there is none. */
bool inspect_source_print(const json_t *explanation, const char *which);
/* Groups of equal regions, repeated sequences of regions, and what distinguishes nearly equal groups. */
void inspect_sharing_print(const json_t *explanation, bool json);
/* Of groups with their "text": for each that is nearly equal to one before it, {"group", "from", "what": [words]}. */
json_t *inspect_differences(const json_t *groups);
/* What was decided by estimates about the nodes whose names contain `node` or fit it, with * and ?; false: nothing. */
bool inspect_why_print(const json_t *explanation, const char *node, bool json);
void inspect_html_write(const struct inspected *engine, FILE *to);
/* Prints a model's inputs, outputs and operators, as text or JSON. */
enum ingot_status inspect_model_print(struct ingot_model *model, const char *path, bool json,
                                      struct ingot_error *error);

#endif
