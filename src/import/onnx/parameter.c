/*
 * The names of PyTorch's parameters. Its exporters keep them where an initialiser is the parameter itself, but store the
 * weights of linear layers transposed, under a name of no meaning. Such an initialiser is the second operand of a MatMul,
 * of which the model tells the module:
 *  - torch.onnx.export(dynamo=True) in the node's metadata, as a list of modules and as the traced call, whose second
 *    argument is the parameter;
 *  - the older exporter, TorchScript's, in the node's name: "/encoder/layer.0/dense/MatMul". That this is a linear layer,
 *    its bias shows.
 * Nothing is guessed: where the model does not tell, an initialiser has one name.
 */
#include <ctype.h>
#include <string.h>

#include "import/onnx/importer.h"

static const char *metadata_of(const Onnx__NodeProto *node, const char *key) {
    for (size_t i = 0; i < node->n_metadata_props; i++) {
        const Onnx__StringStringEntryProto *entry = node->metadata_props[i];
        if (entry->key && entry->value && strcmp(entry->key, key) == 0) return entry->value;
    }
    return NULL;
}

/* The last but one of "['', 'encoder', 'encoder.dense', 'linear']": the rest is the call within the module. */
static const char *module_in(struct ig_job *job, const char *scopes) {
    const char *last = strrchr(scopes, ','), *end = last;
    while (end && end > scopes && *end != '\'')
        end--;
    const char *begin = end;
    while (begin && begin > scopes && begin[-1] != '\'')
        begin--;
    if (!begin || begin <= scopes || end <= begin) return NULL;
    return ig_strndup(job, begin, (size_t)(end - begin));
}

/* Is the parameter "MODULE.weight" an argument of the traced linear layer? There it is "%p_" and its name with
 * underscores. */
static bool calls_linear(struct ig_job *job, const char *call, const char *module) {
    char *argument = ig_format(job, ", %%p_%s_weight", module);
    for (char *c = argument + 4; *c; c++)
        *c = isalnum((unsigned char)*c) ? *c : '_';
    const char *found = strstr(call, argument);
    char after = found ? found[strlen(argument)] : '\0';
    return strstr(call, "aten.linear.default") && (after == ',' || after == ')');
}

static const char *module_by_metadata(struct ig_job *job, const Onnx__NodeProto *node) {
    const char *scopes = metadata_of(node, "pkg.torch.onnx.name_scopes");
    const char *call = metadata_of(node, "pkg.torch.onnx.fx_node");
    const char *module = scopes && call ? module_in(job, scopes) : NULL;
    return module && calls_linear(job, call, module) ? module : NULL;
}

static const char *module_by_name(struct ig_initializers *all, const Onnx__NodeProto *node) {
    const char *last = node->name && *node->name == '/' ? strrchr(node->name, '/') : NULL;
    uint32_t bias;
    if (!last || last == node->name || strcmp(last, "/MatMul") != 0) return NULL;
    if (strncmp(node->input[1], "onnx::MatMul_", strlen("onnx::MatMul_")) != 0) return NULL;
    char *module = ig_strndup(all->job, node->name + 1, (size_t)(last - node->name - 1));
    for (char *c = module; *c; c++)
        *c = *c == '/' ? '.' : *c;
    return ig_map_get_name(&all->by_name, ig_format(all->job, "%s.bias", module), &bias) ? module : NULL;
}

static void name_weight(struct ig_initializers *all, struct ig_map *taken, const Onnx__NodeProto *node) {
    uint32_t index, there;
    bool suits = node->op_type && strcmp(node->op_type, "MatMul") == 0 && (!node->domain || !*node->domain) &&
                 node->n_input == 2 && ig_map_get_name(&all->by_name, node->input[1], &index);
    if (!suits) return;
    struct ig_initializer *one = all->list.at[index];
    if (one->rank != 2 || one->is_ambiguous || one->alias) return;
    const char *module = module_by_metadata(all->job, node);
    if (!module) module = module_by_name(all, node);
    if (!module) return;
    const char *name = ig_format(all->job, "%s.weight", module);
    if (ig_map_get_name(&all->by_name, name, &there) || ig_map_get_name(taken, name, &there)) return;
    ig_map_put_name(taken, name, index);
    one->alias = name;
    one->is_transposed = true;
}

void ig_onnx_name_parameters(struct ig_initializers *all, const Onnx__GraphProto *graph) {
    struct ig_map taken;
    ig_map_init(&taken, all->job);
    for (size_t i = 0; i < graph->n_node; i++)
        name_weight(all, &taken, graph->node[i]);
}
