/* Opens libraries that rnncc made for NVIDIA GPUs. C99 and C++; needs libc and dlopen (-ldl before
 * glibc 2.34), and neither CUDA's headers nor its libraries: the driver, libcuda.so.1, is looked for
 * when a library is opened; RNNCC_LIBCUDA names another file.
 *
 *     struct rnncc_cuda cuda;
 *     if (rnncc_cuda_open(&cuda, lstm_cuda_image(), 0)) return puts(cuda.message), 1;
 *     int code = lstm_run_cuda(&cuda, &inputs, &outputs, workspace, status, stream, t, n);
 *     rnncc_cuda_close(&cuda);
 *
 * All pointers that a call takes are of the device's memory, but for the structs of pointers
 * themselves. The call enqueues on `stream` (a CUstream or cudaStream_t; NULL is the legacy default
 * stream) and returns; what is found while it computes, such as a length beyond T, is written to
 * `status`: 4 bytes of device memory or of pinned host memory, or NULL. It allocates nothing and
 * waits for nothing, so that a call may be captured in a CUDA graph.
 *
 * The device's primary context, which the CUDA runtime uses too, must be current in a thread that
 * calls: after a call of the runtime it is, and rnncc_cuda_enter makes it so. One struct may be used
 * by any number of threads at once, with a workspace and outputs for each stream. */
#ifndef RNNCC_CUDA_H
#define RNNCC_CUDA_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnncc.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RNNCC_CUDA_VERSION 1
#define RNNCC_CUDA_KERNELS 4

/* Beside those of rnncc.h. A negative code is minus an error of the driver, a CUresult. */
enum rnncc_cuda_code {
    RNNCC_CUDA_ERROR = 7,   /* opening: the driver refused; `message` has its words */
    RNNCC_NO_DEVICE = 8,    /* opening: no driver, or no such device */
    RNNCC_STUCK = 9,        /* computing: blocks have waited for each other for too long */
    RNNCC_TOO_OLD = 10,     /* opening: the device or its driver is too old for the library's code */
    RNNCC_NO_MEMORY = 11,   /* opening: the device has no memory for the weights */
    RNNCC_NO_ROOM = 12,     /* opening: the device has no room for a block of a kernel */
    RNNCC_BAD_VERSION = 13  /* opening: this header and the library are of different versions */
};

/* What NAME_cuda_image returns: constants of a library. */
struct rnncc_cuda_binary {
    const char *chip; /* such as sm_90a; or ptx: text for the driver's compiler */
    const void *data;
    int64_t bytes;
};
struct rnncc_cuda_kernel {
    const char *symbol;
    int32_t threads, shared; /* of a block; at most so many bytes of shared memory are of use */
};
struct rnncc_cuda_image {
    int32_t version, binaries, kernels, reserved;
    const char *name;
    const struct rnncc_cuda_binary *binary;
    const struct rnncc_cuda_kernel *kernel;
    const void *weights;
    int64_t weights_bytes;
};

/* A library on a device. Libraries read what stands before `driver`. */
struct rnncc_cuda {
    int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *stream, void **parameters);
    int (*set)(void *to, unsigned word, size_t count, void *stream);
    int (*copy)(void *to, const void *from, size_t bytes, void *stream);
    void *weights;
    struct {
        void *function;
        int32_t resident, shared; /* blocks that the device runs at once, and their shared memory */
    } kernels[RNNCC_CUDA_KERNELS];
    void *driver, *context, *module;
    int device;
    char message[512]; /* why opening failed */
};

/* One line for a code; never NULL. Of the driver's own errors rnncc_cuda_driver_error has the text. */
static inline const char *rnncc_cuda_error(int code) {
    switch (code) {
    case RNNCC_CUDA_ERROR: return "the CUDA driver refused";
    case RNNCC_NO_DEVICE: return "there is no NVIDIA driver, or no such device";
    case RNNCC_STUCK: return "blocks on the GPU have waited for each other for too long";
    case RNNCC_TOO_OLD: return "the GPU or its driver is too old for the library's code";
    case RNNCC_NO_MEMORY: return "the GPU has no memory for the weights";
    case RNNCC_NO_ROOM: return "the GPU has no room for a block of a kernel";
    case RNNCC_BAD_VERSION: return "rnncc_cuda.h and the library are of different versions";
    default: return code < 0 ? "an error of the CUDA driver" : rnncc_error_string(code);
    }
}

/* A function of the driver, such as "cuMemAlloc_v2"; NULL where it has none of that name. */
static inline void *rnncc_cuda_symbol(const struct rnncc_cuda *cuda, const char *name) {
    return cuda->driver ? dlsym(cuda->driver, name) : NULL;
}

