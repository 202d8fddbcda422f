#include "support/device/emulated.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/cuda.h"
#include "emulator/driver.h"
#include "emulator/translate.h"
#include "fake_cuda/fake_cuda.h"
#include "support/beside.h"
#include "support/support.h"

bool emulated_is_present(void) {
    return emulator_present();
}

static void release(void *object) {
    free(object);
}

void emulated_compile(struct ig_job *job, const struct ig_source *sources, unsigned count, int sm,
                      struct ig_code *out_code) {
    char log[400] = "";
    const char **texts = IG_NEW_ARRAY(job, const char *, count + 1);
    for (unsigned i = 0; i < count; i++)
        texts[i] = sources[i].text;
    *out_code = (struct ig_code){.entries = IG_NEW_ARRAY(job, uint64_t, count + 1)}; /* all in one object */
    void *object = emulator_compile(texts, count, sm, &out_code->size, log, sizeof log);
    if (!object) ig_raise(job, INGOT_TOOLCHAIN, "cannot compile for the emulator: %s", log);
    ig_defer(job, release, object);
    out_code->bytes = object;
}

static void *find(void *library, const char *name) {
    void *address = library ? dlsym(library, name) : NULL;
    if (!address) fail_msg("%s", dlerror());
    return address;
}

/* The emulator's driver is in a folder beside the test programs. */
struct ig_device *emulated_create(int gpu, struct emulator_options **out_options) {
    static const char name[] = "emulator/libcuda.so.1";
    char path[4096];
    struct ingot_error error;
    struct ig_device *device;
    test_beside(name, path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    emulator_mode_function *mode;
    fake_cuda_state_function *state;
    *(void **)&mode = find(library, "emulator_mode");
    *(void **)&state = find(library, "fake_cuda_state");
    *out_options = mode();
    if (state()->devices <= gpu) state()->devices = gpu + 1;
    if (ig_device_cuda_create_with(path, gpu, &ig_libc_allocator, &device, &error)) fail_msg("%s", error.message);
    return device;
}
