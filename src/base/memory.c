/* The caller's allocator with checked sizes, and arenas: growing blocks, freed all at once. See memory.h. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer, memory that is not handed out is poisoned, and a gap follows each allocation. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKED_ARENAS
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define CHECKED_ARENAS
#endif

#ifdef CHECKED_ARENAS
#include <sanitizer/asan_interface.h>
#define GAP 16u
#define FORBID(memory, size) ASAN_POISON_MEMORY_REGION(memory, size)
#define PERMIT(memory, size) ASAN_UNPOISON_MEMORY_REGION(memory, size)
#else
#define GAP 0u
#define FORBID(memory, size) ((void)0)
#define PERMIT(memory, size) ((void)0)
#endif

#define BLOCK_ALIGNMENT 64u
#define FIRST_BLOCK ((size_t)16 << 10)
#define LARGEST_BLOCK ((size_t)1 << 20)

static void *libc_alloc(void *user, size_t size, size_t alignment) {
    void *memory = NULL;
    if (size > PTRDIFF_MAX) return NULL; /* no object can be that large */
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    return posix_memalign(&memory, alignment, size ? size : 1) == 0 ? memory : NULL;
}

static void libc_release(void *user, void *memory, size_t size) {
    free(memory);
}

const struct ingot_allocator ig_libc_allocator = {NULL, libc_alloc, libc_release};

bool ig_size_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool ig_size_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

void *ig_allocate(const struct ingot_allocator *allocator, size_t size, size_t alignment) {
    void *memory = allocator->alloc(allocator->user, size, alignment);
    if (memory) memset(memory, 0, size);
    return memory;
}

void ig_release(const struct ingot_allocator *allocator, void *memory, size_t size) {
    if (memory) allocator->release(allocator->user, memory, size);
}

/* ---- Arenas ---- */

struct ig_arena_block {
    struct ig_arena_block *next;
    size_t size; /* of the whole block, including this header */
    size_t used;
};

void ig_arena_init(struct ig_arena *arena, const struct ingot_allocator *allocator) {
    arena->allocator = allocator;
    arena->head = NULL;
}

void ig_arena_deinit(struct ig_arena *arena) {
    for (struct ig_arena_block *block = arena->head, *next; block; block = next) {
        next = block->next;
        PERMIT(block, block->size);
        ig_release(arena->allocator, block, block->size);
    }
    arena->head = NULL;
}

/* The offset in `block` of the next `size` bytes; SIZE_MAX if they do not fit. */
static size_t place(const struct ig_arena_block *block, size_t size, size_t alignment) {
    size_t start = (block->used + alignment - 1) & ~(alignment - 1); /* used <= size: cannot overflow */
    return start <= block->size && size <= block->size - start ? start : SIZE_MAX;
}

/*
 * Adds a block with room for `size` bytes. A large request gets a block of its own, linked behind the head, so that the
 * head's room stays in use.
 */
static struct ig_arena_block *add_block(struct ig_arena *arena, size_t size) {
    struct ig_arena_block *head = arena->head;
    size_t header = BLOCK_ALIGNMENT, total;
    if (!ig_size_add(size, header, &total)) return NULL;
    size_t usual = head ? 2 * head->size : FIRST_BLOCK;
    if (usual > LARGEST_BLOCK) usual = LARGEST_BLOCK;
    bool own = total > usual / 4;
    struct ig_arena_block *block = ig_allocate(arena->allocator, own ? total : usual, BLOCK_ALIGNMENT);
    if (!block) return NULL;
    block->size = own ? total : usual;
    block->used = header;
    FORBID((char *)block + header, block->size - header);
    if (own && head) {
        block->next = head->next;
        head->next = block;
    } else {
        block->next = head;
        arena->head = block;
    }
    return block;
}

void *ig_arena_alloc(struct ig_arena *arena, size_t size) {
    _Static_assert(sizeof(struct ig_arena_block) <= BLOCK_ALIGNMENT, "the header keeps what follows aligned");
    size_t alignment = size >= 4096 ? 64 : 16;
    struct ig_arena_block *block = arena->head;
    size_t start = block ? place(block, size, alignment) : SIZE_MAX;
    if (start == SIZE_MAX) {
        block = add_block(arena, size);
        if (!block) return NULL;
        start = place(block, size, alignment);
    }
    block->used = start + (size ? size : 1); /* distinct addresses even for size 0 */
    block->used = block->size - block->used > GAP ? block->used + GAP : block->size;
    PERMIT((char *)block + start, size);
    return (char *)block + start; /* zeroed, since blocks are and no byte is handed out twice */
}

size_t ig_arena_bytes(const struct ig_arena *arena) {
    size_t bytes = 0;
    for (const struct ig_arena_block *block = arena->head; block; block = block->next)
        bytes += block->size;
    return bytes;
}