/* For the loader itself: sets a pointer to a function; 0 where the driver has it. */
static inline int rnncc_cuda_find(const struct rnncc_cuda *cuda, const char *name, void *function) {
    void *found = rnncc_cuda_symbol(cuda, name);
    memcpy(function, &found, sizeof found);
    return !found;
}

/* The driver's words for a negative code of a call; never NULL. */
static inline const char *rnncc_cuda_driver_error(const struct rnncc_cuda *cuda, int code) {
    int (*describe)(int, const char **);
    const char *text = NULL;
    if (code >= 0 || rnncc_cuda_find(cuda, "cuGetErrorString", &describe)) return rnncc_cuda_error(code);
    return describe(-code, &text) || !text ? "an unknown error of the CUDA driver" : text;
}

/* Makes the device's primary context current in this thread, until rnncc_cuda_leave.
 * Returns 0, or minus the driver's error. */
static inline int rnncc_cuda_enter(const struct rnncc_cuda *cuda) {
    int (*push)(void *);
    if (rnncc_cuda_find(cuda, "cuCtxPushCurrent_v2", &push)) return -500;
    return -push(cuda->context);
}

static inline int rnncc_cuda_leave(const struct rnncc_cuda *cuda) {
    int (*pop)(void **);
    void *context;
    if (rnncc_cuda_find(cuda, "cuCtxPopCurrent_v2", &pop)) return -500;
    return -pop(&context);
}

/* Gives back the weights, the code and the context; a struct that was not opened is left alone.
 * No call that uses it may be under way. The driver stays loaded, as it cannot be unloaded safely. */
static inline void rnncc_cuda_close(struct rnncc_cuda *cuda) {
    int (*unload)(void *), (*release)(int), (*give)(void *);
    if (cuda->context && !rnncc_cuda_enter(cuda)) {
        if (cuda->weights && !rnncc_cuda_find(cuda, "cuMemFree_v2", &give)) give(cuda->weights);
        if (cuda->module && !rnncc_cuda_find(cuda, "cuModuleUnload", &unload)) unload(cuda->module);
        rnncc_cuda_leave(cuda);
        if (!rnncc_cuda_find(cuda, "cuDevicePrimaryCtxRelease_v2", &release)) release(cuda->device);
    }
    cuda->context = cuda->module = cuda->weights = NULL;
}

/* For the loader itself: notes why it failed. */
static inline int rnncc_cuda_fail(struct rnncc_cuda *cuda, int code, const char *what, const char *why) {
    const char *more = why && *why ? why : NULL;
    snprintf(cuda->message, sizeof cuda->message, "%s%s%s", what, more ? ": " : "", more ? more : "");
    return code;
}

static inline int rnncc_cuda_refused(struct rnncc_cuda *cuda, const char *what, int error) {
    return rnncc_cuda_fail(cuda, RNNCC_CUDA_ERROR, what, rnncc_cuda_driver_error(cuda, -error));
}

/* For the loader itself: how well code for a chip suits a device: 0 not at all, 1 as text for the
 * driver's compiler, 2 as machine code of an older chip of the same kind, 3 as that of the chip. */
static inline int rnncc_cuda_suits(const char *chip, int major, int minor) {
    char *end;
    long number;
    if (!strcmp(chip, "ptx")) return 1;
    if (strncmp(chip, "sm_", 3)) return 0;
    number = strtol(chip + 3, &end, 10);
    if (number == 10 * major + minor) return 3;
    if (*end == 'a' || number / 10 != major || number % 10 > minor) return 0;
    return 2; /* also with an f: code for a family */
}

/* For the loader itself: loads one image. */
static inline int rnncc_cuda_load_one(struct rnncc_cuda *cuda, const struct rnncc_cuda_binary *binary) {
    enum { INFO = 3, INFO_BYTES = 4, ERRORS = 5, ERROR_BYTES = 6 }; /* of CUjit_option */
    int (*load)(void **, const void *, unsigned, int *, void **);
    int options[2] = {ERRORS, ERROR_BYTES}, error;
    char log[400] = "", *line;
    void *values[2];
    if (rnncc_cuda_find(cuda, "cuModuleLoadDataEx", &load)) return 500;
    values[0] = log;
    values[1] = (void *)(uintptr_t)(sizeof log - 1);
    error = load(&cuda->module, binary->data, 2, options, values);
    if (!error) return 0;
    cuda->module = NULL;
    for (line = log; *line; line++)
        if (*line == '\n') *line = ' ';
    rnncc_cuda_fail(cuda, error, rnncc_cuda_driver_error(cuda, -error), log);
    return error;
}

