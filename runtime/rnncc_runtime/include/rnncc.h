/* The codes that every library made by rnncc returns. C99 and C++. */
#ifndef RNNCC_H
#define RNNCC_H

#ifdef __cplusplus
extern "C" {
#endif

enum rnncc_error {
    RNNCC_OK = 0,
    RNNCC_NULL_POINTER = 1, /* the inputs, one of them, or a workspace that is needed */
    RNNCC_BAD_SIZE = 2,     /* T, N or a further size is negative or too large */
    RNNCC_BAD_LENGTH = 3,   /* a sequence length beyond T where the net cannot allow it */
    RNNCC_PAST_LIMIT = 4,   /* a loop takes more iterations than the limit it was compiled with */
    RNNCC_BAD_INDEX = 5,    /* an index is outside of the table that it chooses from */
    RNNCC_BAD_TAPE = 6,     /* no tape of the same library's forward at these sizes, or a used one */
    RNNCC_BAD_COUNT = 14    /* a number of rows that the values decide is wrong */
};

/* One line for a code; never NULL. */
static inline const char *rnncc_error_string(int code) {
    switch (code) {
    case RNNCC_OK: return "no error";
    case RNNCC_NULL_POINTER: return "memory that is needed is NULL";
    case RNNCC_BAD_SIZE: return "a size is negative or too large";
    case RNNCC_BAD_LENGTH: return "a sequence length is beyond T";
    case RNNCC_PAST_LIMIT: return "a loop takes more iterations than its limit";
    case RNNCC_BAD_INDEX: return "an index is outside of its table";
    case RNNCC_BAD_TAPE:
        return "the tape is not one that forward left for these sizes, or was used up";
    case RNNCC_BAD_COUNT:
        return "a number of rows, which the values decide, is not that of another tensor, or beyond its limit";
    default: return "unknown error code";
    }
}

#ifdef __cplusplus
}
#endif

#endif
