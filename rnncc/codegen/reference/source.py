"""A library as one C file beside its header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rnncc.codegen.prototypes import size_names
from rnncc.codegen.reference import expressions as c
from rnncc.codegen.reference.entry_points import CEntryWriter
from rnncc.codegen.reference.prelude import prelude
from rnncc.codegen.reference.program import RESERVED, ProgramWriter
from rnncc.ir.attributes import get_dim
from rnncc.ir.types import NARROW_FLOATS
from rnncc.kern.entry_points import entry_points
from rnncc.kern.exports import size_functions
from rnncc.kern.library import Library, params_of
from rnncc.names import c_names, in_comment


def write_source(library: Library, metadata: Mapping[str, Any]) -> str:
    """`NAME.c`: the functions that `NAME.h` declares."""
    assert not library.shared and not library.flushes
    name = library.name
    arrays, params = _weights(library)
    symbols = dict(zip(library.symbols, size_names(metadata), strict=True))
    # In programs a size must not be called as a variable is there.
    inner = dict(zip(symbols, c_names(library.symbols, RESERVED), strict=True))
    programs = {
        part: ProgramWriter(program, f"{name}_{part}", inner, params)
        for part, program in library.programs.items()
    }
    code = [line for writer in programs.values() for line in writer.write()]
    entries = CEntryWriter(metadata, programs, symbols, params)
    for entry in entry_points(library):
        code += entries.write(entry)
    for function in size_functions(library):
        code += entries.write_size(function)
    code += _queries(name)
    # Compilers warn of a constant that nobody reads.
    if c.mentions(code, f"{name}_tape_seal"):
        about = "/* No other library of the process has its address: what seals follow from. */"
        arrays += [about, f"static const char {name}_tape_seal = 0;", ""]
    head = [
        f"/* {name}: a recurrent net, compiled by rnncc {metadata['rnncc']} to portable C99.",
        " *",
        f" * {name}.h says how to call it. Each kernel of the net is a function; the programs call",
        " * them in order, in loops over time; the exported functions come last.",
        " * Sizes: " + ", ".join(symbols) + ". */",
        f'#include "{name}.h"',
        "",
        *(f"#include <{header}.h>" for header in ("math", "stddef", "stdint", "string")),
        "",
    ]
    lines = [*head, *prelude(code), *arrays, *_metadata(name, metadata), *code]
    return "\n".join(lines).rstrip() + "\n"


def _weights(library: Library) -> tuple[list[str], dict[int, str]]:
    """The arrays that the library holds, and the name of the one at each place."""
    arrays: dict[int, tuple[str, str, Any]] = {}
    for program in library.programs.values():
        for buffer in params_of(program):
            assert buffer.offset is not None
            place, label = int(get_dim(buffer.offset)), buffer.label.data
            # Programs share parameters.
            arrays.setdefault(place, (label, buffer.dtype, program.arrays[label]))
    for weight in library.initial:
        arrays[weight.offset] = (f"{weight.port.name}.initial", weight.port.dtype, weight.array)
    names = c_names(f"{library.name}_w_{label}" for label, _, _ in arrays.values())
    lines = list[str]()
    for name, (label, dtype, array) in zip(names, arrays.values(), strict=True):
        flat = array.reshape(-1)
        # C has no floats of 16 bits: they are kept as their bits.
        flat = flat.view(np.uint16) if dtype in NARROW_FLOATS else flat
        lines += [
            f"/* {in_comment(label)} */",
            # C99 has no arrays without elements.
            f"static const {c.C_TYPES[dtype]} {name}[{max(flat.size, 1)}] = {{",
            *c.array(flat.tolist(), dtype),
            "};",
            "",
        ]
    return lines, dict(zip(arrays, names, strict=True))


def _queries(name: str) -> list[str]:
    """What tells of the library itself."""
    return [
        f"int {name}_supported(void)",
        "{",
        "    return 1;",
        "}",
        "",
        f"const char *{name}_missing_feature(void)",
        "{",
        "    return NULL;",
        "}",
        "",
        f"const char *{name}_metadata(void)",
        "{",
        f"    return {name}_metadata_text;",
        "}",
    ]


def _metadata(name: str, metadata: Mapping[str, Any]) -> list[str]:
    """JSON, letter by letter: C99 promises no more than 4095 of them in a text."""
    escapes = {"\\": "\\\\", "'": "\\'"}
    letters = [f"'{escapes.get(letter, letter)}'" for letter in json.dumps(metadata)]
    lines, line = list[str](), "   "
    for letter in (*letters, "0"):
        if len(line) + len(letter) > 96:
            lines.append(line)
            line = "   "
        line += f" {letter},"
    return [f"static const char {name}_metadata_text[] = {{", *lines, line, "};", ""]
