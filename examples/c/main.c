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

static void *block(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

int main(void) {
    if (!lstm_supported()) {
        fprintf(stderr, "this CPU has no %s\n", lstm_missing_feature());
        return 1;
    }
    static const char text[] = "HELLO, WORLD";
    float x[CHARACTERS], probabilities[CHARACTERS];
    static const float zeros[UNITS];
    const int32_t no_end = INT32_MAX;
    const lstm_inputs inputs = {.x = x, .seq_lengths = &no_end, .h0 = zeros, .c0 = zeros};
    const lstm_outputs outputs = {.probabilities = probabilities};
    void *workspace = block(lstm_workspace_bytes(1, 1)), *state = block(lstm_state_bytes(1));

    int code = lstm_state_init(&inputs, state, workspace, 1);
    for (size_t t = 0; code == RNNCC_OK && t + 1 < sizeof text; t++) {
        memset(x, 0, sizeof x);
        x[text[t] - FIRST] = 1;
        code = lstm_step(&inputs, &outputs, state, workspace, 1, 1);
        int next = most_probable(probabilities);
        printf("%c -> %c (%.4f)\n", text[t], next + FIRST, probabilities[next]);
    }
    if (code != RNNCC_OK) fprintf(stderr, "%s\n", rnncc_error_string(code));
    free(state);
    free(workspace);
    return code;
}
