"""The C prototypes of exported functions, from a library's metadata (docs/abi.md)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from rnncc.ir.entry_points import PARAMETERS, PART, PART_SUFFIX, TIME
from rnncc.packaging.names import c_names

TYPES = {
    **{f"{name}": f"const {{name}}_{name} *{name}" for name in ("inputs", "outputs", "parameters")},
    **{f"{name}": f"const {{name}}_{name} *{name}" for name in ("output_grads", "grads")},
    **{name: f"void *{name}" for name in ("tape", "state", "workspace")},
    PART: f"const struct rnncc_part *{PART}",
}
"""What functions take in front of the sizes, as the header declares it."""


def size_names(metadata: Mapping[str, Any]) -> list[str]:
    """What the sizes are called in C."""
    return c_names(metadata["symbols"], TYPES)


def prototype(metadata: Mapping[str, Any], function: str) -> str:
    """The declaration of a function, without its semicolon; in lines of 100 columns."""
    own = function.removesuffix(PART_SUFFIX)
    pointers = [*PARAMETERS.get(own, ()), *([PART] if own != function else [])]
    words = [TYPES[pointer].format(name=metadata["name"]) for pointer in pointers]
    if own != "init_parameters":
        pairs = zip(metadata["symbols"], size_names(metadata), strict=True)
        untimed = own.startswith("state_")
        words += [f"int64_t {name}" for symbol, name in pairs if not untimed or symbol != TIME]
    result = "int" if function in metadata["functions"] else "size_t"
    text = f"{result} {metadata['name']}_{function}({', '.join(words) or 'void'})"
    return textwrap.fill(text, 98, subsequent_indent="    ", break_long_words=False)
