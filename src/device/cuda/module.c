/* Loads functions; see module.h. */
#include "device/cuda/module.h"

#include <pthread.h>
#include <string.h>

#include "device/cuda/cubin.h"
#include "device/cuda/parameters.h"

/* Dynamic shared memory that every function may use; more requires setting an attribute. */
#define SHARED_WITHOUT_ASKING (48u << 10)
#define MOST_THREADS 1024u

struct function {
    uint64_t entry;
    const char *name; /* NULL: a free slot */
    CUmodule module;  /* loaded from `entry` */
    bool loaded_it;   /* this slot owns `module`; other functions of the same entry share it */
    CUfunction handle;
    uint32_t shared;     /* bytes of dynamic shared memory that it may use */
    uint32_t before_map; /* the index of the parameter that `map_at` is the offset of; 0: none */
    size_t map_at;
};

/* Open addressing by entry, at most three quarters full. */
struct table {
    struct function *functions;
    size_t count, capacity;
};

struct ig_module {
    const struct ingot_allocator *allocator;
    const unsigned char *code;
    size_t size;
    pthread_mutex_t lock; /* of the table */
    struct table table;
};

enum ingot_status ig_cuda_module_create(struct ig_cuda *cuda, const void *code, size_t size,
                                        struct ig_module **out_module, struct ingot_error *error) {
    struct ig_module *module = ig_allocate(cuda->base.allocator, sizeof *module, _Alignof(struct ig_module));
    if (!module) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a module");
    module->allocator = cuda->base.allocator;
    module->code = code;
    module->size = size;
    pthread_mutex_init(&module->lock, NULL);
    *out_module = module;
    return INGOT_OK;
}

void ig_cuda_module_destroy(struct ig_cuda *cuda, struct ig_module *module) {
    if (!module) return;
    const struct table *table = &module->table;
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->functions[i].loaded_it) IG_CUDA(cuda, cuModuleUnload, table->functions[i].module);
    }
    pthread_mutex_destroy(&module->lock);
    ig_release(module->allocator, table->functions, table->capacity * sizeof *table->functions);
    ig_release(module->allocator, module, sizeof *module);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

/* The slot of (entry, name), or the free slot for it. `out_module`: the module loaded from this entry for another
 * name; NULL: none. At least one slot must be free. */
static struct function *find(const struct table *table, uint64_t entry, const char *name, CUmodule *out_module) {
    size_t mask = table->capacity - 1, i = (size_t)((entry >> 6) * 0x9e3779b97f4a7c15u >> 32) & mask;
    *out_module = NULL;
    for (;; i = (i + 1) & mask) {
        struct function *function = &table->functions[i];
        if (!function->name) return function;
        if (function->entry != entry) continue;
        *out_module = function->module;
        if (strcmp(function->name, name) == 0) return function;
    }
}

static enum ingot_status make_room(struct ig_module *module, struct ingot_error *error) {
    struct table *table = &module->table, larger = *table;
    if (4 * (table->count + 1) <= 3 * table->capacity) return INGOT_OK;
    larger.capacity = table->capacity ? 2 * table->capacity : 64;
    larger.functions =
        ig_allocate(module->allocator, larger.capacity * sizeof *larger.functions, _Alignof(struct function));
    if (!larger.functions) return IG_ERR(error, INGOT_OUT_OF_MEMORY, "out of memory for a module's functions");
    for (size_t i = 0; i < table->capacity; i++) {
        const struct function *old = &table->functions[i];
        CUmodule ignored;
        if (old->name) *find(&larger, old->entry, old->name, &ignored) = *old;
    }
    ig_release(module->allocator, table->functions, table->capacity * sizeof *table->functions);
    *table = larger;
    return INGOT_OK;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

static enum ingot_status wrong_architecture(const struct ig_cuda *cuda, const void *cubin, struct ingot_error *error) {
    return IG_ERR(error, INGOT_DEVICE, "the engine's code is for sm_%u, this GPU is an sm_%d (%s)",
                  ig_cubin_architecture(cubin), cuda->info.sm, cuda->info.name);
}

/* The driver would also accept binaries, which have not been checked. */
static bool is_text(const struct ig_module *module, uint64_t offset) {
    if (offset >= module->size || !memchr(module->code + offset, 0, module->size - offset)) return false;
    return module->code[offset] && strchr("/. \t\n", module->code[offset]);
}

static enum ingot_status load_portable(struct ig_cuda *cuda, const struct ig_module *module,
                                       const struct ig_launch *launch, CUmodule *out_module,
                                       struct ingot_error *error) {
    if (!is_text(module, launch->portable))
        return IG_ERR(error, INGOT_BAD_ENGINE, "there is no PTX of kernel '%s' where it should be", launch->name);
    char log[512] = "";
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    CUresult result =
        IG_CUDA(cuda, cuModuleLoadDataEx, out_module, module->code + launch->portable, 2, options, values);
    return ig_cuda_driver_check(&cuda->driver, result, error, "cannot compile the PTX of kernel '%s' for sm_%d%s%s",
                                launch->name, cuda->info.sm, *log ? ": " : "", log);
}

/* Code runs on GPUs of its own generation with the same or a higher minor version. Architecture-specific code ("a")
 * cannot be told apart here; the driver refuses it. */
static bool may_fit(const struct ig_cuda *cuda, const void *cubin) {
    int wanted = (int)ig_cubin_architecture(cubin), found = cuda->info.sm;
    return wanted == 0 || (wanted / 10 == found / 10 && wanted % 10 <= found % 10);
}

static enum ingot_status load(struct ig_cuda *cuda, const struct ig_module *module, const struct ig_launch *launch,
                              CUmodule *out_module, struct ingot_error *error) {
    const unsigned char *cubin = module->code + launch->entry;
    if (!ig_cubin_is_whole(cubin, module->size - launch->entry))
        return IG_ERR(error, INGOT_BAD_ENGINE, "the code of kernel '%s' is damaged", launch->name);
    CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (may_fit(cuda, cubin)) result = IG_CUDA(cuda, cuModuleLoadDataEx, out_module, cubin, 0, NULL, NULL);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        if (launch->portable == UINT64_MAX) return wrong_architecture(cuda, cubin, error);
        return load_portable(cuda, module, launch, out_module, error);
    }
    return ig_cuda_driver_check(
        &cuda->driver, result, error,
        "cannot load the code of kernel '%s' for sm_%u on an sm_%d with a driver for CUDA %d.%d", launch->name,
        ig_cubin_architecture(cubin), cuda->info.sm, cuda->driver.version / 1000, cuda->driver.version % 1000 / 10);
}

