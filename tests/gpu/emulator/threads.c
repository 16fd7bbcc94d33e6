/* A launch: all threads of all blocks as coroutines of this thread, one at a time.
 *
 * Which goes on, and how long one is kept waiting, the seed decides; each runs up to its next wait,
 * atomic access or poll. What cannot go on is reported and ends the launch: a wait that some threads
 * have ended without, blocks that wait for a grid that others have left, an access of nothing. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator.h"

enum { READY, IN_WARP, IN_BLOCK, IN_GRID, ENDED, STATES };
enum { WARP = 32, STACK = 512 * 1024, PAGE = 4096, MAX_PARAMS = 512, POLLS = 1 << 22 };

/* Coroutines: emu_switch keeps the registers of one on its stack and takes those of another. */
#if defined(__x86_64__) && !defined(EMU_UCONTEXT)
typedef void *Context;
void emu_switch(Context *left, Context *entered);
__asm__(".text\n.globl emu_switch\n.hidden emu_switch\n.type emu_switch, @function\nemu_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq (%rsi), %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size emu_switch, . - emu_switch\n");
static void prepare(Context *c, char *stack, void (*body)(void)) {
    void **top = (void **)(stack + STACK);
    *--top = NULL;
    *--top = (void *)(uintptr_t)body;
    *c = memset(top - 6, 0, 6 * sizeof *top);
}
#else
#include <ucontext.h>
typedef ucontext_t Context;
static void emu_switch(Context *left, Context *entered) { swapcontext(left, entered); }
static void prepare(Context *c, char *stack, void (*body)(void)) {
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = STACK;
    makecontext(c, body, 0);
}
#endif

typedef struct {
    Context at;
    int state, block, number;
    int32_t site; /* of its wait */
    uint32_t posted, goal;
    void *given; /* to its warp */
    uint32_t *counter; /* of the barrier */
    char *stack;
} Thread;

typedef struct {
    Thread *threads;
    int in[STATES]; /* threads of each state */
    int *warps;     /* threads of each warp that wait for it */
    int arrived;    /* and counted */
    uint32_t time, known[MOST_BLOCKS];
    char *shared;
} Block;

static struct {
    const Function *function;
    void **params;
    Block *blocks;
    Thread *all;
    int block_count, threads, broken;
    int64_t shared, polls;
} run;
static Context scheduler;
static Thread *now;
static Here place;
static uint64_t state;
static uint32_t last_time = 1;
static char *stacks;
static size_t stack_count;
static sigjmp_buf escape;

const Here *here(void) { return &place; }

static uint32_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static void leave(int why) {
    Block *b = run.blocks + now->block;
    b->in[now->state]--;
    now->state = why;
    b->in[why]++;
    emu_switch(&now->at, &scheduler);
}

static void body(void) {
    run.function->entry(run.params);
    leave(ENDED);
    abort();
}

static void enter(Thread *t) {
    const Block *b = run.blocks + t->block;
    now = t;
    place.block = t->block;
    place.thread = t->number;
    place.time = b->time;
    place.known = b->known;
    place.before = b->time;
    for (int i = 0; i < run.block_count; i++)
        if (b->known[i] < place.before) place.before = b->known[i];
    place.stack = t->stack;
    place.shared = b->shared;
    emu_switch(&scheduler, &t->at);
}

/* What device code calls. */

