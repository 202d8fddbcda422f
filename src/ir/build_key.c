/* The hash key of a node: its contents as words, equal for nodes that compute the same. */
#include <string.h>

#include "base/hash/hash.h"
#include "ir/build_node.h"

enum { SMALL_CONSTANT = 4096 }; /* bytes; larger constants are compared by address */

void ig_key_add(struct ig_key *key, uint64_t word) {
    if (key->count == key->capacity) {
        uint64_t *old = key->at;
        key->at = ig_grow(key->job, old == key->local ? NULL : old, old == key->local ? 0 : key->count,
                          2 * key->capacity, sizeof *key->at);
        if (old == key->local) memcpy(key->at, old, key->count * sizeof *old);
        key->capacity *= 2;
    }
    key->at[key->count++] = word;
}

static void key_add_double(struct ig_key *key, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    ig_key_add(key, bits);
}

/* Small constants are equal if their bytes are; large ones, and initialisers, only if they share memory. */
static void key_add_data(struct ig_key *key, const struct ig_data *data, const struct ig_type *type) {
    ig_key_add(key, (uint64_t)type->dtype << 32 | (uint64_t)type->rank);
    for (int i = 0; i < type->rank; i++)
        ig_key_add(key, type->dim[i]);
    ig_key_add(key, data->absent);
    if (data->initializer == NULL && data->size <= SMALL_CONSTANT) {
        struct ig_hash128 hash = ig_hash128(data->size > 0 ? data->bytes : "", data->size);
        ig_key_add(key, hash.low);
        ig_key_add(key, hash.high);
        return;
    }
    ig_key_add(key, (uint64_t)(uintptr_t)data->bytes);
    ig_key_add(key, data->initializer != NULL ? ig_hash64(data->initializer, strlen(data->initializer)) : 0);
}

static void key_add_attr(struct ig_key *key, const struct ig_attr *attr, const struct ig_type *type) {
    switch (attr->kind) {
    case IG_KIND_INT:
    case IG_KIND_DTYPE: ig_key_add(key, (uint64_t)attr->i); break;
    case IG_KIND_FLOAT: key_add_double(key, attr->f); break;
    case IG_KIND_DIM: ig_key_add(key, attr->dim); break;
    case IG_KIND_DATA: key_add_data(key, attr->data, type); break;
    case IG_KIND_INTS:
    case IG_KIND_FLOATS:
    case IG_KIND_DIMS:
        ig_key_add(key, (uint64_t)attr->count);
        for (int i = 0; i < attr->count; i++) {
            if (attr->kind == IG_KIND_INTS)
                ig_key_add(key, (uint64_t)attr->ints[i]);
            else if (attr->kind == IG_KIND_DIMS)
                ig_key_add(key, attr->dims[i]);
            else
                key_add_double(key, attr->floats[i]);
        }
        break;
    }
}

void ig_key_make(struct ig_key *key, struct ig_graph *g, const struct ig_node *node, const struct ig_type *type) {
    const struct ig_op_info *info = ig_op_info(node->op);
    *key = (struct ig_key){.job = g->job, .capacity = sizeof key->local / sizeof *key->local};
    key->at = key->local;
    ig_key_add(key, (uint64_t)node->op << 32 | node->n_out);
    ig_key_add(key, node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++)
        ig_key_add(key, node->in[i]);
    for (int i = 0; i < info->n_attrs; i++)
        key_add_attr(key, &node->attr[i], type);
}
