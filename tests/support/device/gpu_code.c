#include "support/device/gpu_code.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

static uint64_t append(struct gpu_code *code, const void *data, size_t size) {
    size_t at = (code->size + 63) / 64 * 64;
    if (size > sizeof code->bytes || at > sizeof code->bytes - size) abort();
    memcpy(code->bytes + at, data, size);
    code->size = at + size;
    return at;
}

uint64_t gpu_code_add_cubin(struct gpu_code *code, unsigned sm) {
    struct {
        Elf64_Ehdr header;
        Elf64_Shdr section;
    } cubin = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 65, 8},
                          .e_type = ET_EXEC,
                          .e_machine = 190,
                          .e_version = EV_CURRENT,
                          .e_shoff = sizeof(Elf64_Ehdr),
                          .e_flags = sm << 8,
                          .e_ehsize = sizeof(Elf64_Ehdr),
                          .e_shentsize = sizeof(Elf64_Shdr),
                          .e_shnum = 1}};
    return append(code, &cubin, sizeof cubin);
}

uint64_t gpu_code_add_text(struct gpu_code *code, const char *text) {
    return append(code, text, strlen(text) + 1);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------------- */

#define PARAMETER(n) ".param .u64 p" #n
#define PARAMETERS_3 PARAMETER(0) "," PARAMETER(1) "," PARAMETER(2)
#define PARAMETERS_4 PARAMETERS_3 "," PARAMETER(3)
#define PARAMETERS_5 PARAMETERS_4 "," PARAMETER(4)
#define PARAMETERS_6 PARAMETERS_5 "," PARAMETER(5)

/* %rd0: tile, %rd1: this thread's element, %rd2: its offset in bytes, %rd3: tiles, %rd4: n. Threads without an element
 * skip the body. */
#define KERNEL(name, parameters, n, tiles, first, body)                \
    ".visible .entry " name "(" parameters ")\n{\n"                    \
    " .reg .pred %p<4>;\n"                                             \
    " .reg .b32 %r<8>;\n"                                              \
    " .reg .f32 %f<4>;\n"                                              \
    " .reg .b64 %rd<16>;\n" first " ld.param.u64 %rd3, [" tiles "];\n" \
    " ld.param.u64 %rd4, [" n "];\n"                                   \
    " mov.u32 %r0, %ctaid.x;\n"                                        \
    " mov.u32 %r1, %tid.x;\n"                                          \
    " mov.u32 %r2, %nctaid.x;\n"                                       \
    " cvt.u64.u32 %rd0, %r0;\n"                                        \
    " cvt.u64.u32 %rd5, %r1;\n"                                        \
    " cvt.u64.u32 %rd6, %r2;\n"                                        \
    "next:\n"                                                          \
    " setp.ge.s64 %p0, %rd0, %rd3;\n"                                  \
    " @%p0 bra done;\n"                                                \
    " shl.b64 %rd1, %rd0, 4;\n"                                        \
    " add.s64 %rd1, %rd1, %rd5;\n"                                     \
    " shl.b64 %rd2, %rd1, 2;\n" body "skip:\n"                         \
    " add.s64 %rd0, %rd0, %rd6;\n"                                     \
    " bra next;\n"                                                     \
    "done:\n"                                                          \
    " ret;\n}\n"

#define IF_ELEMENT                    \
    " setp.ge.s64 %p1, %rd1, %rd4;\n" \
    " @%p1 bra skip;\n"

#define TWICE                       \
    " ld.param.u64 %rd7, [p0];\n"   \
    " add.s64 %rd7, %rd7, %rd2;\n"  \
    " ld.global.f32 %f0, [%rd7];\n" \
    " add.f32 %f0, %f0, %f0;\n"     \
    " st.global.f32 [%rd7], %f0;\n"

const char gpu_code_ptx[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n" KERNEL("add", PARAMETERS_6, "p3", "p4", "",
                                                             IF_ELEMENT " ld.param.u64 %rd7, [p0];\n"
                                                                        " ld.param.u64 %rd8, [p1];\n"
                                                                        " ld.param.u64 %rd9, [p2];\n"
                                                                        " add.s64 %rd7, %rd7, %rd2;\n"
                                                                        " add.s64 %rd8, %rd8, %rd2;\n"
                                                                        " add.s64 %rd9, %rd9, %rd2;\n"
                                                                        " ld.global.f32 %f0, [%rd7];\n"
                                                                        " ld.global.f32 %f1, [%rd8];\n"
                                                                        " add.f32 %f0, %f0, %f1;\n"
                                                                        " st.global.f32 [%rd9], %f0;\n")
        KERNEL("twice", PARAMETERS_4, "p1", "p2", "", IF_ELEMENT TWICE)
            KERNEL("pair", PARAMETERS_5, "p2", "p3", "",
                   IF_ELEMENT " ld.param.u64 %rd7, [p0];\n"
                              " ld.param.u64 %rd8, [p1];\n"
                              " sub.s64 %rd9, %rd4, %rd1;\n"
                              " sub.s64 %rd9, %rd9, 1;\n"
                              " shl.b64 %rd9, %rd9, 2;\n"
                              " add.s64 %rd9, %rd7, %rd9;\n"
                              " add.s64 %rd7, %rd7, %rd2;\n"
                              " add.s64 %rd8, %rd8, %rd2;\n"
                              " ld.global.f32 %f0, [%rd7];\n"
                              " ld.global.f32 %f1, [%rd9];\n"
                              " add.f32 %f0, %f0, %f1;\n"
                              " st.global.f32 [%rd8], %f0;\n")
    /* The first thread writes the tile's number to the first and the last byte of the block's scratch memory, waits a
     * little, and counts the tile if both bytes still have that value. */
    KERNEL("mark", PARAMETERS_4, "p1", "p2", "",
           " setp.ne.u32 %p1, %r1, 0;\n"
           " @%p1 bra skip;\n"
           " ld.param.u64 %rd7, [p0];\n"
           " ld.param.u64 %rd8, [p3];\n"
           " cvt.u64.u32 %rd9, %r0;\n"
           " mul.lo.s64 %rd9, %rd9, %rd4;\n"
           " add.s64 %rd8, %rd8, %rd9;\n"
           " add.s64 %rd9, %rd8, %rd4;\n"
           " cvt.u32.u64 %r3, %rd0;\n"
           " and.b32 %r3, %r3, 255;\n"
           " st.volatile.global.u8 [%rd8], %r3;\n"
           " st.volatile.global.u8 [%rd9+-1], %r3;\n"
           " membar.gl;\n"
           " ld.volatile.global.u8 %r4, [%rd8];\n"
           " ld.volatile.global.u8 %r5, [%rd9+-1];\n"
           " setp.ne.u32 %p2, %r3, %r4;\n"
           " @%p2 bra skip;\n"
           " setp.ne.u32 %p2, %r3, %r5;\n"
           " @%p2 bra skip;\n"
           " shl.b64 %rd9, %rd0, 2;\n"
           " add.s64 %rd7, %rd7, %rd9;\n"
           " ld.global.u32 %r4, [%rd7];\n"
           " add.u32 %r4, %r4, 1;\n"
           " st.global.u32 [%rd7], %r4;\n") KERNEL("crash", PARAMETERS_3, "p0", "p1", "",
                                                   " mov.u64 %rd7, 64;\n"
                                                   " st.global.u32 [%rd7], %r1;\n");

const char gpu_code_late_ptx[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n" KERNEL("twice_late", PARAMETERS_4, "p1", "p2",
                                                             " griddepcontrol.launch_dependents;\n"
                                                             " griddepcontrol.wait;\n",
                                                             IF_ELEMENT TWICE);
