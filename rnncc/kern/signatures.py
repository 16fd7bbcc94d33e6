"""What exported functions take beside `rnncc_runtime.signatures`, and return. Light: it imports
nothing."""

from __future__ import annotations

OK, NULL_POINTER, BAD_SIZE, BAD_LENGTH, PAST_LIMIT, BAD_INDEX, BAD_TAPE = range(7)
BAD_COUNT = 14
"""What they return: the error codes of include/rnncc.h; those between are of rnncc_cuda.h."""

C_TYPES = {
    **{"f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t", "i1": "uint8_t"},
    **{"i8": "int8_t", "u8": "uint8_t", "i16": "int16_t", "u16": "uint16_t", "u32": "uint32_t"},
    **{"u64": "uint64_t", "f16": "uint16_t", "bf16": "uint16_t", "text": "int32_t"},
}
"""Element types in C as they lie in memory; floats of 16 bits stand for their bits."""

PART, PART_SUFFIX = "part", "_part"
"""What a function takes that several threads call together, behind its other pointers, and the end
of its name."""

SYNC_BYTES = 256
"""The first bytes of a workspace on a GPU, where the blocks of a launch meet and leave errors; they
are cleared as a call begins."""


def cuda_parameters(parameters: tuple[str, ...]) -> tuple[str, ...]:
    """The pointers that such a function takes, where one for a CPU takes these."""
    return ("cuda", *parameters, "status", "stream")
