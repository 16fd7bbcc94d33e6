/* The driver: its state, contexts, the device, memory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

Settings settings = {1, 3, 0, 1, 12040, 90, 512, 1};
static const struct {
    const char *name;
    int64_t *at;
} NAMES[] = {
    {"SEED", &settings.seed},     {"SMS", &settings.sms},   {"CHECK", &settings.check},
    {"DEVICES", &settings.devices}, {"DRIVER", &settings.driver}, {"CHIP", &settings.chip},
    {"MEGABYTES", &settings.megabytes}, {"OCCUPANCY", &settings.occupancy},
};
enum { COUNT = sizeof NAMES / sizeof *NAMES, DEPTH = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ready, broken, retained;
static char fail_name[128];
static int fail_code, fail_after;
static char the_context;
static __thread void *contexts[DEPTH];
static __thread int depth; /* of the contexts that this thread has pushed; contexts[depth] is current */

void lock(void) { pthread_mutex_lock(&mutex); }

/* An error of a launch stays, as with the real driver, until the context goes. */
int unlock(int code) {
    if (code == ILLEGAL_ADDRESS || code == LAUNCH_FAILED) broken = code;
    pthread_mutex_unlock(&mutex);
    return code;
}

int state_of_driver(const char *name) {
    if (fail_code && !strcmp(name, fail_name) && fail_after-- <= 0) {
        int code = fail_code;
        fail_code = 0;
        return code;
    }
    return ready ? broken : NOT_INITIALIZED;
}

void *current_context(void) { return retained ? contexts[depth] : NULL; }

/* For the tests. */

API int emu_set(const char *name, int64_t value) {
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(NAMES[i].name, name)) {
            *NAMES[i].at = value;
            return 1;
        }
    return 0;
}
/* The call of a function of the driver, after so many, returns a code instead of doing anything. */
API void emu_fail(const char *name, int code, int after) {
    snprintf(fail_name, sizeof fail_name, "%s", name);
    fail_code = code;
    fail_after = after;
}
API int emu_leaks(void) { return memory_live(); }
API void emu_reset(void) {
    streams_reset();
    broken = fail_code = 0;
}

/* The driver and its device. */

API int cuInit(unsigned flags) {
    lock();
    if (!ready)
        for (int i = 0; i < COUNT; i++) {
            char name[64];
            snprintf(name, sizeof name, "RNNCC_EMU_%s", NAMES[i].name);
            if (getenv(name)) *NAMES[i].at = atoll(getenv(name));
        }
    ready = 1;
    int code = state_of_driver("cuInit");
    return unlock(code != OK ? code : flags ? INVALID_VALUE : settings.devices ? OK : NO_DEVICE);
}

API int cuDriverGetVersion(int *out) {
    *out = (int)settings.driver;
    return OK;
}
API int cuDeviceGetCount(int *out) {
    ENTER(cuDeviceGetCount);
    *out = (int)settings.devices;
    LEAVE(OK);
}
API int cuDeviceGet(int *out, int ordinal) {
    ENTER(cuDeviceGet);
    if (ordinal < 0 || ordinal >= settings.devices) LEAVE(INVALID_DEVICE);
    *out = ordinal;
    LEAVE(OK);
}
API int cuDeviceGetName(char *out, int size, int device) {
    ENTER(cuDeviceGetName);
    snprintf(out, size, "Emulated GPU %d", device);
    LEAVE(OK);
}
API int cuDeviceTotalMem_v2(size_t *out, int device) {
    ENTER(cuDeviceTotalMem_v2);
    (void)device;
    *out = (size_t)settings.megabytes << 20;
    LEAVE(OK);
}
API int cuDeviceGetAttribute(int *out, int attribute, int device) {
    ENTER(cuDeviceGetAttribute);
    if (device < 0 || device >= settings.devices) LEAVE(INVALID_DEVICE);
    const int64_t known[][2] = {
        {1, 1024},   {8, 48 * 1024}, {10, 32}, {12, 65536}, {13, 1980000}, {16, settings.sms}, {38, 50 << 20},
        {39, 2048},  {40, 1},        {41, 1},  {75, settings.chip / 10}, {76, settings.chip % 10}, {81, 228 * 1024},
        {82, 65536}, {95, 1},        {97, 227 * 1024}, {115, 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i][0] == attribute) {
            *out = (int)known[i][1];
            LEAVE(OK);
        }
    LEAVE(INVALID_VALUE);
}

