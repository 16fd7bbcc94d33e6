/* parts: a recurrent net compiled by rnncc 0.1.0 for x86_64-unknown-linux-gnu (znver4).
 *
 * The library allocates nothing, starts no thread and keeps no state: the caller owns all memory.
 * Tensors are dense and row-major, each aligned as its elements are; a boolean is a byte, 0 or 1.
 * Inputs, outputs and workspace must not overlap. Any number of threads may call at once,
 * each with a workspace and outputs of its own. */
#ifndef RNNCC_MODEL_parts_H
#define RNNCC_MODEL_parts_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* None may be NULL, but for the optional ones, whose defaults the library holds. */
typedef struct parts_inputs {
    const float *x; /* x [4, 3] */
} parts_inputs;

/* What is NULL is not computed for the caller. */
typedef struct parts_outputs {
    float *y_0; /* y.0 [2, 3] */
    float *y_1; /* y.1 [2, 3] */
} parts_outputs;

/* Bytes of the workspace: 48; (size_t)-1 where a size is out of range. */
size_t parts_workspace_bytes(int64_t T, int64_t N);

/* Computes the outputs. `workspace`: at least that many bytes, aligned to 64.
 * Returns 0, or 1 a pointer is NULL, 2 a size is out of range, 3 a length is beyond T,
 * 4 a loop takes more turns than its limit, 5 an index is outside of its table (rnncc.h). */
int parts_run(const parts_inputs *inputs, const parts_outputs *outputs,
    void *workspace, int64_t T, int64_t N);

/* Names, dtypes, shapes and formulas as JSON. */
const char *parts_metadata(void);

#ifdef __cplusplus
}
#endif

#endif
