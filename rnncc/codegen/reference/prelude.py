"""Small functions that generated C calls, each written only where it is called."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.codegen.reference.expressions import ENDINGS, LETTERS, mentions
from rnncc.ir.ops.casts import OF_ONE_WIDTH
from rnncc.ir.ops.random import BITS, MULTIPLIER, ROUNDS, WEYL
from rnncc.kern.signatures import C_TYPES
from rnncc.kern.size_limits import LARGEST_PRODUCT, LARGEST_SIZE
from rnncc.kern.training import SPREAD

_INTEGERS = """
/* Towards zero; 0 where b is 0. The smallest number by -1 is itself. */
static {type} rnncc_quotient_{dtype}({type} a, {type} b)
{{
    if (b == 0)
        return 0;
    return b == -1 ? ({type})(0 - (u{type})a) : a / b;
}}

/* a - b * (a / b); a where b is 0. */
static {type} rnncc_rest_{dtype}({type} a, {type} b)
{{
    if (b == 0)
        return a;
    return b == -1 ? 0 : a % b;
}}

/* a by b bits to the left; 0 where it has not so many. */
static {type} rnncc_left_{dtype}({type} a, {type} b)
{{
    return b < 0 || b >= {bits} ? 0 : ({type})((u{type})a << b);
}}

/* a by b bits to the right, copies of the sign before it. */
static {type} rnncc_right_{dtype}({type} a, {type} b)
{{
    const int count = b < 0 || b >= {bits} ? {bits} - 1 : (int)b;
    return a < 0 ? ~(~a >> count) : a >> count;
}}
"""

_TO_INTEGER = """
/* Towards zero; what does not fit becomes the nearest, NaN 0. */
static {type} rnncc_to_{dtype}{ending}({real} x)
{{
    if (isnan(x))
        return 0;
    if (x >= {limit}{letter})
        return {upper}_MAX;
    return x < -{limit}{letter} ? {upper}_MIN : ({type})x;
}}
"""

_REALS = """
/* NaN if either is. */
static {real} rnncc_maximum{ending}({real} a, {real} b)
{{
    return a > b || isnan(a) ? a : b;
}}

/* NaN if either is. */
static {real} rnncc_minimum{ending}({real} a, {real} b)
{{
    return a < b || isnan(a) ? a : b;
}}

static {real} rnncc_sigmoid{ending}({real} x)
{{
    return 1.0{letter} / (1.0{letter} + exp{letter}(-x));
}}

/* Of double NaN from 2**63 on, as other code has it. */
static {real} rnncc_sin{ending}({real} x)
{{
    return sizeof x > sizeof(float) && fabs(x) >= 9223372036854775808.0 ? NAN : sin{letter}(x);
}}

/* Of double NaN from 2**63 on, as other code has it. */
static {real} rnncc_cos{ending}({real} x)
{{
    return sizeof x > sizeof(float) && fabs(x) >= 9223372036854775808.0 ? NAN : cos{letter}(x);
}}
"""

# Powers of two, which floats hold; the largest integer would be rounded to them.
_SIZES = {
    "i32": {"type": "int32_t", "upper": "INT32", "limit": "2147483648.0"},
    "i64": {"type": "int64_t", "upper": "INT64", "limit": "9223372036854775808.0"},
}


_BITS = """
static {new} rnncc_bits_{dtype}({old} x)
{{
    {new} y;
    memcpy(&y, &x, sizeof y);
    return y;
}}
"""


def _of_bits() -> str:
    """The functions that take an element's bits for another type."""
    kinds = OF_ONE_WIDTH.items()
    return "".join(_BITS.format(dtype=k, old=C_TYPES[k], new=C_TYPES[o]) for k, o in kinds)


def _of_reals(dtype: str) -> str:
    """The functions of one type of floats."""
    real = {"real": C_TYPES[dtype], "ending": ENDINGS[dtype], "letter": LETTERS[dtype]}
    parts = [_TO_INTEGER.format(dtype=d, **names, **real) for d, names in _SIZES.items()]
    return "".join([_REALS.format(**real), *parts])


