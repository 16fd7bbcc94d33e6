/* Calls each function of a library that flushes denormals, in threads that flush and that do not,
 * with arguments that are right and wrong: the mode must be the thread's own before and after, and
 * the results the same. Prints what is not so. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"
#include "rnncc.h"

enum { T = 200, N = 1 };

#if defined __x86_64__
#include <immintrin.h>
typedef unsigned mode;
static const mode FLUSH = 0x8040, ROUND = 0x6000;
static mode get(void) { return _mm_getcsr() & ~0x3fu; } /* without the flags of what happened */
static void put(mode m) { _mm_setcsr(m); }
#elif defined __aarch64__
typedef uint64_t mode;
static const mode FLUSH = 1 << 24, ROUND = 3 << 22;
static mode get(void) { mode m; __asm volatile("mrs %0, fpcr" : "=r"(m)); return m; }
static void put(mode m) { __asm volatile("msr fpcr, %0" : : "r"(m)); }
#else
typedef uint32_t mode;
static const mode FLUSH = 1 << 24, ROUND = 3 << 22;
static mode get(void) { mode m; __asm volatile("vmrs %0, fpscr" : "=r"(m)); return m & 0x07ffff00u; }
static void put(mode m) { __asm volatile("vmsr fpscr, %0" : : "r"(m)); }
#endif

static float x[T];
static int64_t counter;
static int faults;

struct work {
    pthread_t thread;
    mode own;
    struct rnncc_part part;
    void *workspace;
    float *y;
};

static void expect(const char *what, mode own, int code, int right) {
    if (code != right || get() != own) {
        printf("%s: code %d, not %d; mode %llx, not %llx\n", what, code, right,
               (unsigned long long)get(), (unsigned long long)own);
        faults++;
    }
}

static void *block(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64 + 64); }

static void check_decay(const char *what, const float *y) {
    float want = 1;
    for (int t = 0; t < T; t++) {
        uint32_t bits, right;
        memcpy(&bits, &y[t], 4);
        memcpy(&right, &want, 4);
        if (bits != right) {
            printf("%s: y[%d] is %x, not %x\n", what, t, (unsigned)bits, (unsigned)right);
            faults++;
            return;
        }
        if (t < 126) want /= 2;
        else want = 0;
    }
}

static void *run_part(void *given) {
    struct work *w = given;
    const net_inputs inputs = {.x = x};
    const net_outputs outputs = {.y = w->y};
    put(w->own);
    expect("run_part", w->own, net_run_part(&inputs, &outputs, w->workspace, &w->part, T, N), RNNCC_OK);
    return NULL;
}

static void calls(mode own) {
    static float y[T], pieces[T];
    void *workspace = block(net_workspace_bytes(T, N)), *state = block(net_state_bytes(N));
    const net_inputs inputs = {.x = x}, none = {0};
    const net_outputs outputs = {.y = y};
    put(own);
    expect("run", own, net_run(&inputs, &outputs, workspace, T, N), RNNCC_OK);
    expect("NULL", own, net_run(NULL, &outputs, workspace, T, N), RNNCC_NULL_POINTER);
    expect("a NULL input", own, net_run(&none, &outputs, workspace, T, N), RNNCC_NULL_POINTER);
    expect("a size", own, net_run(&inputs, &outputs, workspace, -1, N), RNNCC_BAD_SIZE);
    expect("state_init", own, net_state_init(&none, state, workspace, N), RNNCC_OK);
    expect("no state", own, net_state_init(&none, NULL, workspace, N), RNNCC_NULL_POINTER);
    for (int t = 0; t < T; t++) {
        const net_inputs one = {.x = x + t};
        const net_outputs to = {.y = pieces + t};
        expect("step", own, net_step(&one, &to, state, workspace, 1, N), RNNCC_OK);
    }
    expect("a NULL step", own, net_step(&inputs, NULL, state, workspace, 1, N), RNNCC_NULL_POINTER);
    put(own & ~(FLUSH | ROUND));
    check_decay("run", y);
    check_decay("step", pieces);
    free(workspace);
    free(state);
}

static void threads(mode usual) {
    static float y[T];
    void *workspace = block(net_workspace_bytes(T, N));
    struct work team[3];
    for (int i = 0; i < 3; i++) {
        const struct rnncc_part part = {i, 3, &counter};
        team[i] = (struct work){.own = i == 1 ? usual | FLUSH : usual, .part = part, .workspace = workspace, .y = y};
        pthread_create(&team[i].thread, NULL, run_part, &team[i]);
    }
    for (int i = 0; i < 3; i++) pthread_join(team[i].thread, NULL);
    check_decay("run_part", y);
    free(workspace);
}

int main(void) {
    const mode usual = get();
    x[0] = 1;
    calls(usual);
    calls(usual | FLUSH);
    calls(usual | (FLUSH & (FLUSH - 1))); /* on x86 results alone */
    calls(usual | ROUND);                 /* towards zero: halves are exact */
    put(usual);
    threads(usual);
    return faults != 0;
}
