/* Images: `RNNCCEMU`, the size of what follows as 8 bytes, a shared object of host code. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

static Function *functions;

/* The image's code finds emu_thread() and the others here, however this library was loaded. */
static void be_found(void) {
    Dl_info info;
    if (dladdr((void *)(uintptr_t)be_found, &info)) dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static void *opened(const char *bytes, size_t size) {
    char path[] = "/tmp/rnncc-device-XXXXXX"; /* one name twice would give the first one's code */
    int file = mkstemp(path);
    if (file < 0) return NULL;
    void *handle = NULL;
    if (write(file, bytes, size) == (ssize_t)size) handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) report("the image cannot be loaded: %s", dlerror());
    close(file);
    unlink(path);
    return handle;
}

static int extent(struct dl_phdr_info *info, size_t size, void *given) {
    Module *module = given;
    struct link_map *map = NULL;
    (void)size;
    if (dlinfo(module->handle, RTLD_DI_LINKMAP, &map) || (ElfW(Addr))map->l_addr != info->dlpi_addr) return 0;
    module->low = (char *)UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = info->dlpi_phdr + i;
        if (segment->p_type != PT_LOAD) continue;
        char *from = (char *)(info->dlpi_addr + segment->p_vaddr), *to = from + segment->p_memsz;
        if (from < module->low) module->low = from;
        if (to > module->high) module->high = to;
    }
    return 1;
}

API int cuModuleLoadDataEx(Module **out, const void *image, unsigned n, int *options, void **values) {
    ENTER_WITH_CONTEXT(cuModuleLoadDataEx);
    (void)n, (void)options, (void)values;
    if (!out || !image) LEAVE(INVALID_VALUE);
    if (capturing()) LEAVE(CAPTURE_UNSUPPORTED);
    if (memcmp(image, "RNNCCEMU", 8)) LEAVE(NO_BINARY);
    uint64_t size;
    memcpy(&size, (const char *)image + 8, 8);
    be_found();
    void *handle = opened((const char *)image + 16, size);
    if (!handle) LEAVE(INVALID_IMAGE);
    Module *module = calloc(1, sizeof *module);
    module->handle = handle;
    dl_iterate_phdr(extent, module);
    module->sites = dlsym(handle, "emu_sites");
    const int32_t *count = dlsym(handle, "emu_site_count");
    module->site_count = module->sites && count ? *count : 0;
    *out = module;
    LEAVE(OK);
}

API int cuModuleLoadData(Module **out, const void *image) { return cuModuleLoadDataEx(out, image, 0, NULL, NULL); }

API int cuModuleUnload(Module *module) {
    ENTER_WITH_CONTEXT(cuModuleUnload);
    int code = run_all();
    for (Function **at = &functions; *at;) {
        Function *f = *at;
        if (f->module == module) {
            *at = f->next;
            free((char *)(uintptr_t)f->name);
            free(f);
        } else {
            at = &f->next;
        }
    }
    dlclose(module->handle);
    free(module);
    LEAVE(code);
}

API int cuModuleGetFunction(Function **out, Module *module, const char *name) {
    ENTER_WITH_CONTEXT(cuModuleGetFunction);
    char params[512];
    snprintf(params, sizeof params, "%s.params", name);
    void *entry = dlsym(module->handle, name);
    const int32_t *count = dlsym(module->handle, params);
    if (!entry || !count) LEAVE(NOT_FOUND);
    Function *f = calloc(1, sizeof *f);
    *f = (Function){functions, module, strdup(name), (Entry *)(uintptr_t)entry, *count, 48 * 1024};
    *out = functions = f;
    LEAVE(OK);
}

API int cuFuncSetAttribute(Function *f, int attribute, int value) {
    ENTER_WITH_CONTEXT(cuFuncSetAttribute);
    if (attribute != 8) LEAVE(attribute == 9 ? OK : INVALID_VALUE);
    if (value < 0 || value > 227 * 1024) LEAVE(INVALID_VALUE);
    f->shared_limit = value;
    LEAVE(OK);
}

API int cuFuncGetAttribute(int *out, int attribute, Function *f) {
    ENTER_WITH_CONTEXT(cuFuncGetAttribute);
    int values[] = {1024, 0, 0, 0, 64, 70, 70, 0, f->shared_limit};
    if (attribute < 0 || attribute > 8) LEAVE(INVALID_VALUE);
    *out = values[attribute];
    LEAVE(OK);
}

API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, Function *f, int threads, size_t shared) {
    ENTER_WITH_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    if (!f || threads <= 0) LEAVE(INVALID_VALUE);
    int most = threads > 1024 ? 0 : 2048 / threads, fit = (int)(228 * 1024 / (shared + 1024));
    if (shared > (size_t)f->shared_limit) fit = 0;
    int64_t least = most < fit ? most : fit;
    *out = (int)(least < settings.occupancy ? least : settings.occupancy);
    LEAVE(OK);
}
