#include "support/device/stub_code.h"

#include <stdlib.h>
#include <string.h>

uint64_t stub_code_add(struct stub_code *code, stub_kernel kernel) {
    uintptr_t address = (uintptr_t)kernel;
    uint64_t target = address, entry = code->size;
    if (code->size + STUB_SIZE > sizeof code->bytes) abort();
    unsigned char *at = code->bytes + code->size;
#if defined(__x86_64__)
    static const unsigned char before[] = {0x48, 0xb8}, after[] = {0xff, 0xe0}; /* mov rax, imm64; jmp rax */
    memcpy(at, before, 2);
    memcpy(at + 2, &target, 8);
    memcpy(at + 10, after, 2);
#elif defined(__aarch64__)
    static const uint32_t jump[] = {0x58000050, 0xd61f0200}; /* ldr x16, .+8; br x16 */
    memcpy(at, jump, 8);
    memcpy(at + 8, &target, 8);
#else
#error "no stub for this architecture"
#endif
    code->size += STUB_SIZE;
    return entry;
}
