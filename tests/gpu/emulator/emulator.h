/* The parts of the emulated libcuda.so: a GPU's threads as coroutines of one CPU thread, device memory
 * between unmapped pages, a checker of races, and the driver's functions over them. */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default"))) /* nothing else is exported */

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_FAILED = 719,
    TOO_LARGE = 720,
    CAPTURE_UNSUPPORTED = 900,
};

/* Settings, each also $RNNCC_EMU_ and its name in capitals. */
typedef struct {
    int64_t seed, sms, check, devices, driver, chip, megabytes, occupancy;
} Settings;
extern Settings settings;

enum { MOST_BLOCKS = 64 }; /* of a launch */

typedef void Entry(void **params);

/* An image: its shared object, and the places in it that accesses are numbered by. */
typedef struct Module {
    void *handle;
    char *low, *high;
    const char *const *sites;
    int32_t site_count;
} Module;

typedef struct Function {
    struct Function *next;
    Module *module;
    const char *name;
    Entry *entry;
    int32_t params, shared_limit;
} Function;

/* threads.c */
typedef struct {
    int32_t block, thread;
    uint32_t time;         /* grows at each wait of the block: its accesses of earlier times are ordered */
    const uint32_t *known; /* of each block: its accesses of earlier times than this are ordered */
    uint32_t before;       /* the least of these */
    char *stack;
    size_t stack_bytes;
    const char *params, *params_end;
    const char *shared, *shared_low, *shared_high; /* the block's own, and all blocks' */
    size_t shared_bytes;
    const Module *module;
} Here;
const Here *here(void);
int launch(const Function *, int blocks, int threads, int64_t shared, void *const *params);
void give_way(void);

/* memory.c */
void *memory_new(size_t bytes, int shared);
int memory_delete(void *);
int memory_holds(const void *, size_t bytes, size_t *left);
int memory_guards(const char *when); /* whether bytes around an allocation were overwritten */
int memory_is_shared(const char *address);
int memory_live(void);
int memory_ready(void);

/* races.c */
void watch(const char *, int32_t bytes, int32_t kind, int32_t site);
void races_forbid(const char *from, const char *to, int forbidden);
void races_forget(const char *pages, size_t bytes); /* whole pages, whose memory goes */
void races_room(const char *base, size_t bytes); /* for the shadows of a range */
extern int32_t last_site;

/* report.c */
void report(const char *format, ...);
const char *site_text(const Module *, int32_t site);
void count_race(void);
int64_t races_counted(void);
#endif