_TEXT = f"""
static int64_t rnncc_larger(int64_t a, int64_t b)
{{
    return a > b ? a : b;
}}

static int64_t rnncc_smaller(int64_t a, int64_t b)
{{
    return a < b ? a : b;
}}

/* How many parts of a size there are, the last one perhaps smaller. */
static int64_t rnncc_parts(int64_t count, int64_t size)
{{
    return (count + size - 1) / size;
}}

/* A multiple of 2^-{BITS} in [0, 1): Philox-2x32-{ROUNDS} (Salmon et al., 2011). */
static float rnncc_uniform(uint32_t seed, uint32_t index, uint32_t stream)
{{
    uint32_t x = index, y = stream;
    for (int round = 0; round < {ROUNDS}; round++) {{
        const uint64_t product = (uint64_t)x * UINT32_C({MULTIPLIER});
        x = (uint32_t)(product >> 32) ^ seed ^ y;
        y = (uint32_t)product;
        seed += UINT32_C({WEYL});
    }}
    return (float)(x >> {32 - BITS}) * {2.0**-BITS!r}f;
}}
{_INTEGERS.format(dtype="i32", type="int32_t", bits=32)}
{_INTEGERS.format(dtype="i64", type="int64_t", bits=64)}
{_of_reals("f32")}
{_of_reals("f64")}
{_of_bits()}
static float rnncc_f16_to_f32(uint16_t x)
{{
    const int exponent = x >> 10 & 31;
    const float mantissa = (float)(x & 1023);
    float size = ldexpf(mantissa, -24);
    if (exponent == 31)
        size = mantissa == 0.0f ? INFINITY : NAN;
    else if (exponent != 0)
        size = ldexpf(mantissa + 1024.0f, exponent - 25);
    return x >> 15 ? -size : size;
}}

/* To the nearest, ties to even. */
static uint16_t rnncc_f32_to_f16(float x)
{{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    if (isnan(x))
        return sign | 0x7e00;
    if (x == 0.0f)
        return sign;
    if (fabsf(x) >= 65520.0f)
        return sign | 0x7c00;
    frexpf(x, &exponent);
    exponent = exponent < -13 ? -13 : exponent; /* of numbers without a leading one */
    return sign | (uint16_t)((exponent + 13) * 1024 + (int)rintf(ldexpf(fabsf(x), 11 - exponent)));
}}

static float rnncc_bf16_to_f32(uint16_t x)
{{
    const uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}}

/* To the nearest, ties to even. */
static uint16_t rnncc_f32_to_bf16(float x)
{{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}}

/* Whether a size, or the product of all, is out of range. */
static int rnncc_bad_sizes(const int64_t *sizes, int count)
{{
    int64_t product = 1;
    for (int i = 0; i < count; i++) {{
        if (sizes[i] < 0 || sizes[i] > INT64_C({LARGEST_SIZE}))
            return 1;
        if (sizes[i] > 1) {{
            if (product > INT64_C({LARGEST_PRODUCT}) / sizes[i])
                return 1;
            product *= sizes[i];
        }}
    }}
    return 0;
}}

/* The number that a tape of these sizes begins with; 0 is none's. */
static uint64_t rnncc_seal(const void *library, const int64_t *sizes, int count)
{{
    uint64_t seal = (uint64_t)(uintptr_t)library;
    for (int i = 0; i < count; i++)
        seal = (seal ^ (uint64_t)sizes[i]) * UINT64_C({SPREAD});
    return seal | 1;
}}

static void rnncc_write_seal(void *tape, uint64_t seal)
{{
    memcpy(tape, &seal, sizeof seal);
}}

static uint64_t rnncc_read_seal(const void *tape)
{{
    uint64_t seal;
    memcpy(&seal, tape, sizeof seal);
    return seal;
}}

static void rnncc_keep(unsigned char *place, const void *pointer)
{{
    memcpy(place, &pointer, sizeof pointer);
}}

static void *rnncc_kept(const unsigned char *place)
{{
    void *pointer;
    memcpy(&pointer, place, sizeof pointer);
    return pointer;
}}
"""


def _functions() -> dict[str, list[str]]:
    """Each function's lines by its name."""
    functions, lines = dict[str, list[str]](), list[str]()
    for line in _TEXT.strip().split("\n"):
        lines.append(line)
        if line == "}":
            code = lines[next(i for i, text in enumerate(lines) if text) :]
            head = next(text for text in code if text.startswith("static"))
            functions[head.split("(")[0].split()[-1].lstrip("*")] = code
            lines = []
    return functions


def prelude(code: Sequence[str]) -> list[str]:
    """The functions that code calls; none of them calls another."""
    lines = list[str]()
    for name, function in _functions().items():
        if mentions(code, name):
            lines += [*function, ""]
    return lines
