/*
 * The linker: combines object files into one blob of position-independent code.
 *
 * The blob is mapped read-only and executable, at any address, and shared between processes. So it must need no loader:
 * no writable data, no absolute addresses, no imports. The only external functions an object can use are those of the
 * support object (support.h).
 */
#ifndef IG_TOOLCHAIN_LINK_H
#define IG_TOOLCHAIN_LINK_H

#include "toolchain/elf.h"
#include "toolchain/toolchain.h"

/* Does a relocation in `object` name a symbol that it does not define? */
bool ig_link_needs_support(const struct ig_object *object);

/*
 * Lays out the instructions of all objects, then their constants, and applies relocations. entries[i] is the offset of
 * symbols[i], which objects[i] defines. `support` may be NULL. Raises INGOT_TOOLCHAIN naming object and symbol.
 */
void ig_link(struct ig_job *job, const struct ig_object *objects, const char *const *symbols, uint32_t count,
             const struct ig_object *support, struct ig_code *out_code);

#endif
