/* Runs the ONNX model of one GRU step as a stream: the state stays here, between calls. */
#include <stdio.h>
#include <stdlib.h>

#include "gru.h"
#include "rnncc.h"

int main(void) {
    float x[4], y[2];
    const gru_inputs inputs = {.x = x};
    const gru_outputs outputs = {.y = y};
    const float zeros[16] = {0};
    const gru_inputs start = {.h = zeros};
    void *state = aligned_alloc(64, gru_state_bytes(1));
    void *workspace = aligned_alloc(64, gru_workspace_bytes(1, 1));
    int code = gru_state_init(&start, state, workspace, 1);

    for (int t = 0; t < 5 && code == RNNCC_OK; ++t) {
        for (int i = 0; i < 4; ++i)
            x[i] = (float)((t + i) % 3) - 1.0f;
        code = gru_step(&inputs, &outputs, state, workspace, 1, 1);
        printf("step %d: %.4f %.4f\n", t, y[0], y[1]);
    }
    if (code != RNNCC_OK)
        fprintf(stderr, "gru: %s\n", rnncc_error_string(code));
    free(state);
    free(workspace);
    return code;
}
