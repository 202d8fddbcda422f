/* Symbolic contents of views and movement: each element of the result is an element of an input. See elements.h. */
#include "ir/infer/elements.h"

static bool constant_of(struct ig_elements *e, ig_dim dim, int64_t *out_value) {
    return dim != IG_DIM_NONE && ig_dim_is_const(e->dims, dim, out_value);
}

/* A list of dims as numbers; false if one is symbolic. */
static bool constants_of(struct ig_elements *e, enum ig_attr_name name, int64_t *out_values) {
    const struct ig_attr *attr = ig_elements_attr(e, name);
    for (int i = 0; i < attr->count; i++) {
        if (!constant_of(e, attr->dims[i], &out_values[i])) return false;
    }
    return true;
}

static int in_rank(const struct ig_elements *e, uint32_t input) {
    return ig_type_of(e->graph, e->node->in[input])->rank;
}

/* Resolves an index of a gather or scatter; negative ones count from the end. False if unknown or out of range. */
static bool index_of(struct ig_elements *e, ig_dim dim, int64_t extent, int64_t *out_index) {
    if (!constant_of(e, dim, out_index)) return false;
    if (*out_index < 0) *out_index += extent;
    return *out_index >= 0 && *out_index < extent;
}

void ig_elements_reshape(struct ig_elements *e) {
    const ig_dim *in;
    int64_t dims[INGOT_MAX_RANK];
    if (!ig_elements_input(e, 0, &in, dims)) return;
    for (int i = 0; i < e->count; i++)
        e->result[i] = in[i];
}

void ig_elements_transpose(struct ig_elements *e) {
    const ig_dim *in;
    int64_t dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK], from[INGOT_MAX_RANK];
    const int64_t *perm = ig_elements_attr(e, IG_ATTR_perm)->ints;
    int rank = e->type->rank;
    if (!ig_elements_input(e, 0, &in, dims)) return;
    for (int i = 0; i < e->count; i++) {
        ig_elements_split(i, e->dim, rank, index);
        for (int j = 0; j < rank; j++)
            from[perm[j]] = index[j];
        e->result[i] = in[ig_elements_position(from, dims, rank)];
    }
}

void ig_elements_expand(struct ig_elements *e) {
    const ig_dim *in;
    int64_t dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    if (!ig_elements_input(e, 0, &in, dims)) return;
    for (int i = 0; i < e->count; i++) {
        ig_elements_split(i, e->dim, e->type->rank, index);
        e->result[i] = in[ig_elements_broadcast(e, index, dims, in_rank(e, 0))];
    }
}

void ig_elements_slice(struct ig_elements *e) {
    const ig_dim *in;
    int64_t dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK], starts[INGOT_MAX_RANK];
    const int64_t *steps = ig_elements_attr(e, IG_ATTR_steps)->ints;
    int rank = e->type->rank;
    if (!ig_elements_input(e, 0, &in, dims) || !constants_of(e, IG_ATTR_starts, starts)) return;
    for (int i = 0; i < e->count; i++) {
        ig_elements_split(i, e->dim, rank, index);
        for (int j = 0; j < rank; j++)
            index[j] = starts[j] + index[j] * steps[j];
        e->result[i] = in[ig_elements_position(index, dims, rank)];
    }
}

void ig_elements_pad(struct ig_elements *e) {
    const ig_dim *in, *fill = NULL;
    int64_t dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK], before[INGOT_MAX_RANK] = {0}, none[INGOT_MAX_RANK];
    ig_dim value = ig_dim_const(e->dims, 0);
    int rank = e->type->rank;
    if (ig_elements_attr(e, IG_ATTR_mode)->i != IG_PAD_CONSTANT || !constants_of(e, IG_ATTR_before, before)) return;
    if (!ig_elements_input(e, 0, &in, dims)) return;
    bool has_value = e->node->n_in > 1 && e->node->in[1] != IG_NO_VALUE;
    if (has_value) value = ig_elements_input(e, 1, &fill, none) ? fill[0] : IG_DIM_NONE;
    for (int i = 0; i < e->count; i++) {
        bool inside = true;
        ig_elements_split(i, e->dim, rank, index);
        for (int j = 0; j < rank; j++) {
            index[j] -= before[j];
            inside = inside && index[j] >= 0 && index[j] < dims[j];
        }
        e->result[i] = inside ? in[ig_elements_position(index, dims, rank)] : value;
    }
}

void ig_elements_concat(struct ig_elements *e) {
    int64_t axis = ig_elements_attr(e, IG_ATTR_axis)->i, offset = 0;
    int64_t dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    int rank = e->type->rank;
    for (uint32_t part = 0; part < e->node->n_in; part++) {
        const ig_dim *in;
        int64_t extent, count = 1;
        const struct ig_type *type = ig_type_of(e->graph, e->node->in[part]);
        if (!constant_of(e, type->dim[axis], &extent)) return;
        bool known = ig_elements_input(e, part, &in, dims);
        for (int i = 0; known && i < rank; i++)
            count *= dims[i];
        for (int64_t i = 0; known && i < count; i++) {
            ig_elements_split(i, dims, rank, index);
            index[axis] += offset;
            e->result[ig_elements_position(index, e->dim, rank)] = in[i];
        }
        offset += extent;
    }
}

