/* Executable memory; see module.h. */
#define _GNU_SOURCE
#include "device/cpu/module.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum ingot_status ig_module_init(struct ig_module *module, const void *code, size_t size, struct ingot_error *error) {
    *module = (struct ig_module){0};
    if (size == 0) return INGOT_OK;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > SIZE_MAX - page) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "%zu bytes of code are too many", size);
    size_t mapped = (size + page - 1) / page * page;
    void *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return IG_ERR(error, INGOT_OUT_OF_MEMORY, "cannot map %zu bytes for code: %s", mapped, strerror(errno));
    memcpy(memory, code, size);
    if (mprotect(memory, mapped, PROT_READ | PROT_EXEC) != 0) {
        int reason = errno;
        munmap(memory, mapped);
        return IG_ERR(error, INGOT_DEVICE, "cannot make %zu bytes of code executable: %s", mapped, strerror(reason));
    }
    __builtin___clear_cache((char *)memory, (char *)memory + size); /* a no-op on x86 */
    *module = (struct ig_module){memory, size, mapped};
    return INGOT_OK;
}

void ig_module_deinit(struct ig_module *module) {
    if (module->code) munmap(module->code, module->mapped);
}