/* Contexts: each thread has a stack of them. */

API int cuDevicePrimaryCtxRetain(void **out, int device) {
    ENTER(cuDevicePrimaryCtxRetain);
    if (device < 0 || device >= settings.devices) LEAVE(INVALID_DEVICE);
    if (!memory_ready()) LEAVE(OUT_OF_MEMORY);
    retained++;
    *out = &the_context;
    LEAVE(OK);
}
API int cuDevicePrimaryCtxRelease_v2(int device) {
    lock();
    (void)device;
    if (!retained) LEAVE(INVALID_CONTEXT);
    if (--retained == 0) {
        streams_reset();
        broken = OK;
    }
    LEAVE(OK);
}
API int cuCtxGetCurrent(void **out) {
    ENTER(cuCtxGetCurrent);
    *out = current_context();
    LEAVE(OK);
}
API int cuCtxSetCurrent(void *context) {
    ENTER(cuCtxSetCurrent);
    contexts[depth] = context;
    LEAVE(OK);
}
API int cuCtxPushCurrent_v2(void *context) {
    ENTER(cuCtxPushCurrent_v2);
    if (!context || depth + 1 == DEPTH) LEAVE(INVALID_CONTEXT);
    contexts[++depth] = context;
    LEAVE(OK);
}
API int cuCtxPopCurrent_v2(void **out) {
    lock();
    if (!depth) LEAVE(INVALID_CONTEXT);
    if (out) *out = contexts[depth];
    depth--;
    LEAVE(ready ? OK : NOT_INITIALIZED);
}
API int cuCtxGetDevice(int *out) {
    ENTER_WITH_CONTEXT(cuCtxGetDevice);
    *out = 0;
    LEAVE(OK);
}
API int cuCtxSynchronize(void) {
    ENTER_WITH_CONTEXT(cuCtxSynchronize);
    LEAVE(capturing() ? CAPTURE_UNSUPPORTED : run_all());
}

/* Memory. */

API int cuMemAlloc_v2(void **out, size_t bytes) {
    ENTER_WITH_CONTEXT(cuMemAlloc_v2);
    if (capturing()) LEAVE(CAPTURE_UNSUPPORTED);
    if (!bytes) LEAVE(INVALID_VALUE);
    *out = memory_new(bytes, 0);
    LEAVE(*out ? OK : OUT_OF_MEMORY);
}
API int cuMemFree_v2(void *start) {
    ENTER_WITH_CONTEXT(cuMemFree_v2);
    if (capturing()) LEAVE(CAPTURE_UNSUPPORTED);
    if (!start) LEAVE(OK);
    int code = run_all();
    if (memory_delete(start)) LEAVE(code);
    report("%p was freed, which is no allocation", start);
    LEAVE(INVALID_VALUE);
}
API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    ENTER_WITH_CONTEXT(cuMemGetInfo_v2);
    *free_bytes = *total = (size_t)settings.megabytes << 20;
    LEAVE(OK);
}
API int cuPointerGetAttribute(void *out, int attribute, const void *pointer) {
    ENTER_WITH_CONTEXT(cuPointerGetAttribute);
    if (!memory_holds(pointer, 1, NULL)) LEAVE(INVALID_VALUE);
    if (attribute == 1) *(void **)out = &the_context;
    if (attribute == 2) *(int *)out = 2;
    if (attribute == 9) *(int *)out = 0;
    LEAVE(attribute == 1 || attribute == 2 || attribute == 9 ? OK : INVALID_VALUE);
}

static const struct {
    int code;
    const char *name, *text;
} ERRORS[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_UNSUPPORTED + 1, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
};

static int error_index(int code) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code) return (int)i;
    return -1;
}
API int cuGetErrorName(int code, const char **out) {
    int i = error_index(code);
    *out = i < 0 ? NULL : ERRORS[i].name;
    return i < 0 ? INVALID_VALUE : OK;
}
API int cuGetErrorString(int code, const char **out) {
    int i = error_index(code);
    *out = i < 0 ? NULL : ERRORS[i].text;
    return i < 0 ? INVALID_VALUE : OK;
}