API int32_t emu_thread(void) { return now->number; }
API int32_t emu_block(void) { return now->block; }
API int32_t emu_blocks(void) { return run.block_count; }
API int32_t emu_threads(void) { return run.threads; }
API void *emu_shared(void) { return run.blocks[now->block].shared; }
API int32_t emu_shared_bytes(void) { return (int32_t)run.shared; }
API void emu_block_wait_at(int32_t site) {
    now->site = site;
    run.polls = 0;
    leave(IN_BLOCK);
}
API void emu_block_wait(void) { emu_block_wait_at(-1); }
/* A barrier counts the blocks that have come; `goal` is what it holds when all have whom it is for. */
API void emu_grid_wait_at(uint32_t *counter, uint32_t goal, int32_t site) {
    now->site = site;
    now->counter = counter;
    now->goal = goal;
    run.polls = 0;
    leave(IN_GRID);
}
API void emu_grid_wait(uint32_t *sync, uint32_t goal) { emu_grid_wait_at(sync, goal, -1); }
API void emu_end(void) { leave(ENDED); }
API void emu_poll(void) { /* in each loop that waits for another thread's word */
    if (++run.polls > POLLS) {
        report("a loop of block %d, thread %d waits for what nobody writes", now->block, now->number);
        run.broken = 1;
        leave(ENDED);
    }
    leave(READY);
}
API void emu_access(const char *p, int32_t bytes, int32_t kind, int32_t site) {
    if (kind >= 2 && (draw() & 1)) give_way();
    if (settings.check) watch(p, bytes, kind, site);
    int whole = !(bytes & (bytes - 1)); /* a GPU traps where one access is not at a multiple of its size */
    if (whole && (uintptr_t)p & (uintptr_t)(bytes - 1)) {
        report("block %d, thread %d: %d bytes at %p, no multiple of that, at: %s", now->block, now->number, bytes,
               (const void *)p, site_text(run.function->module, site));
    }
}
/* Words of a value and a mark. */
API void emu_post(uint32_t *word, uint32_t value, uint32_t mark) {
    emu_access((const char *)word, 8, 2, -1);
    word[0] = value;
    word[1] = mark;
}
API uint64_t emu_look(const uint64_t *word) {
    emu_access((const char *)word, 8, 3, -1);
    return *word;
}
API void emu_post_word(uint32_t *word, uint32_t value) {
    emu_access((const char *)word, 4, 2, -1);
    *word = value;
}
API uint32_t emu_look_word(const uint32_t *word) {
    emu_access((const char *)word, 4, 3, -1);
    return *word;
}
static void warp_wait(void) {
    int w = now->number / WARP, first = w * WARP;
    Block *b = run.blocks + now->block;
    int lanes = run.threads - first < WARP ? run.threads - first : WARP;
    if (++b->warps[w] < lanes) {
        leave(IN_WARP);
        return;
    }
    b->warps[w] = 0;
    for (int i = first; i < first + lanes; i++) {
        Thread *t = b->threads + i;
        if (t->state != IN_WARP) continue;
        t->state = READY;
        b->in[IN_WARP]--;
        b->in[READY]++;
    }
}
/* What all lanes of a warp call together, with a value of each. */
static Thread *post(int32_t value) {
    now->posted = (uint32_t)value;
    warp_wait();
    return run.blocks[now->block].threads + now->number / WARP * WARP;
}
/* The value of the lane so much further on; of the own lane beyond the warp. */
API int32_t emu_shuffle_down(int32_t value, int32_t by) {
    const Thread *warp = post(value);
    int lane = now->number % WARP + by;
    uint32_t got = lane < WARP ? warp[lane].posted : (uint32_t)value;
    warp_wait();
    return (int32_t)got;
}
API int32_t emu_ballot(int32_t flag) {
    const Thread *warp = post(flag);
    uint32_t bits = 0;
    for (int i = 0; i < WARP; i++) bits |= (uint32_t)(warp[i].posted & 1) << i;
    warp_wait();
    return (int32_t)bits;
}

