/* Reads a text one character at a time on an NVIDIA GPU: a step of the net is captured once in a
 * CUDA graph, and launched for each character. Needs the driver, and nothing else of CUDA's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lstm.h"
#include "rnncc_cuda.h"

enum { CHARACTERS = 64, UNITS = 128, FIRST = ' ' };

/* The functions of the driver that this program calls, by their names in cuda.h. */
static struct {
    int (*cuMemAlloc_v2)(void **, size_t);
    int (*cuMemFree_v2)(void *);
    int (*cuMemcpyHtoDAsync_v2)(void *, const void *, size_t, void *stream);
    int (*cuMemcpyDtoHAsync_v2)(void *, const void *, size_t, void *stream);
    int (*cuStreamCreate)(void **, unsigned);
    int (*cuStreamSynchronize)(void *);
    int (*cuStreamDestroy_v2)(void *);
    /* Not in old drivers: the program does without. */
    int (*cuStreamBeginCapture_v2)(void *, int);
    int (*cuStreamEndCapture)(void *, void **);
    int (*cuGraphInstantiateWithFlags)(void **, void *, unsigned long long);
    int (*cuGraphLaunch)(void *, void *);
    int (*cuGraphExecDestroy)(void *);
    int (*cuGraphDestroy)(void *);
} driver;

#define FIND(name) rnncc_cuda_find(cuda, #name, &driver.name)

static int find_functions(const struct rnncc_cuda *cuda) {
    return FIND(cuMemAlloc_v2) || FIND(cuMemFree_v2) || FIND(cuMemcpyHtoDAsync_v2) ||
           FIND(cuMemcpyDtoHAsync_v2) || FIND(cuStreamCreate) || FIND(cuStreamSynchronize) ||
           FIND(cuStreamDestroy_v2);
}

static int has_graphs(const struct rnncc_cuda *cuda) {
    return !(FIND(cuStreamBeginCapture_v2) || FIND(cuStreamEndCapture) ||
             FIND(cuGraphInstantiateWithFlags) || FIND(cuGraphLaunch) ||
             FIND(cuGraphExecDestroy) || FIND(cuGraphDestroy));
}

/* What lies on the GPU. */
struct memory {
    float *x, *start, *probabilities;
    int32_t *length, *status;
    void *state, *workspace;
};

static int reserve(struct memory *m) {
    struct {
        void **place;
        size_t bytes;
    } blocks[] = {
        {(void **)&m->x, CHARACTERS * sizeof(float)},
        {(void **)&m->start, UNITS * sizeof(float)},
        {(void **)&m->probabilities, CHARACTERS * sizeof(float)},
        {(void **)&m->length, sizeof(int32_t)},
        {(void **)&m->status, sizeof(int32_t)},
        {&m->state, lstm_state_bytes_cuda(1)},
        {&m->workspace, lstm_workspace_bytes_cuda(1, 1)},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (driver.cuMemAlloc_v2(blocks[i].place, blocks[i].bytes)) return 1;
    return 0;
}

static void give_back(struct memory *m) {
    void *blocks[] = {m->x, m->start, m->probabilities, m->length, m->status, m->state, m->workspace};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i]) driver.cuMemFree_v2(blocks[i]);
}

static int step(const struct rnncc_cuda *cuda, const struct memory *m, void *stream) {
    const lstm_inputs inputs = {.x = m->x};
    const lstm_outputs outputs = {.probabilities = m->probabilities};
    return lstm_step_cuda(cuda, &inputs, &outputs, m->state, m->workspace, m->status, stream, 1, 1);
}

/* A step as a graph; NULL if there can be none. The structs of pointers are read here and now. */
static void *capture(const struct rnncc_cuda *cuda, const struct memory *m, void *stream) {
    enum { THREAD = 1 };
    void *graph = NULL, *made = NULL;
    if (!has_graphs(cuda) || driver.cuStreamBeginCapture_v2(stream, THREAD)) return NULL;
    int code = step(cuda, m, stream);
    if (driver.cuStreamEndCapture(stream, &graph)) return NULL;
    if (code || driver.cuGraphInstantiateWithFlags(&made, graph, 0)) made = NULL;
    driver.cuGraphDestroy(graph);
    return made;
}

static int most_probable(const float *probabilities) {
    int best = 0;
    for (int i = 1; i < CHARACTERS; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    return best;
}

static int begin(const struct rnncc_cuda *cuda, const struct memory *m, void *stream) {
    static const float zeros[UNITS];
    static const int32_t no_end = INT32_MAX;
    const lstm_inputs inputs = {.seq_lengths = m->length, .h0 = m->start, .c0 = m->start};
    if (driver.cuMemcpyHtoDAsync_v2(m->start, zeros, sizeof zeros, stream)) return 1;
    if (driver.cuMemcpyHtoDAsync_v2(m->length, &no_end, sizeof no_end, stream)) return 1;
    return lstm_state_init_cuda(cuda, &inputs, m->state, m->workspace, m->status, stream, 1);
}

/* Puts a character in, and waits for what is expected next. */
static int next(const struct rnncc_cuda *cuda, const struct memory *m, void *graph, void *stream,
                char character, float *probabilities) {
    float x[CHARACTERS] = {0};
    int32_t found = 0;
    x[character - FIRST] = 1;
    if (driver.cuMemcpyHtoDAsync_v2(m->x, x, sizeof x, stream)) return RNNCC_CUDA_ERROR;
    int code = graph ? -driver.cuGraphLaunch(graph, stream) : step(cuda, m, stream);
    if (code) return code;
    if (driver.cuMemcpyDtoHAsync_v2(probabilities, m->probabilities, sizeof x, stream) ||
        driver.cuMemcpyDtoHAsync_v2(&found, m->status, sizeof found, stream) ||
        driver.cuStreamSynchronize(stream))
        return RNNCC_CUDA_ERROR;
    return found;
}

static int read_text(const struct rnncc_cuda *cuda, const struct memory *m, void *stream) {
    static const char text[] = "HELLO, WORLD";
    float probabilities[CHARACTERS];
    int code = begin(cuda, m, stream);
    void *graph = code ? NULL : capture(cuda, m, stream);
    if (!code) fprintf(stderr, graph ? "a graph of one step\n" : "no graph: a call for each step\n");
    for (size_t t = 0; !code && t + 1 < sizeof text; t++) {
        code = next(cuda, m, graph, stream, text[t], probabilities);
        if (code) break;
        int best = most_probable(probabilities);
        printf("%c -> %c (%.4f)\n", text[t], best + FIRST, probabilities[best]);
    }
    if (graph) driver.cuGraphExecDestroy(graph);
    return code;
}

int main(void) {
    static struct rnncc_cuda cuda;
    struct memory memory = {0};
    void *stream = NULL;
    int code = rnncc_cuda_open(&cuda, lstm_cuda_image(), 0);
    if (code) {
        fprintf(stderr, "%s\n", cuda.message);
        return code;
    }
    code = rnncc_cuda_enter(&cuda);
    if (!code) {
        code = find_functions(&cuda) || reserve(&memory) || driver.cuStreamCreate(&stream, 1)
                   ? RNNCC_CUDA_ERROR
                   : read_text(&cuda, &memory, stream);
        if (code) fprintf(stderr, "%s\n", rnncc_cuda_driver_error(&cuda, code));
        if (driver.cuMemFree_v2) give_back(&memory);
        if (stream) driver.cuStreamDestroy_v2(stream);
        rnncc_cuda_leave(&cuda);
    }
    rnncc_cuda_close(&cuda);
    return code != 0;
}
