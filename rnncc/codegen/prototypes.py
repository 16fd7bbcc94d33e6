"""The C prototypes of exported functions, from a library's metadata (docs/abi.md)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rnncc_runtime.signatures import CUDA_SUFFIX, PACKED, pointers_of, symbols_of

from rnncc.kern.signatures import PART, PART_SUFFIX, cuda_parameters
from rnncc.names import c_names

STRUCTS = ("inputs", "outputs", "parameters", "output_grads", "grads")
"""What follows `NAME_` in the names of the header's structs."""
TYPES = {
    **{struct: f"const {{name}}_{struct} *{struct}" for struct in STRUCTS},
    **{name: f"void *{name}" for name in ("tape", "state", "workspace")},
    PACKED: f"const void *{PACKED}",
    PART: f"const struct rnncc_part *{PART}",
    "cuda": "const struct rnncc_cuda *cuda",
    "status": "int32_t *status",
    "stream": "void *stream",
}
"""What functions take in front of the sizes, as the header declares it."""
_FIXED = "\u00a0"
"""A space at which no line ends."""


def size_names(metadata: Mapping[str, Any]) -> list[str]:
    """What the sizes are called in C."""
    return c_names(metadata["symbols"], TYPES)


def prototype(metadata: Mapping[str, Any], function: str) -> str:
    """The declaration of a function, without its semicolon; in lines of 100 columns."""
    own = function.removesuffix(CUDA_SUFFIX).removesuffix(PART_SUFFIX)
    pointers = _pointers(function, own, metadata)
    words = [_declared(pointer, own).format(name=metadata["name"]) for pointer in pointers]
    names = dict(zip(metadata["symbols"], size_names(metadata), strict=True))
    words += [f"int64_t {names[symbol]}" for symbol in symbols_of(names, own)]
    result = {"threads": "int64_t"}.get(function, "size_t")
    result = "int" if function in metadata["functions"] else result
    words = [word.replace(" ", _FIXED) for word in words]
    head = f"{result}{_FIXED}{metadata['name']}_{function}"
    text = f"{head}({', '.join(words) or 'void'})"
    filled = textwrap.fill(text, 98, subsequent_indent="    ", break_long_words=False)
    return filled.replace(_FIXED, " ")


def _declared(pointer: str, own: str) -> str:
    """A parameter; only what packs writes to what is packed."""
    text = TYPES[pointer]
    return text.removeprefix("const ") if pointer == PACKED and own == "pack_parameters" else text


def _pointers(function: str, own: str, metadata: Mapping[str, Any]) -> Sequence[str]:
    """What a function takes in front of the sizes; `own`: its name without what is behind that."""
    pointers = pointers_of(metadata, own)
    if function.endswith(PART_SUFFIX):
        return (*pointers, PART)
    return cuda_parameters(pointers) if pointers and own != function else pointers
