/* Validates tensor maps; see tensor_map.h. */
#include "base/tensor_map.h"

#include "base/memory.h"

enum { MOST_LINES = 256 }; /* of a box, along each axis of a patch */

static const char *patch_error(const struct ig_tensor_map *m) {
    if (m->axes != 2 || m->dealt) return "a patch of something else than a picture";
    for (uint32_t i = 0; i < m->axes; i++) {
        if (m->patch[i] == 0 || m->patch[i] > MOST_LINES / m->steps[i]) return "a patch that cannot be brought";
        if (m->lower[i] != 0 || m->upper[i] != 0) return "a patch with windows";
    }
    if (ig_tensor_map_brings_lines(m) && (m->steps[0] != 1 || m->patch[0] > MOST_LINES / m->box_width))
        return "a patch that cannot be brought";
    return m->patch[0] * m->patch[1] == m->box_lines ? NULL : "a patch of another number of pixels than its box";
}

static const char *windows_error(const struct ig_tensor_map *m, uint32_t n_dims) {
    int32_t limit = ig_tensor_map_limit(m->axes);
    if (m->axes != 2 && m->axes != 3) return "windows of an unknown kind";
    for (uint32_t i = 0; i < m->axes; i++) {
        if (m->sizes[i] >= n_dims) return "a dim that is not there";
        if (m->lower[i] < -limit || m->lower[i] >= limit || m->upper[i] < -limit || m->upper[i] >= limit)
            return "windows too far outside";
        if (m->steps[i] == 0 || m->steps[i] > IG_MOST_WINDOW_STEP) return "windows too far apart";
    }
    return NULL;
}

static const char *matrices_error(const struct ig_tensor_map *m, uint32_t n_dims) {
    bool known = m->begin < n_dims;
    if (m->matrices != 1 || m->axes > 0 || m->dealt || m->patch[0] > 0) return "matrices of an unknown kind";
    for (int i = 0; i < 2; i++)
        known &= m->counts[i] < n_dims && m->apart[i] < n_dims;
    return known ? NULL : "a dim that is not there";
}

const char *ig_tensor_map_error(const struct ig_tensor_map *m, uint32_t n_operands, uint32_t n_dims) {
    uint64_t bytes = (uint64_t)m->box_width * m->element;
    if (m->buffer >= n_operands) return "an operand that is not there";
    if (m->width >= n_dims || m->lines >= n_dims || m->pitch >= n_dims) return "a dim that is not there";
    if (m->element != 1 && m->element != 2 && m->element != 4) return "elements of another size than 1, 2 or 4 bytes";
    if (bytes != 32 && bytes != 64 && bytes != 128 && !ig_tensor_map_brings_lines(m))
        return "a box of a width that has no pattern";
    bool patch = m->patch[0] > 0 || m->patch[1] > 0;
    if (m->box_lines == 0 || (m->box_lines > MOST_LINES && !patch)) return "a box of a height that cannot be brought";
    if (m->dealt > 1 || (m->dealt && (m->axes > 0 || m->box_lines % IG_DEALT_LINES != 0)))
        return "lines that cannot be dealt out";
    const char *wrong = m->axes ? windows_error(m, n_dims) : m->matrices ? matrices_error(m, n_dims) : NULL;
    return !wrong && patch ? patch_error(m) : wrong;
}

/* The lines of a matrix, or the pixels of images; 0: too many, or none. */
static size_t count_lines(const struct ig_tensor_map *m, const int64_t *dims) {
    size_t count = (size_t)dims[m->lines];
    for (uint32_t i = 0; i < m->axes; i++) {
        int64_t size = dims[m->sizes[i]];
        bool counts = size > 0 && size <= INT32_MAX && size - 1 + m->upper[i] >= m->lower[i];
        if (!counts || !ig_size_mul(count, (size_t)size, &count)) return 0;
    }
    return count;
}

/* What is wrong with where several matrices begin; adds where the last one does, in elements, to *last. */
static const char *places_error(const struct ig_tensor_map *m, const int64_t *dims, size_t *last) {
    if (dims[m->begin] < 0 || dims[m->begin] > INT64_MAX / 16 || dims[m->begin] * m->element % 16 != 0)
        return "matrices that do not begin at multiples of 16 bytes";
    bool counts = ig_size_add(*last, (size_t)dims[m->begin], last);
    for (int i = 0; i < 2; i++) {
        int64_t count = dims[m->counts[i]], apart = dims[m->apart[i]];
        size_t here;
        if (count <= 0 || count > INT32_MAX || apart <= 0 || apart >= ((int64_t)1 << 40) / m->element)
            return "a size that the copy engine cannot count";
        if (apart * m->element % 16 != 0) return "matrices that do not begin at multiples of 16 bytes";
        counts &= ig_size_mul((size_t)count - 1, (size_t)apart, &here) && ig_size_add(*last, here, last);
    }
    return counts ? NULL : "a size that the copy engine cannot count";
}

const char *ig_tensor_map_sizes_error(const struct ig_tensor_map *m, const int64_t *dims, size_t bytes) {
    int64_t width = dims[m->width], lines = dims[m->lines], pitch = dims[m->pitch];
    size_t before, elements, count;
    if (width <= 0 || lines <= 0 || width > INT32_MAX || lines > INT32_MAX || pitch > INT32_MAX || pitch < width)
        return "a size that the copy engine cannot count";
    if (pitch * m->element % 16 != 0) return "lines that do not begin at multiples of 16 bytes";
    if (ig_tensor_map_brings_lines(m)) {
        if (width != m->box_width || pitch != width) return "pixels that do not follow each other";
        if (dims[m->sizes[0]] > INT32_MAX / width) return "a size that the copy engine cannot count";
    }
    if (m->dealt && lines % IG_DEALT_LINES != 0) return "lines that cannot be dealt out";
    count = count_lines(m, dims);
    if (count == 0) return "a size that the copy engine cannot count";
    if (!ig_size_mul(count - 1, (size_t)pitch, &before) || !ig_size_add(before, (size_t)width, &elements))
        return "a size that the copy engine cannot count";
    const char *wrong = m->matrices ? places_error(m, dims, &elements) : NULL;
    if (wrong) return wrong;
    if (elements > bytes / m->element) return "a matrix that is larger than its operand";
    return NULL;
}