static enum ingot_status allow_shared(struct ig_cuda *cuda, const struct ig_launch *launch, struct function *function,
                                      struct ingot_error *error) {
    if (launch->shared <= function->shared) return INGOT_OK;
    if (launch->shared > cuda->info.shared)
        return IG_ERR(error, INGOT_DEVICE, "kernel '%s' wants %u bytes of shared memory, a block has %u on %s",
                      launch->name, launch->shared, cuda->info.shared, cuda->info.name);
    CUresult result = IG_CUDA(cuda, cuFuncSetAttribute, function->handle,
                              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)launch->shared);
    IG_TRY(ig_cuda_driver_check(&cuda->driver, result, error, "cannot give kernel '%s' %u bytes of shared memory",
                                launch->name, launch->shared));
    function->shared = launch->shared;
    return INGOT_OK;
}

/* Compilers align tensor maps in constant memory, where parameters begin at an offset that depends on the GPU: only the
 * driver knows how much padding is before them. */
static enum ingot_status find_maps(struct ig_cuda *cuda, const struct ig_launch *launch, struct function *function,
                                   size_t *out_at, struct ingot_error *error) {
    const uint32_t n_values = ig_cuda_launch_values(launch);
    const size_t end = n_values * sizeof(uint64_t);
    *out_at = end;
    if (launch->n_maps == 0) return INGOT_OK;
    if (function->before_map != n_values) {
        size_t size, at;
        if (IG_CUDA(cuda, cuFuncGetParamInfo, function->handle, n_values, &at, &size) != CUDA_SUCCESS || at < end ||
            at - end >= _Alignof(CUtensorMap) || size != sizeof(CUtensorMap))
            return IG_ERR(error, INGOT_BAD_ENGINE, "parameter %u of kernel '%s' is not a tensor map, as its plan says",
                          n_values, launch->name);
        function->before_map = n_values;
        function->map_at = at;
    }
    *out_at = function->map_at;
    return INGOT_OK;
}

/* Fills the free slot `function`, which counts as used only once it is complete. */
static enum ingot_status add(struct ig_cuda *cuda, struct ig_module *module, const struct ig_launch *launch,
                             struct function *function, CUmodule loaded, struct ingot_error *error) {
    struct function made = {.entry = launch->entry, .name = launch->name, .module = loaded, .loaded_it = !loaded};
    made.shared = SHARED_WITHOUT_ASKING;
    if (!loaded) IG_TRY(load(cuda, module, launch, &made.module, error));
    CUresult result = IG_CUDA(cuda, cuModuleGetFunction, &made.handle, made.module, launch->name);
    enum ingot_status status =
        ig_cuda_driver_check(&cuda->driver, result, error, "the code has no kernel '%s'", launch->name);
    if (status != INGOT_OK) {
        if (made.loaded_it) IG_CUDA(cuda, cuModuleUnload, made.module);
        return status;
    }
    *function = made;
    module->table.count++;
    return INGOT_OK;
}

/* The caller has the lock. */
static enum ingot_status find_or_load(struct ig_cuda *cuda, const struct ig_launch *launch,
                                      struct ig_cuda_function *out_function, struct ingot_error *error) {
    struct ig_module *module = launch->module;
    CUmodule loaded;
    if (!module->table.capacity) IG_TRY(make_room(module, error));
    struct function *function = find(&module->table, launch->entry, launch->name, &loaded);
    if (!function->name) {
        IG_TRY(make_room(module, error));
        function = find(&module->table, launch->entry, launch->name, &loaded);
        IG_TRY(add(cuda, module, launch, function, loaded, error));
    }
    IG_TRY(allow_shared(cuda, launch, function, error));
    out_function->handle = function->handle;
    return find_maps(cuda, launch, function, &out_function->maps_at, error);
}

enum ingot_status ig_cuda_module_function(struct ig_cuda *cuda, const struct ig_launch *launch,
                                          struct ig_cuda_function *out_function, struct ingot_error *error) {
    struct ig_module *module = launch->module;
    if (launch->entry >= module->size)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "kernel entry %llu lies outside the %zu bytes of code",
                      (unsigned long long)launch->entry, module->size);
    if (!launch->name) return IG_ERR(error, INGOT_INVALID_ARGUMENT, "a launch without the name of its function");
    if (launch->threads == 0 || launch->threads > MOST_THREADS)
        return IG_ERR(error, INGOT_INVALID_ARGUMENT, "kernel '%s' wants %u threads in a block, which has 1 to %u",
                      launch->name, launch->threads, MOST_THREADS);
    pthread_mutex_lock(&module->lock);
    enum ingot_status status = find_or_load(cuda, launch, out_function, error);
    pthread_mutex_unlock(&module->lock);
    return status;
}
