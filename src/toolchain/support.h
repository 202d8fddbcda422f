/* Functions that compilers may call even in freestanding code (GCC manual, "Standards"; Clang's likewise). */
#ifndef IG_TOOLCHAIN_SUPPORT_H
#define IG_TOOLCHAIN_SUPPORT_H

/* C source of memcpy, memmove, memset and memcmp; linked in if an object calls one. */
extern const char ig_support_text[];

#endif
