/* Writing and reading the files of entries; see entry.h. */
#include "cache/entry.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static const char magic[8] = "IngotCE\n";
enum { LEVEL = 3, MOST_LABEL = 255 };
/* No head is larger: a few bytes can claim to hold any number. */
#define MOST_HEAD ((uint64_t)1 << 30)
#define PIECE ((size_t)1 << 20)

static uint64_t before_body(const struct ig_entry_header *h) {
    uint64_t size = sizeof *h + h->label_size + h->head_stored;
    return h->body_size ? (size + IG_ENTRY_PAGE - 1) / IG_ENTRY_PAGE * IG_ENTRY_PAGE : size;
}

bool ig_entry_header_check(const struct ig_entry_header *h, uint64_t *out_size) {
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->format != IG_ENTRY_FORMAT) return false;
    if (!ig_cache_kind_name(h->kind) || h->label_size > MOST_LABEL || h->compression > 1) return false;
    if (h->head_size > MOST_HEAD || h->head_stored > h->head_size || h->body_size > INT64_MAX / 2) return false;
    if (h->compression == 0 && h->head_stored != h->head_size) return false;
    *out_size = before_body(h) + h->body_size + IG_ENTRY_CHECKSUM;
    return true;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

struct writer {
    int fd;
    struct ig_hash_stream hash;
    struct ingot_error *error;
};

static enum ingot_status put(struct writer *w, const void *data, uint64_t size) {
    const char *bytes = data;
    while (size > 0) {
        size_t piece = size < PIECE ? (size_t)size : PIECE;
        ssize_t done = write(w->fd, bytes, piece);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0)
            return IG_ERR(w->error, INGOT_IO, "cannot write an entry: %s", strerror(done < 0 ? errno : ENOSPC));
        ig_hash_stream_add(&w->hash, bytes, (size_t)done);
        bytes += done;
        size -= (uint64_t)done;
    }
    return INGOT_OK;
}

static enum ingot_status put_all(struct writer *w, const struct ig_entry_header *h, const char *label, const void *head,
                                 const void *body) {
    static const unsigned char zeroes[IG_ENTRY_PAGE];
    uint64_t size = sizeof *h + h->label_size + h->head_stored;
    IG_TRY(put(w, h, sizeof *h));
    IG_TRY(put(w, label, h->label_size));
    IG_TRY(put(w, head, h->head_stored));
    IG_TRY(put(w, zeroes, before_body(h) - size));
    IG_TRY(put(w, body, h->body_size));
    struct ig_hash128 sum = ig_hash_stream_end(&w->hash);
    return put(w, &sum, sizeof sum);
}

