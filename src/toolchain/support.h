/* What compilers take for granted even in freestanding code (GCC manual, "Standards"; Clang's likewise). */
#ifndef IG_TOOLCHAIN_SUPPORT_H
#define IG_TOOLCHAIN_SUPPORT_H

/* C text of memcpy, memmove, memset and memcmp; linked in where an object calls one. */
extern const char ig_support_text[];

#endif
