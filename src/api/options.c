/* Reads option structs of any version; see options.h. */
#include "api/options.h"

#include <string.h>

enum ingot_status ig_options_read(const char *name, const void *options, size_t size, void *out_options,
                                  struct ingot_error *error) {
    if (!options) return INGOT_OK;
    size_t given;
    memcpy(&given, options, sizeof given);
    /* Below the first field or implausibly large: the caller has not set it. */
    if (given < sizeof given || given > 4096)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                      "struct_size of struct %s is %zu; set it to sizeof(struct %s) and clear the rest", name, given,
                      name);
    const unsigned char *bytes = options;
    for (size_t i = size; i < given; i++) {
        if (bytes[i] != 0)
            return IG_ERR(error, INGOT_INVALID_ARGUMENT,
                          "struct %s sets an option that version %s of the library does not know", name, INGOT_VERSION);
    }
    memcpy(out_options, options, given < size ? given : size);
    memcpy(out_options, &size, sizeof size);
    return INGOT_OK;
}

enum ingot_status ig_options_allocator(const struct ingot_allocator *allocator, const struct ingot_allocator *standard,
                                       const struct ingot_allocator **out_allocator, struct ingot_error *error) {
    if (allocator && (!allocator->alloc || !allocator->release))
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "the allocator lacks its %s function",
                      allocator->alloc ? "release" : "alloc");
    *out_allocator = allocator ? allocator : standard;
    return INGOT_OK;
}