enum ingot_status ig_entry_write(int fd, const struct ig_cache_id *id, const struct ig_cache_content *content,
                                 const struct ingot_allocator *allocator, uint64_t *out_size,
                                 struct ingot_error *error) {
    struct writer w = {.fd = fd, .error = error};
    size_t label = strlen(content->label), capacity = ZSTD_compressBound(content->head_size);
    struct ig_entry_header h = {.format = IG_ENTRY_FORMAT,
                                .kind = id->kind,
                                .key_high = id->key.high,
                                .key_low = id->key.low,
                                .label_size = (uint32_t)(label < MOST_LABEL ? label : MOST_LABEL),
                                .head_size = content->head_size,
                                .head_stored = content->head_size,
                                .body_size = content->body_size};
    memcpy(h.magic, magic, sizeof magic);
    if (h.head_size > MOST_HEAD)
        return IG_ERR(error, INGOT_UNSUPPORTED, "the head of an entry has %zu bytes", content->head_size);
    void *room = ig_allocate(allocator, capacity, 1);
    if (!room) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for compressing %zu bytes", content->head_size);
    const void *head = content->head;
    size_t size = ZSTD_compress(room, capacity, content->head, content->head_size, LEVEL);
    if (!ZSTD_isError(size) && size < content->head_size) {
        h.compression = 1;
        h.head_stored = size;
        head = room;
    }
    ig_hash_stream_begin(&w.hash);
    enum ingot_status status = put_all(&w, &h, content->label, head, content->body);
    ig_release(allocator, room, capacity);
    if (status == INGOT_OK && out_size) ig_entry_header_check(&h, out_size);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* An entry in memory, but for a body, which is mapped. */
struct loaded {
    const struct ingot_allocator *allocator;
    size_t size; /* of this allocation */
    int fd;      /* -1: not (yet) this object's */
    void *map;
    size_t map_size;
    char label[MOST_LABEL + 1];
    _Alignas(64) unsigned char head[];
};

struct reader {
    int fd;
    const struct ingot_allocator *allocator;
    struct ingot_error *error;
    struct ig_entry_header header;
    uint64_t size, at;
    struct ig_hash_stream hash;
};

static void unload(void *owner) {
    struct loaded *l = owner;
    if (l->map) munmap(l->map, l->map_size);
    if (l->fd >= 0) close(l->fd);
    ig_release(l->allocator, l, l->size);
}

static enum ingot_status take(struct reader *r, void *to, uint64_t size) {
    unsigned char *bytes = to;
    for (uint64_t done = 0; done < size;) {
        ssize_t got = pread(r->fd, bytes + done, (size_t)(size - done), (off_t)(r->at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return IG_ERR(r->error, INGOT_IO, "%s", strerror(errno));
        if (got == 0) return IG_ERR(r->error, INGOT_BAD_ENGINE, "it is truncated");
        done += (uint64_t)got;
    }
    ig_hash_stream_add(&r->hash, to, (size_t)size);
    r->at += size;
    return INGOT_OK;
}

static enum ingot_status read_header(struct reader *r, const struct ig_cache_id *id) {
    const struct ig_entry_header *h = &r->header;
    struct stat info;
    if (fstat(r->fd, &info) != 0) return IG_ERR(r->error, INGOT_IO, "%s", strerror(errno));
    if (!S_ISREG(info.st_mode)) return IG_ERR(r->error, INGOT_BAD_ENGINE, "it is no regular file");
    IG_TRY(take(r, &r->header, sizeof r->header));
    if (!ig_entry_header_check(h, &r->size)) return IG_ERR(r->error, INGOT_BAD_ENGINE, "its header is damaged");
    if ((uint64_t)info.st_size != r->size)
        return IG_ERR(r->error, INGOT_BAD_ENGINE, "it has %lld bytes, expected %llu", (long long)info.st_size,
                      (unsigned long long)r->size);
    if (id && (h->kind != (uint32_t)id->kind || h->key_high != id->key.high || h->key_low != id->key.low))
        return IG_ERR(r->error, INGOT_BAD_ENGINE, "it is another entry than its name says");
    return INGOT_OK;
}

/* Everything behind the head. By reading, not by a mapping: a failing disk is then an error and no signal. */
static enum ingot_status check_rest(struct reader *r) {
    unsigned char small[IG_ENTRY_PAGE];
    const bool is_large = r->header.body_size > sizeof small;
    unsigned char *piece = is_large ? ig_allocate(r->allocator, PIECE, 64) : small;
    enum ingot_status status = INGOT_OK;
    if (!piece) return IG_ERR(r->error, INGOT_OUT_OF_MEMORY, "out of memory");
    const uint64_t end = r->size - IG_ENTRY_CHECKSUM;
    while (r->at < end && status == INGOT_OK) {
        uint64_t left = end - r->at, most = is_large ? PIECE : sizeof small;
        status = take(r, piece, left < most ? left : most);
    }
    if (is_large) ig_release(r->allocator, piece, PIECE);
    IG_TRY(status);
    struct ig_hash128 sum = ig_hash_stream_end(&r->hash), stored;
    IG_TRY(take(r, &stored, sizeof stored));
    if (sum.low != stored.low || sum.high != stored.high)
        return IG_ERR(r->error, INGOT_BAD_ENGINE, "its checksum is wrong");
    return INGOT_OK;
}

static enum ingot_status map_body(const struct reader *r, struct loaded *l) {
    if (r->header.body_size == 0) return INGOT_OK;
    l->map_size = (size_t)(before_body(&r->header) + r->header.body_size);
    void *map = mmap(NULL, l->map_size, PROT_READ, MAP_PRIVATE, r->fd, 0);
    if (map == MAP_FAILED) return IG_ERR(r->error, INGOT_IO, "cannot map it: %s", strerror(errno));
    l->map = map;
    return INGOT_OK;
}

/* `stored`: label and head as they are in the file. */
static enum ingot_status unpack(const struct reader *r, const unsigned char *stored, struct loaded *l) {
    const struct ig_entry_header *h = &r->header;
    memcpy(l->label, stored, h->label_size);
    stored += h->label_size;
    if (h->compression == 0) {
        if (h->head_size > 0) memcpy(l->head, stored, (size_t)h->head_size);
    } else if (ZSTD_decompress(l->head, (size_t)h->head_size, stored, (size_t)h->head_stored) != h->head_size) {
        return IG_ERR(r->error, INGOT_BAD_ENGINE, "it cannot be decompressed");
    }
    return map_body(r, l);
}

static enum ingot_status make(const struct reader *r, const unsigned char *stored, struct loaded **out_loaded) {
    const size_t size = sizeof(struct loaded) + (size_t)r->header.head_size;
    struct loaded *l = ig_allocate(r->allocator, size, _Alignof(struct loaded));
    if (!l) return IG_ERR(r->error, INGOT_OUT_OF_MEMORY, "out of memory");
    l->allocator = r->allocator;
    l->size = size;
    l->fd = -1;
    enum ingot_status status = unpack(r, stored, l);
    if (status == INGOT_OK) {
        *out_loaded = l;
    } else {
        unload(l);
    }
    return status;
}

/* Sizes are believed only when the checksum is right; until then, no more memory is taken than the file has bytes. */
static enum ingot_status load(struct reader *r, const struct ig_cache_id *id, struct loaded **out_loaded) {
    IG_TRY(read_header(r, id));
    const size_t size = (size_t)(r->header.label_size + r->header.head_stored) + 1;
    unsigned char *stored = ig_allocate(r->allocator, size, 64);
    if (!stored) return IG_ERR(r->error, INGOT_OUT_OF_MEMORY, "out of memory");
    enum ingot_status status = take(r, stored, size - 1);
    if (status == INGOT_OK) status = check_rest(r);
    if (status == INGOT_OK) status = make(r, stored, out_loaded);
    ig_release(r->allocator, stored, size);
    return status;
}

enum ig_cache_answer ig_entry_read(int fd, const struct ig_cache_id *id, const struct ingot_allocator *allocator,
                                   struct ig_cache_id *out_id, struct ig_cache_found *out_found,
                                   struct ingot_error *error) {
    struct reader r = {.fd = fd, .allocator = allocator, .error = error};
    struct loaded *l = NULL;
    ig_hash_stream_begin(&r.hash);
    if (load(&r, id, &l) != INGOT_OK || !l) return IG_CACHE_TROUBLE;
    const struct ig_entry_header *h = &r.header;
    l->fd = fd;
    if (out_id) *out_id = (struct ig_cache_id){(enum ig_cache_kind)h->kind, {.low = h->key_low, .high = h->key_high}};
    *out_found = (struct ig_cache_found){.content = {l->label, l->head, (size_t)h->head_size, NULL, h->body_size},
                                         .fd = -1,
                                         .owner = l,
                                         .release = unload};
    if (l->map) {
        out_found->body_at = before_body(h);
        out_found->content.body = (const char *)l->map + out_found->body_at;
        out_found->fd = fd;
    }
    return IG_CACHE_HIT;
}
