/* Runs a net with one thread and with up to three, and in a forked process; compares every byte. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tiny.h"
#include "rnncc_pool.h"

enum { T = 5, N = 3, D = 5, H = 6 };

struct call {
    tiny_inputs inputs;
    tiny_outputs outputs;
    void *workspace;
};

static int task(void *argument, const struct rnncc_part *part) {
    struct call *call = argument;
    return tiny_run_part(&call->inputs, &call->outputs, call->workspace, part, T, N);
}

/* Threads that hold the pool's locks as often as not when the process forks. */
static void *use(void *pool) {
    static struct call call; /* whose inputs are NULL: refused at once */
    for (int i = 0; i < 2000; i++) rnncc_pool_run((rnncc_pool *)pool, 3, task, &call);
    return NULL;
}

static int fork_and_run(rnncc_pool *pool, struct call *call, const void *want, size_t size) {
    int bad = 0;
    pthread_t user;
    pthread_create(&user, NULL, use, pool);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(5); /* a child that hangs is killed */
            memset(call->outputs.probabilities, 0, size);
            int code = rnncc_pool_run(pool, 3, task, call);
            int differs = memcmp(call->outputs.probabilities, want, size) != 0;
            rnncc_pool_destroy(pool);
            _exit(code + 2 * differs);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || status != 0) bad++;
    }
    pthread_join(user, NULL);
    return bad;
}

int main(void) {
    static float x[T][N][D], h0[N][H], c0[N][H], results[2][T][N][D];
    const int32_t lengths[N] = {5, 2, 4};
    for (int i = 0; i < T * N * D; i++) x[0][0][i] = (float)(i % 7) / 7;
    static struct call call;
    call.inputs.x = x[0][0];
    call.inputs.seq_lengths = lengths;
    call.inputs.h0 = h0[0];
    call.inputs.c0 = c0[0];
    call.workspace = aligned_alloc(64, (tiny_workspace_bytes(T, N) + 63) / 64 * 64);
    call.outputs.probabilities = results[0][0][0];
    int code = tiny_run(&call.inputs, &call.outputs, call.workspace, T, N);
    rnncc_pool *pool = rnncc_pool_create(3);
    for (int i = 0; i < 100; i++) {
        memset(results[1], 0, sizeof results[1]);
        call.outputs.probabilities = results[1][0][0];
        code += rnncc_pool_run(pool, 1 + i % 4, task, &call);
        if (memcmp(results[0], results[1], sizeof results[0])) code += 1000;
    }
    code += 100000 * fork_and_run(pool, &call, results[0], sizeof results[0]);
    call.inputs.x = NULL;
    if (tiny_threads(T, N) != 1 || tiny_threads(T, 1 << 20) < 2 || tiny_threads(-1, N) != 1) code += 10000;
    printf("%d %d\n", code, rnncc_pool_run(pool, 3, task, &call));
    rnncc_pool_destroy(pool);
    rnncc_pool_destroy(NULL);
    free(call.workspace);
    return 0;
}