/* For the loader itself: loads the image that suits the device best, of those that the driver takes. */
static inline int rnncc_cuda_load(
    struct rnncc_cuda *cuda, const struct rnncc_cuda_image *image, int major, int minor) {
    enum { BAD_IMAGE = 200, NO_BINARY = 209, BAD_PTX = 218, NO_COMPILER = 221, NEW_PTX = 222, NO_JIT = 223 };
    char told[sizeof cuda->message] = "", kind[96];
    int fit, i, error = NO_BINARY;
    for (fit = 3; fit > 0; fit--)
        for (i = 0; i < image->binaries; i++) {
            if (rnncc_cuda_suits(image->binary[i].chip, major, minor) != fit) continue;
            error = rnncc_cuda_load_one(cuda, &image->binary[i]);
            if (!error) {
                cuda->message[0] = 0;
                return 0;
            }
            if (error != NO_BINARY && error != NEW_PTX && error != BAD_PTX && error != BAD_IMAGE &&
                error != NO_COMPILER && error != NO_JIT)
                return error == 2 ? RNNCC_NO_MEMORY : RNNCC_CUDA_ERROR;
            memcpy(told, cuda->message, sizeof told);
        }
    if (error == BAD_PTX || error == BAD_IMAGE) return RNNCC_CUDA_ERROR;
    snprintf(kind, sizeof kind, "%s has no code that a chip sm_%d%d and its driver run", image->name,
             major, minor);
    return rnncc_cuda_fail(cuda, RNNCC_TOO_OLD, kind, told);
}

/* For the loader itself: a copy of the weights on the device. */
static inline int rnncc_cuda_upload(struct rnncc_cuda *cuda, const struct rnncc_cuda_image *image) {
    int (*allocate)(void **, size_t), (*upload)(void *, const void *, size_t), error;
    size_t bytes = (size_t)image->weights_bytes;
    if (rnncc_cuda_find(cuda, "cuMemAlloc_v2", &allocate) ||
        rnncc_cuda_find(cuda, "cuMemcpyHtoD_v2", &upload))
        return rnncc_cuda_fail(cuda, RNNCC_TOO_OLD, "the NVIDIA driver lacks functions", NULL);
    error = allocate(&cuda->weights, bytes ? bytes : 1);
    if (error) {
        cuda->weights = NULL;
        rnncc_cuda_refused(cuda, "no memory for the weights", error);
        return error == 2 ? RNNCC_NO_MEMORY : RNNCC_CUDA_ERROR;
    }
    error = bytes ? upload(cuda->weights, image->weights, bytes) : 0;
    return error ? rnncc_cuda_refused(cuda, "the weights were not copied", error) : 0;
}

/* For the loader itself: the kernels, and how many of their blocks run at once. */
static inline int rnncc_cuda_kernels(
    struct rnncc_cuda *cuda, const struct rnncc_cuda_image *image, int processors, int room) {
    enum { MOST_SHARED = 8, USUAL_SHARED = 48 << 10, MOST_BLOCKS = 4 };
    int (*find)(void **, void *, const char *), (*set)(void *, int, int);
    int (*ask)(int *, void *, int, size_t), i, error, blocks, shared;
    if (rnncc_cuda_find(cuda, "cuModuleGetFunction", &find) ||
        rnncc_cuda_find(cuda, "cuFuncSetAttribute", &set) ||
        rnncc_cuda_find(cuda, "cuOccupancyMaxActiveBlocksPerMultiprocessor", &ask))
        return rnncc_cuda_fail(cuda, RNNCC_TOO_OLD, "the NVIDIA driver lacks functions", NULL);
    for (i = 0; i < image->kernels; i++) {
        const struct rnncc_cuda_kernel *kernel = &image->kernel[i];
        void **function = &cuda->kernels[i].function;
        blocks = 0;
        error = find(function, cuda->module, kernel->symbol);
        if (error) return rnncc_cuda_refused(cuda, kernel->symbol, error);
        shared = kernel->shared < room ? kernel->shared : room;
        error = shared > USUAL_SHARED ? set(*function, MOST_SHARED, shared) : 0;
        if (!error) error = ask(&blocks, *function, kernel->threads, (size_t)shared);
        if (error) return rnncc_cuda_refused(cuda, kernel->symbol, error);
        if (blocks < 1)
            return rnncc_cuda_fail(cuda, RNNCC_NO_ROOM, "the GPU has no room for a block of", kernel->symbol);
        cuda->kernels[i].resident = (blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS) * processors;
        cuda->kernels[i].shared = shared;
    }
    return 0;
}