/* Tensor cores: what a warp calls together, with a pointer of each lane. */
static Thread *post_pointer(void *p) {
    now->given = p;
    warp_wait();
    return run.blocks[now->block].threads + now->number / WARP * WARP;
}
static float widened(uint32_t word, int high) {
    uint32_t bits = high ? word & 0xFFFF0000u : word << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static uint32_t half(float value) { /* to nearest even */
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (value != value) return 0x7FFF;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
API int32_t emu_halves(float low, float high) { return (int32_t)(half(low) | half(high) << 16); }
/* Lane 8 m + r gives the address of row r of matrix m; each lane gets a word of a row of each, or two halves of a
   column. */
API void emu_matrices(char *row, uint32_t *out, int32_t count, int32_t turned) {
    int lane = now->number % WARP;
    if (lane / 8 < count) emu_access(row, 16, 0, -1);
    const Thread *warp = post_pointer(row);
    for (int i = 0; i < count; i++) {
        if (!turned) memcpy(out + i, (char *)warp[i * 8 + lane / 4].given + 4 * (lane % 4), 4);
        for (int j = 0; turned && j < 2; j++)
            memcpy((char *)(out + i) + 2 * j, (char *)warp[i * 8 + lane % 4 * 2 + j].given + 2 * (lane / 4), 2);
    }
    warp_wait();
}
/* Of each lane a0 to a3, b0, b1, c0 to c3; the sums take the place of c, k after k. */
API void emu_multiply(uint32_t *io) {
    const Thread *warp = post_pointer(io);
    int lane = now->number % WARP;
    float made[4];
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        memcpy(made + i, io + 6 + i, 4);
        for (int k = 0; k < 16; k++) {
            const uint32_t *a = warp[row % 8 * 4 + k % 8 / 2].given, *b = warp[column * 4 + k % 8 / 2].given;
            made[i] = fmaf(widened(a[row / 8 + k / 8 * 2], k & 1), widened(b[4 + k / 8], k & 1), made[i]);
        }
    }
    warp_wait();
    memcpy(io + 6, made, sizeof made);
}

void give_way(void) { leave(READY); }

/* The scheduler. */

static void release(Block *b, int from) {
    for (int i = 0; i < run.threads; i++)
        if (b->threads[i].state == from) b->threads[i].state = READY;
    b->in[READY] += b->in[from];
    b->in[from] = 0;
}

/* On a GPU the lanes of a warp arrive at one place together. */
static void check_warps(const Block *b) {
    for (int i = 0; i < run.threads; i++) {
        const Thread *t = b->threads + i, *first = b->threads + i / WARP * WARP;
        if (t->site == first->site) continue;
        report("block %d: lanes of one warp wait at different places:\n  thread %d at: %s\n  thread %d at: %s", t->block,
               first->number, site_text(run.function->module, first->site), i,
               site_text(run.function->module, t->site));
        run.broken = 1;
        return;
    }
}

static void check_counters(const Block *b) {
    for (int i = 0; i < run.threads; i++) {
        const Thread *t = b->threads + i;
        if (t->counter == b->threads->counter && *t->counter == t->goal) continue;
        report("block %d, thread %d: a grid's barrier holds %u, not %u, at: %s", t->block, i, *t->counter, t->goal,
               site_text(run.function->module, t->site));
        run.broken = 1;
        return;
    }
}

static int waits_for(const Block *b, const uint32_t *counter) { return b->arrived && b->threads->counter == counter; }

/* What one of the blocks at a barrier knows, they all know behind it. */
static void meet(const uint32_t *counter) {
    uint32_t known[MOST_BLOCKS] = {0};
    last_time++;
    for (int i = 0; i < run.block_count; i++) {
        const Block *b = run.blocks + i;
        if (!waits_for(b, counter)) continue;
        for (int j = 0; j < run.block_count; j++)
            if (known[j] < b->known[j]) known[j] = b->known[j];
    }
    for (int i = 0; i < run.block_count; i++)
        if (waits_for(run.blocks + i, counter)) known[i] = last_time;
    for (int i = 0; i < run.block_count; i++) {
        Block *b = run.blocks + i;
        if (!waits_for(b, counter)) continue;
        check_warps(b);
        check_counters(b);
        memcpy(b->known, known, sizeof known);
        release(b, IN_GRID);
        b->time = last_time;
    }
    for (int i = 0; i < run.block_count; i++)
        if (run.blocks[i].in[IN_GRID] == 0) run.blocks[i].arrived = 0;
}

/* A block that has come to a barrier is counted; who is the last lets all of them go. */
static void arrive(Block *b) {
    uint32_t *counter = b->threads->counter;
    b->arrived = 1;
    if ((int32_t)(++*counter - b->threads->goal) >= 0) meet(counter);
}

static int common_divisor(int a, int b) { return b ? common_divisor(b, a % b) : a; }

/* Threads of a block from a random one on, in strides; some are left for later. */
static void pass(Block *b) {
    int n = run.threads, start = (int)(draw() % n), stride = 1 + (int)(draw() % n), late = draw() & 7;
    while (common_divisor(stride, n) != 1) stride++;
    for (int j = 0, i = start; j < n && !run.broken; j++, i = (i + stride) % n)
        if (b->threads[i].state == READY && (late || (draw() & 1))) enter(b->threads + i);
    if (b->in[IN_BLOCK] == n) {
        check_warps(b);
        release(b, IN_BLOCK);
        b->time = ++last_time;
    }
    if (b->in[IN_GRID] == n && !b->arrived) arrive(b);
}

static void report_stuck(void) {
    static const char *const names[] = {"ready", "wait for their warp", "wait for their block", "wait for the grid"};
    report("the launch of %s cannot go on", run.function->name);
    for (int i = 0; i < run.block_count && i < 8; i++) {
        const Block *b = run.blocks + i;
        report("  block %d: %d threads have ended", i, b->in[ENDED]);
        for (int s = IN_WARP; s <= IN_GRID; s++)
            for (int t = 0; t < run.threads && b->in[s]; t++)
                if (b->threads[t].state == s) {
                    report("  block %d: %d threads %s, such as %d at: %s", i, b->in[s], names[s], t,
                           site_text(run.function->module, b->threads[t].site));
                    break;
                }
    }
    run.broken = 1;
}

static void schedule(void) {
    int total = run.block_count * run.threads;
    while (!run.broken) {
        Block *chosen = run.blocks + draw() % run.block_count;
        for (int again = 1 + (int)(draw() & 3); again-- && chosen->in[READY] && !run.broken;) pass(chosen);
        int ready = 0, ended = 0;
        for (int i = 0; i < run.block_count; i++) {
            ready += run.blocks[i].in[READY];
            ended += run.blocks[i].in[ENDED];
        }
        if (ended == total) return;
        if (!ready) report_stuck();
    }
}

/* A launch's beginning and end. */

static int stacks_for(size_t count) {
    if (count <= stack_count) return 1;
    if (stacks) munmap(stacks, stack_count * (STACK + PAGE));
    size_t bytes = count * (STACK + PAGE);
    stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stack_count = stacks == MAP_FAILED ? 0 : count;
    if (!stack_count) stacks = NULL;
    for (size_t i = 0; i < stack_count; i++) mprotect(stacks + i * (STACK + PAGE), PAGE, PROT_NONE);
    return stack_count > 0;
}

static int begin(int i) {
    Block *b = run.blocks + i;
    b->time = last_time;
    for (int j = 0; j < MOST_BLOCKS; j++) b->known[j] = last_time;
    b->threads = run.all + (size_t)i * run.threads;
    b->warps = calloc((run.threads + WARP - 1) / WARP, sizeof *b->warps);
    b->in[READY] = run.threads;
    b->shared = memory_new(run.shared, 1);
    if (b->shared < place.shared_low) place.shared_low = b->shared;
    if (b->shared + run.shared > place.shared_high) place.shared_high = b->shared + run.shared;
    for (int j = 0; j < run.threads; j++) {
        Thread *t = b->threads + j;
        t->block = i;
        t->number = j;
        t->stack = stacks + ((size_t)i * run.threads + j) * (STACK + PAGE) + PAGE;
        prepare(&t->at, t->stack, body);
    }
    return b->shared && b->warps;
}

static void fault(int signal, siginfo_t *info, void *unused) {
    (void)unused;
    report("block %d, thread %d: signal %d at address %p, last watched access at: %s", now->block, now->number, signal,
           info->si_addr, site_text(run.function->module, last_site));
    siglongjmp(escape, 1);
}

/* Run with faults of device code reported; 0, or what the driver would return. */
static int guarded_schedule(void) {
    static char room[64 * 1024];
    stack_t other = {.ss_sp = room, .ss_size = sizeof room}, previous;
    struct sigaction catch = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old[2];
    sigaltstack(&other, &previous);
    sigaction(SIGSEGV, &catch, old);
    sigaction(SIGBUS, &catch, old + 1);
    int code = ILLEGAL_ADDRESS;
    if (!sigsetjmp(escape, 1)) {
        schedule();
        code = run.broken ? LAUNCH_FAILED : OK;
    }
    sigaction(SIGSEGV, old, NULL);
    sigaction(SIGBUS, old + 1, NULL);
    if (!(previous.ss_flags & SS_DISABLE)) sigaltstack(&previous, NULL);
    return code;
}

int launch(const Function *function, int blocks, int threads, int64_t shared, void *const *given) {
    static struct {
        void *at[MAX_PARAMS];
        int64_t values[MAX_PARAMS];
    } params;
    for (int i = 0; i < function->params; i++) {
        params.values[i] = (int64_t)(uintptr_t)given[i];
        params.at[i] = params.values + i;
    }
    place.params = (char *)&params;
    place.params_end = (char *)(&params + 1);
    size_t count = (size_t)blocks * threads;
    memset(&run, 0, sizeof run);
    run.function = function;
    run.params = params.at;
    run.block_count = blocks;
    run.threads = threads;
    run.shared = shared;
    run.blocks = calloc(blocks, sizeof *run.blocks);
    run.all = calloc(count, sizeof *run.all);
    last_time++;
    place.stack_bytes = STACK;
    place.shared_bytes = shared;
    place.shared_low = (char *)UINTPTR_MAX;
    place.shared_high = NULL;
    place.module = function->module;
    state = (uint64_t)settings.seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du;
    int code = blocks > MOST_BLOCKS ? TOO_LARGE : OK;
    if (!run.blocks || !run.all || !stacks_for(count)) code = OUT_OF_MEMORY;
    for (int i = 0; i < blocks && code == OK; i++) code = begin(i) ? OK : OUT_OF_MEMORY;
    if (code == OK) code = guarded_schedule();
    if (!memory_guards("behind a launch") && code == OK) code = ILLEGAL_ADDRESS;
    for (int i = 0; run.blocks && i < blocks; i++) {
        memory_delete(run.blocks[i].shared);
        free(run.blocks[i].warps);
    }
    free(run.blocks);
    free(run.all);
    return code;
}
