/* Reads a text one character at a time and prints what the net expects next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lstm.h"
#include "rnncc.h"

enum { CHARACTERS = 64, UNITS = 128, FIRST = ' ' };

static int most_probable(const float *probabilities) {
    int best = 0;
    for (int i = 1; i < CHARACTERS; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    return best;
}

int main(void) {
    static const char text[] = "HELLO, WORLD";
    float x[CHARACTERS], probabilities[CHARACTERS];
    float h[UNITS] = {0}, c[UNITS] = {0}, h_next[UNITS], c_next[UNITS];
    const int32_t length = 1;
    const lstm_inputs inputs = {.x = x, .seq_lengths = &length, .h0 = h, .c0 = c};
    const lstm_outputs outputs = {
        .probabilities = probabilities, .hidden_last = h_next, .cell_last = c_next};
    const size_t bytes = (lstm_workspace_bytes(1, 1) + 63) / 64 * 64;
    void *workspace = aligned_alloc(64, bytes ? bytes : 64);

    for (size_t t = 0; t + 1 < sizeof text; t++) {
        memset(x, 0, sizeof x);
        x[text[t] - FIRST] = 1;
        int code = lstm_run(&inputs, &outputs, workspace, 1, 1);
        if (code != RNNCC_OK) {
            fprintf(stderr, "%s\n", rnncc_error_string(code));
            return 1;
        }
        memcpy(h, h_next, sizeof h);
        memcpy(c, c_next, sizeof c);
        int next = most_probable(probabilities);
        printf("%c -> %c (%.4f)\n", text[t], next + FIRST, probabilities[next]);
    }
    free(workspace);
    return 0;
}
