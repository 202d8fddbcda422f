/* NumPy's .npz: a zip archive of .npy members, named as the arrays. libzip reads all of it and verifies checksums. */
#include <string.h>
#include <zip.h>

#include "base/memory.h"
#include "weights/weights.h"

struct archive {
    const struct ingot_allocator *allocator;
    zip_t *zip;
    zip_file_t *member;
    unsigned char *data; /* of the member */
    size_t size, capacity;
};

static void close_archive(void *resource) {
    struct archive *a = resource;
    if (a->member) zip_fclose(a->member);
    if (a->zip) zip_discard(a->zip);
    ig_release(a->allocator, a->data, a->capacity);
}

static void open_archive(struct ig_job *job, struct archive *a, const void *data, size_t size) {
    zip_error_t reason;
    zip_error_init(&reason);
    zip_source_t *source = zip_source_buffer_create(data, size, 0, &reason);
    if (source) a->zip = zip_open_from_source(source, ZIP_RDONLY, &reason);
    if (a->zip) {
        zip_error_fini(&reason);
        return;
    }
    if (source) zip_source_free(source);
    const char *text = ig_strdup(job, zip_error_strerror(&reason));
    zip_error_fini(&reason);
    ig_raise(job, INGOT_BAD_TENSOR, "%s", text);
}

static void make_room(struct ig_job *job, struct archive *a, size_t capacity) {
    if (capacity <= a->capacity) return;
    unsigned char *data = ig_allocate(a->allocator, capacity, 64);
    if (!data) ig_raise(job, INGOT_OUT_OF_MEMORY, "out of memory for a member of %zu bytes", capacity);
    if (a->size) memcpy(data, a->data, a->size);
    ig_release(a->allocator, a->data, a->capacity);
    a->data = data;
    a->capacity = capacity;
}

/* A member's bytes. Its declared size is not trusted: memory grows with the bytes actually read. */
static void read_member(struct ig_job *job, struct archive *a, zip_uint64_t claimed) {
    const zip_uint64_t trusted = 1 << 20;
    a->size = 0;
    make_room(job, a, (size_t)(claimed < trusted ? claimed + 1 : trusted));
    for (;;) {
        if (a->size == a->capacity) {
            bool near = claimed / 2 <= a->capacity && claimed > a->capacity;
            make_room(job, a, near ? (size_t)claimed + 1 : 2 * a->capacity);
        }
        zip_int64_t got = zip_fread(a->member, a->data + a->size, a->capacity - a->size);
        if (got < 0) ig_raise(job, INGOT_BAD_TENSOR, "%s", zip_file_strerror(a->member));
        if (got == 0) return;
        a->size += (size_t)got;
    }
}

static void add_member(struct ig_tensors *tensors, struct archive *a, zip_uint64_t index) {
    struct ig_job *job = tensors->job;
    zip_stat_t info;
    if (zip_stat_index(a->zip, index, 0, &info) != 0 || !(info.valid & ZIP_STAT_NAME))
        ig_raise(job, INGOT_BAD_TENSOR, "its directory is damaged");
    struct ig_where where = {.verb = "read", .name = info.name};
    ig_where_push(job, &where);
    a->member = zip_fopen_index(a->zip, index, 0);
    if (!a->member) ig_raise(job, INGOT_BAD_TENSOR, "%s", zip_strerror(a->zip));
    read_member(job, a, info.valid & ZIP_STAT_SIZE ? info.size : 0);
    zip_fclose(a->member);
    a->member = NULL;
    size_t length = strlen(info.name);
    if (length > 4 && strcmp(info.name + length - 4, ".npy") == 0) length -= 4;
    ig_npy_read(tensors, ig_strndup(job, info.name, length), a->data, a->size);
    ig_where_pop(job);
}

void ig_npz_read(struct ig_tensors *tensors, const void *data, size_t size) {
    struct ig_job *job = tensors->job;
    struct archive *a = IG_NEW(job, struct archive);
    a->allocator = job->allocator;
    ig_defer(job, close_archive, a);
    open_archive(job, a, data, size);
    zip_int64_t count = zip_get_num_entries(a->zip, 0);
    for (zip_int64_t i = 0; i < count; i++)
        add_member(tensors, a, (zip_uint64_t)i);
    ig_undefer(job, a);
    close_archive(a);
}
