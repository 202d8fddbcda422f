/*
 * The linker: object files to one blob of position-independent code.
 *
 * The blob is mapped read-only and executable, at any address, and shared between processes. So there is nothing that a
 * loader would have to fill in: no writable data, no absolute addresses, no imports. What an object needs besides itself
 * comes from the support object (support.h) or does not come.
 */
#ifndef IG_TOOLCHAIN_LINK_H
#define IG_TOOLCHAIN_LINK_H

#include "toolchain/elf.h"
#include "toolchain/toolchain.h"

/* True where a relocation in `object` names a symbol that it does not define. */
bool ig_link_needs_support(const struct ig_object *object);

/*
 * Lays out the instructions of all objects, then their constants, and resolves. entries[i] is where symbols[i] lies,
 * which objects[i] defines. `support` may be NULL. Raises INGOT_TOOLCHAIN naming object and symbol.
 */
void ig_link(struct ig_job *job, const struct ig_object *objects, const char *const *symbols, uint32_t count,
             const struct ig_object *support, struct ig_code *out_code);

#endif
