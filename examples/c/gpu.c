/* As main.c, on an NVIDIA GPU: reads a text one character at a time and prints what the net expects
 * next. A step is captured once in a CUDA graph and then replayed. It needs no file of CUDA's to
 * compile, and the driver alone to run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lstm.h"
#include "rnncc_cuda.h"

enum { CHARACTERS = 64, UNITS = 128, FIRST = ' ' };

/* The driver's functions that this program calls itself. */
static int (*allocate)(void **, size_t), (*give_back)(void *);
static int (*upload)(void *, const void *, size_t, void *), (*download)(void *, const void *, size_t, void *);
static int (*new_stream)(void **, unsigned), (*wait)(void *), (*end_stream)(void *);
static int (*begin_capture)(void *, int), (*end_capture)(void *, void **);
static int (*instantiate)(void **, void *, unsigned long long), (*replay)(void *, void *);
static int (*end_graph)(void *), (*end_replay)(void *);

static struct rnncc_cuda cuda;

/* Ends the program where a call of the driver, or of the library, was refused. */
static void check(int code, const char *what) {
    if (!code) return;
    fprintf(stderr, "%s: %s\n", what, rnncc_cuda_driver_error(&cuda, code));
    exit(1);
}

static void find_functions(void) {
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"cuMemAlloc_v2", &allocate},
        {"cuMemFree_v2", &give_back},
        {"cuMemcpyHtoDAsync_v2", &upload},
        {"cuMemcpyDtoHAsync_v2", &download},
        {"cuStreamCreate", &new_stream},
        {"cuStreamSynchronize", &wait},
        {"cuStreamDestroy_v2", &end_stream},
        {"cuStreamBeginCapture_v2", &begin_capture},
        {"cuStreamEndCapture", &end_capture},
        {"cuGraphInstantiateWithFlags", &instantiate},
        {"cuGraphLaunch", &replay},
        {"cuGraphDestroy", &end_graph},
        {"cuGraphExecDestroy", &end_replay},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = rnncc_cuda_symbol(&cuda, wanted[i].name);
        if (!found) {
            fprintf(stderr, "the driver has no %s\n", wanted[i].name);
            exit(1);
        }
        memcpy(wanted[i].function, &found, sizeof found);
    }
}

static void *block(size_t bytes) {
    void *place = NULL;
    check(-allocate(&place, bytes), "no memory");
    return place;
}

static int most_probable(const float *probabilities) {
    int best = 0;
    for (int i = 1; i < CHARACTERS; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    return best;
}

/* A graph of one step, which nothing but the content of the memory changes. */
static void *captured(const lstm_inputs *inputs, const lstm_outputs *outputs, void *state, void *workspace,
                      int32_t *status, void *stream) {
    void *graph = NULL, *made = NULL;
    check(-begin_capture(stream, 1), "capture"); /* 1: what other threads do is no concern of it */
    check(lstm_step_cuda(&cuda, inputs, outputs, state, workspace, status, stream, 1, 1), "a step");
    check(-end_capture(stream, &graph), "capture");
    check(-instantiate(&made, graph, 0), "the graph");
    check(-end_graph(graph), "the graph");
    return made;
}

int main(void) {
    static const char text[] = "HELLO, WORLD";
    static const float zeros[UNITS];
    float letter[CHARACTERS], probabilities[CHARACTERS];
    const int32_t no_end = INT32_MAX;
    int32_t code = 0;
    void *stream = NULL;
    if (rnncc_cuda_open(&cuda, lstm_cuda_image(), 0)) {
        fprintf(stderr, "%s\n", cuda.message);
        return 1;
    }
    find_functions();
    check(rnncc_cuda_enter(&cuda), "the GPU's context");
    check(-new_stream(&stream, 1), "a stream"); /* 1: it does not wait for the default stream */

    float *x = (float *)block(sizeof letter), *y = (float *)block(sizeof probabilities);
    float *start = (float *)block(sizeof zeros);
    int32_t *lengths = (int32_t *)block(sizeof no_end), *status = (int32_t *)block(sizeof *status);
    void *workspace = block(lstm_workspace_bytes_cuda(1, 1)), *state = block(lstm_state_bytes_cuda(1));
    lstm_inputs inputs;
    lstm_outputs outputs;
    memset(&inputs, 0, sizeof inputs);
    memset(&outputs, 0, sizeof outputs);
    inputs.x = x;
    inputs.seq_lengths = lengths;
    inputs.h0 = inputs.c0 = start;
    outputs.probabilities = y;

    check(-upload(start, zeros, sizeof zeros, stream), "a copy");
    check(-upload(lengths, &no_end, sizeof no_end, stream), "a copy");
    check(lstm_state_init_cuda(&cuda, &inputs, state, workspace, status, stream, 1), "the state");
    void *step = captured(&inputs, &outputs, state, workspace, status, stream);
    for (size_t t = 0; !code && t + 1 < sizeof text; t++) {
        memset(letter, 0, sizeof letter);
        letter[text[t] - FIRST] = 1;
        check(-upload(x, letter, sizeof letter, stream), "a copy");
        check(-replay(step, stream), "a step");
        check(-download(probabilities, y, sizeof probabilities, stream), "a copy");
        check(-download(&code, status, sizeof code, stream), "a copy");
        check(-wait(stream), "a step");
        int next = most_probable(probabilities);
        printf("%c -> %c (%.4f)\n", text[t], next + FIRST, probabilities[next]);
    }
    if (code) fprintf(stderr, "%s\n", rnncc_cuda_error(code));

    void *blocks[] = {x, y, start, lengths, status, workspace, state};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) check(-give_back(blocks[i]), "memory");
    check(-end_replay(step), "the graph");
    check(-end_stream(stream), "the stream");
    check(rnncc_cuda_leave(&cuda), "the GPU's context");
    rnncc_cuda_close(&cuda);
    return code;
}
