/*
 * Executable code: a private copy of an engine's code section, first written and then made executable, never both at
 * once. It is copied because the engine may lie in the caller's memory or on a file system mounted noexec; code is
 * small compared with weights.
 */
#ifndef IG_DEVICE_CPU_MODULE_H
#define IG_DEVICE_CPU_MODULE_H

#include "base/error.h"

struct ig_module {
    void *code; /* NULL where there is none */
    size_t size, mapped;
};

enum ingot_status ig_module_init(struct ig_module *module, const void *code, size_t size, struct ingot_error *error);
void ig_module_deinit(struct ig_module *module);

#endif
