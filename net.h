/* net: a recurrent net compiled by rnncc 0.2.0 for x86_64-unknown-linux-gnu (znver4).
 *
 * It runs on a CPU that has sse3, cx16, ssse3, sse4.1, sse4.2, movbe, popcnt, avx, f16c, fma, sahf,
 * lzcnt, sse4a, prfchw, bmi, bmi2, avx2, avx512f, avx512dq, avx512ifma, avx512cd, avx512bw,
 * avx512vl, gfni, avx512vbmi, avx512vbmi2, avx512vnni, avx512bitalg, avx512vpopcntdq, avx512bf16.
 *
 * The library allocates nothing, starts no thread and keeps no state: the caller owns all memory.
 * Tensors are dense and row-major, each aligned as its elements are; a boolean is a byte, 0 or 1.
 * Inputs, outputs and workspace must not overlap. Any number of threads may call at once,
 * each with a workspace and outputs of its own. */
#ifndef RNNCC_MODEL_net_H
#define RNNCC_MODEL_net_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1 if this CPU has all that the library's code needs, else 0. Where that is not known, ask before any
 * other function but metadata is called: code for another CPU ends the program. */
int net_supported(void);

/* The first of its needs that this CPU lacks, as LLVM names it; NULL if it lacks none. */
const char *net_missing_feature(void);

/* None may be NULL, but for the optional ones, whose defaults the library holds. */
typedef struct net_inputs {
    const float *x; /* x [4, 5] */
    const int32_t *seed; /* seed [] */
} net_inputs;

/* What is NULL is not computed for the caller. */
typedef struct net_outputs {
    float *y; /* y [4, 5] */
} net_outputs;

/* Packed into the library:
 *   constant.reshape [4, 5]
 */

/* Bytes of the workspace: 0; (size_t)-1 where a size is out of range. */
size_t net_workspace_bytes(int64_t T, int64_t N);

/* Computes the outputs. `workspace`: at least that many bytes, aligned to 64.
 * Returns 0, or 1 a pointer is NULL, 2 a size is out of range, 3 a length is beyond T,
 * 4 a loop takes more iterations than its limit, 5 an index is outside of its table (rnncc.h). */
int net_run(const net_inputs *inputs, const net_outputs *outputs, void *workspace, int64_t T,
    int64_t N);

/* Names, dtypes, shapes and formulas as JSON. */
const char *net_metadata(void);

#ifdef __cplusplus
}
#endif

#endif
