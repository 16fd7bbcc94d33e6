/* Trains a few steps; writes losses' gradients into parameters, which go to stdout as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnncc.h"
#include "tiny.h"

enum { T = 6, N = 2, V = 5, H = 6, STEPS = 4 };

static float i2h_w[4 * H * V], gates_w[4 * H * H], out_w[V * H];
static float i2h_b[4 * H], gates_b[4 * H], out_b[V];
static float d_i2h_w[4 * H * V], d_gates_w[4 * H * H], d_out_w[V * H];
static float d_i2h_b[4 * H], d_gates_b[4 * H], d_out_b[V];

static void *lines(size_t bytes) { return aligned_alloc(64, (bytes / 64 + 1) * 64); }

static void check(int code) {
    if (code != RNNCC_OK) {
        fprintf(stderr, "%s\n", rnncc_error_string(code));
        exit(1);
    }
}

static void update(float *weights, const float *grads, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        float change = 0.1f * grads[i];
        weights[i] -= change;
    }
}

int main(void) {
    static float x[T * N * V], h0[N * H], c0[N * H], probabilities[T * N * V], slope[T * N * V];
    static float no_h[N * H], no_c[N * H];
    const int32_t lengths[N] = {T, T - 2};
    const tiny_inputs inputs = {.x = x, .seq_lengths = lengths, .h0 = h0, .c0 = c0};
    const tiny_parameters parameters = {.i2h_w = i2h_w, .gates_w = gates_w, .out_w = out_w,
        .i2h_b = i2h_b, .gates_b = gates_b, .out_b = out_b};
    const tiny_outputs outputs = {.probabilities = probabilities};
    const tiny_output_grads output_grads = {
        .probabilities = slope, .hidden_last = no_h, .cell_last = no_c};
    const tiny_grads grads = {.i2h_w = d_i2h_w, .gates_w = d_gates_w, .out_w = d_out_w,
        .i2h_b = d_i2h_b, .gates_b = d_gates_b, .out_b = d_out_b};
    void *tape = lines(tiny_tape_bytes(T, N)), *workspace = lines(tiny_workspace_bytes(T, N));

    for (int i = 0; i < T * N; i++) x[i * V + i * i % V] = 1;
    check(tiny_init_parameters(&parameters));
    for (int step = 0; step < STEPS; step++) {
        check(tiny_forward(&inputs, &parameters, &outputs, tape, workspace, T, N));
        memset(workspace, 0xff, tiny_workspace_bytes(T, N));
        for (int i = 0; i < T * N * V; i++) slope[i] = probabilities[i] - x[i];
        check(tiny_backward(&inputs, &parameters, &output_grads, &grads, tape, workspace, T, N));
        update(i2h_w, d_i2h_w, sizeof i2h_w);
        update(gates_w, d_gates_w, sizeof gates_w);
        update(out_w, d_out_w, sizeof out_w);
        update(i2h_b, d_i2h_b, sizeof i2h_b);
        update(gates_b, d_gates_b, sizeof gates_b);
        update(out_b, d_out_b, sizeof out_b);
    }
    fwrite(i2h_w, sizeof i2h_w, 1, stdout);
    fwrite(gates_w, sizeof gates_w, 1, stdout);
    fwrite(out_w, sizeof out_w, 1, stdout);
    fwrite(i2h_b, sizeof i2h_b, 1, stdout);
    fwrite(gates_b, sizeof gates_b, 1, stdout);
    fwrite(out_b, sizeof out_b, 1, stdout);

    const tiny_parameters one_missing = {.i2h_w = i2h_w};
    fprintf(stderr, "%d", tiny_init_parameters(&one_missing));
    fprintf(stderr, "%d", tiny_init_parameters(NULL));
    fprintf(stderr, "%d", tiny_forward(&inputs, &one_missing, &outputs, tape, workspace, T, N));
    fprintf(stderr, "%d", tiny_forward(&inputs, &parameters, &outputs, NULL, workspace, T, N));
    fprintf(stderr, "%d", tiny_forward(&inputs, &parameters, &outputs, tape, workspace, -1, N));
    fprintf(stderr, "%d", tiny_backward(&inputs, &parameters, &output_grads, NULL, tape, workspace,
        T, N));
    fprintf(stderr, "%d", tiny_tape_bytes(T, -1) == (size_t)-1);

    /* Tapes: used up, of other sizes, refused in between, of nobody, of a call that failed. */
#define BACKWARD(outer, t) tiny_backward(&inputs, &parameters, outer, &grads, tape, workspace, t, N)
    fprintf(stderr, " %d", BACKWARD(&output_grads, T));
    check(tiny_forward(&inputs, &parameters, &outputs, tape, workspace, T, N));
    fprintf(stderr, "%d", BACKWARD(&output_grads, T - 1));
    fprintf(stderr, "%d", BACKWARD(NULL, T));
    fprintf(stderr, "%d", BACKWARD(&output_grads, T));
    memset(tape, 0, tiny_tape_bytes(T, N));
    fprintf(stderr, "%d", BACKWARD(&output_grads, T));
    check(tiny_forward(&inputs, &parameters, &outputs, tape, workspace, T, N));
    fprintf(stderr, "%d", tiny_forward(&inputs, &one_missing, &outputs, tape, workspace, T, N));
    fprintf(stderr, "%d\n", BACKWARD(&output_grads, T));
    free(tape);
    free(workspace);
    return 0;
}