void ig_elements_gather(struct ig_elements *e) {
    const ig_dim *in, *indices;
    int64_t dims[INGOT_MAX_RANK], index_dims[INGOT_MAX_RANK], out[INGOT_MAX_RANK], from[INGOT_MAX_RANK];
    int axis = (int)ig_elements_attr(e, IG_ATTR_axis)->i;
    if (!ig_elements_input(e, 0, &in, dims) || !ig_elements_input(e, 1, &indices, index_dims)) return;
    int rank = in_rank(e, 0), index_rank = in_rank(e, 1);
    for (int i = 0; i < e->count; i++) {
        ig_elements_split(i, e->dim, e->type->rank, out);
        for (int j = 0; j < rank; j++)
            from[j] = j < axis ? out[j] : j > axis ? out[j - 1 + index_rank] : 0;
        ig_dim which = indices[ig_elements_position(out + axis, index_dims, index_rank)];
        if (index_of(e, which, dims[axis], &from[axis])) e->result[i] = in[ig_elements_position(from, dims, rank)];
    }
}

void ig_elements_gather_elements(struct ig_elements *e) {
    const ig_dim *in, *indices;
    int64_t dims[INGOT_MAX_RANK], index_dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK];
    int axis = (int)ig_elements_attr(e, IG_ATTR_axis)->i, rank = e->type->rank;
    if (!ig_elements_input(e, 0, &in, dims) || !ig_elements_input(e, 1, &indices, index_dims)) return;
    for (int i = 0; i < e->count; i++) {
        ig_elements_split(i, e->dim, rank, index);
        if (!index_of(e, indices[i], dims[axis], &index[axis])) continue;
        e->result[i] = in[ig_elements_position(index, dims, rank)];
    }
}

/* Resolves a tuple of indices; false if one is unknown or out of range. */
static bool tuple_of(struct ig_elements *e, const ig_dim *tuple, int64_t length, const int64_t *dims,
                     int64_t *out_index) {
    for (int64_t i = 0; i < length; i++) {
        if (!index_of(e, tuple[i], dims[i], &out_index[i])) return false;
    }
    return true;
}

void ig_elements_gather_nd(struct ig_elements *e) {
    const ig_dim *in, *indices;
    int64_t dims[INGOT_MAX_RANK], index_dims[INGOT_MAX_RANK], out[INGOT_MAX_RANK], from[INGOT_MAX_RANK];
    int batch = (int)ig_elements_attr(e, IG_ATTR_batch_dims)->i;
    if (!ig_elements_input(e, 0, &in, dims) || !ig_elements_input(e, 1, &indices, index_dims)) return;
    int rank = in_rank(e, 0), tuples = in_rank(e, 1) - 1;
    int64_t length = index_dims[tuples];
    for (int i = 0; i < e->count; i++) {
        ig_elements_split(i, e->dim, e->type->rank, out);
        const ig_dim *tuple = indices + ig_elements_position(out, index_dims, tuples) * length;
        for (int j = 0; j < rank; j++)
            from[j] = j < batch ? out[j] : 0;
        for (int j = batch + (int)length; j < rank; j++)
            from[j] = out[tuples + j - batch - length];
        if (tuple_of(e, tuple, length, dims + batch, from + batch))
            e->result[i] = in[ig_elements_position(from, dims, rank)];
    }
}

/* Copies the data into a scatter's result. False if indices or updates are unknown, or updates are combined with the
 * data. */
static bool begin_scatter(struct ig_elements *e, const ig_dim **out_indices, int64_t *index_dims,
                          const ig_dim **out_updates, int64_t *update_dims) {
    const ig_dim *in;
    int64_t dims[INGOT_MAX_RANK];
    if (ig_elements_attr(e, IG_ATTR_reduction)->i != IG_SCATTER_SET) return false;
    if (!ig_elements_input(e, 1, out_indices, index_dims) || !ig_elements_input(e, 2, out_updates, update_dims))
        return false;
    if (!ig_elements_input(e, 0, &in, dims)) return true;
    for (int i = 0; i < e->count; i++)
        e->result[i] = in[i];
    return true;
}

/* After an update at an unknown index, any element may have changed. */
static void forget_all(struct ig_elements *e) {
    for (int i = 0; i < e->count; i++)
        e->result[i] = IG_DIM_NONE;
}

void ig_elements_scatter_elements(struct ig_elements *e) {
    const ig_dim *indices, *updates;
    int64_t index_dims[INGOT_MAX_RANK], dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK], count = 1;
    int axis = (int)ig_elements_attr(e, IG_ATTR_axis)->i, rank = e->type->rank;
    if (!begin_scatter(e, &indices, index_dims, &updates, dims)) return;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    for (int64_t i = 0; i < count; i++) {
        ig_elements_split(i, dims, rank, index);
        if (!index_of(e, indices[i], e->dim[axis], &index[axis])) {
            forget_all(e);
            return;
        }
        e->result[ig_elements_position(index, e->dim, rank)] = updates[i];
    }
}

void ig_elements_scatter_nd(struct ig_elements *e) {
    const ig_dim *indices, *updates;
    int64_t index_dims[INGOT_MAX_RANK], dims[INGOT_MAX_RANK], index[INGOT_MAX_RANK], from[INGOT_MAX_RANK], count = 1;
    int rank = e->type->rank;
    if (!begin_scatter(e, &indices, index_dims, &updates, dims)) return;
    int tuples = in_rank(e, 1) - 1, update_rank = in_rank(e, 2);
    int64_t length = index_dims[tuples];
    for (int i = 0; i < update_rank; i++)
        count *= dims[i];
    for (int64_t i = 0; i < count; i++) {
        ig_elements_split(i, dims, update_rank, from);
        const ig_dim *tuple = indices + ig_elements_position(from, index_dims, tuples) * length;
        for (int j = (int)length; j < rank; j++)
            index[j] = from[tuples + j - length];
        if (!tuple_of(e, tuple, length, e->dim, index)) {
            forget_all(e);
            return;
        }
        e->result[ig_elements_position(index, e->dim, rank)] = updates[i];
    }
}