/* For the loader itself: all that needs the device's context as current. */
static inline int rnncc_cuda_prepare(struct rnncc_cuda *cuda, const struct rnncc_cuda_image *image) {
    enum { PROCESSORS = 16, MAJOR = 75, MINOR = 76, COOPERATIVE = 95, ROOM = 97 }; /* of CUdevice_attribute */
    int (*ask)(int *, int, int), numbers[5] = {0, 0, 0, 0, 0}, i, code;
    const int attributes[5] = {PROCESSORS, MAJOR, MINOR, COOPERATIVE, ROOM};
    if (rnncc_cuda_find(cuda, "cuDeviceGetAttribute", &ask))
        return rnncc_cuda_fail(cuda, RNNCC_TOO_OLD, "the NVIDIA driver lacks functions", NULL);
    for (i = 0; i < 5; i++) {
        code = ask(&numbers[i], attributes[i], cuda->device);
        if (code) return rnncc_cuda_refused(cuda, "the GPU cannot be asked", code);
    }
    if (!numbers[3])
        return rnncc_cuda_fail(cuda, RNNCC_TOO_OLD, "the GPU has no cooperative launches", NULL);
    code = rnncc_cuda_load(cuda, image, numbers[1], numbers[2]);
    if (!code) code = rnncc_cuda_upload(cuda, image);
    return code ? code : rnncc_cuda_kernels(cuda, image, numbers[0], numbers[4]);
}

/* For the loader itself: the driver, and the device's number in it. */
static inline int rnncc_cuda_driver(struct rnncc_cuda *cuda, int number) {
    enum { NO_DEVICE = 100 };
    const char *file = getenv("RNNCC_LIBCUDA");
    int (*begin)(unsigned), (*count)(int *), (*get)(int *, int), error, devices = 0;
    char told[64];
    cuda->driver = dlopen(file && *file ? file : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda->driver)
        return rnncc_cuda_fail(cuda, RNNCC_NO_DEVICE, "found no NVIDIA driver", dlerror());
    if (rnncc_cuda_find(cuda, "cuInit", &begin) || rnncc_cuda_find(cuda, "cuDeviceGetCount", &count) ||
        rnncc_cuda_find(cuda, "cuDeviceGet", &get) ||
        rnncc_cuda_find(cuda, "cuLaunchCooperativeKernel", &cuda->launch) ||
        rnncc_cuda_find(cuda, "cuMemsetD32Async", &cuda->set) ||
        rnncc_cuda_find(cuda, "cuMemcpyDtoDAsync_v2", &cuda->copy))
        return rnncc_cuda_fail(cuda, RNNCC_TOO_OLD, "the NVIDIA driver lacks functions", NULL);
    error = begin(0);
    if (!error) error = count(&devices);
    if (error && error != NO_DEVICE) return rnncc_cuda_refused(cuda, "the NVIDIA driver did not begin", error);
    if (error || number < 0 || number >= devices) {
        snprintf(told, sizeof told, "there are %d, and number %d is wanted", error ? 0 : devices, number);
        return rnncc_cuda_fail(cuda, RNNCC_NO_DEVICE, "no such NVIDIA GPU", told);
    }
    error = get(&cuda->device, number);
    return error ? rnncc_cuda_refused(cuda, "no such NVIDIA GPU", error) : 0;
}

/* Brings a library to a device, by its number from 0 up: finds the driver, loads code, copies the
 * weights. What is current in the thread stays so. The struct stays where it is until it is closed.
 * Returns 0, or a code, with one line in `message`; then nothing needs to be closed. */
static inline int rnncc_cuda_open(
    struct rnncc_cuda *cuda, const struct rnncc_cuda_image *image, int device) {
    int (*retain)(void **, int), code;
    memset(cuda, 0, sizeof *cuda);
    if (image->version != RNNCC_CUDA_VERSION || image->kernels > RNNCC_CUDA_KERNELS)
        return rnncc_cuda_fail(cuda, RNNCC_BAD_VERSION, rnncc_cuda_error(RNNCC_BAD_VERSION), image->name);
    code = rnncc_cuda_driver(cuda, device);
    if (code) return code;
    if (rnncc_cuda_find(cuda, "cuDevicePrimaryCtxRetain", &retain))
        return rnncc_cuda_fail(cuda, RNNCC_TOO_OLD, "the NVIDIA driver lacks functions", NULL);
    code = retain(&cuda->context, cuda->device);
    if (code) {
        cuda->context = NULL;
        return rnncc_cuda_refused(cuda, "the GPU has no context for us", code);
    }
    code = rnncc_cuda_enter(cuda);
    if (code)
        code = rnncc_cuda_refused(cuda, "the GPU's context cannot be used", -code);
    else {
        code = rnncc_cuda_prepare(cuda, image);
        rnncc_cuda_leave(cuda);
    }
    if (code) rnncc_cuda_close(cuda);
    return code;
}

#ifdef __cplusplus
}
#endif

#endif
